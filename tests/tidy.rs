//! The rules of this repository that no compiler checks, as tests: layers, rooms, edges, hygiene, and what keeps known
//! faults away.
//!
//! Every check is a function over text, so that each has a second test on a small bad sample: a rule that
//! can't fail protects nothing.
#![cfg(not(loom))]

#[path = "tidy/edges.rs"]
mod edges;
#[path = "tidy/hygiene.rs"]
mod hygiene;
#[path = "tidy/immunity.rs"]
mod immunity;
#[path = "tidy/layers.rs"]
mod layers;
#[path = "tidy/rooms.rs"]
mod rooms;
// The mutant runner and these checks must mean the same by a site.
#[path = "../xtask/src/scan.rs"]
mod scan;
#[path = "tidy/source.rs"]
mod source;

/// Fails with all problems at once.
fn expect_none(problems: Vec<String>) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

/// For the second test of a rule: exactly one problem, which says `part`.
fn expect_one(problems: &[String], part: &str) {
    assert_eq!(problems.len(), 1, "{problems:#?}");
    assert!(problems[0].contains(part), "{problems:#?}");
}
