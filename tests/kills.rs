//! A consumer goes and the next attempt is bound, again and again, under load, beside three healthy siblings.
//!
//! One table over all ways to go and all policies: a process that is killed by SIGKILL, over both back-ends; a gate
//! that is dropped, and a reader that stands still and is replaced, over local channels. What is missing is counted
//! from logs that survive the kill. Ten in a row; a hundred with `PIRN_TEST_SIZE=full`.
//!
//! Siblings wait for no record longer than 100 ms, nor than three times as long as they ever did in a stretch before
//! the kills, of 2 s or 10 s. Where they do, the case is run again, up to twice. With `PIRN_TEST_CONTROL_SECONDS=60`
//! that stretch is a minute, and no case is run again: 17 minutes in full size, for a quiet machine.
//!
//! Without the usual harness: the program starts itself again as consumer processes, descriptors and threads of the
//! process are counted, and children die with the thread that started them. Words on the command line choose cases
//! whose names contain one of them.
#![cfg_attr(
    not(loom),
    allow(
        clippy::unwrap_used,
        clippy::disallowed_methods,
        reason = "a panic is how a test fails, and a test starts threads and sleeps"
    )
)]

#[cfg(not(loom))]
#[path = "kills/case.rs"]
mod case;
#[cfg(not(loom))]
#[path = "kills/child.rs"]
mod child;
#[cfg(not(loom))]
#[path = "kills/common.rs"]
mod common;
#[cfg(not(loom))]
#[path = "kills/consumer.rs"]
mod consumer;
#[cfg(not(loom))]
#[path = "kills/log.rs"]
mod log;
#[cfg(not(loom))]
#[path = "kills/producer.rs"]
mod producer;
#[cfg(not(loom))]
#[path = "kills/victim.rs"]
mod victim;

#[cfg(loom)]
fn main() {}

/// Siblings that wait too long three times in a row wait for the library: it does the same each time, while a machine
/// that has other things to do stalls a thread now and then. What else is wrong panics at once.
#[cfg(not(loom))]
fn passes(case: impl Fn() -> Result<String, String>) -> String {
    let repeats = if common::control().1 { 0 } else { 2 };
    for _ in 0..repeats {
        match case() {
            Ok(seen) => return seen,
            Err(held_up) => println!("siblings were held up, once more: {held_up}"),
        }
    }
    case().expect("siblings are not held up")
}

#[cfg(not(loom))]
fn main() -> std::process::ExitCode {
    use pirn::{Io, WhenAbsent, WhenRetained};
    use victim::Way;

    if let Some(code) = child::run() {
        return code;
    }
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let ways = [
        ("killed epoll", Way::Killed(Io::Epoll)),
        ("killed auto", Way::Killed(Io::Auto)),
        ("killed early auto", Way::KilledEarly(Io::Auto)),
        ("local dropped", Way::Dropped),
        ("local stuck", Way::Stuck),
    ];
    let policies = [
        ("discard", WhenAbsent::Discard),
        ("retain block", WhenAbsent::Retain { quota: 4, then: WhenRetained::Block }),
        ("retain drop-oldest", WhenAbsent::Retain { quota: 4, then: WhenRetained::DropOldest }),
    ];
    for (way_name, way) in ways {
        for (policy_name, when_absent) in policies {
            let name = format!("{way_name}, {policy_name}");
            if words.is_empty() || words.iter().any(|word| name.contains(word)) {
                println!("{name}: {}", passes(|| case::run(way, when_absent)));
            }
        }
    }
    std::process::ExitCode::SUCCESS
}
