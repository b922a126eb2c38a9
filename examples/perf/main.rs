//! What moving records costs on this machine: throughput, latency, and wake-ups.
//!
//! `cargo run --release --example perf -- throughput --record-bytes 100` runs producers in this process and consumers
//! in another, over TCP, and prints one line on standard output; `--local` keeps both in one process. `latency` is
//! the time from a record's write until its consumer has it, `wake` that from a wake-up until the woken thread runs.
//! `--json` prints the line as JSON. Table and progress bar go to standard error, if that is a terminal.
//!
//! Every record is made by its producer and read by its consumer; the exit code is not 0 when records or their sum
//! differ between the two.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a program that measures time")]

#[path = "../common/mod.rs"]
mod common;
mod consumers;
mod latency;
mod options;
mod pace;
mod plane;
mod producers;
mod records;
mod report;
mod run;
mod throughput;
mod wake;

use clap::Parser;
use options::{Arguments, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    let Arguments { command, json } = Arguments::parse();
    let result = match command {
        Command::Throughput(options) => throughput::measure(&options),
        Command::Latency(options) => latency::measure(&options),
        Command::Wake(options) => wake::measure(&options),
        Command::Consume => {
            return match run::consume() {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => common::child::fail(error),
            };
        }
    };
    match result.and_then(|report| report.print(json)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => common::child::fail(error),
    }
}
