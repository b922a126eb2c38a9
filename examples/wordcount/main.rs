//! Counts the words of real text with a shuffle: producers read files and send every word to the consumer
//! that owns it, consumers count, and the sums are compared with a count on a single thread.
//!
//! `cargo run --release --example wordcount` reads the sources of the crates that this was built from;
//! `-- FILE...` any files. The producers run in this process, each consumer in one of its own, and the words go
//! over TCP; `--in-process` keeps all of them here. The exit code is not 0 when a sum differs, or when one of the
//! processes fails.

#![allow(clippy::disallowed_methods, reason = "a program that tells how long it took")]

#[path = "../common/mod.rs"]
mod common;
mod processes;
mod report;
mod results;
mod shuffle;
mod text;

use clap::Parser;
use common::network::{Io, ZeroCopy};
use common::{AnyError, child, log};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often each word occurs.
pub(crate) type Counts = HashMap<Box<[u8]>, u64>;

/// How long everything may take: a hang shall be an error.
const LIMIT: Duration = Duration::from_secs(300);

/// Counts words by a shuffle between tasks, and checks the sums.
#[derive(Parser, Debug)]
struct Arguments {
    /// Files to count; by default the sources of the crates in cargo's home.
    files: Vec<PathBuf>,
    /// Tasks that read and send.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    producers: u32,
    /// Tasks that count, each in a process of its own.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    consumers: u32,
    /// All tasks in this process, without a network.
    #[arg(long)]
    in_process: bool,
    /// How the kernel is asked to move bytes.
    #[arg(long, value_enum, default_value_t, env = "PIRN_IO")]
    io: Io,
    /// Whether the kernel may send from where the bytes lie.
    #[arg(long, value_enum, default_value_t)]
    zero_copy: ZeroCopy,
    /// Be the process of a consumer.
    #[arg(long, hide = true)]
    consume: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    log::show_warnings();
    child::limit(LIMIT, String::new);
    let outcome = if arguments.consume { processes::consume().map(|()| true) } else { run(&arguments) };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => child::fail(error),
    }
}

fn run(arguments: &Arguments) -> Result<bool, AnyError> {
    let files = text::files(&arguments.files)?;
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    let bar = ProgressBar::new(bytes).with_style(ProgressStyle::with_template(
        "{msg:>10} {bar:40} {bytes}/{total_bytes} {bytes_per_sec}",
    )?);

    bar.set_message("shuffling");
    let start = Instant::now();
    let (producers, consumers) = (arguments.producers, arguments.consumers);
    let shuffled = if arguments.in_process {
        shuffle::count(&files, producers, consumers, &bar)?
    } else {
        let transport = processes::Transport { io: arguments.io, zero_copy: arguments.zero_copy };
        processes::count(&files, producers, consumers, transport, &bar)?
    };
    let shuffle_time = start.elapsed();

    bar.reset();
    bar.set_message("checking");
    let start = Instant::now();
    let mut expected = Counts::new();
    for file in &files {
        text::for_each_word(
            &file.path,
            |read| bar.inc(read),
            |word| {
                add(&mut expected, word);
                Ok::<_, AnyError>(())
            },
        )?;
    }
    let single_time = start.elapsed();
    bar.finish_and_clear();

    let outcome =
        report::Outcome { files: files.len(), bytes, shuffle_time, single_time, expected, shuffled };
    outcome.print();
    Ok(outcome.is_right())
}

/// One more of a word.
pub(crate) fn add(counts: &mut Counts, word: &[u8]) {
    match counts.get_mut(word) {
        Some(count) => *count += 1,
        None => {
            counts.insert(word.into(), 1);
        }
    }
}
