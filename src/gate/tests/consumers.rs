//! The consumer's side changes: gates are dropped, replaced, fenced.

use super::*;

#[test]
fn a_gate_that_is_dropped_gives_way_to_the_next_by_each_policy() {
    for policies in [discard(), retain(), replay()] {
        let bench = Bench::new();
        let mut producer = bench.create(0, 1, config(policies));
        let mut old = bench.gate(1, &[(0, 1)]);
        assert_eq!(bench.poll(&mut old), Got::Available(0, 1));
        // Four to a segment.
        producer.write_all(0..10, 1020);
        for number in 0..3 {
            assert_eq!(bench.poll(&mut old), Got::Record(0, payload(number, 1020)));
        }
        drop(old);
        let mut new = bench.gate(2, &[(0, 1)]);
        producer.account();
        let mut cx = Context::from_waker(Waker::noop());
        let loss = match new.poll_next(&mut cx) {
            Poll::Ready(Ok(Some(Item::Available { loss, .. }))) => *loss,
            other => panic!("{other:?}"),
        };
        producer.write_all(10..12, 1000);
        let got = bench.drain(&mut new);
        // The old gate had yielded 0, 1, 2 and taken 3 with them, and asked for more twice.
        match policies.when_absent {
            WhenAbsent::Discard => {
                assert_eq!(numbers(&got, 0), [10, 11]);
                assert_eq!(loss.lost.drained.records + loss.lost.unread.records, 7);
                assert_eq!(loss.in_doubt.records, 1);
            }
            WhenAbsent::Retain { .. } => {
                assert_eq!(numbers(&got, 0), (4..12).collect::<Vec<_>>());
                assert_eq!(loss.lost.unread.records, 1);
                assert_eq!(loss.in_doubt.records, 1);
            }
            WhenAbsent::Replay { .. } => {
                assert_eq!(numbers(&got, 0), (2..12).collect::<Vec<_>>());
                assert_eq!(loss, LossReport::default());
            }
        }
        producer.account();
        drop((new, producer));
        bench.assert_whole();
    }
}

#[test]
fn what_was_discarded_while_nobody_was_there_is_told_with_the_bind() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, config(discard()));
    let mut old = bench.gate(1, &[(0, 1)]);
    bench.drain(&mut old);
    drop(old);
    assert_eq!(producer.write(&payload(0, 100)), Append::Dropped);
    assert_eq!(producer.write(&payload(1, 100)), Append::Dropped);
    let mut new = bench.gate(2, &[(0, 1)]);
    let mut cx = Context::from_waker(Waker::noop());
    match new.poll_next(&mut cx) {
        Poll::Ready(Ok(Some(Item::Available { loss, .. }))) => {
            assert_eq!(loss.lost.discarded, Amount { records: 2, bytes: 208 });
        }
        other => panic!("{other:?}"),
    }
    // The entry that repeats it tells nothing new.
    producer.write_all(2..3, 100);
    assert_eq!(bench.drain(&mut new), [Got::Record(0, payload(2, 100))]);
    drop((new, producer));
    bench.assert_whole();
}

#[test]
fn a_fenced_gate_says_so_for_each_channel_and_then_for_good() {
    let bench = Bench::new();
    let mut producers = [bench.create(0, 1, config(discard())), bench.create(1, 1, config(discard()))];
    let mut zombie = bench.gate(1, &[(0, 1), (1, 1)]);
    bench.drain(&mut zombie);
    bench.woken.take();
    let mut new = bench.gate(3, &[(0, 1)]);
    assert_eq!(bench.poll(&mut new), Got::Available(0, 1));
    assert!(bench.woken.take() > 0, "the zombie is told");
    let fenced = Cause::Fenced { newer: Attempt(3) };
    assert_eq!(bench.drain(&mut zombie), [Got::Unavailable(0, fenced.clone())]);
    assert_eq!(zombie.why_blocked(0), Some(WhyBlocked::Fenced { newer: Attempt(3) }));
    assert_eq!(zombie.update_channel(0, bench.descriptor(0, 9)), Ok(Update::Over));
    // The other channel flows on until it is fenced as well.
    producers[1].write_all(0..2, 10);
    assert_eq!(numbers(&bench.drain(&mut zombie), 1), [0, 1]);
    let mut newer = bench.gate(4, &[(1, 1)]);
    assert_eq!(bench.poll(&mut newer), Got::Available(0, 1));
    let error = Got::Failed(GateError::Fenced { channel: 0, newer: Attempt(3) });
    let cause = Cause::Fenced { newer: Attempt(4) };
    assert_eq!(bench.drain(&mut zombie), [Got::Unavailable(1, cause), error.clone()]);
    assert_eq!(bench.poll(&mut zombie), error);
    // What comes goes to the new ones.
    producers[0].write_all(5..6, 10);
    assert_eq!(numbers(&bench.drain(&mut new), 0), [5]);
    drop((zombie, new, newer, producers));
    bench.assert_whole();
}

#[test]
fn the_end_of_its_successor_is_no_end_of_a_zombie() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, config(retain()));
    let mut zombie = bench.gate(1, &[(0, 1)]);
    bench.drain(&mut zombie);
    let mut new = bench.gate(2, &[(0, 1)]);
    bench.drain(&mut new);
    producer.write_all(0..2, 10);
    producer.finish();
    assert_eq!(bench.drain(&mut new).last(), Some(&Got::End));
    assert_eq!(producer.closed(), Some(Cause::Consumed));
    let got = bench.drain(&mut zombie);
    assert_eq!(got[0], Got::Unavailable(0, Cause::Fenced { newer: Attempt(2) }));
    assert_eq!(got[1], Got::Failed(GateError::Fenced { channel: 0, newer: Attempt(2) }));
    drop((zombie, new, producer));
    bench.assert_whole();
}

#[test]
fn a_stale_gate_and_a_second_run_of_an_attempt_have_to_stop() {
    let bench = Bench::new();
    let producer = bench.create(0, 1, config(discard()));
    let mut current = bench.gate(5, &[(0, 1)]);
    bench.drain(&mut current);
    let mut stale = bench.gate(4, &[(0, 1)]);
    let error = BindError::Stale { presented: Attempt(4), current: Attempt(5) };
    let fenced = Got::Failed(GateError::Fenced { channel: 0, newer: Attempt(5) });
    assert_eq!(bench.drain(&mut stale), [Got::BindFailed(0, error), fenced.clone()]);
    let config = GateConfig::new(Attempt(5), Incarnation(99)).channel(bench.descriptor(0, 1));
    let mut second = InputGate::new(bench.manager.clone(), config);
    let error = BindError::DuplicateAttempt { attempt: Attempt(5) };
    assert_eq!(bench.drain(&mut second), [Got::BindFailed(0, error), fenced]);
    assert_eq!(bench.drain(&mut current), [], "the one that reads is left alone");
    drop((current, stale, second, producer));
    bench.assert_whole();
}

#[test]
fn whoever_comes_after_the_end_was_acknowledged_gets_the_end_at_once() {
    for released in [false, true] {
        let bench = Bench::new();
        // Two subpartitions keep the partition while only one is read to its end.
        let config = config(discard()).quota_segments(2);
        let config = if released { config } else { config_of_two() };
        let parts = bench.manager.create(partition_id(0), Attempt(1), config, BindSecret::new(7)).unwrap();
        let mut producer = Producer { parts };
        let mut old = bench.gate(1, &[(0, 1)]);
        bench.drain(&mut old);
        producer.write_all(0..1, 10);
        producer.finish();
        assert_eq!(bench.drain(&mut old).last(), Some(&Got::End));
        assert_eq!(producer.closed().is_some(), released);
        drop(old);
        let mut new = bench.gate(2, &[(0, 1)]);
        let got = bench.drain(&mut new);
        if released {
            assert_eq!(got, [Got::EndOfPartition(0), Got::End]);
        } else {
            assert_eq!(got, [Got::Available(0, 1), Got::EndOfPartition(0), Got::End]);
        }
        assert_eq!(producer.account().delivered.records, 1);
        drop((new, producer));
        bench.assert_whole();
    }
}

fn config_of_two() -> PartitionConfig {
    PartitionConfig::new(2).segment_class(SegmentClass::K4).policies(discard())
}

#[test]
fn dropping_a_gate_leaves_its_last_record_in_doubt_and_nothing_behind() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, config(discard()));
    let mut gate = bench.gate(1, &[(0, 1), (7, 1)]);
    bench.drain(&mut gate);
    assert_eq!(bench.manager.waiting(), 1);
    producer.write_all(0..3, 10);
    assert_eq!(bench.poll(&mut gate), Got::Record(0, payload(0, 10)));
    assert_eq!(bench.poll(&mut gate), Got::Record(0, payload(1, 10)));
    let handle = gate.handle();
    let bell = Arc::downgrade(&gate.bell);
    producer.flush();
    drop(gate);
    assert_eq!(bench.manager.waiting(), 0, "a waiting bind is withdrawn");
    assert_eq!(handle.pause(0), Err(HandleError::Gone));
    let account = producer.account();
    assert_eq!(account.delivered.records, 1);
    assert_eq!(account.in_doubt.records, 1);
    assert_eq!(account.lost.unread.records, 1);
    drop((producer, handle));
    assert_eq!(bell.strong_count(), 0, "no listed node keeps its bell");
    bench.assert_whole();
}

#[test]
fn an_answer_that_nobody_asked_for_any_more_binds_nobody() {
    let bench = Bench::new();
    let mut gate = bench.gate(1, &[(0, 1)]);
    bench.drain(&mut gate);
    let mut producer = bench.create(0, 1, config(discard()));
    producer.write_all(0..1, 10);
    drop(gate);
    assert_eq!(producer.write(&payload(1, 10)), Append::Dropped, "nobody reads");
    let mut new = bench.gate(2, &[(0, 1)]);
    assert_eq!(bench.drain(&mut new), [Got::Available(0, 1)]);
    producer.write_all(2..3, 10);
    assert_eq!(bench.drain(&mut new), [Got::Record(0, payload(2, 10))]);
    drop((new, producer));
    bench.assert_whole();
}
