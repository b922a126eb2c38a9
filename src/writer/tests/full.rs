//! `when_full: Discard`, in virtual time.

use super::*;

const AFTER: Duration = Duration::from_millis(10);
const ALMOST: Duration = Duration::from_micros(9_999);
const REST: Duration = Duration::from_micros(1);

fn discard(after: Duration) -> Policies {
    Policies { when_full: WhenFull::Discard { after }, ..policies() }
}

/// A writer whose quota of two segments is full, and its reader.
fn full(bench: &Bench, after: Duration) -> (RecordWriter, Reader) {
    let mut writer = bench.writer(config(1, 2).policies(discard(after)));
    let reader = bench.reader(&writer, 0, 1);
    assert_eq!(writer.try_write(0, &record(0, 2 * SEGMENT - 4)), Ok(Written::Queued));
    (writer, reader)
}

fn poll(writer: &mut RecordWriter, woken: &Arc<Woken>, record: &[u8]) -> Poll<Result<Written, WriteError>> {
    let waker = Waker::from(woken.clone());
    writer.poll_write(&mut Context::from_waker(&waker), 0, &mut &record[..])
}

const QUEUED: Poll<Result<Written, WriteError>> = Poll::Ready(Ok(Written::Queued));
const DROPPED: Poll<Result<Written, WriteError>> = Poll::Ready(Ok(Written::Dropped));

#[test]
fn a_write_waits_so_long_and_those_behind_it_do_not() {
    let bench = Bench::new();
    let (mut writer, mut reader) = full(&bench, AFTER);
    let woken = Arc::new(Woken::default());
    let short = record(1, 50);
    assert!(poll(&mut writer, &woken, &short).is_pending());
    bench.clock.advance(ALMOST);
    assert_eq!(woken.times(), 0);
    assert!(poll(&mut writer, &woken, &short).is_pending());
    assert_eq!(bench.clock.alarms(), 1, "one alarm, however often it is polled");
    bench.clock.advance(REST);
    assert_eq!(woken.times(), 1, "the alarm, and nothing else");
    assert_eq!(poll(&mut writer, &woken, &short), DROPPED);
    assert_eq!(writer.idle(), Ok(()));
    for number in 2..5 {
        assert_eq!(poll(&mut writer, &woken, &record(number, 50)), DROPPED);
    }
    assert_eq!(account(&writer, 0).lost.overflowed, Amount { records: 4, bytes: 4 * 54 });
    assert_eq!(writer.why_blocked(0), WriterBlocked::Quota { used: 2, max: 2 });
    // There is room again: the next one goes, and the one that meets a full queue waits anew.
    assert_eq!(reader.numbers(), [0]);
    assert_eq!(poll(&mut writer, &woken, &record(5, 50)), QUEUED);
    assert_eq!(writer.why_blocked(0), WriterBlocked::NotBlocked);
    assert_eq!(writer.try_write(0, &record(6, SEGMENT)), Ok(Written::Queued));
    let last = record(7, 4090);
    let mut source = &last[..];
    assert!(writer.poll_write(&mut idle_cx(), 0, &mut source).is_pending());
    bench.clock.advance(ALMOST);
    let got = reader.drain();
    assert_eq!(got[0], Got::Loss(Amount { records: 4, bytes: 4 * 54 }));
    assert_eq!(numbers(&got), [5, 6]);
    assert_eq!(writer.poll_write(&mut idle_cx(), 0, &mut source), QUEUED);
    assert_eq!(reader.numbers(), [7]);
    assert_eq!(account(&writer, 0).lost.total().records, 4);
    drop((writer, reader));
    bench.assert_whole();
}

#[test]
fn without_patience_it_drops_at_once() {
    let bench = Bench::new();
    let (mut writer, mut reader) = full(&bench, Duration::ZERO);
    for number in 1..4 {
        assert_eq!(writer.write_blocking(0, &record(number, 50)), Ok(Written::Dropped));
    }
    assert_eq!(bench.clock.alarms(), 0);
    assert_eq!(reader.numbers(), [0]);
    assert_eq!(writer.write_blocking(0, &record(4, 50)), Ok(Written::Queued));
    assert_eq!(reader.numbers(), [4]);
    assert_eq!(account(&writer, 0).lost.overflowed.records, 3);
    drop((writer, reader));
    bench.assert_whole();
}

#[test]
fn a_record_that_is_half_out_is_broken_off() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(1, 2).policies(discard(AFTER)));
    let mut reader = bench.reader(&writer, 0, 1);
    let long = record(0, 9 * SEGMENT);
    let mut source = &long[..];
    let cx = &mut idle_cx();
    assert!(writer.poll_write(cx, 0, &mut source).is_pending());
    bench.clock.advance(ALMOST);
    // It gets on: the time begins anew.
    assert_eq!(reader.drain(), []);
    let before = source.len();
    assert!(writer.poll_write(cx, 0, &mut source).is_pending());
    assert!(source.len() < before);
    bench.clock.advance(ALMOST);
    assert!(writer.poll_write(cx, 0, &mut source).is_pending());
    bench.clock.advance(REST);
    assert_eq!(writer.poll_write(cx, 0, &mut source), DROPPED);
    assert!(source.is_empty());
    assert_eq!(reader.drain(), []);
    assert_eq!(writer.write_blocking(0, &record(1, 50)), Ok(Written::Queued));
    assert_eq!(reader.numbers(), [1]);
    assert_eq!(account(&writer, 0).lost.overflowed.records, 1);
    drop((writer, reader));
    bench.assert_whole();
}

#[test]
fn nobody_is_timed_before_the_first_bind() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(1, 2).policies(discard(Duration::ZERO)));
    assert_eq!(writer.try_write(0, &record(0, 2 * SEGMENT - 4)), Ok(Written::Queued));
    let woken = Arc::new(Woken::default());
    assert!(poll(&mut writer, &woken, &record(1, 50)).is_pending());
    bench.clock.advance(PATIENCE);
    assert!(poll(&mut writer, &woken, &record(1, 50)).is_pending());
    assert_eq!(writer.why_blocked(0), WriterBlocked::NotBoundYet { used: 2, max: 2 });
    // A bind alone changes what rules: now it may drop.
    let mut reader = bench.reader(&writer, 0, 1);
    assert_eq!(woken.times(), 1);
    assert_eq!(poll(&mut writer, &woken, &record(1, 50)), DROPPED);
    assert_eq!(reader.numbers(), [0]);
    drop((writer, reader));
    bench.assert_whole();
}

#[test]
fn a_reader_that_goes_away_leaves_it_to_the_other_policy() {
    let bench = Bench::new();
    let (mut writer, reader) = full(&bench, AFTER);
    let woken = Arc::new(Woken::default());
    assert!(poll(&mut writer, &woken, &record(1, 50)).is_pending());
    drop(reader);
    assert!(woken.times() > 0, "the outage wakes the writer");
    assert_eq!(poll(&mut writer, &woken, &record(1, 50)), DROPPED);
    let account = account(&writer, 0);
    assert_eq!((account.lost.discarded.records, account.lost.overflowed.records), (1, 0));
    drop(writer);
    bench.assert_whole();
}

#[test]
fn the_thread_that_blocks_is_woken_by_the_alarm() {
    let bench = Bench::new();
    let (mut writer, reader) = full(&bench, AFTER);
    let clock = bench.clock.clone();
    in_time(move || {
        let blocked = std::thread::spawn(move || (writer.write_blocking(0, &record(1, 50)), writer));
        while clock.alarms() == 0 {
            std::thread::yield_now();
        }
        clock.advance(AFTER);
        let (written, writer) = blocked.join().unwrap();
        assert_eq!(written, Ok(Written::Dropped));
        assert_eq!(account(&writer, 0).lost.overflowed.records, 1);
    });
    drop(reader);
    bench.assert_whole();
}
