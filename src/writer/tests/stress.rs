//! A producer's thread against a consumer's that reads, goes away and comes back, under every policy.

use super::*;
use std::pin::Pin;

const RECORDS: u32 = 4000;

fn write_all(mut writer: RecordWriter) -> RecordWriter {
    let mut random = Random(7);
    for number in 0..RECORDS {
        let size = match random.below(10) {
            0 => 4 + random.below(6000),
            1..4 => 4 + random.below(1500),
            _ => 4 + random.below(200),
        };
        let bytes = record(number, size as usize);
        match random.below(4) {
            0 => {
                let reach = writer.broadcast_blocking(&bytes).unwrap();
                assert_eq!(reach.queued + reach.dropped, 2);
            }
            1 => {
                let _ = now_or_parked(&mut writer, &bytes);
            }
            _ => {
                writer.write_blocking(0, &bytes).map(drop).unwrap();
            }
        }
        if random.below(50) == 0 {
            writer.flush();
            writer.event_blocking(Target::All, &Event::Barrier(u64::from(number))).map(drop).unwrap();
        }
    }
    writer
}

/// The async form, polled once; if it has to wait, it is dropped, and the record with it, or waited for.
fn now_or_parked(writer: &mut RecordWriter, bytes: &[u8]) -> Written {
    let mut write = writer.write(0, bytes);
    if let Poll::Ready(written) = Pin::new(&mut write).poll(&mut idle_cx()) {
        return written.unwrap();
    }
    drop(write);
    Written::Dropped
}

/// What came to subpartition 0, attempt by attempt.
fn read_all(bench: &Bench, descriptor: &ChannelDescriptor, changes: u32) -> Vec<Vec<u32>> {
    let mut random = Random(11);
    let mut all = Vec::new();
    let mut attempt = 1;
    let mut reader = bench.reader_at(descriptor, attempt);
    let mut got = Vec::new();
    loop {
        match reader.wait_next() {
            Got::Record(bytes) => got.push(number(&bytes)),
            Got::EndOfPartition => break,
            Got::Event(_) | Got::Loss(_) | Got::EndOfData => {}
            other => panic!("{other:?}"),
        }
        if attempt <= changes && random.below(300) == 0 {
            attempt += 1;
            // In order, or taken over while the old one still holds what it had.
            let old = (random.below(2) == 0).then_some(reader);
            reader = bench.reader_at(descriptor, attempt);
            drop(old);
            all.push(std::mem::take(&mut got));
        }
    }
    all.push(got);
    all
}

fn run(policies: Policies, changes: u32) -> (Vec<Vec<u32>>, Account) {
    let bench = Bench::new();
    let writer = bench.writer(config(2, 3).broadcast_segments(2).policies(policies));
    let descriptors = writer.descriptors();
    let (bench, all, account) = in_time(move || {
        let partition = writer.partition.clone();
        let producer = std::thread::spawn(move || {
            let mut writer = write_all(writer);
            writer.finish_blocking().map(|()| writer)
        });
        let sibling = std::thread::spawn({
            let mut reader = bench.reader_at(&descriptors[1], 1);
            move || while reader.wait_next() != Got::EndOfPartition {}
        });
        let all = read_all(&bench, &descriptors[0], changes);
        sibling.join().unwrap();
        drop(producer.join().unwrap().unwrap());
        let account = partition.snapshot().subpartitions[0].account;
        (bench, all, account)
    });
    assert!(account.is_balanced(), "{policies:?} {account:?}");
    assert_eq!(account.written.records, RECORDS as u64, "{account:?}");
    bench.assert_whole();
    (all, account)
}

fn assert_rising(all: &[u32]) {
    assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "out of order");
}

#[test]
fn one_consumer_gets_everything_that_is_not_given_up() {
    let (all, account) = run(policies(), 0);
    assert_rising(&all[0]);
    assert_eq!(account.delivered.records, all[0].len() as u64);
    assert_eq!(account.delivered.records + account.lost.aborted.records, u64::from(RECORDS));
}

#[test]
fn discard_loses_in_whole_records_and_says_so() {
    let (all, account) = run(Policies { flush: Flush::EveryRecord, ..policies() }, 6);
    let got = all.concat();
    assert_rising(&got);
    assert!(account.delivered.records <= got.len() as u64);
    assert!(account.delivered.records + account.in_doubt.records >= got.len() as u64);
}

#[test]
fn retained_records_come_once() {
    let retain = WhenAbsent::Retain { quota: 3, then: WhenRetained::Block };
    let (all, account) = run(Policies { when_absent: retain, ..policies() }, 6);
    assert_rising(&all.concat());
    assert_eq!(account.lost.discarded.records + account.lost.drained.records, 0);
}

#[test]
fn the_oldest_retained_records_go_first() {
    let retain = WhenAbsent::Retain { quota: 3, then: WhenRetained::DropOldest };
    let (all, _) = run(Policies { when_absent: retain, ..policies() }, 6);
    assert_rising(&all.concat());
}

#[test]
fn replayed_records_come_at_least_once() {
    let policies = Policies { when_absent: WhenAbsent::Replay { quota: 4 }, ..policies() };
    let (all, account) = run(policies, 6);
    all.iter().for_each(|got| assert_rising(got));
    let mut once = all.concat();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len() as u64 + account.lost.aborted.records, u64::from(RECORDS), "{account:?}");
}

#[test]
fn a_producer_that_drops_at_once_never_waits() {
    let when_full = WhenFull::Discard { after: Duration::ZERO };
    let (all, account) = run(Policies { when_full, ..policies() }, 3);
    assert_rising(&all.concat());
    assert!(account.lost.overflowed.records > 0, "the quota is small enough to be full: {account:?}");
}

#[test]
fn intervals_ring_for_who_is_quiet() {
    let flush = Flush::Interval(Duration::from_millis(1));
    let (all, _) = run(Policies { flush, ..policies() }, 3);
    assert_rising(&all.concat());
}
