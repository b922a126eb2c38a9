//! Whole workers in one thread, by seed: the shipped cores, partitions, writers and gates over a scripted network.
//!
//! # What runs
//! Two to four machines with a worker each (one or two network cores), one to three producer tasks and as many
//! consumer tasks, spread over them: so channels are local and remote, several share a connection, and there are
//! several connections. Tasks are polled, cores turned, and the network moved by one scheduler that picks whoever
//! may do something next; a task that returned `Pending` isn't polled before it is woken (in half of the seeds). Time
//! is virtual and goes on when nobody can do anything, and now and then before that.
//!
//! What goes wrong: connections are cut now or behind a byte, with a reset or silently; packets are held; workers are
//! killed, vanish, leave in order, and come back; consumer attempts are replaced while the old one reads on; producers
//! fail, are dropped, give up, or are replaced while they write on; tasks hang; descriptors come late, twice, and of
//! older attempts; frames of older epochs come in between; frames come twice, not at all, or beyond the credit.
//!
//! # What must hold
//! `oracle` says it item by item, `account` at every moment in which all is at rest, `settle` at the end: everybody
//! comes to the end within a minute, channels that nothing went wrong with have noticed nothing, and all
//! memory is back. `log` is the truth that they compare with.
//!
//! # What it notices
//! With one rule broken at a time, the first seed that fails. Those of [`Rule`] are broken in every run of the tests
//! (`a_rule_that_is_switched_off_is_missed`); the others were, by hand.
//!
//! | what is broken | seed | what is seen |
//! |---|---|---|
//! | `DATA_EPOCH`: data of another epoch is taken | 9 | a length out of nowhere |
//! | `DATA_POSITION`: data that doesn't follow is taken | 10 | a torn record |
//! | `DATA_CREDIT`: data beyond the credit is taken | 158 | a length out of nowhere |
//! | `VIEW_FENCE`: a fenced view takes on | 12 | the account has fewer than consumers were given |
//! | `NEWEST_ATTEMPT`: an older attempt binds | 6 | a newer one is fenced by an older one |
//! | `RECORD_BOUNDARY`: a view begins where the one before stopped | 146 | a length out of nowhere |
//! | a half record goes on after a new bind | 26 | the end before a record that is queued |
//! | what is consumed is counted twice | 0 | more delivered than consumers were given |
//! | the sender pays no regard to the credit | 1 | a rule is broken |
//! | an acknowledgement has no stream looked at | 1 | somebody waits for ever |
//! | a piece that the socket is done with is kept | 7 | segments that aren't back |
//!
//! # Replay
//! A failure prints its seed and what led to it: `PIRN_SIM_SEED=… cargo test --lib sim::one_seed -- --nocapture` runs
//! that seed alone and prints every step. `PIRN_TEST_SIZE=full` runs 20,000 seeds. What a seed comes to depends on the
//! seed and the code alone; what was found with one is kept as a scene of its own in `scenes`, since another choice of
//! anything makes another story of it.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod account;
mod agenda;
mod barriers;
mod clock;
mod consumer;
mod dials;
mod engine;
mod faults;
mod frames;
mod log;
mod oracle;
mod plan;
mod producer;
mod scenes;
mod settle;
mod task;
mod trace;
mod worker;
mod world;
mod writing;

use crate::rules::{Rule, without};
use crate::sync::thread;
use crate::test_size;
use std::panic::{AssertUnwindSafe, catch_unwind};
use trace::Marks;
use world::World;

/// How many of the last steps are shown where all of them weren't asked for.
const STEPS_SHOWN: usize = 150;
/// A rule that is switched off is missed within so many seeds.
const SEEDS_TO_NOTICE: u64 = 2000;

/// What has to happen in a run of the small size.
const HAPPENS: &[&str] = &[
    "all ended",
    "another network",
    "bound anew",
    "bound first",
    "broken frame",
    "closed under the writer",
    "connection lost",
    "consumer redeployed",
    "cut",
    "cut at a byte",
    "dial failed",
    "dialled",
    "end",
    "end again",
    "event",
    "failed",
    "fenced",
    "found dead",
    "full",
    "given up",
    "hangs",
    "held",
    "loss told",
    "machine gone",
    "outdated",
    "paused",
    "in a row",
    "priority event",
    "producer ends badly",
    "protocol",
    "quiet",
    "record",
    "record longer than a segment",
    "record replayed",
    "stale frame",
    "superseded",
    "too long for a replay",
    "untouched",
    "worker killed",
    "worker leaves",
    "writer waits",
];

/// What became of a seed: how often each thing happened, or what is wrong and the story of it.
fn run(seed: u64, traces: bool) -> Result<(Marks, Vec<String>), (String, Vec<String>)> {
    let mut world = match World::new(seed, traces) {
        Ok(world) => world,
        Err(what) => return Err((what, Vec::new())),
    };
    let ran = catch_unwind(AssertUnwindSafe(|| world.run()));
    let what = match ran {
        Ok(Ok(())) => return Ok((std::mem::take(&mut world.oracle.marks), world.trace.lines().to_vec())),
        Ok(Err(what)) => what,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            format!("a panic: {}", text.unwrap_or("without words"))
        }
    };
    Err((what, world.trace.lines().to_vec()))
}

/// Runs a seed; a failure is told with its story.
fn must_hold(seed: u64) -> Marks {
    match run(seed, false) {
        Ok((marks, _)) => marks,
        Err((what, _)) => {
            let story = run(seed, true).err().map_or_else(Vec::new, |(_, story)| story);
            let from = story.len().saturating_sub(STEPS_SHOWN);
            story[from..].iter().for_each(|line| println!("{line}"));
            panic!("seed {seed}: {what}\nPIRN_SIM_SEED={seed} cargo test --lib sim::one_seed -- --nocapture");
        }
    }
}

/// The seed that the environment names.
fn named_seed() -> Option<u64> {
    let text = std::env::var("PIRN_SIM_SEED").ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("PIRN_SIM_SEED is a number, not {text:?}")))
}

#[test]
fn one_seed() {
    let Some(seed) = named_seed() else {
        must_hold(0);
        return;
    };
    let (ran, story) = match run(seed, true) {
        Ok((marks, story)) => (Ok(marks), story),
        Err((what, story)) => (Err(what), story),
    };
    story.iter().for_each(|line| println!("{line}"));
    match ran {
        Ok(marks) => println!("seed {seed}: {marks:#?}"),
        Err(what) => panic!("seed {seed}: {what}"),
    }
}

#[test]
fn whatever_goes_wrong_the_rules_hold() {
    let mut marks = Marks::default();
    for seed in 0..test_size::pick(300, 20_000) {
        marks.merge(&must_hold(seed));
    }
    println!("{marks:#?}");
    let never: Vec<_> = HAPPENS.iter().filter(|what| marks.get(what) == 0).collect();
    assert!(never.is_empty(), "what never happens isn't tested: {never:?} in {marks:#?}");
}

/// Each in a thread of its own: rules are switched off for a thread.
#[test]
fn a_rule_that_is_switched_off_is_missed() {
    let look = |rule: Rule| {
        let noticed = (0..SEEDS_TO_NOTICE).find(|seed| without(Some(rule), || run(*seed, false)).is_err());
        (rule, noticed)
    };
    let looks: Vec<_> = Rule::ALL.iter().map(|rule| thread::spawn(move || look(*rule))).collect();
    let noticed: Vec<_> = looks.into_iter().map(|look| look.join().unwrap()).collect();
    println!("{noticed:?}");
    assert!(noticed.iter().all(|(_, seed)| seed.is_some()), "not noticed: {noticed:?}");
}

#[test]
fn a_seed_comes_to_the_same_whenever_it_is_run() {
    for seed in 0..test_size::pick(20, 500) {
        let stories = [(); 2].map(|()| match run(seed, true) {
            Ok((_, story)) | Err((_, story)) => story,
        });
        let differs = stories[0].iter().zip(&stories[1]).find(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(stories[0].len(), stories[1].len(), "seed {seed}");
    }
}
