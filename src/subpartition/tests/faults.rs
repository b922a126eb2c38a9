//! Faults known from other exchanges, so far as one subpartition can have them.

use super::oracle::{Expect, Oracle, Setup};
use super::*;

const POLICIES: [WhenAbsent; 4] = [
    WhenAbsent::Discard,
    WhenAbsent::Retain { quota: 6, then: WhenRetained::Block },
    WhenAbsent::Retain { quota: 6, then: WhenRetained::DropOldest },
    WhenAbsent::Replay { quota: 6 },
];

fn oracle(when_absent: WhenAbsent, quota: u32) -> Oracle {
    let policies = Policies { when_absent, flush: Flush::WhenFull, ..Policies::default() };
    Oracle::new(Setup { layout: RecordLayout::Lengths, policies, quota, entries: 64 })
}

fn with_every_policy(quota: u32, test: impl Fn(Oracle)) {
    POLICIES.into_iter().for_each(|when_absent| test(oracle(when_absent, quota)));
}

/// The stream of a new reader has no gap because an old one polled.
#[test]
fn a_zombie_that_polls_takes_nothing_from_the_new_reader() {
    with_every_policy(12, |mut oracle| {
        let old = oracle.bind(1);
        for _ in 0..4 {
            oracle.write(500);
        }
        assert_eq!(oracle.read_records(old, 1), [0]);
        let new = oracle.bind(2);
        let mut got = Vec::new();
        let mut zombie = Vec::new();
        for record in 4..8 {
            oracle.write(500);
            assert_eq!(oracle.read(old, 1, false).len(), 1);
            got.extend(oracle.drain_records(new));
            zombie.push(record);
        }
        let first = if oracle.replays() { 0 } else { 4 };
        assert_eq!(got, (first..8).collect::<Vec<_>>());
        assert_eq!(oracle.read(old, 1, false), [Expect::Fenced]);
        oracle.finish(0);
    });
}

/// What a dead reader says late is dropped, whatever it is.
#[test]
fn late_words_of_an_old_reader_change_nothing() {
    with_every_policy(12, |mut oracle| {
        let old = oracle.bind_as(1, 1, true).unwrap();
        for _ in 0..8 {
            oracle.write(3000);
        }
        oracle.barrier();
        oracle.read(old, 4, true);
        let new = oracle.bind_as(2, 2, true).unwrap();
        let before = (oracle.account(), oracle.segments());
        assert!(!oracle.acknowledge(old, 0));
        assert!(!oracle.acknowledge(old, 3));
        assert_eq!((oracle.account(), oracle.segments()), before);
        oracle.close(old);
        assert_eq!(oracle.account(), before.0, "its orderly end comes too late, too");
        oracle.read(new, 2, false);
        oracle.finish(1);
    });
}

/// A writer has filled a segment with the begin of a record; a reader takes all of that and dies; the end
/// of the record comes in the next segment. Nobody takes it for a record.
#[test]
fn the_tail_of_a_record_whose_head_a_dead_reader_took_is_no_record() {
    let mut oracle = oracle(WhenAbsent::Retain { quota: 1, then: WhenRetained::Block }, 1);
    let first = oracle.bind(1);
    assert_eq!(oracle.write(6000), Some(Append::Blocked(Blocked::Memory)));
    assert!(oracle.drain_records(first).is_empty(), "it takes the whole segment, and has no record");
    oracle.close(first);
    assert_eq!(oracle.write(0), Some(Append::Done));
    let second = oracle.bind(2);
    oracle.write(77);
    assert_eq!(oracle.drain_records(second), [1]);
    assert_eq!(oracle.account().lost.skipped, Amount::new(1, 6004 - 4096));
    oracle.finish(2);
}

/// A reader dies behind a barrier, which blocks nothing here.
#[test]
fn a_barrier_that_a_dead_reader_had_keeps_nothing_from_the_next_one() {
    with_every_policy(12, |mut oracle| {
        let old = oracle.bind(1);
        oracle.barrier();
        assert_eq!(oracle.drain(old), [Expect::Event(crate::event::Event::Barrier(1))]);
        let new = oracle.bind(2);
        oracle.write(10);
        assert_eq!(oracle.drain_records(new), [0]);
        oracle.finish(3);
    });
}

/// The partition is released while its writer is in the middle of a record, with its readers dead or not.
#[test]
fn memory_outlives_a_release_under_the_writer() {
    with_every_policy(2, |mut oracle| {
        let old = oracle.bind(1);
        oracle.write(3000);
        oracle.read(old, 1, true);
        oracle.write(20_000);
        oracle.outage();
        oracle.release();
        assert!(oracle.held() > 0, "the reader's segment, and perhaps the writer's");
        assert!(matches!(oracle.write(10), Some(Append::Closed) | None));
        assert_eq!(oracle.bind_as(2, 2, false), Err(Refusal::Released));
        assert_eq!(oracle.account().queued, Amount::ZERO);
        oracle.finish(4);
    });
}

/// Every entry says where its first record starts, also behind an event and in a shared segment.
#[test]
fn a_takeover_at_an_event_finds_its_boundary() {
    with_every_policy(12, |mut oracle| {
        let old = oracle.bind(1);
        oracle.write(5000);
        oracle.event(&crate::event::Event::Application(vec![3; 2000].into()));
        oracle.barrier();
        oracle.write(200);
        oracle.read(old, 2, false);
        let new = oracle.bind(2);
        oracle.write(300);
        let records = oracle.drain_records(new);
        assert_eq!(records.last(), Some(&2));
        oracle.finish(5);
    });
}

/// The limit of an absent reader isn't the next one's.
#[test]
fn a_new_reader_does_not_inherit_the_limit_of_the_outage() {
    let mut oracle = oracle(WhenAbsent::Retain { quota: 1, then: WhenRetained::Block }, 9);
    oracle.bind(1);
    assert_eq!(oracle.segments().1, 9);
    oracle.outage();
    assert_eq!(oracle.segments().1, 1);
    assert_eq!(oracle.write(20_000), Some(Append::Blocked(Blocked::Memory)));
    oracle.bind(2);
    assert_eq!(oracle.segments().1, 9);
    assert_eq!(oracle.write(0), Some(Append::Done));
    oracle.finish(6);
}

/// One segment is held by the ring, by a fenced reader and by a task, which let go of it in any order: it is
/// recycled once, by the last.
#[test]
fn a_segment_is_recycled_once_in_whatever_order_it_is_let_go() {
    for order in 0..6 {
        with_every_policy(12, |mut oracle| {
            let old = oracle.bind(1);
            for _ in 0..6 {
                oracle.write(2044);
            }
            oracle.read(old, 1, true);
            let new = oracle.bind(2);
            let steps = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]][order];
            for step in steps {
                match step {
                    0 => oracle.close(old),
                    1 => oracle.let_go(0),
                    _ => drop(oracle.read(new, usize::MAX, true)),
                }
                // New bytes in whatever came free: what is still lent must not change.
                oracle.write(3000);
                oracle.write(3000);
            }
            oracle.finish(order);
        });
    }
}

/// A row of readers, each with what it reads from and what it lent, all of one partition that ends.
#[test]
fn every_holder_of_a_segment_counts_for_itself() {
    with_every_policy(12, |mut oracle| {
        let mut readers = vec![oracle.bind(1)];
        for attempt in 2..6 {
            for _ in 0..3 {
                oracle.write(2100);
            }
            let reader = *readers.last().unwrap();
            oracle.read(reader, 2, true);
            readers.push(oracle.bind(attempt));
        }
        oracle.release();
        for reader in readers {
            oracle.read(reader, 1, false);
            oracle.close(reader);
        }
        oracle.finish(7);
    });
}

/// A flush tells of what is there and closes nothing.
#[test]
fn a_flush_takes_nothing_away_from_the_segment_at_hand() {
    with_every_policy(12, |mut oracle| {
        let reader = oracle.bind(1);
        for record in 0..20 {
            oracle.write(100);
            oracle.flush();
            assert_eq!(oracle.drain_records(reader), [record]);
            assert_eq!(oracle.segments().0, 1);
        }
        oracle.finish(8);
    });
}

/// A stale or a duplicate bind leaves everything as it was.
#[test]
fn refused_binds_change_nothing() {
    with_every_policy(12, |mut oracle| {
        let reader = oracle.bind(5);
        oracle.write(100);
        oracle.write(200);
        assert_eq!(oracle.read_records(reader, 1), [0]);
        let before = oracle.account();
        let stale = Refusal::Stale { presented: Attempt(4), current: Attempt(5) };
        assert_eq!(oracle.bind_as(4, 4, false), Err(stale));
        let duplicate = Refusal::DuplicateAttempt { attempt: Attempt(5) };
        assert_eq!(oracle.bind_as(5, 99, false), Err(duplicate));
        assert_eq!(oracle.account(), before);
        assert_eq!(oracle.drain_records(reader), [1]);
        oracle.finish(9);
    });
}

/// An account that has used up its quota takes nothing from the others of its partition.
#[test]
fn a_quota_is_never_exceeded_and_never_anothers() {
    with_every_policy(3, |mut oracle| {
        oracle.bind(1);
        for _ in 0..40 {
            oracle.write(1500);
            let (used, limit) = oracle.segments();
            assert!(used <= limit);
        }
        oracle.outage();
        for _ in 0..40 {
            oracle.write(1500);
            let (used, limit) = oracle.segments();
            assert!(used <= limit.max(3));
        }
        oracle.finish(10);
    });
}
