//! Steering from other threads.

use super::*;

#[test]
fn commands_wake_the_gate_and_take_effect() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, config(discard()));
    let mut gate = bench.gate(1, &[(0, 1), (1, 1)]);
    let handle = gate.handle();
    assert_eq!(handle.why_blocked(0), Ok(WhyBlocked::Unbound));
    bench.drain(&mut gate);
    assert_eq!(handle.why_blocked(0), Ok(WhyBlocked::NoData));
    bench.woken.take();
    handle.pause(0).unwrap();
    assert_eq!(bench.woken.take(), 1);
    producer.write_all(0..1, 10);
    assert_eq!(bench.drain(&mut gate), []);
    assert_eq!(handle.why_blocked(0), Ok(WhyBlocked::Paused));
    bench.woken.take();
    handle.resume(0).unwrap();
    assert_eq!(bench.woken.take(), 1);
    assert_eq!(bench.drain(&mut gate), [Got::Record(0, payload(0, 10))]);
    // An update and a retry.
    producer.fail("over");
    bench.drain(&mut gate);
    let second = bench.create(0, 2, config(discard()));
    handle.update_channel(0, bench.descriptor(0, 2)).unwrap();
    assert_eq!(bench.drain(&mut gate), [Got::Available(0, 2)]);
    bench.clock.advance(Duration::from_secs(10));
    bench.manager.housekeeping();
    assert!(matches!(bench.drain(&mut gate)[..], [Got::BindFailed(1, BindError::TimedOut { .. })]));
    handle.retry_bind(1).unwrap();
    bench.drain(&mut gate);
    assert_eq!(bench.manager.waiting(), 1);
    drop((gate, producer, second));
    bench.assert_whole();
}

#[test]
fn a_full_queue_and_a_gate_that_is_gone_are_told() {
    let bench = Bench::new();
    let producer = bench.create(0, 1, config(discard()));
    let mut gate = bench.gate(1, &[(0, 1)]);
    let handle = gate.handle();
    assert_eq!(handle.pause(1), Err(HandleError::NoSuchChannel { channel: 1, channels: 1 }));
    for _ in 0..64 {
        handle.pause(0).unwrap();
    }
    assert_eq!(handle.resume(0), Err(HandleError::Full { commands: 64 }));
    bench.drain(&mut gate);
    handle.resume(0).unwrap();
    bench.drain(&mut gate);
    assert!(!gate.channel_snapshot(0).unwrap().is_paused);
    drop(gate);
    assert_eq!(handle.clone().resume(0), Err(HandleError::Gone));
    assert_eq!(handle.why_blocked(0), Err(HandleError::Gone));
    drop((handle, producer));
    bench.assert_whole();
}

#[test]
fn a_handle_keeps_no_partition_alive() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, config(discard()));
    let mut gate = bench.gate(1, &[(0, 1)]);
    let handle = gate.handle();
    bench.drain(&mut gate);
    producer.write_all(0..1, 10);
    let sub = Arc::downgrade(producer.parts.halves[0].subpartition());
    drop(gate);
    bench.manager.release(partition_id(0), Attempt(1), Cause::Released);
    drop(producer);
    assert_eq!(sub.strong_count(), 0);
    drop(handle);
    bench.assert_whole();
}

#[test]
fn channels_that_are_not_there_are_refused() {
    let bench = Bench::new();
    let mut gate = bench.gate(1, &[]);
    let error = GateError::NoSuchChannel { channel: 0, channels: 0 };
    assert_eq!(gate.pause(0), Err(error.clone()));
    assert_eq!(gate.update_channel(0, bench.descriptor(0, 1)), Err(error));
    assert_eq!(gate.why_blocked(0), None);
    assert_eq!(gate.channel_snapshot(0), None);
    assert_eq!(bench.poll(&mut gate), Got::End, "a gate without channels is at its end");
    drop(gate);
    bench.assert_whole();
}

#[test]
fn every_reason_has_its_words() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, config(discard()).quota_segments(3));
    let mut gate = bench.gate(1, &[(0, 1)]);
    bench.drain(&mut gate);
    producer.write_all(0..1, 1000);
    assert_eq!(gate.why_blocked(0), Some(WhyBlocked::Ready));
    // A lent segment counts against the quota, and one is left to fill.
    let mut lent = Vec::new();
    let mut cx = Context::from_waker(Waker::noop());
    let mut number = 1;
    while producer.write(&payload(number, 4000)) == Append::Done {
        while let Poll::Ready(Ok(Some(item))) = gate.poll_next(&mut cx) {
            lent.push(item.into_owned());
        }
        number += 1;
        if number == 20 {
            break;
        }
    }
    assert_eq!(number, 20, "lending stops before the quota is used up");
    let why = WhyBlocked::WriterBlocked { segments: 3, segments_max: 3 };
    assert!(why.to_string().contains("3 of 3 segments"), "{why}");
    drop(lent);
    assert_eq!(gate.why_blocked(0), Some(WhyBlocked::NoData));
    drop((gate, producer));
    bench.assert_whole();
}
