//! Counts the words of real text with a shuffle: producers read files and send every word to the consumer
//! that owns it, consumers count, and the sums are compared with a count on a single thread.
//!
//! `cargo run --release --example wordcount` reads the sources of the crates that this was built from;
//! `-- FILE...` any files. The exit code is not 0 when a sum differs.

#![allow(clippy::disallowed_methods, reason = "a program that tells how long it took")]

mod report;
mod shuffle;
mod text;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::HashMap;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// How often each word occurs.
pub(crate) type Counts = HashMap<Box<[u8]>, u64>;
/// Any error, with its text.
pub(crate) type AnyError = Box<dyn Error + Send + Sync>;

/// Counts words by a shuffle between tasks, and checks the sums.
#[derive(Parser, Debug)]
struct Arguments {
    /// Files to count; by default the sources of the crates in cargo's home.
    files: Vec<PathBuf>,
    /// Tasks that read and send.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    producers: u32,
    /// Tasks that count.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    consumers: u32,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("wordcount: {error}");
            ExitCode::FAILURE
        }
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
    let shuffled = shuffle::count(&files, arguments.producers, arguments.consumers, &bar)?;
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
