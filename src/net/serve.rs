//! The streams that other workers ask for: bound, waiting, acknowledged, over.

use super::core::NetCore;
use super::serving::{Served, Serving, State, to_wire};
use crate::doorbell::ReadyNode;
use crate::error::{BindError, Cause};
use crate::id::BindEpoch;
use crate::inbox::{Inbox, Popped};
use crate::partition::{BindAnswer, BindOutcome, BoundView, ChannelDescriptor, EndError, Location};
use crate::protocol::{Acked, Outgoing, Violation};
use crate::subpartition::{Amount, BindRequest, HOLDS, LastWord, Losses, Source};
use crate::wire::{
    self, Ack, Bind, Bound, Close, Ended, Frame, Gone, Kind, Refused, StreamId, StreamPosition, Waiting,
};
use std::sync::Arc;

/// Segments that a writer fills before it wakes the network thread that serves it: half of a batch.
const SEGMENTS_A_RING_MAX: u32 = 8;

impl NetCore {
    pub(super) fn on_bind(&mut self, connection: usize, bind: &Bind) -> Result<(), Violation> {
        let Some(live) = self.connections.get_mut(connection) else { return Ok(()) };
        let (serving, bell) = (&mut self.serving, self.endpoint.bell());
        live.session.on_bind(bind, |index| {
            let place = serving.vacant_entry();
            let slot = place.key();
            place.insert(Serving {
                connection,
                stream: StreamId(bind.stream.0.wrapping_add(index)),
                attempt: bind.attempt,
                // Slots count from 0: they stay below the tokens of channels.
                node: ReadyNode::new(bell, slot as u32),
                is_listed: false,
                is_parked: false,
                state: State::Asked,
            });
            slot
        })?;
        if let Some(ended) = &bind.ended {
            return self.on_ended(connection, bind, ended);
        }
        for index in 0..bind.count {
            self.bind_one(connection, bind, index);
        }
        self.list(connection);
        Ok(())
    }

    /// The reader of an older bind has consumed the end, and the connection that should have told it was lost.
    fn on_ended(&mut self, connection: usize, bind: &Bind, ended: &Ended) -> Result<(), Violation> {
        let Some(live) = self.connections.get_mut(connection) else { return Ok(()) };
        let Some(slot) = live.session.get(bind.stream) else { return Ok(()) };
        let request = BindRequest::new(bind.attempt, bind.incarnation);
        let Ended { incarnation, epoch, consumed } = *ended;
        let word = LastWord { epoch, bytes: consumed.bytes, aborted: consumed.aborted };
        match self.manager.end_consumed(&descriptor(bind, 0), request, incarnation, &word) {
            Ok(()) => self.say_gone(slot, epoch, Cause::Consumed),
            Err(EndError::Refused(error)) => self.refused(slot, error),
            Err(EndError::NotSent) => {
                return Err(live.session.judge(Violation::end_not_sent(bind.stream, ended)));
            }
        }
        self.list(connection);
        Ok(())
    }

    fn bind_one(&mut self, connection: usize, bind: &Bind, index: u32) {
        let stream = StreamId(bind.stream.0.wrapping_add(index));
        let Some(slot) = self.connections.get(connection).and_then(|live| live.session.get(stream)) else {
            return;
        };
        let Some(serving) = self.serving.get_mut(slot) else { return };
        let descriptor = descriptor(bind, index);
        let request = BindRequest::new(bind.attempt, bind.incarnation).holding(HOLDS);
        let node = serving.node.clone();
        let inbox = Arc::new(Inbox::new(1, node.clone()));
        let Some(live) = self.connections.get_mut(connection) else { return };
        // Taken first: a bind that may not wait takes nobody's place in the list.
        let seat = live.seat.wait();
        let may_wait = seat.as_ref().map(drop).map_err(|waiting| *waiting);
        match (self.manager.bind_within(&descriptor, request, &node, &inbox, may_wait), seat) {
            (Ok(BindOutcome::Bound(bound)), _) => self.granted(slot, bound, bind.limit),
            (Ok(BindOutcome::Waiting(ticket)), Ok(seat)) => {
                serving.state = State::Waiting { _ticket: ticket, _seat: seat, inbox, limit: bind.limit };
                if live.session.answer(stream, Kind::Waiting) {
                    live.say(&Frame::Waiting(Waiting { stream }));
                }
            }
            // Not to be: it was told that it may not wait.
            (Ok(BindOutcome::Waiting(_)), Err(waiting)) => {
                self.refused(
                    slot,
                    BindError::TooManyWaiting { waiting: usize::try_from(waiting).unwrap_or(usize::MAX) },
                );
            }
            (Err(error), seat) => {
                let is_full = seat.is_err() && matches!(error, BindError::TooManyWaiting { .. });
                self.endpoint.counts.over_share(u64::from(is_full));
                self.refused(slot, error);
            }
        }
    }

    /// The partition that a stream waited for is here, or will not be.
    pub(super) fn answered(&mut self, slot: usize) {
        let Some(serving) = self.serving.get_mut(slot) else { return };
        let State::Waiting { inbox, limit, .. } = &serving.state else { return };
        let (limit, connection) = (*limit, serving.connection);
        let Popped::Item(answer): Popped<BindAnswer> = inbox.pop() else { return };
        match answer {
            Ok(bound) => self.granted(slot, bound, limit),
            Err(error) => self.refused(slot, error),
        }
        self.list(connection);
    }

    fn granted(&mut self, slot: usize, bound: BoundView, limit: StreamPosition) {
        let Some(serving) = self.serving.get_mut(slot) else { return };
        let Some(live) = self.connections.get_mut(serving.connection) else { return };
        let (stream, connection) = (serving.stream, serving.connection);
        // False: the binder has taken it back, and the view ends here.
        if !live.session.answer(stream, Kind::Bound) {
            return;
        }
        let BoundView { view, grant, partition } = bound;
        let source = Source::new(view);
        let (_, quota) = source.subpartition().segments();
        source.node().set_patience((quota / 4).clamp(1, SEGMENTS_A_RING_MAX));
        let frame = Frame::Bound(Bound {
            stream,
            epoch: grant.epoch,
            incarnation: partition.incarnation,
            resumed: false,
            ended: grant.ended,
            // What the writer may fill before something of it must be acknowledged.
            ring_entries: source.ring_entries().min(u16::try_from(quota).unwrap_or(u16::MAX)),
            lost: losses(&grant.lost),
            in_doubt: to_wire(grant.in_doubt),
            writer_lost: to_wire(grant.writer_lost),
            barriers: grant.barriers,
        });
        live.say(&frame);
        let outgoing = Outgoing::new(grant.epoch, limit);
        serving.state = State::Bound(Box::new(Served::new(source, outgoing, partition)));
        self.list_stream(slot);
        self.list(connection);
    }

    fn refused(&mut self, slot: usize, error: BindError) {
        let Some(serving) = self.serving.try_remove(slot) else { return };
        let Some(live) = self.connections.get_mut(serving.connection) else { return };
        let stream = serving.stream;
        if live.session.close(stream).is_some() {
            live.say(&Frame::Refused(Refused { stream, error }));
        }
    }

    /// The stream is over, and its binder is told so.
    fn say_gone(&mut self, slot: usize, epoch: BindEpoch, cause: Cause) {
        let Some(serving) = self.serving.try_remove(slot) else { return };
        let Some(live) = self.connections.get_mut(serving.connection) else { return };
        let stream = serving.stream;
        if live.session.close(stream).is_some() {
            live.say(&Frame::Gone(Gone { stream, epoch, cause }));
        }
    }

    pub(super) fn on_ack(&mut self, connection: usize, ack: &Ack) -> Result<(), Violation> {
        let Some(live) = self.connections.get_mut(connection) else { return Ok(()) };
        let Some(slot) = live.session.find(ack.stream, Kind::Ack)? else { return Ok(()) };
        let Some(served) = self.serving.get_mut(slot).and_then(Serving::served) else { return Ok(()) };
        match served.outgoing.on_ack(ack) {
            Ok(Acked::Fresh(_)) => {}
            Ok(Acked::Stale) => {
                live.session.count_stale();
                return Ok(());
            }
            Err(violation) => return Err(live.session.judge(violation)),
        }
        match served.acknowledged() {
            Ok(true) => {
                served.partition.acknowledge_end();
                self.say_gone(slot, ack.epoch, Cause::Consumed);
                self.list(connection);
                return Ok(());
            }
            Ok(false) => self.list_parked(slot),
            // Fenced: the next visit says so.
            Err(_) => self.list_stream(slot),
        }
        Ok(())
    }

    /// The consumer has closed its stream in order, and this is its last word. That it has consumed the end is
    /// answered: it keeps that in mind until then.
    pub(super) fn on_close(&mut self, connection: usize, close: &Close) -> Result<(), Violation> {
        let Some(live) = self.connections.get_mut(connection) else { return Ok(()) };
        let Some(slot) = live.session.find(close.stream, Kind::Close)? else { return Ok(()) };
        let mut answer = None;
        if let Some(serving) = self.serving.get_mut(slot)
            && let attempt = serving.attempt
            && let Some(served) = serving.served()
        {
            match served.outgoing.on_close(close) {
                Ok(Acked::Fresh(_)) => {}
                Ok(Acked::Stale) => {
                    live.session.count_stale();
                    return Ok(());
                }
                Err(violation) => return Err(live.session.judge(violation)),
            }
            let is_end = served.acknowledged() == Ok(true);
            served.source.close(Amount { records: close.yielded.records, bytes: close.yielded.bytes });
            if is_end {
                served.partition.acknowledge_end();
            }
            answer = served.is_through().then(|| match is_end {
                true => Cause::Consumed,
                // Whoever reads now speaks for itself.
                false => served.severed(attempt),
            });
        }
        match answer {
            Some(cause) => {
                self.say_gone(slot, close.epoch, cause);
                self.list(connection);
            }
            None => {
                live.session.close(close.stream);
                self.serving.try_remove(slot);
            }
        }
        Ok(())
    }
}

/// The subpartition number `index` of those that a BIND names.
fn descriptor(bind: &Bind, index: u32) -> ChannelDescriptor {
    ChannelDescriptor {
        partition: bind.partition,
        producer_attempt: bind.producer_attempt,
        subpartition: bind.subpartition.wrapping_add(index),
        location: Location::Local,
        secret: bind.secret,
        layout: bind.layout,
    }
}

fn losses(lost: &Losses) -> [wire::Amount; wire::LOSSES] {
    let Losses { discarded, overflowed, aborted, drained, dropped_oldest, skipped, unread } = *lost;
    [discarded, overflowed, aborted, drained, dropped_oldest, skipped, unread].map(to_wire)
}
