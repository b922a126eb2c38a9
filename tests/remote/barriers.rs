//! Tasks that align barriers: of one that is lost they are told, and the next one is as ever.

use crate::stage::{Got, RETAIN, Stage, assert_silent, config, next, until};
use pirn::{Attempt, Cause, Event, InputGate, Phase, RecordWriter, Target, WhenAbsent};
use std::task::{Context, Poll, Waker};

const DISCARD: WhenAbsent = WhenAbsent::Discard;

fn barrier(writer: &mut RecordWriter, id: u64) {
    let mut cx = Context::from_waker(Waker::noop());
    let written = writer.poll_event(&mut cx, Target::All, &Event::Barrier(id));
    assert!(matches!(written, Poll::Ready(Ok(_))), "{written:?}");
    writer.flush();
}

fn event(channel: u32, id: u64) -> Got {
    Got::Event(channel, Event::Barrier(id))
}

/// Two producers, each with its partition.
fn writers(stage: &Stage, when_absent: WhenAbsent) -> [RecordWriter; 2] {
    [0, 1].map(|index| stage.create(index, 1, config(1, when_absent)))
}

/// A gate of an attempt of their consumer, bound to both; and what came of the first one meanwhile.
fn bound(stage: &Stage, attempt: u32) -> (InputGate, Vec<Got>) {
    let channels = [0, 1].map(|index| stage.descriptor(index, 1));
    let mut gate = stage.consumer.input_gate(stage.config(attempt).channels(channels));
    let (mut bound, mut rest) = (0, Vec::new());
    while bound < 2 {
        match next(&mut gate) {
            Got::Available(..) => bound += 1,
            got => rest.push(got),
        }
    }
    (gate, rest)
}

fn until_absent(stage: &Stage) {
    until("both consumers are absent", || {
        [0, 1].iter().all(|index| {
            stage.partition(*index).is_some_and(|it| it.subpartitions[0].phase == Phase::Unavailable)
        })
    });
}

/// One attempt of the consumer had the barrier of one channel, and is gone; its successor gets it of the other.
pub(crate) fn a_barrier_that_went_with_the_consumer_before_is_told(stage: Stage) {
    let [mut first, mut second] = writers(&stage, DISCARD);
    let (mut gate, _) = bound(&stage, 1);
    barrier(&mut first, 7);
    assert_eq!(next(&mut gate), event(0, 7));
    drop(gate);
    until_absent(&stage);
    let (mut gate, rest) = bound(&stage, 2);
    assert_eq!(rest, []);
    barrier(&mut second, 7);
    assert_eq!(next(&mut gate), event(1, 7));
    assert_eq!(next(&mut gate), Got::AlignmentBroken(7, 0));
    barrier(&mut first, 8);
    assert_eq!(next(&mut gate), event(0, 8));
    barrier(&mut second, 8);
    assert_eq!(next(&mut gate), event(1, 8));
    assert_silent(&mut gate);
    drop((gate, first, second));
    stage.end();
}

/// One barrier went with the consumer before, one is dropped in the outage, though records would be retained.
pub(crate) fn a_barrier_that_nobody_was_there_for_is_told(stage: Stage) {
    let [mut first, mut second] = writers(&stage, RETAIN);
    let (mut gate, _) = bound(&stage, 1);
    barrier(&mut first, 1);
    assert_eq!(next(&mut gate), event(0, 1));
    drop(gate);
    until_absent(&stage);
    barrier(&mut first, 2);
    let (mut gate, rest) = bound(&stage, 2);
    assert_eq!(rest, [], "dropped: nobody was there");
    for id in [1, 2] {
        barrier(&mut second, id);
        assert_eq!(next(&mut gate), event(1, id));
        assert_eq!(next(&mut gate), Got::AlignmentBroken(id, 0));
    }
    barrier(&mut first, 3);
    assert_eq!(next(&mut gate), event(0, 3));
    barrier(&mut second, 3);
    assert_eq!(next(&mut gate), event(1, 3));
    assert_silent(&mut gate);
    drop((gate, first, second));
    stage.end();
}

/// A producer fails before it brings the barrier that the other one brought; its successor begins behind it.
pub(crate) fn a_producer_that_fails_breaks_the_barrier_that_others_brought(stage: Stage) {
    let [first, mut second] = writers(&stage, DISCARD);
    let (mut gate, _) = bound(&stage, 1);
    barrier(&mut second, 1);
    assert_eq!(next(&mut gate), event(1, 1));
    gate.pause(1).unwrap();
    first.fail("gone");
    assert_eq!(next(&mut gate), Got::Unavailable(0, Cause::Failed("gone".into())));
    assert_eq!(next(&mut gate), Got::AlignmentBroken(1, 0));
    gate.resume(1).unwrap();
    let mut successor = stage.create(0, 2, config(1, DISCARD));
    gate.update_channel(0, stage.descriptor(0, 2)).unwrap();
    assert_eq!(next(&mut gate), Got::Available(0, Attempt(2)));
    barrier(&mut successor, 2);
    assert_eq!(next(&mut gate), event(0, 2));
    barrier(&mut second, 2);
    assert_eq!(next(&mut gate), event(1, 2));
    drop((gate, second, successor));
    stage.end();
}
