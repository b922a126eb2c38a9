//! Back-pressure: who waits is woken, whoever makes the room.

use super::*;

/// A writer that waits to get `short` into subpartition 0, and who counts its wake-ups.
fn wait(writer: &mut RecordWriter, short: &[u8]) -> Arc<Woken> {
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let polled = writer.poll_write(&mut Context::from_waker(&waker), 0, &mut &short[..]);
    assert!(polled.is_pending(), "{polled:?}");
    assert_eq!(woken.times(), 0);
    woken
}

#[test]
fn a_reader_that_passes_a_segment_wakes_the_writer() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(1, 2));
    let mut reader = bench.reader(&writer, 0, 1);
    for number in 0..2 {
        assert_eq!(writer.try_write(0, &record(number, SEGMENT - 4)), Ok(Written::Queued));
    }
    let short = record(2, 10);
    let woken = wait(&mut writer, &short);
    assert_eq!(
        writer.why_blocked(0).to_string(),
        "waiting for the reader: no memory, 2 of 2 segments in use"
    );
    assert_eq!(number_of(reader.next()), 0);
    assert_eq!(number_of(reader.next()), 1);
    assert!(woken.times() > 0);
    assert_eq!(now(poll_of(&mut writer, &short)), Ok(Written::Queued));
    assert_eq!(reader.numbers(), [2]);
    drop((writer, reader));
    bench.assert_whole();
}

fn number_of(got: Got) -> u32 {
    match got {
        Got::Record(bytes) => number(&bytes),
        other => panic!("{other:?}"),
    }
}

fn poll_of<'a>(
    writer: &'a mut RecordWriter,
    short: &'a [u8],
) -> impl Future<Output = Result<Written, WriteError>> + 'a {
    std::future::poll_fn(move |cx| writer.poll_write(cx, 0, &mut &short[..]))
}

#[test]
fn a_sibling_that_gives_floating_memory_back_wakes_the_writer() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(2, 8).floating_segments(3));
    let mut readers = bench.readers(&writer);
    assert_eq!(writer.try_write(1, &record(0, 4 * SEGMENT - 4)), Ok(Written::Queued));
    assert_eq!(writer.try_write(0, &record(0, SEGMENT - 4)), Ok(Written::Queued));
    let short = record(1, 10);
    let woken = wait(&mut writer, &short);
    assert_eq!(writer.why_blocked(0), WriterBlocked::Floating { used: 1, max: 8 });
    assert_eq!(readers[1].numbers(), [0]);
    assert!(woken.times() > 0);
    assert_eq!(now(poll_of(&mut writer, &short)), Ok(Written::Queued));
    assert_eq!(readers[0].numbers(), [0, 1]);
    drop((writer, readers));
    bench.assert_whole();
}

#[test]
fn a_release_ends_a_wait() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(1, 1));
    assert_eq!(writer.try_write(0, &record(0, SEGMENT - 4)), Ok(Written::Queued));
    let short = record(1, 10);
    let woken = wait(&mut writer, &short);
    assert_eq!(bench.manager.release_job(PartitionId::default().job), 1);
    assert!(woken.times() > 0);
    let closed = WriteError::Closed { cause: crate::error::Cause::JobReleased };
    assert_eq!(now(poll_of(&mut writer, &short)), Err(closed.clone()));
    assert_eq!(writer.idle(), Ok(()), "nothing is under way any more");
    assert_eq!(writer.write_blocking(0, &short), Err(closed.clone()));
    assert_eq!(writer.try_write(0, &short), Err(TryWriteError::Write(closed.clone())));
    assert_eq!(writer.broadcast_blocking(&short), Err(closed.clone()));
    assert_eq!(writer.broadcast_blocking(&record(2, 1000)), Err(closed.clone()));
    assert_eq!(writer.event_blocking(Target::All, &Event::Barrier(1)), Err(closed.clone()));
    assert_eq!(writer.event_blocking(Target::One(0), &Event::Barrier(1)), Err(closed.clone()));
    let event = PriorityEvent::new(b"p").unwrap();
    assert_eq!(writer.priority_event_blocking(Target::All, event), Err(closed.clone()));
    assert_eq!(writer.priority_event_blocking(Target::One(0), event), Err(closed.clone()));
    assert_eq!(writer.finish_blocking(), Err(closed));
    drop(writer);
    bench.assert_whole();
}

#[test]
fn the_next_attempt_ends_a_wait_for_retained_memory() {
    let bench = Bench::new();
    let retain = WhenAbsent::Retain { quota: 2, then: WhenRetained::Block };
    let mut writer = bench.writer(config(1, 4).policies(Policies { when_absent: retain, ..policies() }));
    drop(bench.reader(&writer, 0, 1));
    assert_eq!(writer.try_write(0, &record(0, 2 * SEGMENT - 4)), Ok(Written::Queued));
    let short = record(1, 10);
    let woken = wait(&mut writer, &short);
    assert_eq!(writer.why_blocked(0), WriterBlocked::Retained { used: 2, max: 2 });
    let mut reader = bench.reader(&writer, 0, 2);
    assert!(woken.times() > 0, "a bound reader's quota is larger");
    assert_eq!(now(poll_of(&mut writer, &short)), Ok(Written::Queued));
    assert_eq!(reader.numbers(), [0, 1]);
    drop((writer, reader));
    bench.assert_whole();
}

#[test]
fn under_replay_it_waits_for_the_acknowledgement() {
    let bench = Bench::new();
    let replay = WhenAbsent::Replay { quota: 2 };
    let mut writer = bench.writer(config(1, 4).policies(Policies { when_absent: replay, ..policies() }));
    let mut reader = bench.reader(&writer, 0, 1);
    assert_eq!(
        writer.write_blocking(0, &record(0, 2 * SEGMENT)),
        Err(WriteError::TooLong { bytes: 2 * SEGMENT as u64, max: SEGMENT as u64 })
    );
    for number in 0..2 {
        assert_eq!(writer.try_write(0, &record(number, SEGMENT - 4)), Ok(Written::Queued));
    }
    let short = record(2, 10);
    let woken = wait(&mut writer, &short);
    assert_eq!(writer.why_blocked(0), WriterBlocked::Acknowledge { used: 2, max: 2 });
    assert!(writer.why_blocked(0).to_string().contains("waiting for acknowledge"));
    assert_eq!(number_of(reader.next()), 0);
    assert_eq!(woken.times(), 0, "taken, and not consumed");
    assert_eq!(number_of(reader.next()), 1);
    assert_eq!(reader.next(), Got::Empty);
    assert!(woken.times() > 0);
    assert_eq!(now(poll_of(&mut writer, &short)), Ok(Written::Queued));
    drop((writer, reader));
    bench.assert_whole();
}

#[test]
fn a_record_that_could_never_be_kept_for_a_replay_is_refused() {
    let bench = Bench::new();
    let replay = WhenAbsent::Replay { quota: 12 };
    // Of the quota there is no more than one segment and the floating share.
    let config = config(1, 4).floating_segments(2).policies(Policies { when_absent: replay, ..policies() });
    let mut writer = bench.writer(config);
    let mut reader = bench.reader(&writer, 0, 1);
    let max = 2 * SEGMENT;
    let long = record(0, 3 * SEGMENT);
    let mut source = &long[..];
    assert_eq!(
        writer.poll_write(&mut idle_cx(), 0, &mut source),
        Poll::Ready(Err(WriteError::TooLong { bytes: 3 * SEGMENT as u64, max: max as u64 }))
    );
    assert_eq!(writer.try_write(0, &record(0, 100)), Ok(Written::Queued));
    assert_eq!(writer.try_write(0, &record(1, max - 4)), Ok(Written::Queued), "the longest beside another");
    assert_eq!(reader.numbers(), [0, 1]);
    drop((writer, reader));
    bench.assert_whole();
}

#[test]
fn threads_that_park_are_woken() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(1, 2));
    let descriptor = writer.descriptor(0);
    let bench = in_time(move || {
        let producer = std::thread::spawn(move || {
            for number in 0..3000 {
                let bytes = record(number, 10 + (number as usize * 37) % 9000);
                assert_eq!(writer.write_blocking(0, &bytes), Ok(Written::Queued));
            }
            writer.finish_blocking().unwrap();
        });
        let mut reader = bench.reader_at(&descriptor, 1);
        let mut next = 0;
        loop {
            match reader.wait_next() {
                Got::Record(bytes) => {
                    assert_eq!(number(&bytes), next);
                    next += 1;
                }
                Got::EndOfData => {}
                Got::EndOfPartition => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(next, 3000);
        producer.join().unwrap();
        drop(reader);
        bench
    });
    bench.assert_whole();
}

/// A thread that waits for half of its quota takes what there is after a while: the rest may never come.
#[test]
fn a_writer_does_not_wait_for_half_of_its_quota_for_ever() {
    goes_on_with_less_than_half(config(1, 8));
}

/// The same for half of what its subpartitions share: other readers may hold it.
#[test]
fn a_writer_does_not_wait_for_half_of_the_floating_share_for_ever() {
    goes_on_with_less_than_half(config(1, 64).floating_segments(8));
}

fn goes_on_with_less_than_half(config: PartitionConfig) {
    in_time(move || {
        let bench = Bench::new();
        let mut writer = bench.writer(config);
        let mut reader = bench.reader(&writer, 0, 1);
        let mut written = 0;
        while writer.try_write(0, &record(written, 1000)) == Ok(Written::Queued) {
            written += 1;
        }
        let consumer = std::thread::spawn(move || {
            // The writer sleeps by now, or finds room at once: it has to go on in either case.
            std::thread::park_timeout(Duration::from_millis(20));
            // Two segments of eight or nine: a segment has four records.
            let came: Vec<_> = (0..9).map(|_| reader.next()).collect();
            (reader, came)
        });
        assert_eq!(writer.write_blocking(0, &record(written, 1000)), Ok(Written::Queued));
        let (reader, came) = consumer.join().unwrap();
        assert_eq!(numbers(&came), (0..9).collect::<Vec<_>>());
        drop((writer, reader));
        bench.assert_whole();
    });
}

/// Lets the readers read that were told of something.
fn read_if_told(readers: &mut [Reader], got: &mut [Vec<u32>]) {
    for (reader, got) in readers.iter_mut().zip(got) {
        let mut rang = false;
        reader.bell.take_all(|node| {
            node.clear();
            rang = true;
        });
        if rang {
            got.extend(reader.numbers());
        }
    }
}

/// The end of a long record for one reader is published, and nobody has told it; the writer waits for what that reader
/// keeps of the record until all of it is there.
#[test]
fn who_waits_has_told_everybody() {
    type Wait = fn(&mut RecordWriter, &mut &[u8]) -> bool;
    let waits: [Wait; 2] = [
        |writer, rest| writer.poll_write(&mut idle_cx(), 1, rest).is_ready(),
        |writer, _| writer.try_write(1, &record(1, 6000)) == Ok(Written::Queued),
    ];
    for is_done in waits {
        let bench = Bench::new();
        let replay = WhenAbsent::Replay { quota: 12 };
        let config =
            config(2, 8).floating_segments(2).policies(Policies { when_absent: replay, ..policies() });
        let mut writer = bench.writer(config);
        let mut readers = bench.readers(&writer);
        let mut got = [Vec::new(), Vec::new()];
        assert_eq!(writer.try_write(0, &record(0, 2000)), Ok(Written::Queued));
        assert_eq!(writer.try_write(1, &record(0, 6000)), Ok(Written::Queued));
        let long = record(1, 7744);
        let mut rest = &long[..];
        assert!(writer.poll_write(&mut idle_cx(), 0, &mut rest).is_pending());
        // One reader has a half record, the other one makes room.
        read_if_told(&mut readers, &mut got);
        assert_eq!(got, [vec![0], vec![0]]);
        assert_eq!(
            writer.poll_write(&mut idle_cx(), 0, &mut rest),
            Poll::Ready(Ok(Written::Queued)),
            "all of it is published"
        );
        let long = record(1, 6000);
        let mut rest = &long[..];
        let mut tries = 0;
        while !is_done(&mut writer, &mut rest) {
            read_if_told(&mut readers, &mut got);
            tries += 1;
            assert!(tries < 10, "everybody waits for ever: {got:?}");
        }
        writer.flush();
        read_if_told(&mut readers, &mut got);
        assert_eq!(got, [[0, 1], [0, 1]]);
        drop((writer, readers));
        bench.assert_whole();
    }
}
