//! Ends at every moment: futures, writers, gates, partitions and workers that go away while others use them.

use crate::common::*;
use pirn::{
    Attempt, Cause, Event, Incarnation, InputGate, Item, JobId, Target, TryNext, WaitError, WhenAbsent,
    WhenRetained, WriteError, Written,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

const RETAIN: WhenAbsent = WhenAbsent::Retain { quota: 8, then: WhenRetained::DropOldest };

/// Futures are dropped unpolled, after one poll and after two: nothing of them is seen, what comes later is.
#[test]
fn dropped_futures_leave_nothing_behind() {
    let worker = worker(128);
    let mut cx = Context::from_waker(Waker::noop());
    for polls in 0..3 {
        for bytes in [100, 2000, 5 * SEGMENT, 20 * SEGMENT] {
            let full = config(1, WhenAbsent::Discard);
            let mut writer = worker.create_partition(id(bytes as u32), Attempt(1 + polls), full).unwrap();
            let mut gate = worker.input_gate(reads(1, &writer, 0));
            assert!(matches!(gate.try_next().unwrap(), TryNext::Item(Item::Available { .. })));
            let mut wrote = 0;
            while writer.try_write(0, &record(wrote, 1500)).is_ok() {
                wrote += 1;
            }
            let long = record(999, bytes);
            {
                let mut write = pin!(writer.write(0, &long[..]));
                for _ in 0..polls {
                    if write.as_mut().poll(&mut cx).is_ready() {
                        wrote += 1000;
                        break;
                    }
                }
            }
            if wrote < 1000 {
                let mut broadcast = pin!(writer.broadcast(&long[..]));
                for _ in 0..polls {
                    if broadcast.as_mut().poll(&mut cx).is_ready() {
                        wrote += 1000;
                        break;
                    }
                }
            }
            {
                let mut next = pin!(gate.next());
                if polls == 1 {
                    drop(next.as_mut().poll(&mut cx));
                }
            }
            writer.flush();
            let mut got = Vec::new();
            while let TryNext::Item(item) = gate.next_blocking_timeout(Duration::from_millis(20)).unwrap() {
                if let Item::Record(record) = item {
                    got.push(number(&record));
                }
            }
            // A record that a dropped `next` was ready with counts as yielded.
            assert!(got.iter().all(|number| *number < wrote || *number == 999), "{got:?}");
            assert!(got.is_sorted() && got.len() as u64 + 1 >= wrote % 1000, "{got:?} of {wrote}");
            assert_eq!(writer.write_blocking(0, &record(7777, 100)).unwrap(), Written::Queued);
            writer.flush();
            let account = writer.snapshot().subpartitions[0].account;
            assert!(account.is_balanced(), "{account:?}");
            writer.abandon();
        }
    }
    end(&worker);
}

#[test]
fn a_panicking_producer_says_so_and_leaves_what_was_whole() {
    let worker = worker(128);
    let mut writer = worker.create_partition(id(0), Attempt(1), config(1, RETAIN)).unwrap();
    let mut gate = worker.input_gate(reads(1, &writer, 0));
    assert!(matches!(gate.try_next().unwrap(), TryNext::Item(Item::Available { .. })));
    let caught = catch_unwind(AssertUnwindSafe(move || {
        writer.write_blocking(0, &record(1, 5000)).unwrap();
        let long = record(2, 40 * SEGMENT);
        let mut source = &long[..];
        assert!(writer.poll_write(&mut Context::from_waker(Waker::noop()), 0, &mut source).is_pending());
        assert!(source.is_empty(), "the producer panics in the middle of a record");
    }));
    assert!(caught.is_err());
    let mut got = Vec::new();
    loop {
        match gate.next_blocking_timeout(STUCK).unwrap() {
            TryNext::Item(Item::Record(record)) => got.push(number(&record)),
            TryNext::Item(Item::Unavailable { cause, .. }) => {
                assert_eq!(cause, Cause::Panicked);
                break;
            }
            TryNext::Item(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(got, [1]);
    drop(gate);
    end(&worker);
}

/// Reads until the end, whatever it is.
fn read(mut gate: InputGate) -> u64 {
    let mut next = 0;
    loop {
        match gate.next_blocking_timeout(STUCK).unwrap() {
            TryNext::Item(Item::Record(record)) => {
                assert_eq!(number(&record), next);
                next += 1;
            }
            TryNext::Item(Item::Unavailable { .. } | Item::BindFailed { .. }) | TryNext::End => return next,
            TryNext::Item(_) => {}
            TryNext::Empty => panic!("stuck: {:?}", gate.snapshot()),
        }
    }
}

/// A partition, a job and the worker end under load, again and again: both sides learn of it.
#[test]
fn ends_under_load_reach_both_sides() {
    for round in 0..pick(30, 1000_u64) {
        let worker = worker(128);
        let mut writer = worker.create_partition(id(0), Attempt(1), config(2, RETAIN)).unwrap();
        let readers: Vec<_> = (0..2)
            .map(|target| {
                let gate = worker.input_gate(reads(1, &writer, target));
                thread::spawn(move || read(gate))
            })
            .collect();
        let producer = thread::spawn(move || {
            for number in 0.. {
                let record = record(number, (number * 613 % 9000) as usize);
                for target in 0..2 {
                    match writer.write_blocking_timeout(target, &record, STUCK) {
                        Ok(_) => {}
                        Err(WaitError::Write(WriteError::Closed { cause })) => return cause,
                        Err(other) => panic!("{other:?}"),
                    }
                }
            }
            unreachable!()
        });
        thread::park_timeout(Duration::from_micros(round * 397 % 4000));
        let expected = match round % 4 {
            0 => {
                assert!(worker.release_partition(id(0), Attempt(1)));
                Cause::Released
            }
            1 => {
                assert_eq!(worker.release_job(JobId(1)), 1);
                Cause::JobReleased
            }
            2 => {
                worker.shutdown(Duration::from_micros(round));
                Cause::Shutdown
            }
            _ => {
                drop(worker.clone());
                drop(worker.create_partition(id(0), Attempt(2), config(2, RETAIN)).unwrap());
                Cause::Superseded { newer: Attempt(2) }
            }
        };
        assert_eq!(producer.join().unwrap(), expected);
        for reader in readers {
            reader.join().unwrap();
        }
        end(&worker);
    }
}

/// Each of a hundred consumers keeps a record for ever and goes: the next is served, and all come back.
#[test]
fn bytes_that_are_never_dropped_do_not_stop_the_next_attempts() {
    let worker = worker(128);
    let mut writer = worker.create_partition(id(0), Attempt(1), config(1, RETAIN)).unwrap();
    let mut kept = Vec::new();
    for attempt in 1..=100 {
        let mut gate = worker.input_gate(reads(attempt, &writer, 0));
        assert!(matches!(gate.next_blocking().unwrap(), Some(Item::Available { .. })));
        for part in 0..4 {
            let record = record(u64::from(attempt) * 10 + part, 3500);
            assert_eq!(writer.write_blocking_timeout(0, &record, STUCK).unwrap(), Written::Queued);
        }
        writer.flush();
        for part in 0..4 {
            let TryNext::Item(Item::Record(record)) = gate.next_blocking_timeout(STUCK).unwrap() else {
                panic!("attempt {attempt}, part {part}");
            };
            kept.push((u64::from(attempt) * 10 + part, record.into_bytes()));
        }
    }
    let sub = writer.snapshot().subpartitions[0].clone();
    assert!(sub.account.is_balanced(), "{sub:?}");
    drop(writer);
    assert!(kept.iter().all(|(expected, bytes)| number(bytes) == *expected));
    let census = worker.census();
    assert!(census.is_whole() && census.held() > 0, "{census:?}");
    let worker_gone = worker.clone();
    drop(worker);
    kept.truncate(100);
    assert!(kept.iter().all(|(expected, bytes)| number(bytes) == *expected));
    kept.clear();
    worker_gone.release_job(JobId(1));
    end(&worker_gone);
}

#[test]
fn ten_thousand_subpartitions_and_partitions_leave_nothing() {
    let worker = worker(20_000);
    let wide = config(10_000, WhenAbsent::Discard).quota_segments(1).floating_segments(16);
    let mut writer = worker.create_partition(id(0), Attempt(1), wide).unwrap();
    let gate_config = pirn::GateConfig::new(Attempt(1), Incarnation(1)).channels(writer.descriptors());
    let mut gate = worker.input_gate(gate_config);
    assert!(matches!(gate.try_next().unwrap(), TryNext::Item(Item::Available { .. })));
    for target in 0..10_000 {
        writer.write_blocking(target, &record(u64::from(target), 64)).unwrap();
    }
    let reach = writer.event_blocking(Target::All, &Event::Watermark(i64::MAX)).unwrap();
    assert_eq!(reach.queued + reach.dropped, 10_000);
    let (mut records, mut marks) = (0, 0);
    while records < 10_000 || marks < 10_000 {
        match gate.next_blocking_timeout(STUCK).unwrap() {
            TryNext::Item(Item::Record(record)) => {
                assert_eq!(number(&record), u64::from(record.channel()));
                records += 1;
            }
            TryNext::Item(Item::Event { .. }) => marks += 1,
            TryNext::Item(_) => {}
            other => panic!("{other:?} after {records} and {marks}"),
        }
    }
    assert_eq!(gate.watermark(), Some(i64::MAX));
    drop(gate);
    writer.abandon();
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = (worker.census(), threads());
    for attempt in 1..=10_000 {
        let mut writer = worker.create_partition(id(1), Attempt(attempt), config(2, RETAIN)).unwrap();
        writer.write_blocking(attempt % 2, &record(1, 100)).unwrap();
        match attempt % 4 {
            0 => writer.abandon(),
            1 => writer.fail("over"),
            2 => assert!(worker.release_partition(id(1), Attempt(attempt))),
            _ => drop(writer),
        }
    }
    worker.release_job(JobId(1));
    assert_eq!(worker.census(), before.0);
    // Other tests of this process come and go.
    assert!(threads() < before.1 + 32);
    end(&worker);
}

/// A future that is polled once too often writes nothing more.
#[test]
fn a_future_that_is_over_writes_nothing() {
    let worker = worker(128);
    let mut writer = worker.create_partition(id(0), Attempt(1), config(1, RETAIN)).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let mut write = Box::pin(writer.write(0, &[1_u8; 100][..]));
    assert!(write.as_mut().poll(&mut cx).is_ready());
    assert!(catch_unwind(AssertUnwindSafe(|| write.as_mut().poll(&mut cx).is_ready())).is_err());
    drop(write);
    let mut broadcast = Box::pin(writer.broadcast(&[1_u8; 100][..]));
    assert!(broadcast.as_mut().poll(&mut cx).is_ready());
    assert!(catch_unwind(AssertUnwindSafe(|| broadcast.as_mut().poll(&mut cx).is_ready())).is_err());
    drop(broadcast);
    assert_eq!(writer.snapshot().subpartitions[0].account.written.records, 2);
    writer.abandon();
    end(&worker);
}
