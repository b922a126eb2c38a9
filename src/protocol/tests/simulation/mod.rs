//! Two workers in memory, by seed: everything they say goes as bytes through pipes with delays; connections
//! are cut, frames come twice, late or changed, binds are refused, kept waiting, taken back and fenced.
//!
//! The source of a subpartition is a sequence of units, a byte or an entry each, which are functions of
//! their number. So a unit's number is where its epoch began plus its position, and the oracle is one number
//! for each channel: the unit that has to come next. It starts anew with a bind that starts anew, and at no
//! other time: in order, once, and resumed at exactly the next one. A reader that has consumed the end never binds
//! again: the run is over when the server has learned of each end, and the reader of that.

mod consumer;
mod pipe;
mod producer;
mod world;

use crate::test_size;
use std::collections::BTreeMap;

/// A generator of numbers that depends on its seed alone (splitmix64).
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Below `limit`, which isn't 0.
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Once in so many times.
    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// How often each thing happened: what never does isn't tested.
#[derive(Debug, Default)]
pub(super) struct Marks(BTreeMap<&'static str, u64>);

impl Marks {
    fn note(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }
}

/// Says which seed it was when a test fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the seed was {}", self.0);
        }
    }
}

fn run(seeds: impl Iterator<Item = u64>) -> Marks {
    let mut marks = Marks::default();
    for seed in seeds {
        let _seed = Seed(seed);
        world::World::new(seed).run(&mut marks);
    }
    marks
}

#[test]
fn streams_arrive_in_order_and_once_whatever_happens() {
    let marks = run(0..test_size::pick(60, 6_000));
    let wanted = [
        "bound anew",
        "bound again",
        "resumed",
        "resume declined",
        "waiting",
        "refused",
        "taken back",
        "closed",
        "gone",
        "cut",
        "repeated frame",
        "stale frame",
        "late frame",
        "changed bit",
        "error for a stream",
        "error for the connection",
        "dropped as stale",
        "dropped as unknown",
        "acknowledged late by the task",
        "end consumed",
        "end confirmed",
        "end told again",
        "end told twice",
        "read to its end without a connection",
        "cut behind the end",
        "no credit",
        "no credit for events",
        "priority",
    ];
    for what in wanted {
        assert!(marks.0.contains_key(what), "never happened: {what}; {marks:#?}");
    }
}
