//! Records that nobody is there to read: dropped the short way by every form, checked and counted like the first.

use super::*;
use crate::record::{RECORD_BYTES_LEAST, RecordLayout};
use std::num::NonZeroU32;

/// A writer whose reader has been there and is gone.
fn left(bench: &Bench, config: PartitionConfig) -> RecordWriter {
    let writer = bench.writer(config);
    drop(bench.reader(&writer, 0, 1));
    writer
}

#[test]
fn every_form_drops_and_counts_until_somebody_reads_again() {
    let bench = Bench::new();
    let mut writer = left(&bench, config(1, 4).record_bytes_max(RECORD_BYTES_LEAST));
    let mut lost = Amount::ZERO;
    for (round, bytes) in [50, 8, RECORD_BYTES_LEAST, 300].into_iter().enumerate() {
        let record = record(round as u32, bytes);
        assert_eq!(writer.try_write(0, &record), Ok(Written::Dropped));
        assert_eq!(writer.write_blocking(0, &record), Ok(Written::Dropped));
        assert_eq!(writer.write_blocking_timeout(0, &record, Duration::ZERO), Ok(Written::Dropped));
        let mut source = &record[..];
        let polled = writer.poll_write(&mut idle_cx(), 0, &mut source);
        assert_eq!((polled, source.len()), (Poll::Ready(Ok(Written::Dropped)), 0));
        let batch = writer.write_batch_blocking(0, [&record, &record]).unwrap();
        assert_eq!((batch.queued, batch.dropped), (0, 2));
        lost += Amount::new(6, 6 * (bytes as u64 + 4));
        let account = account(&writer, 0);
        assert!(account.is_balanced(), "{account:?}");
        assert_eq!((account.lost.discarded, account.lost.total()), (lost, lost));
    }
    let mut reader = bench.reader(&writer, 0, 2);
    assert_eq!(writer.try_write(0, &record(7, 50)), Ok(Written::Queued));
    let got = reader.drain();
    assert_eq!(numbers(&got), [7], "{got:?}");
    assert_eq!(account(&writer, 0).lost.total(), lost);
    // And again, from the first one on.
    drop(reader);
    assert_eq!(writer.try_write(0, &record(8, 50)), Ok(Written::Dropped));
    assert_eq!(writer.try_write(0, &record(9, 50)), Ok(Written::Dropped));
    assert_eq!(account(&writer, 0).lost.discarded, lost + Amount::new(2, 2 * 54));
    assert!(account(&writer, 0).is_balanced());
    drop(writer);
    bench.assert_whole();
}

/// Where a record isn't allowed, it is refused whoever is there.
#[test]
fn what_is_refused_is_refused_in_the_absence_of_readers_too() {
    let bench = Bench::new();
    let mut writer = left(&bench, config(1, 4).record_bytes_max(RECORD_BYTES_LEAST));
    let long = record(0, RECORD_BYTES_LEAST + 1);
    for _ in 0..2 {
        assert_eq!(writer.write_blocking(0, &record(0, 8)), Ok(Written::Dropped));
        let refused = writer.write_blocking(0, &long);
        assert!(matches!(refused, Err(WriteError::TooLong { .. })), "{refused:?}");
        let refused = writer.try_write(0, &long);
        assert!(refused.is_err(), "{refused:?}");
    }
    drop(writer);
    bench.assert_whole();

    let bench = Bench::new();
    let layout = RecordLayout::Fixed(NonZeroU32::new(16).unwrap());
    let mut writer = left(&bench, config(1, 4).layout(layout));
    for _ in 0..2 {
        assert_eq!(writer.write_blocking(0, &record(0, 16)), Ok(Written::Dropped));
        for bytes in [15, 17] {
            let refused = writer.write_blocking(0, &record(0, bytes));
            assert!(matches!(refused, Err(WriteError::Width { .. })), "{refused:?}");
        }
    }
    assert_eq!(account(&writer, 0).lost.discarded, Amount::new(2, 32));
    // An end is an end.
    let mut cx = idle_cx();
    assert!(matches!(writer.poll_finish(&mut cx), Poll::Ready(Ok(_)) | Poll::Pending));
    assert_eq!(writer.try_write(0, &record(0, 16)), Err(TryWriteError::Write(WriteError::Finished)));
    drop(writer);
    bench.assert_whole();
}
