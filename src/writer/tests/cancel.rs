//! What is given up in the middle: no torn record, an exact account, a writer that goes on.

use super::*;

/// A writer that blocked in the middle of a long record.
fn blocked(bench: &Bench, quota: u32) -> (RecordWriter, Reader, Vec<u8>) {
    let mut writer = bench.writer(config(2, quota));
    let reader = bench.reader(&writer, 0, 1);
    assert_eq!(writer.write_blocking(0, &record(0, 100)), Ok(Written::Queued));
    (writer, reader, record(1, 10 * SEGMENT))
}

#[test]
fn a_future_dropped_in_the_middle_breaks_its_record_off() {
    let bench = Bench::new();
    let (mut writer, mut reader, long) = blocked(&bench, 4);
    {
        let mut write = pin!(writer.write(0, &long[..]));
        assert!(write.as_mut().poll(&mut idle_cx()).is_pending());
        assert_eq!(reader.numbers(), [0]);
        assert!(write.as_mut().poll(&mut idle_cx()).is_pending());
    }
    assert_eq!(reader.drain(), [], "two parts came, and the break");
    assert_eq!(writer.try_write(0, &record(2, 100)), Ok(Written::Queued));
    assert_eq!(reader.numbers(), [2]);
    let account = account(&writer, 0);
    assert_eq!(account.lost.aborted, Amount { records: 1, bytes: long.len() as u64 + 4 });
    assert_eq!(account.written.records, 3);
    assert_eq!(account.queued, Amount::ZERO);
    drop((writer, reader));
    bench.assert_whole();
}

#[test]
fn a_future_that_was_never_polled_did_nothing() {
    let bench = Bench::new();
    let (mut writer, reader, long) = blocked(&bench, 4);
    drop(writer.write(0, &long[..]));
    drop(writer.broadcast(&long[..]));
    drop(writer.event(Target::All, Event::Barrier(1)));
    assert_eq!(account(&writer, 0).written.records, 1);
    drop((writer, reader));
    bench.assert_whole();
}

#[test]
fn a_record_of_which_nothing_is_out_is_given_up_too() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(1, 1));
    let mut reader = bench.reader(&writer, 0, 1);
    assert_eq!(writer.try_write(0, &record(0, SEGMENT - 4)), Ok(Written::Queued));
    {
        let short = record(1, 100);
        let mut write = pin!(writer.write(0, &short[..]));
        assert!(write.as_mut().poll(&mut idle_cx()).is_pending());
    }
    assert_eq!(account(&writer, 0).lost.aborted, Amount { records: 1, bytes: 104 });
    assert_eq!(reader.numbers(), [0]);
    assert_eq!(writer.try_write(0, &record(2, 100)), Ok(Written::Queued));
    let got = reader.drain();
    assert_eq!(got[0], Got::Loss(Amount { records: 1, bytes: 104 }), "the loss is told before what follows");
    assert_eq!(numbers(&got), [2]);
    drop((writer, reader));
    bench.assert_whole();
}

#[test]
fn only_the_same_record_goes_on() {
    let bench = Bench::new();
    let (mut writer, mut reader, long) = blocked(&bench, 4);
    let mut source = &long[..];
    let cx = &mut idle_cx();
    assert!(writer.poll_write(cx, 0, &mut source).is_pending());
    let left = source.len();
    assert!(left < long.len(), "it takes what fits");
    let in_progress = WriteError::RecordInProgress { target: 0 };
    let refused = Poll::Ready(Err(in_progress.clone()));
    assert_eq!(writer.poll_write(cx, 1, &mut &long[long.len() - left..]), refused, "another target");
    assert_eq!(writer.poll_write(cx, 0, &mut &long[..]), refused, "the whole again");
    assert_eq!(writer.poll_write(cx, 0, &mut &source[1..]), refused, "less than is left");
    assert_eq!(writer.poll_write(cx, 1, &mut &b"short"[..]), refused);
    assert_eq!(writer.try_write(1, b"short"), Err(TryWriteError::Write(in_progress.clone())));
    assert_eq!(writer.write_blocking(0, source), Err(in_progress.clone()), "the same length, another call");
    assert_eq!(
        writer.write_blocking_timeout(0, source, PATIENCE),
        Err(WaitError::Write(in_progress.clone()))
    );
    assert_eq!(now(writer.write(0, source)), Err(in_progress.clone()));
    assert_eq!(writer.broadcast_blocking(b"x"), Err(in_progress.clone()));
    assert_eq!(writer.event_blocking(Target::One(1), &Event::Barrier(1)), Err(in_progress.clone()));
    assert_eq!(writer.event_blocking(Target::All, &Event::Barrier(1)), Err(in_progress.clone()));
    assert_eq!(writer.finish_blocking(), Err(in_progress));
    // Nothing of that did any harm.
    let mut got = Vec::new();
    while writer.poll_write(cx, 0, &mut source).is_pending() {
        got.extend(reader.drain());
    }
    got.extend(reader.drain());
    assert_eq!(numbers(&got), [0, 1]);
    assert_eq!(account(&writer, 0).lost.total(), Amount::ZERO);
    assert_eq!(account(&writer, 1).written, Amount::ZERO);
    drop((writer, reader));
    bench.assert_whole();
}

#[test]
fn abort_gives_up_what_is_under_way_and_nothing_else() {
    let bench = Bench::new();
    let (mut writer, mut reader, long) = blocked(&bench, 4);
    writer.abort_record();
    writer.abort_broadcast();
    let mut source = &long[..];
    assert!(writer.poll_write(&mut idle_cx(), 0, &mut source).is_pending());
    writer.abort_broadcast();
    assert_eq!(writer.idle(), Err(WriteError::RecordInProgress { target: 0 }));
    writer.abort_record();
    writer.abort_record();
    assert_eq!(writer.idle(), Ok(()));
    assert_eq!(reader.numbers(), [0]);
    assert_eq!(account(&writer, 0).lost.aborted.records, 1);
    drop((writer, reader));
    bench.assert_whole();
}

#[test]
fn a_time_out_takes_back_or_breaks_off() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(1, 2));
    let mut reader = bench.reader(&writer, 0, 1);
    let zero = Duration::ZERO;
    let timed_out = Err(WaitError::TimedOut { waited: zero });
    // A part of it is out: broken off.
    assert_eq!(writer.write_blocking_timeout(0, &record(0, 3 * SEGMENT), zero), timed_out);
    assert_eq!(account(&writer, 0).lost.aborted.records, 1);
    assert_eq!(reader.drain(), []);
    assert_eq!(writer.try_write(0, &record(1, 2 * SEGMENT - 4)), Ok(Written::Queued));
    // Nothing of it is out: as if it had never been.
    for _ in 0..3 {
        assert_eq!(writer.write_blocking_timeout(0, &record(2, 100), zero), timed_out);
    }
    assert_eq!(account(&writer, 0).written.records, 2);
    assert_eq!(reader.numbers(), [1]);
    assert_eq!(writer.write_blocking_timeout(0, &record(2, 100), zero), Ok(Written::Queued));
    assert_eq!(reader.numbers(), [2]);
    drop((writer, reader));
    bench.assert_whole();
}

#[test]
fn an_unpublished_begin_leaves_no_bytes_behind() {
    // A record begins in an entry, and the ring has no slot for the segment it would go on in: what it has
    // put there is taken back, and the next record is whole.
    let bench = Bench::new();
    let mut writer = bench.writer(config(1, 1));
    let mut reader = bench.reader(&writer, 0, 1);
    assert_eq!(writer.try_write(0, &record(0, 3000)), Ok(Written::Queued));
    // Fills the rest of the only segment, and is blocked with a part published.
    {
        let long = record(1, 3000);
        let mut write = pin!(writer.write(0, &long[..]));
        assert!(write.as_mut().poll(&mut idle_cx()).is_pending());
    }
    assert_eq!(reader.numbers(), [0]);
    assert_eq!(writer.try_write(0, &record(2, 10)), Ok(Written::Queued));
    assert_eq!(reader.numbers(), [2]);
    assert_eq!(account(&writer, 0).lost.aborted, Amount { records: 1, bytes: 3004 });
    drop((writer, reader));
    bench.assert_whole();
}

#[test]
fn a_record_whose_buffer_panics_is_given_up() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(1, 8));
    let mut reader = bench.reader(&writer, 0, 1);
    assert_eq!(writer.write_blocking(0, &record(0, 100)), Ok(Written::Queued));
    // Before anything is published of it, and after two parts were.
    for (number, (len, good)) in [(1000, 500), (3 * SEGMENT, 9000)].into_iter().enumerate() {
        let mut bad = Faulty { bytes: record(77, len), at: 0, good };
        let broken = catch_unwind(AssertUnwindSafe(|| writer.poll_write(&mut idle_cx(), 0, &mut bad)));
        assert!(broken.is_err());
        let next = record(number as u32 + 1, 200);
        assert_eq!(writer.write_blocking(0, &next), Ok(Written::Queued));
    }
    assert_eq!(reader.numbers(), [0, 1, 2]);
    let account = account(&writer, 0);
    assert_eq!((account.written.records, account.lost.aborted.records), (5, 2));
    drop((writer, reader));
    bench.assert_whole();
}
