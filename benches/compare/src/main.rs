//! Pirn beside a plain socket and other ways to move records between processes, on the same work in one run.
//!
//! `cargo run --release -p pirn-compare` starts every peer in turn, `--launches` times: A B C, A B C, ... A launch is a
//! producer process and a consumer process that talk over TCP on this machine. Every record is made by the producer
//! (a number, and a payload copied behind it), and its number is read and summed by the consumer; a launch whose two
//! sides differ in records or sum is an error. What counts is a stretch of `--seconds` after a warm-up: bytes of
//! records per second (GB/s, 1e9 bytes, framing not counted), and seconds of processor time of both processes per GB.
//!
//! A table (Markdown) or JSON goes to standard output, a picture to `--svg`, progress to standard error. The exit code
//! is not 0 when a launch failed.
//!
//! # Placement
//!
//! On a virtual machine the host may move two processors nearer or farther from each other within seconds, and every
//! figure with them by a factor of two. So the time of a cache line's round trip between them is taken before and after
//! each launch, and the medians are those of launches within one class of placement, as far as there are enough of them
//! ([`statistics::choose`]); the table says which class it was. Where more than two processors are at hand, it is the
//! kernel that places the processes, and the class says little.

mod chart;
#[path = "../../../examples/common/mod.rs"]
mod common;
mod launch;
mod machine;
mod options;
mod peers;
mod placement;
mod process;
mod report;
mod run;
mod statistics;
mod work;

use clap::Parser;
use common::AnyError;
use options::{Arguments, Role};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.role {
        None => run::run(&arguments),
        Some(role) => child(role).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| common::child::fail(error))
}

/// One of the two processes of a launch.
fn child(role: Role) -> Result<(), AnyError> {
    match role {
        Role::Produce => process::produce(),
        Role::Consume => process::consume(),
    }
}
