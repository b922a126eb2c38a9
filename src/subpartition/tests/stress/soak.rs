//! Two threads, records of all sizes, all ways of flushing: everything arrives, in order, and nobody sleeps
//! over something to do.

use super::*;
use crate::test_size;

#[test]
fn a_flush_after_each_record_wakes_the_reader() {
    soak(Flush::EveryRecord);
}

#[test]
fn a_quiet_reader_is_woken_by_the_first_record() {
    soak(Flush::Interval(Duration::from_millis(1)));
}

#[test]
fn full_segments_and_flushes_wake_the_reader() {
    soak(Flush::WhenFull);
}

fn soak(flush: Flush) {
    let policies = Policies { flush, ..Policies::default() };
    let mut bench = Bench::new(RecordLayout::Lengths, policies, 12, 64);
    let (half, cache) = (bench.writer.take().unwrap(), SegmentCache::new(&bench.pool, bench.budget()));
    let records = test_size::pick(30_000, 3_000_000);
    let reader = bench.bind(1).unwrap();
    let (written, read) = thread::scope(|scope| {
        let writer = scope.spawn(move || write(Writer::new(half, cache), records, flush));
        let read = read(reader, &bench.bell, flush);
        (writer.join().unwrap(), read)
    });
    assert_eq!((written.0, written.1), read, "records and the sum of their bytes");
    let account = bench.sub.account();
    assert_eq!(account.delivered, account.written);
    assert_eq!(account.delivered.records, records);
    assert!(account.is_balanced(), "{account:?}");
    bench.assert_whole();
}

fn write(mut writer: Writer, records: u64, flush: Flush) -> (u64, u64) {
    let mut dice = Dice::new(11);
    let mut sum = 0_u64;
    for seq in 0..records {
        let bytes = match dice.below(400) {
            0 => 8 + dice.below(20_000),
            1..10 => 8 + dice.below(3000),
            _ => 8 + dice.below(120),
        };
        let record = numbered(seq, bytes as usize);
        sum = record.iter().fold(sum, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
        assert_eq!(writer.write(&record), Append::Done);
        match dice.below(1000) {
            0..5 if flush == Flush::WhenFull => writer.half.ring(),
            // Long enough for the reader to fall asleep.
            5 => thread::park_timeout(Duration::from_micros(300)),
            6..20 => thread::yield_now(),
            _ => {}
        }
    }
    writer.half.append_end(EndKind::Finished);
    (records, sum)
}

/// As the thread of a task does: clear what is listed, read all, fall quiet, look once more, sleep.
fn read(mut reader: LocalReader, bell: &Doorbell, flush: Flush) -> (u64, u64) {
    let mut admission = Admission::new(1 << 20);
    let (mut records, mut sum) = (0, 0_u64);
    let bed = Bed::new();
    let node = reader.view().node().clone();
    let mut quiet = false;
    loop {
        match reader.next(&mut admission) {
            Next::Record => {
                let payload = reader.current();
                assert_eq!(number_of(payload.bytes()), records, "in order");
                let bytes = payload.bytes().iter();
                sum = bytes.fold(sum, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
                records += 1;
                if std::mem::take(&mut quiet) {
                    node.stir();
                }
            }
            Next::EndOfData => {}
            Next::EndOfPartition { .. } => return (records, sum),
            Next::Empty if matches!(flush, Flush::Interval(_)) && !quiet => {
                node.fall_quiet();
                quiet = true;
            }
            Next::Empty => {
                if bell.may_sleep(&bed.waker()) {
                    bed.sleep("reader");
                }
                bell.take_all(|node| node.clear());
            }
            other => panic!("{other:?}"),
        }
    }
}
