//! Runs the loom models of `src/model`, each in a process of its own, two at a time.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --profile loom --target-dir target/loom --test loom -- [FILTER]...`
#![allow(clippy::disallowed_methods, reason = "the runner keeps time; its models don't")]

#[cfg(loom)]
mod child;
#[cfg(loom)]
mod runner;

#[cfg(not(loom))]
fn main() {
    println!("built without --cfg loom: nothing to check");
}

#[cfg(loom)]
fn main() -> std::process::ExitCode {
    runner::main()
}
