//! Shared segments: who holds them, who gets a copy, who inherits them.

use super::*;

fn all(queued: u32) -> Result<Reach, WriteError> {
    Ok(Reach { queued, dropped: 0 })
}

/// Segments charged to subpartition `target`.
fn segments(writer: &RecordWriter, target: usize) -> u32 {
    writer.snapshot().subpartitions[target].segments
}

#[test]
fn a_laggard_gets_private_copies_and_the_others_go_on_sharing() {
    let bench = Bench::new();
    // One in which the laggard stands, one being filled, one that the others haven't passed yet.
    let mut writer = bench.writer(config(4, 8).broadcast_segments(3));
    let mut readers = bench.readers(&writer);
    let mut laggard = readers.remove(3);
    // One record, so that the laggard stands in the middle of an entry.
    assert_eq!(writer.broadcast_blocking(&record(0, 700)), all(4));
    assert_eq!(laggard.next(), Got::Record(record(0, 700)));
    for number in 1..25 {
        assert_eq!(writer.broadcast_blocking(&record(number, 1000)), all(4));
        for reader in &mut readers {
            assert_eq!(reader.numbers(), if number == 1 { vec![0, 1] } else { vec![number] });
        }
    }
    assert!(segments(&writer, 3) >= 4, "what it didn't read is on its own account");
    assert!((0..3).all(|target| segments(&writer, target) == 0), "nobody was copied for who keeps up");
    assert_eq!(laggard.numbers(), (1..25).collect::<Vec<_>>());
    // The writer takes the copies back as soon as it needs something.
    assert!(writer.sweep_shared());
    assert_eq!(segments(&writer, 3), 0);
    for target in 0..4 {
        assert_eq!(account(&writer, target).lost.total(), Amount::ZERO);
    }
    drop((writer, readers, laggard));
    bench.assert_whole();
}

#[test]
fn a_copy_takes_over_records_that_end_or_begin_in_other_segments() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(4, 16).broadcast_segments(3));
    let mut readers = bench.readers(&writer);
    let mut laggard = readers.remove(0);
    let mut expected = Vec::new();
    for number in 0..12 {
        // 9000 bytes lie in three segments; events and records of its own stand between.
        let size = [9000, 600, 5000, 2500][number as usize % 4];
        expected.push(Got::Record(record(number, size)));
        assert_eq!(writer.broadcast_blocking(&record(number, size)), all(4));
        if number % 3 == 0 {
            assert_eq!(writer.write_blocking(0, &record(100 + number, 50)), Ok(Written::Queued));
            expected.push(Got::Record(record(100 + number, 50)));
            assert_eq!(writer.event_blocking(Target::One(0), &Event::Barrier(1)), all(1));
            expected.push(Got::Event(Event::Barrier(1)));
        }
        for reader in &mut readers {
            assert_eq!(reader.numbers(), [number]);
        }
    }
    assert_eq!(laggard.drain(), expected);
    drop((writer, readers, laggard));
    bench.assert_whole();
}

#[test]
fn a_laggard_without_quota_holds_up_itself_only_as_its_policy_says() {
    let after = Duration::from_millis(5);
    let policies = Policies { when_full: WhenFull::Discard { after }, ..policies() };
    let bench = Bench::new();
    let mut writer = bench.writer(config(3, 2).broadcast_segments(2).policies(policies));
    let mut readers = bench.readers(&writer);
    let mut laggard = readers.remove(1);
    let mut queued = Vec::new();
    for number in 0..40 {
        let bytes = record(number, 1500);
        let mut source = &bytes[..];
        let cx = &mut idle_cx();
        let mut polled = writer.poll_broadcast(cx, &mut source);
        if polled.is_pending() {
            bench.clock.advance(after);
            polled = writer.poll_broadcast(cx, &mut source);
        }
        let Poll::Ready(Ok(reach)) = polled else { panic!("{polled:?}") };
        match reach {
            Reach { queued: 3, dropped: 0 } => queued.push(number),
            reach => assert_eq!(reach, Reach { queued: 2, dropped: 1 }),
        }
        for reader in &mut readers {
            assert_eq!(reader.numbers(), [number]);
        }
    }
    assert!((4..20).contains(&queued.len()), "{queued:?}");
    assert!(segments(&writer, 1) <= 2);
    assert_eq!(laggard.numbers(), queued);
    assert_eq!(account(&writer, 1).lost.overflowed.records, 40 - queued.len() as u64);
    // It is well again, and so is sharing.
    assert_eq!(writer.broadcast_blocking(&record(40, 1500)), all(3));
    assert_eq!(numbers(&laggard.drain()), [40]);
    drop((writer, readers, laggard));
    bench.assert_whole();
}

#[test]
fn a_laggard_that_blocks_is_waited_for() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(3, 2).broadcast_segments(2));
    let mut readers = bench.readers(&writer);
    let mut laggard = readers.remove(2);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let cx = &mut Context::from_waker(&waker);
    let mut number = 0;
    let mut source;
    loop {
        let bytes = record(number, 1500);
        source = &bytes[..];
        let polled = writer.poll_broadcast(cx, &mut source);
        for reader in &mut readers {
            assert_eq!(reader.numbers(), [number], "the others have it");
        }
        match polled {
            Poll::Ready(reach) => assert_eq!(reach, all(3)),
            Poll::Pending => break,
        }
        number += 1;
        assert!(number < 40);
    }
    // The others' reading has woken it: in vain.
    assert!(writer.poll_broadcast(cx, &mut &b""[..]).is_pending());
    let before = woken.times();
    let mut got = laggard.numbers();
    assert!(woken.times() > before, "the laggard reads: the writer is woken");
    assert_eq!(writer.poll_broadcast(cx, &mut &b""[..]), Poll::Ready(all(3)));
    got.extend(laggard.numbers());
    assert_eq!(got, (0..=number).collect::<Vec<_>>());
    drop((writer, readers, laggard));
    bench.assert_whole();
}

#[test]
fn readers_that_stand_in_every_shared_segment_stop_nobody() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(2, 4).broadcast_segments(1));
    let mut readers = bench.readers(&writer);
    assert_eq!(writer.broadcast_blocking(&record(0, 4000)), all(2));
    // Both have taken it, nobody has let it go: there is nothing to copy and nothing to sweep.
    for reader in &mut readers {
        assert_eq!(reader.next(), Got::Record(record(0, 4000)));
    }
    for number in 1..3 {
        assert_eq!(writer.broadcast_blocking(&record(number, 4000)), all(2));
    }
    for reader in &mut readers {
        assert_eq!(reader.numbers(), [1, 2]);
    }
    drop((writer, readers));
    bench.assert_whole();
}

#[test]
fn an_absent_laggard_that_drops_its_oldest_gives_shared_memory_back() {
    let retain = WhenAbsent::Retain { quota: 2, then: WhenRetained::DropOldest };
    let bench = Bench::new();
    let policies = Policies { when_absent: retain, ..policies() };
    let mut writer = bench.writer(config(3, 8).broadcast_segments(2).policies(policies));
    let mut readers = bench.readers(&writer);
    drop(readers.remove(0));
    for number in 0..60 {
        assert_eq!(writer.broadcast_blocking(&record(number, 1500)), all(3));
        for reader in &mut readers {
            assert_eq!(reader.numbers(), [number]);
        }
    }
    assert!(segments(&writer, 0) <= 2);
    let dropped = account(&writer, 0).lost.dropped_oldest.records;
    assert!(dropped > 0);
    let mut back = bench.reader(&writer, 0, 2);
    let got = back.numbers();
    assert_eq!(got.last(), Some(&59));
    assert!(got.windows(2).all(|pair| pair[0] < pair[1]), "{got:?}");
    let account = account(&writer, 0);
    assert_eq!(account.lost.total().records + got.len() as u64, 60);
    drop((writer, readers, back));
    bench.assert_whole();
}

#[test]
fn replay_goes_back_into_shared_segments_and_copies() {
    let bench = Bench::new();
    let policies = Policies { when_absent: WhenAbsent::Replay { quota: 8 }, ..policies() };
    let mut writer = bench.writer(config(3, 8).broadcast_segments(2).policies(policies));
    let mut readers = bench.readers(&writer);
    let mut first = readers.remove(1);
    for number in 0..12 {
        assert_eq!(writer.broadcast_blocking(&record(number, 1500)), all(3));
        for reader in &mut readers {
            assert_eq!(reader.numbers(), [number]);
        }
        if number < 3 {
            assert_eq!(first.next(), Got::Record(record(number, 1500)));
        }
    }
    drop(first);
    let mut second = bench.reader(&writer, 1, 2);
    let got = second.numbers();
    assert_eq!(*got.last().unwrap(), 11);
    assert!(got[0] <= 3 && got.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{got:?}");
    drop((writer, readers, second));
    bench.assert_whole();
}

#[test]
fn what_is_queued_outlives_the_writer() {
    for finish in [false, true] {
        let bench = Bench::new();
        let mut writer = bench.writer(config(3, 8).broadcast_segments(4));
        let readers = bench.readers(&writer);
        for number in 0..3 {
            assert_eq!(writer.broadcast_blocking(&record(number, 4500)), all(3));
        }
        if finish {
            assert_eq!(writer.poll_finish(&mut idle_cx()), Poll::Pending);
        }
        drop(writer);
        let held = bench.pool.census().held();
        assert!(held >= 4, "{held}");
        for (index, mut reader) in readers.into_iter().enumerate() {
            let got = reader.drain();
            assert_eq!(numbers(&got), [0, 1, 2], "reader {index}");
            assert_eq!(*got.last().unwrap(), if finish { Got::EndOfPartition } else { Got::Failed });
        }
        assert_eq!(bench.manager.is_empty(), finish);
        if finish {
            assert_eq!(bench.pool.census().held(), 0, "the last acknowledgement ends it");
        }
        bench.assert_whole();
    }
}

#[test]
fn a_view_that_outlives_its_partition_is_fenced() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(2, 8));
    let mut readers = bench.readers(&writer);
    assert_eq!(writer.broadcast_blocking(&record(0, 1000)), all(2));
    assert_eq!(writer.broadcast_blocking(&record(1, 1000)), all(2));
    assert_eq!(readers[0].next(), Got::Record(record(0, 1000)));
    writer.abandon();
    assert_eq!(readers[0].next(), Got::Record(record(1, 1000)), "taken before");
    assert_eq!(readers[0].next(), Got::Fenced);
    assert_eq!(readers[1].next(), Got::Fenced);
    drop(readers);
    bench.assert_whole();
}

#[test]
fn entry_numbers_come_round() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(3, 4).broadcast_segments(3));
    let mut readers = bench.readers(&writer);
    for number in 0..45_000 {
        let expected = [Got::Record(record(number, 520)), Got::Event(Event::Barrier(1))];
        assert_eq!(writer.broadcast_blocking(&record(number, 520)), all(3));
        assert_eq!(writer.event_blocking(Target::All, &Event::Barrier(1)), all(3));
        // Now and then one of them lags, and is copied for.
        let lags = number % 500 > 488;
        for (index, reader) in readers.iter_mut().enumerate() {
            if index == 2 && lags {
                continue;
            }
            let got = reader.drain();
            assert!(got.len() >= 2 && got.ends_with(&expected), "{number}");
            assert!(
                index != 2 || got.len() == if number % 500 == 0 { 24 } else { 2 } || number == 0,
                "{number}"
            );
        }
    }
    for target in 0..3 {
        assert_eq!(account(&writer, target).lost.total(), Amount::ZERO);
    }
    drop((writer, readers));
    bench.assert_whole();
}

/// Records of all lengths to one and to all, three consumers that read when they like: whatever is copied,
/// shared or held up, each gets exactly its own, in order.
#[test]
fn whatever_is_shared_each_gets_its_own() {
    for seed in 1..150 {
        let mut random = Random(seed);
        let bench = Bench::new();
        let config = config(3, 1 + random.below(4)).broadcast_segments(random.below(5));
        let mut writer = bench.writer(config);
        let mut readers = bench.readers(&writer);
        let mut expected = [const { Vec::new() }; 3];
        let mut got = [const { Vec::new() }; 3];
        for number in 0..150 {
            let size = [100, 508, 509, 1000, 3000, 4092, 5000, 14_000][random.below(8) as usize];
            let bytes = record(number, size);
            let target = random.below(6) as usize;
            let mut source = &bytes[..];
            let cx = &mut idle_cx();
            for _ in 0..10_000 {
                let ready = match expected.get_mut(target) {
                    Some(_) => writer.poll_write(cx, target as u32, &mut source).map_ok(drop),
                    None => writer.poll_broadcast(cx, &mut source).map_ok(drop),
                };
                if ready.is_ready() {
                    assert_eq!(ready, Poll::Ready(Ok(())));
                    break;
                }
                let who = random.below(3) as usize;
                if let Got::Record(bytes) = readers[who].next() {
                    got[who].push(super::number(&bytes));
                }
            }
            assert_eq!(writer.idle(), Ok(()), "held up for ever");
            for (index, expected) in expected.iter_mut().enumerate() {
                if target == index || target >= 3 {
                    expected.push(number);
                }
            }
            if random.below(3) == 0 {
                let who = random.below(3) as usize;
                got[who].extend(readers[who].numbers());
            }
        }
        for (index, reader) in readers.iter_mut().enumerate() {
            got[index].extend(reader.numbers());
            assert_eq!(got[index], expected[index], "seed {seed}");
            assert_eq!(account(&writer, index).lost.total(), Amount::ZERO);
        }
        drop((writer, readers));
        bench.assert_whole();
    }
}

#[test]
fn a_buffer_that_panics_leaves_nothing_to_the_next_record() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(2, 8));
    let mut readers = bench.readers(&writer);
    // In the first part, in the last of three, and in a record that is split over the end of a segment.
    for (number, (len, good)) in [(1000, 0), (9000, 8500), (9000, 4000)].into_iter().enumerate() {
        let mut bad = Faulty { bytes: record(77, len), at: 0, good };
        let broken = catch_unwind(AssertUnwindSafe(|| writer.poll_broadcast(&mut idle_cx(), &mut bad)));
        assert!(broken.is_err());
        assert_eq!(writer.broadcast_blocking(&record(number as u32, 3000)), all(2));
    }
    for reader in &mut readers {
        assert_eq!(reader.numbers(), [0, 1, 2]);
    }
    for target in 0..2 {
        assert_eq!(account(&writer, target).written.records, 3);
    }
    drop((writer, readers));
    bench.assert_whole();
}
