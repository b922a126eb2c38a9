//! Writers and a gate on threads of their own, with the worker's real clock.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use pirn::{
    Attempt, BindSecret, Cause, DataSetId, Event, Flush, GateConfig, GateHandle, Incarnation, Item, JobId,
    MemoryConfig, PartitionConfig, PartitionId, Policies, RecordWriter, SegmentClass, Target, TryNext,
    WhenAbsent, Worker, Written,
};
use std::thread;
use std::time::Duration;

/// Longer than anything here takes: whoever waits that long is stuck.
const STUCK: Duration = Duration::from_secs(30);

fn id(index: u32) -> PartitionId {
    PartitionId { job: JobId(1), data_set: DataSetId(1), index }
}

fn worker() -> Worker {
    let memory = MemoryConfig::new().segments(SegmentClass::K32, 0).segments(SegmentClass::K4, 512);
    Worker::builder().memory(memory).start().unwrap()
}

fn config(flush: Flush, when_absent: WhenAbsent) -> PartitionConfig {
    let policies = Policies { flush, when_absent, ..Policies::default() };
    // One secret for all attempts: a descriptor of an older one is out of date, and not a stranger's.
    PartitionConfig::new(1)
        .segment_class(SegmentClass::K4)
        .quota_segments(8)
        .policies(policies)
        .secret(BindSecret::new(7))
}

fn write(writer: &mut RecordWriter, number: u64, bytes: usize) {
    let mut record = vec![number as u8; bytes.max(8)];
    record[..8].copy_from_slice(&number.to_le_bytes());
    let written = writer.write_blocking_timeout(0, &record, STUCK).unwrap();
    assert_eq!(written, Written::Queued);
}

fn number(record: &[u8]) -> u64 {
    u64::from_le_bytes(record[..8].try_into().unwrap())
}

/// Bursts and silences, so that all of ring, look by the clock and sleep are come by: every record arrives
/// without help by a flush, and no wake-up has to be looked for.
#[test]
fn every_record_arrives_by_itself_through_bursts_and_silences() {
    let worker = worker();
    let rounds = 60;
    let writers: Vec<_> = (0..3)
        .map(|index| {
            let flush = if index == 2 {
                Flush::EveryRecord
            } else {
                Flush::Interval(Duration::from_micros(300 * (u64::from(index) + 1)))
            };
            let writer = worker.create_partition(id(index), Attempt(1), config(flush, WhenAbsent::Discard));
            writer.unwrap()
        })
        .collect();
    let gate_config = GateConfig::new(Attempt(1), Incarnation::random().unwrap())
        .channels(writers.iter().map(|writer| writer.descriptor(0)));
    let mut gate = worker.input_gate(gate_config);
    let threads: Vec<_> = writers
        .into_iter()
        .zip(0_u64..)
        .map(|(mut writer, seed)| {
            thread::spawn(move || {
                let mut next = 0;
                for round in 0..rounds {
                    for _ in 0..(seed * 7 + round * 13) % 40 + 1 {
                        write(&mut writer, next, 8 + (next * 97 % 9000) as usize);
                        next += 1;
                    }
                    thread::park_timeout(Duration::from_micros((seed * 311 + round * 577) % 1500));
                }
                // The ends come when the reader has acknowledged: the last record arrived by itself.
                thread::park_timeout(Duration::from_millis(20));
                writer.finish_blocking_timeout(STUCK).unwrap();
                next
            })
        })
        .collect();
    let mut expected = [0; 3];
    loop {
        match gate.next_blocking_timeout(STUCK).unwrap() {
            TryNext::Item(Item::Record(record)) => {
                let channel = record.channel() as usize;
                assert_eq!(number(&record), expected[channel]);
                assert!(record[8..].iter().all(|byte| *byte == expected[channel] as u8));
                expected[channel] += 1;
            }
            TryNext::Item(_) => {}
            TryNext::Empty => panic!("stuck: {:?}", gate.snapshot()),
            TryNext::End => break,
        }
    }
    let written: Vec<u64> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(written, expected);
    drop(gate);
    let last = worker.shutdown(STUCK);
    assert_eq!(last.lost_wakeups, 0);
    assert!(last.census.is_whole());
    assert_eq!(last.census.held(), 0);
}

/// Writes attempts of one producer, each of which fails but the last, and updates the gate for each.
fn attempts(worker: &Worker, handle: &GateHandle, attempts: u32) {
    for attempt in 2..=attempts {
        let mut writer = worker
            .create_partition(
                id(0),
                Attempt(attempt),
                config(Flush::default(), WhenAbsent::Retain { quota: 8, then: Default::default() }),
            )
            .unwrap();
        handle.update_channel(0, writer.descriptor(0)).unwrap();
        for record in 0..200 {
            write(&mut writer, u64::from(attempt) << 32 | record, 100);
        }
        if attempt < attempts {
            writer.fail("next");
        } else {
            writer.finish_blocking_timeout(STUCK).unwrap();
        }
    }
}

/// The producer is replaced again and again while the gate reads: what comes of each attempt is a run from
/// its begin, every attempt that is seen is announced, and the other channel never stops.
#[test]
fn a_gate_survives_one_producer_after_the_other() {
    let worker = worker();
    let flush = Flush::default();
    let first = worker.create_partition(id(0), Attempt(1), config(flush, WhenAbsent::Discard)).unwrap();
    let mut steady = worker.create_partition(id(1), Attempt(1), config(flush, WhenAbsent::Discard)).unwrap();
    let gate_config = GateConfig::new(Attempt(1), Incarnation::random().unwrap())
        .channels([first.descriptor(0), steady.descriptor(0)]);
    let mut gate = worker.input_gate(gate_config);
    let handle = gate.handle();
    first.fail("first");
    loop {
        match gate.next_blocking_timeout(STUCK).unwrap() {
            TryNext::Item(Item::Unavailable { channel: 0, cause: Cause::Failed(_), .. }) => break,
            TryNext::Item(_) => {}
            TryNext::Empty | TryNext::End => panic!("the failure is not told: {:?}", gate.snapshot()),
        }
    }
    let other = thread::spawn(move || {
        for record in 0..3000 {
            write(&mut steady, record, 20);
        }
        let reach = steady.event_blocking(Target::One(0), &Event::Barrier(1)).unwrap();
        assert_eq!(reach.queued, 1);
        steady.finish_blocking_timeout(STUCK).unwrap();
    });
    let producers = {
        let worker = worker.clone();
        thread::spawn(move || attempts(&worker, &handle, 20))
    };
    let (mut attempt, mut next, mut steady_next, mut outages) = (0, 0, 0, 0);
    loop {
        match gate.next_blocking_timeout(STUCK).unwrap() {
            TryNext::Item(Item::Record(record)) if record.channel() == 1 => {
                assert_eq!(number(&record), steady_next);
                steady_next += 1;
            }
            TryNext::Item(Item::Record(record)) => {
                assert_eq!(number(&record), u64::from(attempt) << 32 | next);
                next += 1;
            }
            TryNext::Item(Item::Available { channel: 0, producer, .. }) => {
                assert!(producer.0 > attempt);
                (attempt, next) = (producer.0, 0);
            }
            TryNext::Item(Item::Unavailable { channel, cause, .. }) => {
                assert_eq!(channel, 0);
                assert!(matches!(cause, Cause::Failed(_) | Cause::Superseded { .. }), "{cause}");
                outages += 1;
            }
            TryNext::Item(Item::BindFailed { error, .. }) => panic!("{error}"),
            TryNext::Item(_) => {}
            TryNext::Empty => panic!("stuck: {:?}", gate.snapshot()),
            TryNext::End => break,
        }
    }
    producers.join().unwrap();
    other.join().unwrap();
    assert_eq!((attempt, next, steady_next), (20, 200, 3000));
    assert!(outages <= 18, "each attempt fails once at most");
    drop(gate);
    let last = worker.shutdown(STUCK);
    assert_eq!(last.lost_wakeups, 0);
    assert!(last.census.is_whole());
    assert_eq!(last.census.held(), 0);
}
