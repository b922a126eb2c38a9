//! Records to all, whatever their length and whoever lags.

use super::*;

fn all(queued: u32) -> Result<Reach, WriteError> {
    Ok(Reach { queued, dropped: 0 })
}

#[test]
fn every_length_reaches_everyone_in_order_with_records_and_events_between() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(3, 16));
    let mut readers = bench.readers(&writer);
    let mut expected = vec![Vec::new(); 3];
    let mut next = 0;
    let mut one = |writer: &mut RecordWriter, target: usize, size: usize, expected: &mut Vec<Vec<Got>>| {
        let bytes = record(next, size);
        next += 1;
        assert_eq!(writer.write_blocking(target as u32, &bytes), Ok(Written::Queued));
        expected[target].push(Got::Record(bytes));
    };
    // Around the limit for copies, around a segment's end, over two and three segments.
    for (index, size) in
        [4, 508, 509, 600, 4000, 4092, 4093, 700, 5000, 9000, 12_000, 12_284, 550].into_iter().enumerate()
    {
        let bytes = record(1000 + index as u32, size);
        assert_eq!(writer.broadcast_blocking(&bytes), all(3), "{size}");
        for expected in &mut expected {
            expected.push(Got::Record(bytes.clone()));
        }
        if index % 3 == 0 {
            one(&mut writer, index % 2, 20 + index * 100, &mut expected);
        }
        if index % 4 == 1 {
            let event = Event::Watermark(index as i64);
            assert_eq!(writer.event_blocking(Target::All, &event), all(3));
            expected.iter_mut().for_each(|expected| expected.push(Got::Event(event.clone())));
        }
        if index % 2 == 1 {
            for (reader, expected) in readers.iter_mut().zip(&mut expected) {
                assert_eq!(reader.drain(), std::mem::take(expected), "up to {size}");
            }
        }
    }
    for (reader, expected) in readers.iter_mut().zip(expected) {
        assert_eq!(reader.drain(), expected);
    }
    for target in 0..3 {
        let account = account(&writer, target);
        assert_eq!(account.lost.total(), Amount::ZERO);
        assert!(account.written.records >= 13);
    }
    drop((writer, readers));
    bench.assert_whole();
}

#[test]
fn a_long_record_is_written_once() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(8, 4));
    let mut readers = bench.readers(&writer);
    let before = bench.pool.census().held();
    assert_eq!(writer.broadcast_blocking(&record(1, 2 * SEGMENT - 4)), all(8));
    assert_eq!(bench.pool.census().held(), before + 2);
    // Records behind each other in one segment are one entry: eight of them take eight publications.
    for number in 2..10 {
        assert_eq!(writer.broadcast_blocking(&record(number, 1000)), all(8));
    }
    for reader in &mut readers {
        assert_eq!(reader.numbers(), (1..10).collect::<Vec<_>>());
    }
    drop((writer, readers));
    bench.assert_whole();
}

#[test]
fn a_record_longer_than_the_broadcast_account_is_copied() {
    for segments in [0, 2] {
        let bench = Bench::new();
        let mut writer = bench.writer(config(2, 16).broadcast_segments(segments));
        let mut readers = bench.readers(&writer);
        for (number, size) in [3 * SEGMENT, 600, 5000, 10 * SEGMENT].into_iter().enumerate() {
            assert_eq!(now(writer.broadcast(&record(number as u32, size)[..])), all(2));
        }
        for reader in &mut readers {
            assert_eq!(reader.numbers(), [0, 1, 2, 3]);
        }
        drop((writer, readers));
        bench.assert_whole();
    }
}

#[test]
fn whoever_has_room_has_it_at_once() {
    for size in [100, 1000, 3 * SEGMENT, 7 * SEGMENT] {
        let bench = Bench::new();
        let mut writer = bench.writer(config(3, 4));
        let mut readers = bench.readers(&writer);
        // Subpartition 1 is full, in memory and in slots.
        assert_eq!(writer.try_write(1, &record(0, 4 * SEGMENT - 4)), Ok(Written::Queued));
        let cx = &mut idle_cx();
        while writer.poll_event(cx, Target::One(1), &Event::Barrier(0)).is_ready() {}
        let bytes = record(1, size);
        let mut source = &bytes[..];
        assert!(writer.poll_broadcast(cx, &mut source).is_pending());
        assert!(source.is_empty(), "the first call takes all of it");
        let under_way = Err(WriteError::BroadcastInProgress);
        assert_eq!(writer.poll_broadcast(cx, &mut &bytes[..]), Poll::Ready(under_way.clone()));
        assert_eq!(writer.poll_event(cx, Target::All, &Event::Barrier(1)), Poll::Ready(under_way.clone()));
        assert_eq!(
            writer.poll_write(cx, 0, &mut &b"x"[..]),
            Poll::Ready(Err(WriteError::BroadcastInProgress))
        );
        let mut got = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..100 {
            for target in [0, 2] {
                got[target].extend(readers[target].numbers());
            }
            if writer.poll_broadcast(cx, &mut source).is_ready() {
                panic!("subpartition 1 has no room");
            }
        }
        assert_eq!((&got[0][..], &got[2][..]), (&[1][..], &[1][..]), "{size}");
        let reach = loop {
            got[1].extend(readers[1].numbers());
            match writer.poll_broadcast(cx, &mut source) {
                Poll::Ready(reach) => break reach.unwrap(),
                Poll::Pending => {}
            }
        };
        assert_eq!(reach, Reach { queued: 3, dropped: 0 });
        got[1].extend(readers[1].numbers());
        assert_eq!(got[1], [0, 1], "{size}");
        drop((writer, readers));
        bench.assert_whole();
    }
}

#[test]
fn a_broadcast_given_up_stays_with_who_has_it() {
    for size in [100, 1000, 7 * SEGMENT] {
        let bench = Bench::new();
        let mut writer = bench.writer(config(2, 4));
        let mut readers = bench.readers(&writer);
        while writer.poll_event(&mut idle_cx(), Target::One(1), &Event::Barrier(0)).is_ready() {}
        let bytes = record(1, size);
        {
            let mut broadcast = pin!(writer.broadcast(&bytes[..]));
            while readers[0].numbers() != [1] {
                assert!(broadcast.as_mut().poll(&mut idle_cx()).is_pending());
            }
        }
        let lost = account(&writer, 1).lost;
        assert_eq!(lost.aborted, Amount { records: 1, bytes: size as u64 + 4 });
        assert_eq!(account(&writer, 0).lost.total(), Amount::ZERO);
        readers[1].drain();
        assert_eq!(writer.broadcast_blocking(&record(2, size.min(2000))), all(2));
        for reader in &mut readers {
            assert_eq!(reader.numbers(), [2], "{size}");
        }
        account(&writer, 0);
        account(&writer, 1);
        drop((writer, readers));
        bench.assert_whole();
    }
}

#[test]
fn who_is_absent_gets_nothing_and_holds_nobody_up() {
    for size in [100, 1000, 3 * SEGMENT] {
        let bench = Bench::new();
        let mut writer = bench.writer(config(3, 4));
        let mut readers = bench.readers(&writer);
        drop(readers.remove(1));
        for number in 0..20 {
            let reach = writer.broadcast_blocking(&record(number, size));
            assert_eq!(reach, Ok(Reach { queued: 2, dropped: 1 }));
            for reader in &mut readers {
                assert_eq!(reader.numbers(), [number]);
            }
        }
        let account = account(&writer, 1);
        assert_eq!(account.lost.discarded, Amount { records: 20, bytes: 20 * (size as u64 + 4) });
        let mut back = bench.reader(&writer, 1, 2);
        assert_eq!(writer.broadcast_blocking(&record(20, size)), all(3));
        // What the bind reported is told again with the record, as a total.
        assert_eq!(numbers(&back.drain()), [20]);
        drop((writer, readers, back));
        bench.assert_whole();
    }
}

#[test]
fn a_full_subpartition_that_may_drop_drops_alone() {
    let after = Duration::from_millis(5);
    let policies = Policies { when_full: WhenFull::Discard { after }, ..policies() };
    for size in [100, 1000] {
        let bench = Bench::new();
        let mut writer = bench.writer(config(2, 4).policies(policies));
        let mut readers = bench.readers(&writer);
        while writer.poll_event(&mut idle_cx(), Target::One(1), &Event::Barrier(0)).is_ready() {}
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let cx = &mut Context::from_waker(&waker);
        let bytes = record(0, size);
        let mut source = &bytes[..];
        assert!(writer.poll_broadcast(cx, &mut source).is_pending());
        bench.clock.advance(after);
        assert_eq!(woken.times(), 1);
        let reach = Reach { queued: 1, dropped: 1 };
        assert_eq!(writer.poll_broadcast(cx, &mut source), Poll::Ready(Ok(reach)));
        // From now on it waits for nobody.
        assert_eq!(writer.broadcast_blocking(&record(1, size)), Ok(reach));
        assert_eq!(readers[0].numbers(), [0, 1]);
        assert_eq!(account(&writer, 1).lost.overflowed.records, 2);
        readers[1].drain();
        assert_eq!(writer.broadcast_blocking(&record(2, size)), all(2));
        let got = readers[1].drain();
        assert_eq!(got[0], Got::Loss(Amount { records: 2, bytes: 2 * (size as u64 + 4) }));
        assert_eq!(numbers(&got), [2]);
        drop((writer, readers));
        bench.assert_whole();
    }
}
