//! Binds that wait, time out, are superseded, withdrawn and tried again.

use super::*;

#[test]
fn a_bind_waits_for_its_partition_and_the_task_is_woken() {
    let bench = Bench::new();
    let mut gate = bench.gate(1, &[(0, 2)]);
    assert_eq!(gate.why_blocked(0), Some(WhyBlocked::Unbound));
    assert_eq!(bench.manager.waiting(), 0, "nothing is bound before the first poll");
    assert_eq!(bench.poll(&mut gate), Got::Pending);
    let waiting = WhyBlocked::WaitingForPartition { partition: partition_id(0), producer: Attempt(2) };
    assert_eq!(gate.why_blocked(0), Some(waiting));
    // An older attempt than the one that is meant is waited past.
    let older = bench.create(0, 1, config(discard()));
    assert_eq!(bench.drain(&mut gate), []);
    bench.woken.take();
    let mut producer = bench.create(0, 2, config(discard()));
    assert_eq!(bench.woken.take(), 1);
    producer.write_all(0..1, 10);
    assert_eq!(bench.drain(&mut gate), [Got::Available(0, 2), Got::Record(0, payload(0, 10))]);
    drop((gate, producer, older));
    bench.assert_whole();
}

#[test]
fn a_wait_ends_in_time_and_can_be_tried_again() {
    let bench = Bench::new();
    let mut gate = bench.gate(1, &[(0, 1)]);
    bench.drain(&mut gate);
    bench.clock.advance(Duration::from_secs(9));
    bench.manager.housekeeping();
    assert_eq!(bench.drain(&mut gate), []);
    bench.clock.advance(Duration::from_secs(1));
    bench.woken.take();
    bench.manager.housekeeping();
    assert_eq!(bench.woken.take(), 1);
    let error = BindError::TimedOut { partition: partition_id(0), waited_ms: 10_000 };
    assert_eq!(bench.drain(&mut gate), [Got::BindFailed(0, error.clone())]);
    assert_eq!(gate.why_blocked(0), Some(WhyBlocked::BindFailed { error }));
    assert_eq!(gate.retry_bind(0), Ok(true));
    assert_eq!(gate.retry_bind(0), Ok(false), "once");
    bench.drain(&mut gate);
    assert_eq!(bench.manager.waiting(), 1);
    let producer = bench.create(0, 1, config(discard()));
    assert_eq!(bench.drain(&mut gate), [Got::Available(0, 1)]);
    drop((gate, producer));
    bench.assert_whole();
}

#[test]
fn too_many_waits_are_refused_and_an_update_goes_on() {
    let bench = Bench::new();
    let mut gate = bench.gate(1, &[(0, 1), (1, 1), (2, 1), (3, 1)]);
    let error = BindError::TooManyWaiting { waiting: 3 };
    assert_eq!(bench.drain(&mut gate), [Got::BindFailed(3, error)]);
    let producer = bench.create(3, 1, config(discard()));
    assert_eq!(gate.update_channel(3, bench.descriptor(3, 1)), Ok(Update::Accepted));
    assert_eq!(bench.drain(&mut gate), [Got::Available(3, 1)]);
    drop((gate, producer));
    bench.assert_whole();
}

#[test]
fn a_newer_attempt_of_the_consumer_takes_the_waiting_place() {
    let bench = Bench::new();
    let mut old = bench.gate(1, &[(0, 1)]);
    bench.drain(&mut old);
    let mut new = bench.gate(2, &[(0, 1)]);
    bench.drain(&mut new);
    let error = BindError::Superseded { newer: Attempt(2) };
    let fenced = Got::Failed(GateError::Fenced { channel: 0, newer: Attempt(2) });
    assert_eq!(bench.drain(&mut old), [Got::BindFailed(0, error), fenced]);
    let mut late = bench.gate(1, &[(0, 1)]);
    let error = BindError::Stale { presented: Attempt(1), current: Attempt(2) };
    assert_eq!(bench.drain(&mut late)[0], Got::BindFailed(0, error));
    let producer = bench.create(0, 1, config(discard()));
    assert_eq!(bench.drain(&mut new), [Got::Available(0, 1)]);
    drop((old, new, late, producer));
    bench.assert_whole();
}

#[test]
fn an_update_moves_a_waiting_bind() {
    let bench = Bench::new();
    let mut gate = bench.gate(1, &[(0, 1)]);
    bench.drain(&mut gate);
    assert_eq!(gate.update_channel(0, bench.descriptor(0, 3)), Ok(Update::Accepted));
    assert_eq!(bench.drain(&mut gate), []);
    assert_eq!(bench.manager.waiting(), 1);
    let skipped = bench.create(0, 2, config(discard()));
    assert_eq!(bench.drain(&mut gate), [], "attempt 3 is meant");
    let producer = bench.create(0, 3, config(discard()));
    assert_eq!(bench.drain(&mut gate), [Got::Available(0, 3)]);
    drop((gate, skipped, producer));
    bench.assert_whole();
}

#[test]
fn an_answer_that_came_before_the_update_is_read_to_its_end_first() {
    let bench = Bench::new();
    let mut gate = bench.gate(1, &[(0, 1)]);
    bench.drain(&mut gate);
    let mut first = bench.create(0, 1, config(discard()));
    first.write_all(0..2, 10);
    assert_eq!(gate.update_channel(0, bench.descriptor(0, 2)), Ok(Update::Accepted));
    let got = bench.drain(&mut gate);
    assert_eq!(got[0], Got::Available(0, 1));
    assert_eq!(numbers(&got, 0), [0, 1]);
    first.fail("over");
    assert_eq!(bench.drain(&mut gate).len(), 1);
    let second = bench.create(0, 2, config(discard()));
    assert_eq!(bench.drain(&mut gate), [Got::Available(0, 2)]);
    drop((gate, first, second));
    bench.assert_whole();
}

#[test]
fn an_outdated_descriptor_makes_the_channel_unavailable_until_the_update() {
    let bench = Bench::new();
    let producer = bench.create(0, 5, config(discard()));
    let mut gate = bench.gate(1, &[(0, 4)]);
    let superseded = Cause::Superseded { newer: Attempt(5) };
    assert_eq!(bench.drain(&mut gate), [Got::Unavailable(0, superseded)]);
    assert_eq!(gate.channel_snapshot(0).unwrap().epoch, BindEpoch::NEVER);
    gate.update_channel(0, bench.descriptor(0, 5)).unwrap();
    assert_eq!(bench.drain(&mut gate), [Got::Available(0, 5)]);
    drop((gate, producer));
    bench.assert_whole();
}

#[test]
fn a_waiting_bind_learns_of_the_end_of_its_job() {
    let bench = Bench::new();
    let mut gate = bench.gate(1, &[(0, 1)]);
    bench.drain(&mut gate);
    bench.woken.take();
    bench.manager.release_job(JobId(1));
    assert_eq!(bench.woken.take(), 1);
    assert_eq!(bench.drain(&mut gate), [Got::Unavailable(0, Cause::JobReleased)]);
    drop(gate);
    bench.assert_whole();
}

#[test]
fn a_wrong_secret_and_a_wrong_layout_are_refused_until_they_are_put_right() {
    let bench = Bench::new();
    let producer = bench.create(0, 1, config(discard()));
    let wrong = ChannelDescriptor { secret: BindSecret::new(8), ..bench.descriptor(0, 1) };
    let mut gate =
        InputGate::new(bench.manager.clone(), GateConfig::new(Attempt(1), Incarnation(1)).channel(wrong));
    let error = BindError::NotFound { partition: partition_id(0) };
    assert_eq!(bench.drain(&mut gate), [Got::BindFailed(0, error)]);
    let layout = crate::record::RecordLayout::Fixed(std::num::NonZeroU32::new(8).unwrap());
    let wrong = ChannelDescriptor { layout, ..bench.descriptor(0, 1) };
    assert_eq!(gate.update_channel(0, wrong), Ok(Update::Accepted));
    assert!(matches!(bench.drain(&mut gate)[..], [Got::BindFailed(0, BindError::Layout { .. })]));
    assert_eq!(gate.update_channel(0, bench.descriptor(0, 1)), Ok(Update::Accepted));
    assert_eq!(bench.drain(&mut gate), [Got::Available(0, 1)]);
    drop((gate, producer));
    bench.assert_whole();
}

#[test]
fn rings_of_an_older_bind_mean_nothing() {
    let bench = Bench::new();
    let mut first = bench.create(0, 1, config(discard()));
    let mut gate = bench.gate(1, &[(0, 1)]);
    bench.drain(&mut gate);
    let old = gate.channels[0].node.clone().unwrap();
    first.fail("over");
    bench.drain(&mut gate);
    gate.update_channel(0, bench.descriptor(0, 2)).unwrap();
    bench.drain(&mut gate);
    old.ring();
    gate.listen();
    assert!(!gate.channels[0].is_queued);
    gate.channels[0].node.clone().unwrap().ring();
    gate.listen();
    assert!(gate.channels[0].is_queued);
    assert_eq!(bench.poll(&mut gate), Got::Pending);
    drop((gate, first, old));
    bench.assert_whole();
}
