mod handshake;
mod incoming;
mod outgoing;
mod rules;
mod session;
mod simulation;

use super::*;
use crate::clock::Moment;
use crate::id::{BindEpoch, BindSecret, Incarnation, PartitionId};
use crate::wire::*;
use std::time::Duration;

const STREAM: StreamId = StreamId(3);
const EPOCH: BindEpoch = BindEpoch(7);
const OTHER: BindEpoch = BindEpoch(6);
const WINDOW: u64 = 1000;

fn at(bytes: u64, entries: u64) -> StreamPosition {
    StreamPosition { bytes, entries }
}

fn bound(resumed: bool) -> Bound {
    Bound {
        stream: STREAM,
        epoch: EPOCH,
        incarnation: Incarnation(9),
        resumed,
        ended: false,
        ring_entries: 64,
        lost: [Amount::default(); LOSSES],
        in_doubt: Amount::default(),
        writer_lost: Amount::default(),
        barriers: crate::event::LostBarriers::default(),
    }
}

fn bind(stream: u32, count: u32) -> Bind {
    let limit = Incoming::initial_limit(WINDOW);
    Bind { count, limit, ..Bind::of_first_attempts(stream, PartitionId::default(), BindSecret::new(1)) }
}

fn run(position: StreamPosition, bytes: u32) -> Run {
    Run { stream: STREAM, epoch: EPOCH, position, bytes, uniform: u32::MAX }
}

fn event(position: StreamPosition, event: StreamEvent<'static>) -> EventFrame<'static> {
    EventFrame { stream: STREAM, epoch: EPOCH, position, event }
}

fn moment(micros: u64) -> Moment {
    Moment::from_nanos(micros * 1000)
}

/// What was refused, by its rule; all of these are about the stream.
fn broken<T: std::fmt::Debug>(result: Result<T, Violation>) -> Rule {
    let violation = result.expect_err("it breaks a rule");
    assert_eq!(violation.scope, Scope::Stream(STREAM), "{violation}");
    violation.rule
}
