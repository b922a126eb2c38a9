//! Faults that random cases found, in their shortest form.

use super::oracle::{Expect, Oracle, Setup};
use super::*;
use crate::event::Event;
use crate::sync::{AtomicU64, Ordering};

fn oracle(when_absent: WhenAbsent, quota: u32, entries: u16) -> Oracle {
    let policies = Policies { when_absent, flush: Flush::WhenFull, ..Policies::default() };
    Oracle::new(Setup { layout: RecordLayout::Lengths, policies, quota, entries })
}

#[test]
fn a_loss_at_hand_is_no_segment_of_the_reader_that_is_replaced() {
    let mut oracle = oracle(WhenAbsent::Discard, 2, 16);
    let old = oracle.bind(1);
    oracle.outage();
    oracle.write(2044);
    oracle.close(old);
    let reader = oracle.bind(2);
    oracle.write(0);
    assert_eq!(oracle.read(reader, 1, false), [Expect::Loss(Amount::new(1, 2048))]);
    oracle.bind(3);
    oracle.finish(0);
}

#[test]
fn what_a_reader_is_done_with_is_not_charged_to_orphans() {
    let mut oracle = oracle(WhenAbsent::Discard, 2, 16);
    let reader = oracle.bind(1);
    oracle.write(3000);
    assert_eq!(oracle.drain_records(reader), [0]);
    oracle.bind(2);
    assert_eq!(oracle.segments(), (1, 2), "the writer still fills it");
    oracle.finish(1);
}

#[test]
fn ends_that_were_taken_and_not_acknowledged_come_again() {
    for when_absent in [
        WhenAbsent::Discard,
        WhenAbsent::Retain { quota: 2, then: WhenRetained::Block },
        WhenAbsent::Replay { quota: 2 },
    ] {
        for kind in [EndKind::Finished, EndKind::Failed] {
            let ends = match kind {
                EndKind::Finished => vec![Expect::EndOfData, Expect::EndOfPartition { news: false }],
                EndKind::Failed => vec![Expect::Failed],
            };
            let mut oracle = oracle(when_absent, 2, 16);
            let first = oracle.bind_as(1, 1, true).unwrap();
            oracle.end(kind);
            assert_eq!(oracle.drain(first), ends);
            let second = oracle.bind_as(2, 2, true).unwrap();
            assert_eq!(oracle.drain(second), ends, "{when_absent:?}");
            assert_eq!(oracle.acknowledge(second, 0), kind == EndKind::Finished);
            let third = oracle.bind_as(3, 3, true).unwrap();
            if kind == EndKind::Finished && !oracle.replays() {
                assert_eq!(oracle.drain(third), [], "the bind itself says that it is over");
            }
            oracle.finish(2);
        }
    }
}

#[test]
fn a_record_of_half_a_segment_is_lent_and_not_copied() {
    let mut oracle = oracle(WhenAbsent::Discard, 8, 16);
    let reader = oracle.bind(1);
    for _ in 0..3 {
        oracle.write(4092);
    }
    oracle.read(reader, 4, true);
    assert_eq!(oracle.segments().0, 3, "two are lent, the third was copied and is still being filled");
    oracle.let_go(0);
    assert_eq!(oracle.segments().0, 2);
    oracle.finish(3);
}

#[test]
fn a_record_that_waits_for_its_first_reader_is_not_broken_off_when_that_comes() {
    let mut oracle = oracle(WhenAbsent::Discard, 1, 16);
    assert_eq!(oracle.write(10_000), Some(Append::Blocked(Blocked::Memory)));
    let reader = oracle.bind(1);
    while oracle.is_waiting() {
        assert!(oracle.drain_records(reader).is_empty());
        oracle.write(0);
    }
    assert_eq!(oracle.drain_records(reader), [0]);
    assert_eq!(oracle.account().lost.total(), Amount::ZERO);
    oracle.finish(4);
}

#[test]
fn bytes_of_a_broken_record_are_lost_when_they_are_consumed_and_not_before() {
    for explicit in [false, true] {
        let mut oracle = oracle(WhenAbsent::Discard, 1, 16);
        let reader = oracle.bind_as(1, 1, explicit).unwrap();
        assert_eq!(oracle.write(16_000), Some(Append::Blocked(Blocked::Memory)));
        oracle.abort();
        assert_eq!(oracle.read(reader, 1, false), [Expect::Empty]);
        let account = oracle.account();
        assert_eq!((account.delivered, account.queued.bytes), (Amount::ZERO, 4096));
        oracle.acknowledge(reader, 0);
        let account = oracle.account();
        assert_eq!((account.lost.aborted, account.queued), (Amount::new(1, 16_004), Amount::ZERO));
        oracle.finish(5);
    }
}

#[test]
fn an_older_mark_takes_nothing_back() {
    for when_absent in [WhenAbsent::Discard, WhenAbsent::Replay { quota: 8 }] {
        let mut oracle = oracle(when_absent, 8, 16);
        let reader = oracle.bind_as(1, 1, true).unwrap();
        for _ in 0..6 {
            oracle.write(4000);
        }
        oracle.read(reader, 6, false);
        oracle.acknowledge(reader, 1);
        oracle.acknowledge(reader, 4);
        assert_eq!(oracle.account().delivered.records, 5);
        oracle.acknowledge(reader, 0);
        assert_eq!(oracle.account().delivered.records, 6);
        oracle.finish(6);
    }
}

#[test]
fn dropping_the_oldest_the_loss_to_be_told_finds_a_slot() {
    let mut oracle = oracle(WhenAbsent::Retain { quota: 1, then: WhenRetained::DropOldest }, 1, 8);
    oracle.bind(1);
    oracle.write(100);
    oracle.barrier();
    oracle.write(100);
    oracle.overflow();
    oracle.outage();
    for _ in 0..10 {
        assert_eq!(oracle.write(9000), Some(Append::Dropped));
        assert_eq!(oracle.write(100), Some(Append::Done));
    }
    oracle.finish(7);
}

#[test]
fn events_at_one_place_come_again_from_the_first_that_was_not_consumed() {
    let mut oracle = oracle(WhenAbsent::Replay { quota: 2 }, 2, 16);
    for _ in 0..3 {
        oracle.barrier();
    }
    let barriers = |from: u64| (from..=3).map(|id| Expect::Event(Event::Barrier(id))).collect::<Vec<_>>();
    let first = oracle.bind(1);
    let second = oracle.bind(2);
    assert_eq!(oracle.drain(first), []);
    assert_eq!(oracle.read(second, 2, false), barriers(1)[..2]);
    let third = oracle.bind(3);
    assert_eq!(oracle.drain(third), barriers(2), "the second was given, and nothing asked for behind it");
    oracle.finish(8);
}

#[test]
fn a_failure_acknowledged_is_no_end() {
    let mut oracle = oracle(WhenAbsent::Discard, 2, 16);
    let reader = oracle.bind_as(1, 1, true).unwrap();
    oracle.end(EndKind::Failed);
    assert_eq!(oracle.drain(reader), [Expect::Failed]);
    assert!(!oracle.acknowledge(reader, 0));
    oracle.finish(9);
}

#[test]
fn what_is_consumed_is_told_beyond_32_bits() {
    let account = account::ViewAccount::new(0, 2);
    for consumed in [(7, 1 << 20), (1 << 32, (5 << 32) + 9), ((3 << 32) - 1, 1 << 45)] {
        let consumed = Amount::new(consumed.0, consumed.1);
        account.set_consumed(consumed);
        assert_eq!(account.consumed(), (consumed, 0));
    }
}

#[test]
fn a_waker_that_panics_stops_no_transition() {
    struct Faulty;
    impl std::task::Wake for Faulty {
        fn wake(self: Arc<Self>) {
            panic!("the waker's fault");
        }
    }
    let faulty = std::task::Waker::from(Arc::new(Faulty));
    let policies = Policies { when_absent: WhenAbsent::Discard, ..Policies::default() };
    let mut bench = Bench::new(RecordLayout::Lengths, policies, 4, 16);
    let first = bench.bind(1).unwrap();
    for index in 0..3 {
        assert_eq!(bench.write(&record(index, 4000)), Append::Done);
    }
    // The drain of a bind frees segments, which wakes the writer in the middle of it.
    bench.sub.writer.announce(&faulty);
    bench.bell.take_all(|node| node.clear());
    assert!(bench.bell.may_sleep(&faulty));
    let mut second = bench.bind(2).unwrap();
    assert_eq!(bench.write(&record(3, 100)), Append::Done);
    assert_eq!(bench.drain(&mut second), [Got::Record(record(3, 100))]);
    drop((first, second));
    bench.assert_whole();
}

#[test]
#[allow(clippy::disallowed_types, reason = "a test on real threads")]
fn threads_that_lend_one_record_note_every_hold() {
    let mut bench = Bench::new(RecordLayout::Lengths, Policies::default(), 8, 16);
    let mut reader = bench.bind(1).unwrap();
    assert_eq!(bench.write(&record(1, 4000)), Append::Done);
    assert_eq!(bench.read(&mut reader), Got::Record(record(1, 4000)));
    let payload = reader.current();
    let is_lent = |bytes: &bytes::Bytes| bytes.as_ptr() == payload.bytes().as_ptr();
    let (turn, lent_now, both) = (AtomicU64::new(0), AtomicU64::new(0), std::sync::Barrier::new(2));
    // One of the two notes is taken, so that two threads want the other.
    let first = payload.into_bytes();
    let lent_twice = AtomicU64::new(0);
    let lend = || {
        for round in 1..300 {
            turn.fetch_add(1, Ordering::AcqRel);
            while turn.load(Ordering::Acquire) < 2 * round {
                std::hint::spin_loop();
            }
            let lent = payload.into_bytes();
            both.wait();
            lent_now.fetch_add(u64::from(is_lent(&lent)), Ordering::AcqRel);
            both.wait();
            lent_twice.fetch_add(u64::from(lent_now.load(Ordering::Acquire) > 1), Ordering::AcqRel);
            both.wait();
            lent_now.store(0, Ordering::Release);
            drop(lent);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(lend);
        lend();
    });
    assert!(is_lent(&first));
    assert_eq!(lent_twice.into_inner(), 0, "one note stood for two holds");
    drop((first, reader));
    bench.assert_whole();
}

#[test]
fn what_was_to_come_again_and_does_not_is_in_doubt() {
    let mut oracle = oracle(WhenAbsent::Replay { quota: 8 }, 8, 16);
    let reader = oracle.bind(1);
    for _ in 0..6 {
        oracle.write(100);
    }
    let record = 104;
    assert_eq!(oracle.read(reader, 3, false).len(), 3);
    oracle.outage();
    assert_eq!(oracle.account().in_doubt, Amount::ZERO, "all of it comes again");
    oracle.release();
    let account = oracle.account();
    assert_eq!(account.delivered, Amount::new(2, 2 * record));
    assert_eq!(account.in_doubt.records + account.lost.drained.records, 4);
    assert!(account.in_doubt.records >= 1, "the third was given to the reader: {account:?}");
    oracle.finish(6);
}
