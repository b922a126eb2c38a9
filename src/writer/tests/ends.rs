//! How partitions end.

use super::*;
use crate::error::Cause;

fn poll_finish(writer: &mut RecordWriter, woken: &Arc<Woken>) -> Poll<Result<(), WriteError>> {
    let waker = Waker::from(woken.clone());
    writer.poll_finish(&mut Context::from_waker(&waker))
}

#[test]
fn finish_resolves_when_every_end_is_acknowledged() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(2, 4));
    let mut readers = bench.readers(&writer);
    assert_eq!(writer.write_blocking(0, &record(0, 10)), Ok(Written::Queued));
    let woken = Arc::new(Woken::default());
    assert!(poll_finish(&mut writer, &woken).is_pending());
    assert_eq!(writer.write_blocking(0, b"x"), Err(WriteError::Finished));
    assert_eq!(writer.try_write(0, b"x"), Err(TryWriteError::Write(WriteError::Finished)));
    assert_eq!(writer.broadcast_blocking(b"x"), Err(WriteError::Finished));
    assert_eq!(writer.event_blocking(Target::All, &Event::Barrier(0)), Err(WriteError::Finished));
    let event = PriorityEvent::new(b"p").unwrap();
    assert_eq!(writer.priority_event_blocking(Target::All, event), Err(WriteError::Finished));
    let timed_out = WaitError::TimedOut { waited: Duration::ZERO };
    assert_eq!(writer.finish_blocking_timeout(Duration::ZERO), Err(timed_out));
    assert!(poll_finish(&mut writer, &woken).is_pending());
    let ends = [Got::EndOfData, Got::EndOfPartition];
    assert_eq!(readers[0].drain(), [&[Got::Record(record(0, 10))][..], &ends[..]].concat());
    assert!(poll_finish(&mut writer, &woken).is_pending(), "one of two");
    let before = woken.times();
    assert_eq!(readers[1].drain(), ends, "the ends stand there once, however often it is called");
    assert!(woken.times() > before);
    for _ in 0..2 {
        assert_eq!(poll_finish(&mut writer, &woken), Poll::Ready(Ok(())));
        assert_eq!(writer.finish_blocking(), Ok(()));
        assert_eq!(now(writer.finish()), Ok(()));
    }
    assert!(bench.manager.is_empty());
    drop((writer, readers));
    bench.assert_whole();
}

#[test]
fn finish_ends_with_the_partition() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(2, 4));
    let mut readers = bench.readers(&writer);
    let woken = Arc::new(Woken::default());
    assert!(poll_finish(&mut writer, &woken).is_pending());
    readers[0].drain();
    bench.manager.release(PartitionId::default(), Attempt(1), Cause::Released);
    assert!(woken.times() > 0);
    let closed = Err(WriteError::Closed { cause: Cause::Released });
    assert_eq!(poll_finish(&mut writer, &woken), Poll::Ready(closed.clone()));
    assert_eq!(writer.finish_blocking(), closed);
    drop((writer, readers));
    bench.assert_whole();
}

#[test]
fn a_writer_dropped_while_its_ends_are_read_loses_nothing() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(1, 4));
    assert_eq!(writer.write_blocking(0, &record(0, 10)), Ok(Written::Queued));
    let descriptor = writer.descriptor(0);
    assert!(writer.poll_finish(&mut idle_cx()).is_pending());
    drop(writer);
    let mut reader = bench.reader_at(&descriptor, 1);
    assert_eq!(reader.drain(), [Got::Record(record(0, 10)), Got::EndOfData, Got::EndOfPartition]);
    assert!(bench.manager.is_empty());
    drop(reader);
    bench.assert_whole();
}

/// What a consumer finds when the writer has gone as `leave` says: the records that were whole, and why.
fn left_behind(leave: impl FnOnce(RecordWriter)) -> Option<Cause> {
    let bench = Bench::new();
    let mut writer = bench.writer(config(2, 2));
    let mut early = bench.reader(&writer, 0, 1);
    let descriptor = writer.descriptor(1);
    assert_eq!(writer.broadcast_blocking(&record(0, 10)), Ok(Reach { queued: 2, dropped: 0 }));
    let long = record(1, 9000);
    assert!(writer.poll_write(&mut idle_cx(), 1, &mut &long[..]).is_pending());
    let partition = writer.partition.clone();
    leave(writer);
    let cause = partition.failure();
    assert_eq!(early.drain(), [Got::Record(record(0, 10)), Got::Failed]);
    let mut late = bench.reader_at(&descriptor, 1);
    let got = late.drain();
    assert_eq!(got.len(), 3, "one comes later and finds the same: {got:?}");
    assert_eq!((&got[0], &got[2]), (&Got::Record(record(0, 10)), &Got::Failed));
    assert!(matches!(got[1], Got::Loss(Amount { records: 1, .. })), "the half record: {got:?}");
    let snapshot = partition.snapshot();
    let account = snapshot.subpartitions[1].account;
    assert!(account.is_balanced(), "{account:?}");
    assert_eq!(account.lost.aborted.records, 1, "the half record");
    assert!(!bench.manager.is_empty(), "it stays until it is released");
    assert!(bench.manager.release(PartitionId::default(), Attempt(1), Cause::Released));
    drop((early, late, partition));
    bench.assert_whole();
    cause
}

#[test]
fn consumers_learn_why_the_producer_is_gone() {
    assert_eq!(left_behind(|writer| writer.fail("disk")), Some(Cause::Failed("disk".into())));
    assert_eq!(left_behind(drop), Some(Cause::Dropped));
    let panicked = left_behind(|writer| {
        let task = std::thread::spawn(move || {
            let _writer = writer;
            std::panic::resume_unwind(Box::new("a panic of the task"));
        });
        assert!(task.join().is_err());
    });
    assert_eq!(panicked, Some(Cause::Panicked));
}

#[test]
fn abandoned_is_gone_at_once() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(1, 4));
    let mut reader = bench.reader(&writer, 0, 1);
    assert_eq!(writer.write_blocking(0, &record(0, 10)), Ok(Written::Queued));
    let partition = writer.partition.clone();
    writer.abandon();
    assert_eq!((partition.closed(), partition.failure()), (Some(Cause::Released), None));
    assert_eq!(reader.drain(), []);
    assert_eq!(reader.next(), Got::Fenced);
    assert!(bench.manager.is_empty());
    drop((reader, partition));
    bench.assert_whole();
}

#[test]
fn a_thread_that_waits_for_the_end_is_woken() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(2, 4));
    let descriptors = writer.descriptors();
    let bench = in_time(move || {
        let producer = std::thread::spawn(move || writer.finish_blocking());
        let consumers: Vec<_> = descriptors.iter().map(|descriptor| bench.reader_at(descriptor, 1)).collect();
        for mut consumer in consumers {
            while consumer.wait_next() != Got::EndOfPartition {}
        }
        assert_eq!(producer.join().unwrap(), Ok(()));
        bench
    });
    bench.assert_whole();
}
