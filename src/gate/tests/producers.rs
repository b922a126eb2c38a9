//! The producer's side changes: it fails, is replaced, is released; the gate stays.

use super::*;

fn failed(why: &str) -> Cause {
    Cause::Failed(why.into())
}

#[test]
fn items_of_a_channel_come_in_order_to_the_end() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, config(discard()));
    let mut gate = bench.gate(1, &[(0, 1)]);
    assert_eq!(bench.poll(&mut gate), Got::Available(0, 1));
    assert_eq!(bench.poll(&mut gate), Got::Pending);
    for (number, count) in [(0, 10), (1, 4000), (2, 9000), (3, 4)] {
        assert_eq!(producer.write(&payload(number, count)), Append::Done);
    }
    producer.event(Event::Barrier(5));
    producer.event(Event::Application(b"app".as_slice().into()));
    producer.write(&payload(4, 4));
    producer.finish();
    let expected = [
        Got::Record(0, payload(0, 10)),
        Got::Record(0, payload(1, 4000)),
        Got::Record(0, payload(2, 9000)),
        Got::Record(0, payload(3, 4)),
        Got::Event(0, Event::Barrier(5)),
        Got::Event(0, Event::Application(b"app".as_slice().into())),
        Got::Record(0, payload(4, 4)),
        Got::EndOfData(0),
        Got::EndOfPartition(0),
        Got::End,
    ];
    assert_eq!(bench.drain(&mut gate), expected);
    assert_eq!(bench.poll(&mut gate), Got::End, "and stays at its end");
    assert_eq!(producer.closed(), Some(Cause::Consumed), "the last consumer's end releases the partition");
    let account = producer.account();
    assert_eq!(account.delivered, account.written);
    let snapshot = gate.channel_snapshot(0).unwrap();
    assert_eq!(snapshot.state, ChannelState::Ended);
    assert_eq!(snapshot.yielded, account.written);
    assert_eq!(snapshot.consumed, account.written);
    drop((gate, producer));
    bench.assert_whole();
}

#[test]
fn a_partition_is_released_by_its_last_consumer() {
    let bench = Bench::new();
    let parts = bench.manager.create(
        partition_id(0),
        Attempt(1),
        PartitionConfig::new(2).segment_class(SegmentClass::K4).policies(discard()),
        BindSecret::new(7),
    );
    let mut producer = Producer { parts: parts.unwrap() };
    let gate = |subpartition| {
        let descriptor = ChannelDescriptor { subpartition, ..bench.descriptor(0, 1) };
        let config = GateConfig::new(Attempt(1), Incarnation(subpartition.into())).channel(descriptor);
        InputGate::new(bench.manager.clone(), config)
    };
    let (mut first, mut second) = (gate(0), gate(1));
    assert_eq!(bench.poll(&mut first), Got::Available(0, 1));
    assert_eq!(bench.poll(&mut second), Got::Available(0, 1));
    for half in &mut producer.parts.halves {
        half.append_end(EndKind::Finished);
    }
    assert_eq!(bench.drain(&mut first), [Got::EndOfData(0), Got::EndOfPartition(0), Got::End]);
    assert_eq!(producer.closed(), None);
    assert_eq!(bench.drain(&mut second), [Got::EndOfData(0), Got::EndOfPartition(0), Got::End]);
    assert_eq!(producer.closed(), Some(Cause::Consumed));
    drop((first, second, producer));
    bench.assert_whole();
}

#[test]
fn a_failed_producer_is_read_to_its_end_and_its_successor_follows_the_update() {
    let bench = Bench::new();
    let mut first = bench.create(0, 1, config(discard()));
    let mut other = bench.create(1, 1, config(discard()));
    let mut gate = bench.gate(1, &[(0, 1), (1, 1)]);
    bench.drain(&mut gate);
    first.write_all(0..3, 100);
    first.fail("disk");
    let got = bench.drain(&mut gate);
    assert_eq!(numbers(&got, 0), [0, 1, 2]);
    assert_eq!(got[3..], [Got::Unavailable(0, failed("disk"))]);
    assert_eq!(gate.why_blocked(0), Some(WhyBlocked::Unavailable { cause: failed("disk") }));
    // The other channel flows on.
    other.write_all(0..2, 100);
    assert_eq!(numbers(&bench.drain(&mut gate), 1), [0, 1]);
    drop(first);
    let mut second = bench.create(0, 2, config(discard()));
    second.write_all(10..12, 100);
    assert_eq!(bench.drain(&mut gate), [], "nothing before the update");
    let descriptor = bench.descriptor(0, 2);
    assert_eq!(gate.update_channel(0, descriptor.clone()), Ok(Update::Accepted));
    assert_eq!(gate.update_channel(0, descriptor), Ok(Update::Ignored { current: Attempt(2) }));
    let got = bench.drain(&mut gate);
    assert_eq!(got[0], Got::Available(0, 2));
    assert_eq!(numbers(&got, 0), [10, 11]);
    assert_eq!(gate.channel_snapshot(0).unwrap().binds, 2);
    drop((gate, second, other));
    bench.assert_whole();
}

#[test]
fn an_update_before_the_failure_waits_for_the_end_of_the_old_attempt() {
    let bench = Bench::new();
    let mut first = bench.create(0, 1, config(discard()));
    let mut gate = bench.gate(1, &[(0, 1)]);
    bench.drain(&mut gate);
    first.write_all(0..5, 3000);
    for attempt in [2, 4, 3, 1] {
        let update = gate.update_channel(0, bench.descriptor(0, attempt)).unwrap();
        match attempt {
            2 | 4 => assert_eq!(update, Update::Deferred),
            _ => assert_eq!(update, Update::Ignored { current: Attempt(4) }),
        }
    }
    assert_eq!(gate.channel_snapshot(0).unwrap().pending, Some(Attempt(4)));
    assert_eq!(numbers(&bench.drain(&mut gate), 0), [0, 1, 2, 3, 4]);
    first.write_all(5..6, 10);
    assert_eq!(numbers(&bench.drain(&mut gate), 0), [5], "a healthy old attempt is read on");
    first.fail("late");
    assert_eq!(bench.drain(&mut gate), [Got::Unavailable(0, failed("late"))]);
    let waiting = WhyBlocked::WaitingForPartition { partition: partition_id(0), producer: Attempt(4) };
    assert_eq!(gate.why_blocked(0), Some(waiting));
    let second = bench.create(0, 4, config(discard()));
    assert_eq!(bench.drain(&mut gate), [Got::Available(0, 4)]);
    drop((gate, first, second));
    bench.assert_whole();
}

#[test]
fn a_successor_closes_the_old_attempt_and_what_is_left_behind_is_told() {
    for update_first in [false, true] {
        let bench = Bench::new();
        let mut first = bench.create(0, 1, config(discard()));
        let mut gate = bench.gate(1, &[(0, 1)]);
        bench.drain(&mut gate);
        first.write_all(0..20, 1000);
        assert_eq!(bench.poll(&mut gate), Got::Record(0, payload(0, 1000)));
        if update_first {
            assert_eq!(gate.update_channel(0, bench.descriptor(0, 2)), Ok(Update::Deferred));
        }
        let mut second = bench.create(0, 2, config(discard()));
        assert_eq!(first.write(&payload(20, 1000)), Append::Closed);
        second.write_all(100..103, 10);
        let mut got = bench.drain(&mut gate);
        if !update_first {
            assert_eq!(gate.update_channel(0, bench.descriptor(0, 2)), Ok(Update::Accepted));
        }
        let received = numbers(&got, 0).into_iter().filter(|number| *number < 100).count();
        // What lay whole in the piece at hand comes; what was in the ring is drained.
        assert_eq!(received, 3, "{got:?}");
        assert_eq!(got[received], Got::Unavailable(0, Cause::Superseded { newer: Attempt(2) }));
        let report = if update_first {
            None
        } else {
            match gate.poll_next(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Ok(Some(Item::Available { loss, .. }))) => Some(loss),
                other => panic!("{other:?}"),
            }
        };
        if let Some(report) = report {
            // The rest of what was written, but the 80 bytes of record 4 that lay in the first segment.
            assert_eq!(report.left_behind, Amount { records: 16, bytes: 16 * 1004 - 80 });
            assert_eq!(report.lost.total(), Amount::ZERO);
        } else {
            assert_eq!(got[received + 1], Got::Available(0, 2));
        }
        got.extend(bench.drain(&mut gate));
        let numbers = numbers(&got, 0);
        assert_eq!(numbers[received..], [100, 101, 102], "{got:?}");
        drop((gate, first, second));
        bench.assert_whole();
    }
}

#[test]
fn what_the_writer_drops_is_told_once_before_what_follows() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, config(discard()));
    let mut gate = bench.gate(1, &[(0, 1)]);
    bench.drain(&mut gate);
    producer.write_all(0..2, 100);
    producer.parts.halves[0].overflow(&mut &payload(2, 100)[..]);
    producer.parts.halves[0].overflow(&mut &payload(3, 100)[..]);
    producer.write_all(4..6, 100);
    let got = bench.drain(&mut gate);
    assert_eq!(numbers(&got, 0), [0, 1, 4, 5]);
    assert_eq!(got[2], Got::Loss(0, Amount { records: 2, bytes: 208 }));
    producer.parts.halves[0].overflow(&mut &payload(6, 100)[..]);
    producer.finish();
    let got = bench.drain(&mut gate);
    assert_eq!(got[0], Got::Loss(0, Amount { records: 1, bytes: 104 }));
    assert_eq!(gate.channel_snapshot(0).unwrap().lost, Amount { records: 3, bytes: 312 });
    drop((gate, producer));
    bench.assert_whole();
}

#[test]
fn a_release_under_the_reader_is_no_end_of_the_partition() {
    type End = fn(&Bench);
    let ends: [(End, Cause); 3] = [
        (
            |bench| assert!(bench.manager.release(partition_id(0), Attempt(1), Cause::Released)),
            Cause::Released,
        ),
        (|bench| assert_eq!(bench.manager.release_job(JobId(1)), 1), Cause::JobReleased),
        (|bench| bench.manager.shutdown(), Cause::Shutdown),
    ];
    for (end, cause) in ends {
        let bench = Bench::new();
        let mut producer = bench.create(0, 1, config(discard()));
        let mut gate = bench.gate(1, &[(0, 1)]);
        bench.drain(&mut gate);
        producer.write_all(0..1, 10);
        assert_eq!(bench.drain(&mut gate).len(), 1);
        bench.woken.take();
        end(&bench);
        assert_eq!(bench.woken.take(), 1, "the sleeping reader is told");
        assert_eq!(bench.drain(&mut gate), [Got::Unavailable(0, cause)]);
        drop((gate, producer));
        bench.assert_whole();
    }
}

/// Partitions that end together are told of in the order of their ids, whenever it happens.
#[test]
fn partitions_that_end_together_end_in_order() {
    for end in [
        |bench: &Bench| assert_eq!(bench.manager.release_job(JobId(1)), 8),
        |bench: &Bench| bench.manager.shutdown(),
    ] {
        let bench = Bench::new();
        let producers: Vec<_> = (0..8).map(|index| bench.create(index, 1, config(discard()))).collect();
        let channels: Vec<_> = (0..8).map(|index| (index, 1)).collect();
        let mut gate = bench.gate(1, &channels);
        bench.drain(&mut gate);
        end(&bench);
        let told: Vec<_> = bench.drain(&mut gate);
        let channel = |got: &Got| match got {
            Got::Unavailable(channel, _) => *channel,
            other => panic!("{other:?}"),
        };
        assert_eq!(told.iter().map(channel).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
        drop((gate, producers));
        bench.assert_whole();
    }
}

#[test]
fn the_half_of_a_record_whose_producer_died_is_never_seen() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, config(discard()).quota_segments(3));
    let mut gate = bench.gate(1, &[(0, 1)]);
    bench.drain(&mut gate);
    producer.write_all(0..1, 100);
    let long = payload(1, 100_000);
    let mut source = &long[..];
    assert!(matches!(producer.append(&mut source), Append::Blocked(_)));
    assert_eq!(numbers(&bench.drain(&mut gate), 0), [0]);
    bench.manager.release(partition_id(0), Attempt(1), Cause::Released);
    let mut cx = Context::from_waker(Waker::noop());
    match gate.poll_next(&mut cx) {
        Poll::Ready(Ok(Some(Item::Unavailable { cause: Cause::Released, skipped, .. }))) => {
            assert_eq!(skipped.records, 0);
            assert!(skipped.bytes > 8000, "{skipped:?}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(gate.admission.admitted_bytes(), 0);
    drop((gate, producer));
    bench.assert_whole();
}
