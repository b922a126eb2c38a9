//! The command line; a child process gets its part of it as a message.

use crate::common::network::Io;
use crate::common::network::ZeroCopy;
use clap::{Args, Parser, Subcommand, ValueEnum};
use pirn::{Flush, RecordLayout};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use std::time::Duration;

/// Bytes of a record that its producer makes anew: a number.
pub(crate) const RECORD_BYTES_LEAST: u32 = 8;

/// Measures what moving records costs here.
#[derive(Parser, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print the result as JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Records per second from producers in one process to consumers in another.
    Throughput(Throughput),
    /// Time from the write of a record until its consumer has it, one way, flushed one by one.
    Latency(Latency),
    /// Time from a wake-up in one thread until another one runs.
    Wake(Wake),
    /// The process of the consumers.
    #[command(hide = true)]
    Consume,
}

/// How records get from one side to the other.
#[derive(Args, Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Path {
    /// Producers and consumers in one process, without a network.
    #[arg(long)]
    pub(crate) local: bool,
    /// How the kernel is asked to move bytes.
    #[arg(long, value_enum, default_value_t, env = "PIRN_IO")]
    pub(crate) io: Io,
    /// Who turns the network: threads of its own, or the tasks' threads.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) driver: Driver,
    /// Whether sends avoid copies.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) zero_copy: ZeroCopy,
    /// Whether records carry their length.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) layout: Layout,
    /// Bytes of a record, a number of 8 bytes first.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(i64::from(RECORD_BYTES_LEAST)..=64 << 20))]
    pub(crate) record_bytes: u32,
}

#[derive(Args, Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Throughput {
    #[command(flatten)]
    pub(crate) path: Path,
    /// Tasks that write, each a partition.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) producers: u32,
    /// Tasks that read, each of all partitions.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) consumers: u32,
    /// Subpartitions of each partition that a consumer reads.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) channels_per_consumer: u32,
    /// When readers are told of records: after every one, after so many milliseconds, or when a segment is full.
    #[arg(long, default_value = "1", value_parser = parse_flush, value_name = "every|MS|full")]
    pub(crate) flush: FlushChoice,
    /// How long to measure, after a warm-up.
    #[arg(long, default_value = "3", value_parser = parse_seconds)]
    pub(crate) seconds: Duration,
}

#[derive(Args, Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Latency {
    #[command(flatten)]
    pub(crate) path: Path,
    /// Records per second.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) rate: u32,
    /// How long to measure, after a warm-up.
    #[arg(long, default_value = "3", value_parser = parse_seconds)]
    pub(crate) seconds: Duration,
    /// Bytes of records that are written at once between those measured; 0: none.
    #[arg(long, default_value_t = 0)]
    pub(crate) burst_bytes: u64,
    /// Milliseconds from the end of one burst to the begin of the next.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) burst_every_ms: u32,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Wake {
    /// How long to measure each kind.
    #[arg(long, default_value = "2", value_parser = parse_seconds)]
    pub(crate) seconds: Duration,
}

#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Driver {
    #[default]
    Threads,
    Caller,
}

#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Layout {
    #[default]
    Length,
    Fixed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FlushChoice {
    Every,
    Interval(Duration),
    Full,
}

impl From<FlushChoice> for Flush {
    fn from(choice: FlushChoice) -> Self {
        match choice {
            FlushChoice::Every => Self::EveryRecord,
            FlushChoice::Interval(longest) => Self::Interval(longest),
            FlushChoice::Full => Self::WhenFull,
        }
    }
}

impl Path {
    /// The layout of the partitions.
    pub(crate) fn record_layout(&self) -> RecordLayout {
        match (self.layout, NonZeroU32::new(self.record_bytes)) {
            (Layout::Fixed, Some(width)) => RecordLayout::Fixed(width),
            _ => RecordLayout::Lengths,
        }
    }
}

fn parse_flush(text: &str) -> Result<FlushChoice, String> {
    match text {
        "every" => Ok(FlushChoice::Every),
        "full" => Ok(FlushChoice::Full),
        _ => match text.parse().ok().and_then(|ms: f64| Duration::try_from_secs_f64(ms / 1e3).ok()) {
            Some(longest) if !longest.is_zero() => Ok(FlushChoice::Interval(longest)),
            _ => Err("say `every`, `full`, or a number of milliseconds above 0".into()),
        },
    }
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    match text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
        Some(time) if !time.is_zero() && time <= Duration::from_secs(3600) => Ok(time),
        _ => Err("say a number of seconds above 0 and at most 3600".into()),
    }
}
