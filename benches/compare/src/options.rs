//! The command line.

use crate::peers::{self, Peer};
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// A number of 8 bytes is in every record.
const RECORD_BYTES_LEAST: i64 = 8;
/// Some peers refuse larger messages as their default.
const RECORD_BYTES_MOST: i64 = 1 << 20;

/// Compares Pirn with a plain socket and with other ways to move records between processes.
#[derive(Parser, Debug)]
#[command(name = "pirn-compare")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) role: Option<Role>,
    /// How often each peer is started.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) launches: u32,
    /// How long each launch is measured, after a warm-up.
    #[arg(long, default_value = "2", value_parser = parse_seconds)]
    pub(crate) seconds: Duration,
    /// Bytes of a record, a number of 8 bytes first.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(RECORD_BYTES_LEAST..=RECORD_BYTES_MOST))]
    pub(crate) record_bytes: u32,
    /// Peers to run, of those that `--list` shows; `pirn` stands for `pirn-threads,pirn-caller`.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = parse_peers)]
    pub(crate) only: Vec<Chosen>,
    /// Where the picture goes.
    #[arg(long, value_name = "FILE", default_value = "compare.svg")]
    pub(crate) svg: PathBuf,
    /// Print the results as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Show the peers and end.
    #[arg(long)]
    pub(crate) list: bool,
}

/// What a child process is.
#[derive(Subcommand, Clone, Copy, Debug)]
pub(crate) enum Role {
    /// The process of the producer.
    #[command(hide = true)]
    Produce,
    /// The process of the consumer.
    #[command(hide = true)]
    Consume,
}

/// The peers that one word stands for.
#[derive(Clone, Debug)]
pub(crate) struct Chosen(Vec<&'static str>);

impl Arguments {
    /// The peers to run, in the order of the table.
    pub(crate) fn peers(&self) -> Vec<&'static dyn Peer> {
        let chosen = |peer: &&dyn Peer| {
            self.only.is_empty() || self.only.iter().any(|one| one.0.contains(&peer.name()))
        };
        peers::ALL.iter().copied().filter(chosen).collect()
    }
}

/// A name is that of one peer, or what several begin with.
fn parse_peers(word: &str) -> Result<Chosen, String> {
    let names = || peers::ALL.iter().map(|peer| peer.name());
    if let Some(name) = names().find(|name| *name == word) {
        return Ok(Chosen(vec![name]));
    }
    let group: Vec<_> =
        names().filter(|name| name.strip_prefix(word).is_some_and(|rest| rest.starts_with('-'))).collect();
    if group.is_empty() {
        return Err(format!("there is no such peer; there are: {}", names().collect::<Vec<_>>().join(", ")));
    }
    Ok(Chosen(group))
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    match text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
        Some(time) if !time.is_zero() && time <= Duration::from_secs(600) => Ok(time),
        _ => Err("say a number of seconds above 0 and at most 600".into()),
    }
}

#[cfg(test)]
mod tests;
