//! One writer, readers one after the other, on one thread.

use super::*;
use crate::event::Event;

fn discard() -> Policies {
    Policies { flush: Flush::WhenFull, ..Policies::default() }
}

fn replay(quota: u32) -> Policies {
    Policies { when_absent: WhenAbsent::Replay { quota }, ..discard() }
}

fn retain(quota: u32, then: WhenRetained) -> Policies {
    Policies { when_absent: WhenAbsent::Retain { quota, then }, ..discard() }
}

fn records(got: &[Got]) -> Vec<u32> {
    got.iter()
        .filter_map(|got| match got {
            Got::Record(bytes) => Some(u32::from_le_bytes(bytes[..4].try_into().unwrap())),
            _ => None,
        })
        .collect()
}

#[test]
fn records_come_in_order_across_segments_with_events_between() {
    let mut bench = Bench::new(RecordLayout::Lengths, discard(), 30, 64);
    let mut reader = bench.bind(1).unwrap();
    let sizes = [4, 100, 0, 4000, 5000, 12000, 7, 513, 4096];
    for (index, size) in sizes.into_iter().enumerate() {
        assert_eq!(bench.write(&record(index as u32, size)), Append::Done);
    }
    let writer = bench.writer.as_mut().unwrap();
    assert_eq!(writer.append_event(&Event::Barrier(7), &mut bench.cache), Append::Done);
    let application = Event::Application(b"hello".to_vec().into());
    assert_eq!(writer.append_event(&application, &mut bench.cache), Append::Done);
    assert_eq!(bench.write(&record(9, 20)), Append::Done);
    bench.writer.as_mut().unwrap().append_end(EndKind::Finished);
    let got = bench.drain(&mut reader);
    let mut expected: Vec<Got> =
        sizes.into_iter().enumerate().map(|(index, size)| Got::Record(record(index as u32, size))).collect();
    expected.extend([
        Got::Event(Event::Barrier(7)),
        Got::Event(application),
        Got::Record(record(9, 20)),
        Got::EndOfData,
        Got::EndOfPartition,
    ]);
    assert_eq!(got, expected);
    let account = bench.sub.account();
    assert_eq!(account.delivered.records, 10);
    assert_eq!(account.written, account.delivered);
    assert!(account.is_balanced(), "{account:?}");
    drop(reader);
    bench.assert_whole();
}

#[test]
fn discard_drains_what_is_queued_and_what_comes_and_says_how_much() {
    let mut bench = Bench::new(RecordLayout::Lengths, discard(), 30, 64);
    let mut reader = bench.bind(1).unwrap();
    for index in 0..10 {
        bench.write(&record(index, 50));
    }
    assert_eq!(bench.read(&mut reader), Got::Record(record(0, 50)));
    assert_eq!(bench.read(&mut reader), Got::Record(record(1, 50)));
    drop(reader);
    // One consumed, one yielded and not consumed, eight taken and never yielded.
    let account = bench.sub.account();
    assert_eq!(account.delivered.records, 1);
    assert_eq!(account.in_doubt.records, 1);
    assert_eq!(account.lost.unread.records, 8);
    assert!(account.is_balanced(), "{account:?}");
    for index in 10..15 {
        assert_eq!(bench.write(&record(index, 50)), Append::Dropped);
    }
    let mut reader = bench.bind(2).unwrap();
    for index in 15..20 {
        assert_eq!(bench.write(&record(index, 50)), Append::Done);
    }
    let got = bench.drain(&mut reader);
    assert_eq!(got[0], Got::Loss(Amount { records: 5, bytes: 5 * 54 }));
    assert_eq!(records(&got), (15..20).collect::<Vec<_>>());
    let account = bench.sub.account();
    assert_eq!(account.lost.discarded.records, 5);
    assert!(account.is_balanced(), "{account:?}");
    assert_eq!(account.queued, Amount::ZERO);
    drop(reader);
    bench.assert_whole();
}

#[test]
fn a_newer_attempt_takes_over_and_the_old_one_is_fenced() {
    for policies in [retain(20, WhenRetained::Block), discard(), replay(20)] {
        let mut bench = Bench::new(RecordLayout::Lengths, policies, 30, 64);
        let mut old = bench.bind(3).unwrap();
        for index in 0..10 {
            bench.write(&record(index, 3000));
        }
        assert_eq!(bench.read(&mut old), Got::Record(record(0, 3000)));
        assert_eq!(bench.read(&mut old), Got::Record(record(1, 3000)));
        let mut new = bench.bind(4).unwrap();
        assert_eq!(bench.bind(2).unwrap_err(), Refusal::Stale { presented: Attempt(2), current: Attempt(4) });
        assert_eq!(bench.bind_as(4, 99).unwrap_err(), Refusal::DuplicateAttempt { attempt: Attempt(4) });
        let rest = bench.drain(&mut old);
        assert!(records(&rest).len() <= 1, "what lay in the piece at hand, and no more: {rest:?}");
        assert_eq!(bench.read(&mut old), Got::Fenced);
        bench.write(&record(10, 3000));
        let got = bench.drain(&mut new);
        match policies.when_absent {
            WhenAbsent::Discard => assert_eq!(records(&got), [10]),
            // The old reader had taken the begin of record 2 with the end of record 1.
            WhenAbsent::Retain { .. } => assert_eq!(records(&got), (3..=10).collect::<Vec<_>>()),
            WhenAbsent::Replay { .. } => assert_eq!(records(&got), (1..=10).collect::<Vec<_>>()),
        }
        let account = bench.sub.account();
        assert!(account.is_balanced(), "{policies:?} {account:?}");
        drop((old, new));
        assert!(bench.sub.account().is_balanced());
        bench.assert_whole();
    }
}

#[test]
fn a_record_torn_by_a_takeover_is_never_seen() {
    for policies in [retain(20, WhenRetained::Block), discard()] {
        let mut bench = Bench::new(RecordLayout::Lengths, policies, 2, 64);
        let mut old = bench.bind(1).unwrap();
        // Two segments are the quota: the record blocks in the middle.
        let long = record(1, 20_000);
        let mut source = &long[..];
        let writer = bench.writer.as_mut().unwrap();
        let append = writer.append(&mut source, &mut bench.cache);
        assert_eq!(append, Append::Blocked(Blocked::Memory));
        assert_eq!(bench.read(&mut old), Got::Empty);
        let mut new = bench.bind(2).unwrap();
        loop {
            let writer = bench.writer.as_mut().unwrap();
            match writer.append(&mut source, &mut bench.cache) {
                Append::Blocked(_) => assert_eq!(bench.read(&mut new), Got::Empty),
                Append::Done => {
                    assert_ne!(policies.when_absent, WhenAbsent::Discard);
                    break;
                }
                Append::Dropped => {
                    assert_eq!(policies.when_absent, WhenAbsent::Discard);
                    break;
                }
                Append::Closed => panic!("closed"),
            }
        }
        assert_eq!(bench.write(&record(2, 100)), Append::Done);
        let got = bench.drain(&mut new);
        assert_eq!(records(&got), [2], "{got:?}");
        let account = bench.sub.account();
        assert!(account.is_balanced(), "{policies:?} {account:?}");
        assert_eq!(account.lost.total().records, 1);
        drop((old, new));
        bench.assert_whole();
    }
}

#[test]
fn drop_oldest_keeps_the_newest_and_its_quota() {
    let mut bench = Bench::new(RecordLayout::Lengths, retain(4, WhenRetained::DropOldest), 30, 64);
    let reader = bench.bind(1).unwrap();
    drop(reader);
    for index in 0..100 {
        assert_eq!(bench.write(&record(index, 1000)), Append::Done);
    }
    assert!(bench.sub.segments().0 <= 4);
    assert_eq!(bench.write(&record(100, 50_000)), Append::Dropped, "alone it fills the quota");
    for index in 101..110 {
        assert_eq!(bench.write(&record(index, 1000)), Append::Done);
    }
    let mut reader = bench.bind(2).unwrap();
    let got = bench.drain(&mut reader);
    let last = records(&got);
    assert_eq!(*last.last().unwrap(), 109);
    assert!(last.windows(2).all(|pair| pair[0] < pair[1]), "{last:?}");
    let account = bench.sub.account();
    assert!(account.is_balanced(), "{account:?}");
    assert_eq!(account.written.records, 110);
    drop(reader);
    bench.assert_whole();
}

#[test]
fn ends_outlive_an_outage_and_the_last_ack_is_news_once() {
    let mut bench = Bench::new(RecordLayout::Lengths, discard(), 30, 64);
    drop(bench.bind(1).unwrap());
    bench.write(&record(0, 10));
    bench.writer.as_mut().unwrap().append_end(EndKind::Finished);
    let mut reader = bench.bind(2).unwrap();
    // The record was reported by the bind itself.
    assert_eq!(bench.drain(&mut reader), [Got::EndOfData, Got::EndOfPartition]);
    assert_eq!(bench.sub.account().lost.discarded.records, 1);
    assert!(bench.sub.is_end_acknowledged());
    drop(reader);
    bench.assert_whole();
}
