//! Ends of connections: orderly, abortive, by either side, with a batch under way.

use super::super::{Close, ConnectionId, Transport};
use super::{Backend, Rig};
use crate::clock::Monotonic;
use crate::test_size;
use std::collections::BTreeSet;
use std::os::fd::AsRawFd;
use std::time::Duration;

const TURN: Option<Duration> = Some(Duration::from_millis(1));

/// Sends from `a` until nothing goes any more, `b` being away.
fn fill<B: Backend>(rig: &mut Rig<B>, a: ConnectionId) {
    let mut idle = 0;
    while idle < 20 {
        if !rig.a.end(a).sending {
            rig.a.send(a, 500_000);
        }
        idle = if rig.a.turn(TURN) { 0 } else { idle + 1 };
    }
    assert!(rig.a.end(a).sending);
}

pub(super) fn orderly_close_sends_what_was_handed_over<B: Backend>() {
    let mut rig = Rig::<B>::new(10, [1, 4]);
    for bytes in [0, 1, 3_000_000] {
        let (a, b) = rig.connect();
        if bytes > 0 {
            rig.a.send(a, bytes);
        }
        rig.a.close(a, Close::Orderly);
        rig.a.close(a, Close::Orderly);
        rig.until(|rig| rig.b.end(b).eof);
        assert_eq!(rig.b.end(b).received, bytes as u64);
        assert!(rig.b.end(b).failed.is_none() && !rig.a.end(a).closed, "it waits for the other end");
        rig.b.close(b, Close::Orderly);
        rig.until(|rig| rig.a.end(a).closed && rig.b.end(b).closed && rig.a.has_all_batches());
    }
    rig.finish();
}

/// The other end is there, but its thread isn't. What was cut short is a reset, what wasn't is an end.
pub(super) fn orderly_close_runs_out_of_patience<B: Backend>() {
    let mut rig = Rig::<B>::new(11, [1, 8]);
    let ((short_a, short_b), (full_a, full_b)) = (rig.connect(), rig.connect());
    rig.a.send(short_a, 10);
    for _ in 0..1000 {
        rig.a.turn(TURN);
        if !rig.a.end(short_a).sending {
            break;
        }
    }
    fill(&mut rig, full_a);
    rig.a.close(short_a, Close::Orderly);
    rig.a.close(full_a, Close::Orderly);
    let clock = Monotonic::start();
    let start = clock.now();
    for turn in 0.. {
        assert!(turn < 10_000, "patience without an end");
        rig.a.turn(TURN);
        if rig.a.end(short_a).closed && rig.a.end(full_a).closed && rig.a.has_all_batches() {
            break;
        }
    }
    if !B::VIRTUAL_TIME {
        assert!(clock.now().since(start) >= Duration::from_millis(900));
    }
    rig.until(|rig| rig.b.end(short_b).eof && rig.b.end(full_b).failed.is_some());
    assert_eq!(rig.b.end(short_b).received, 10);
    assert!(!rig.b.end(full_b).eof && rig.b.end(full_b).received < rig.a.end(full_a).sent);
    rig.finish();
}

/// As long as the other end takes some now and then, what was handed over goes on being sent.
pub(super) fn orderly_close_is_patient_with_who_reads<B: Backend>() {
    let mut rig = Rig::<B>::new(12, [1, 8]);
    let (a, b) = rig.connect();
    fill(&mut rig, a);
    rig.a.close(a, Close::Orderly);
    // More than half of the patience at a time, until all has gone.
    while !rig.b.end(b).eof {
        let (clock, mut turns) = (Monotonic::start(), 0);
        let start = clock.now();
        while turns < 600 && (B::VIRTUAL_TIME || clock.now().since(start) < Duration::from_millis(600)) {
            rig.a.turn(TURN);
            turns += 1;
        }
        assert!(!rig.a.end(a).closed);
        let before = rig.a.transport.counts().sent;
        rig.until(|rig| rig.b.end(b).eof || rig.a.transport.counts().sent > before);
    }
    assert_eq!(rig.b.end(b).received, rig.a.end(a).sent);
    rig.finish();
}

pub(super) fn abortive_close_is_a_reset_and_gives_the_batch_back<B: Backend>() {
    let mut rig = Rig::<B>::new(13, [1, 8]);
    let (a, b) = rig.connect();
    fill(&mut rig, a);
    rig.a.close(a, Close::Abortive);
    rig.until(|rig| rig.a.end(a).closed && rig.a.has_all_batches() && rig.b.end(b).failed.is_some());
    assert!(!rig.b.end(b).eof);
    assert!(rig.b.end(b).received < rig.a.end(a).sent);
    // And with nothing under way.
    let (a, b) = rig.connect();
    rig.b.close(b, Close::Abortive);
    rig.b.close(b, Close::Abortive);
    rig.until(|rig| rig.b.end(b).closed && rig.a.end(a).failed.is_some());
    assert!(!rig.a.end(a).eof);
    rig.finish();
}

pub(super) fn abortive_after_orderly_is_obeyed<B: Backend>() {
    let mut rig = Rig::<B>::new(14, [1, 8]);
    let (a, b) = rig.connect();
    fill(&mut rig, a);
    rig.a.close(a, Close::Orderly);
    rig.a.turn(TURN);
    assert!(!rig.a.end(a).closed);
    rig.a.close(a, Close::Abortive);
    rig.a.close(a, Close::Orderly);
    // Long before patience ends.
    for _ in 0..100 {
        rig.a.turn(TURN);
    }
    assert!(rig.a.end(a).closed);
    rig.until(|rig| rig.b.end(b).failed.is_some());
    assert!(!rig.b.end(b).eof);
    rig.finish();
}

pub(super) fn both_ends_close_at_once<B: Backend>() {
    let mut rig = Rig::<B>::new(15, [4, 4]);
    let pairs: Vec<_> = (0..20).map(|_| rig.connect()).collect();
    for (at, (a, b)) in pairs.iter().enumerate() {
        rig.a.send(*a, 50_000);
        rig.b.send(*b, 50_000);
        if at % 2 == 0 {
            rig.turns(1);
        }
        rig.a.close(*a, Close::Orderly);
        rig.b.close(*b, Close::Orderly);
    }
    rig.until(|rig| pairs.iter().all(|(a, b)| rig.a.end(*a).closed && rig.b.end(*b).closed));
    rig.until(|rig| rig.a.has_all_batches() && rig.b.has_all_batches());
    rig.finish();
}

/// Whoever saw the other's end may still send; what reaches who closed is dropped, and no obstacle.
pub(super) fn half_closed_connections_still_send<B: Backend>() {
    let mut rig = Rig::<B>::new(16, [1, 2]);
    let (a, b) = rig.connect();
    rig.a.close(a, Close::Orderly);
    rig.until(|rig| rig.b.end(b).eof);
    for _ in 0..20 {
        rig.b.send(b, 100_000);
        rig.until(|rig| !rig.b.end(b).sending || rig.b.end(b).failed.is_some());
    }
    assert!(rig.b.end(b).failed.is_none());
    rig.b.close(b, Close::Orderly);
    rig.until(|rig| rig.a.end(a).closed && rig.b.end(b).closed);
    assert_eq!(rig.a.end(a).received, 0);
    rig.finish();
}

pub(super) fn broken_connections_give_batches_back<B: Backend>() {
    let mut rig = Rig::<B>::new(17, [1, 8]);
    let (a, b) = rig.connect();
    fill(&mut rig, a);
    rig.b.close(b, Close::Abortive);
    rig.until(|rig| rig.a.end(a).failed.is_some() && rig.a.has_all_batches());
    rig.a.send_in_vain(a);
    rig.until(|rig| rig.a.has_all_batches());
    assert!(!rig.a.end(a).closed, "its owner closes it");
    rig.a.close(a, Close::Orderly);
    rig.until(|rig| rig.a.end(a).closed);
    for id in [a, ConnectionId { index: 1000, generation: 0 }] {
        rig.a.send_in_vain(id);
        rig.a.transport.close(id, Close::Orderly);
        rig.a.transport.close(id, Close::Abortive);
    }
    rig.until(|rig| rig.a.has_all_batches());
    rig.turns(3);
    rig.finish();
}

pub(super) fn thousands_of_connections_leave_nothing_behind<B: Backend>() {
    let next_descriptor = || std::fs::File::open("/dev/null").unwrap().as_raw_fd();
    let mut rig = Rig::<B>::new(18, [2, 2]);
    let mut names = BTreeSet::new();
    let before = next_descriptor();
    for round in 0..test_size::pick(300, 3000) {
        let pairs: Vec<_> = (0..10).map(|_| rig.connect()).collect();
        for (at, (a, b)) in pairs.iter().enumerate() {
            assert!(names.insert((a.index, a.generation)), "rig.connect looks at the same");
            rig.a.send(*a, 100);
            rig.b.send(*b, 100);
            if (round + at) % 3 == 0 {
                rig.turns(1);
            }
            let how = if at % 2 == 0 { Close::Abortive } else { Close::Orderly };
            rig.a.close(*a, how);
            rig.b.close(*b, Close::Orderly);
        }
        rig.until(|rig| pairs.iter().all(|(a, b)| rig.a.end(*a).closed && rig.b.end(*b).closed));
    }
    rig.until(|rig| rig.a.has_all_batches() && rig.b.has_all_batches());
    // Other tests have descriptors of their own, some dozens.
    assert!(next_descriptor() < before + 500, "{before} before, {} after", next_descriptor());
    assert!(names.iter().all(|(index, _)| *index < 100), "places are used again");
    rig.finish();
}
