//! What comes in: frames of one connection, each to what it is about.

use super::connection::Connection;
use super::core::NetCore;
use super::endpoint::Adopted;
use super::framer::Step;
use super::receiving::Reading;
use super::serving::from_wire;
use crate::error::Cause;
use crate::inbox::{Chunk, Delivery, Over, RemoteEvent, RemoteGrant};
use crate::memory::Lent;
use crate::metrics::cold_event;
use crate::protocol::{Accept, Incoming, Scope, Violation};
use crate::subpartition::Losses;
use crate::transport::{Close, Transport};
use crate::wire::{self, Bound, EventFrame, Frame, Kind, PriorityFrame, Run, StreamEvent, StreamId, decode};
use bytes::Bytes;
use std::ops::Range;

/// The most bytes of control frames that wait for one connection: more than the answers to binds of all the
/// streams that may be open on it.
const CONTROL_BYTES_MAX: usize = 16 << 20;

/// Where the bytes of a frame lie.
#[derive(Clone, Copy)]
enum Origin<'a> {
    /// In a receive buffer, from this place of the range on.
    Buffer(&'a Lent, usize),
    /// In memory of their own.
    Heap(&'a Bytes),
}

impl Origin<'_> {
    /// The payload at `range` of the frame. Receive buffers are lent until half of them hold bytes: what
    /// slow channels keep of them never stops the others.
    fn chunk(self, range: Range<usize>, may_lend: bool) -> Chunk {
        match self {
            Self::Buffer(lent, at) if may_lend => Chunk::Lent(lent.part(at + range.start..at + range.end)),
            Self::Buffer(lent, at) => {
                Chunk::Heap(Bytes::copy_from_slice(lent.get(at + range.start..at + range.end).unwrap_or(&[])))
            }
            // A part keeps the whole frame: what a slow channel waits with is never much more than its window.
            Self::Heap(frame) if range.len() * 2 < frame.len() => {
                Chunk::Heap(Bytes::copy_from_slice(frame.get(range).unwrap_or(&[])))
            }
            Self::Heap(frame) => Chunk::Heap(frame.slice(range)),
        }
    }
}

impl NetCore {
    /// The control thread has a connection.
    pub(super) fn adopt<T: Transport>(&mut self, adopted: Adopted, transport: &mut T) {
        let Adopted { socket, agreed, dialled, from, seat } = adopted;
        let id = match transport.attach(socket) {
            Ok(id) => id,
            Err(error) => {
                if let Some(left_out) = self.lines.admit(self.now) {
                    cold_event!(warn, %from, %error, left_out, "connection not taken over");
                }
                if let Some(peer) = dialled {
                    self.dial_failed(peer, &error.to_string().into());
                }
                return;
            }
        };
        let generation = self.next_generation();
        let slot = self.connections.insert(Connection::new(id, generation, agreed, dialled, from, seat));
        self.by_id.insert(id, slot);
        self.endpoint.counts.new_connection();
        if let Some(peer) = dialled {
            let Some(waiting) = self.peers.connected(peer, slot, self.now) else {
                return self.lose(id, "nobody waits for it", Close::Orderly, transport);
            };
            for token in waiting {
                self.bind(token, slot);
            }
        }
    }

    /// Wakes the tasks that were fed in this turn, each once for all that came.
    pub(super) fn ring_fed(&mut self) {
        while let Some(place) = self.unrung.pop() {
            // A stream that has ended meanwhile has told its task so, with a ring.
            if let Some(receiving) = self.receiving.get_mut(place).and_then(Reading::channel)
                && std::mem::take(&mut receiving.is_unrung)
            {
                receiving.channel.feeder.ring();
            }
        }
    }

    /// A range of a receive buffer came. Tasks are woken by [`NetCore::ring_fed`].
    pub(super) fn received<T: Transport>(&mut self, slot: usize, bytes: &Lent, transport: &mut T) {
        // What the transport took and hasn't filled is as good as free. Of a buffer that is being filled, tasks may hold
        // a part.
        let may_lend = (self.buffers.free() + transport.untouched_buffers()) * 2 > self.buffers.slots();
        let mut at = 0;
        loop {
            let Some(connection) = self.connections.get_mut(slot).filter(|live| !live.is_closing) else {
                return;
            };
            let step = connection.framer.next(bytes, &mut at).map_err(Violation::from);
            let handled = match step {
                Ok(Step::More) => return self.endpoint.counts.add(&connection.counts()),
                Ok(Step::Whole(frame)) => {
                    let origin = Origin::Buffer(bytes, frame.start);
                    self.frame(slot, &bytes[frame], origin, may_lend)
                }
                Ok(Step::Joined(frame)) => self.frame(slot, &frame, Origin::Heap(&frame), false),
                Err(violation) => Err(violation),
            };
            let handled = handled.and_then(|()| self.check_unread(slot));
            if let Err(violation) = handled {
                self.violated(slot, violation, transport);
            }
        }
    }

    /// Who asks and doesn't read the answers would have them pile up here.
    fn check_unread(&self, slot: usize) -> Result<(), Violation> {
        match self.connections.get(slot).map_or(0, |live| live.control.len()) {
            bytes if bytes > CONTROL_BYTES_MAX => Err(Violation::unread(bytes, CONTROL_BYTES_MAX)),
            _ => Ok(()),
        }
    }

    fn frame(
        &mut self,
        slot: usize,
        bytes: &[u8],
        origin: Origin<'_>,
        may_lend: bool,
    ) -> Result<(), Violation> {
        let Some(connection) = self.connections.get_mut(slot) else { return Ok(()) };
        let frame = decode(bytes, connection.agreed.features)?;
        connection.session.admit(frame.kind())?;
        match frame {
            Frame::Data(runs) => {
                for (run, range) in runs.iter() {
                    // The other runs of the frame are other streams'.
                    if let Err(violation) = self.on_run(slot, &run, range, origin, may_lend) {
                        self.judge(slot, violation)?;
                    }
                }
            }
            Frame::Acks(acks) => {
                for ack in acks.iter() {
                    // The other acknowledgements of the frame are other streams'.
                    if let Err(violation) = self.on_ack(slot, &ack) {
                        self.judge(slot, violation)?;
                    }
                }
            }
            Frame::Event(event) => self.on_event(slot, event)?,
            Frame::Priority(priority) => self.on_priority(slot, &priority)?,
            Frame::Bind(bind) => self.on_bind(slot, &bind)?,
            Frame::Close(close) => self.on_close(slot, &close)?,
            Frame::Waiting(waiting) => {
                if let Some(place) = connection.session.find(waiting.stream, Kind::Waiting)?
                    && let Some(receiving) = self.receiving.get_mut(place).and_then(Reading::channel)
                {
                    receiving.channel.feeder.push(Delivery::Waiting);
                }
            }
            Frame::Refused(refused) => {
                if let Some(place) = connection.session.find(refused.stream, Kind::Refused)? {
                    self.channel_over(place, Over::Refused(refused.error));
                }
            }
            Frame::Bound(bound) => self.on_bound(slot, &bound)?,
            Frame::Gone(gone) => {
                let Some(place) = connection.session.find(gone.stream, Kind::Gone)? else { return Ok(()) };
                if self.receiving.get(place).and_then(Reading::epoch) == Some(gone.epoch) {
                    self.channel_over(place, Over::Gone(gone.cause));
                } else {
                    connection.session.count_stale();
                }
            }
            Frame::Error(error) => {
                let (rule, text, from) = (error.rule, error.text, connection.from);
                if let Some(left_out) = self.may_log(slot) {
                    cold_event!(warn, %from, %rule, text, left_out, "the other end found an error");
                }
                // An error of the connection: it closes it now.
                if let Some(stream) = error.stream {
                    self.drop_stream(slot, stream, text);
                }
            }
            // The end of the stream follows.
            Frame::Goodbye => {}
            // Not admitted above.
            Frame::Hello(_) | Frame::Welcome(_) | Frame::Reject(_) | Frame::Ping(_) | Frame::Pong(_) => {}
        }
        Ok(())
    }

    fn on_bound(&mut self, slot: usize, bound: &Bound) -> Result<(), Violation> {
        let Some(connection) = self.connections.get_mut(slot) else { return Ok(()) };
        let Some(place) = connection.session.find(bound.stream, Kind::Bound)? else { return Ok(()) };
        let Some(receiving) = self.receiving.get_mut(place).and_then(Reading::channel) else { return Ok(()) };
        match Incoming::new(bound, receiving.channel.window) {
            Ok(incoming) => receiving.incoming = Some(incoming),
            Err(violation) => return Err(connection.session.judge(violation)),
        }
        let grant = RemoteGrant {
            epoch: bound.epoch,
            lost: losses(&bound.lost),
            in_doubt: from_wire(bound.in_doubt),
            writer_lost: from_wire(bound.writer_lost),
            barriers: bound.barriers,
            ended: bound.ended,
            resumed: bound.resumed,
        };
        connection.has_bound = true;
        receiving.channel.feeder.push(Delivery::Bound(Box::new(grant)));
        Ok(())
    }

    fn on_run(
        &mut self,
        slot: usize,
        run: &Run,
        range: Range<usize>,
        origin: Origin<'_>,
        may_lend: bool,
    ) -> Result<(), Violation> {
        let Some(connection) = self.connections.get_mut(slot) else { return Ok(()) };
        let Some(place) = connection.session.find(run.stream, Kind::Data)? else { return Ok(()) };
        let Some(receiving) = self.receiving.get_mut(place).and_then(Reading::channel) else { return Ok(()) };
        let Some(incoming) = &mut receiving.incoming else { return Ok(()) };
        match incoming.on_run(run) {
            Ok(Accept::Fresh) => {
                if !may_lend {
                    self.endpoint.counts.copied_run();
                }
                let bytes = origin.chunk(range, may_lend);
                let delivery = Delivery::Data { uniform: run.uniform, bytes };
                // Its task is woken once for all that this turn brings.
                if receiving.channel.feeder.push_silently(delivery) && !receiving.is_unrung {
                    receiving.is_unrung = true;
                    self.unrung.push(place);
                }
                self.list_channel(place);
                Ok(())
            }
            Ok(Accept::Dropped) => {
                connection.session.count_stale();
                Ok(())
            }
            Err(violation) => Err(connection.session.judge(violation)),
        }
    }

    fn on_event(&mut self, slot: usize, frame: EventFrame<'_>) -> Result<(), Violation> {
        let Some(connection) = self.connections.get_mut(slot) else { return Ok(()) };
        let Some(place) = connection.session.find(frame.stream, Kind::Event)? else { return Ok(()) };
        let Some(receiving) = self.receiving.get_mut(place).and_then(Reading::channel) else { return Ok(()) };
        let Some(incoming) = &mut receiving.incoming else { return Ok(()) };
        match incoming.on_event(&frame) {
            Ok(Accept::Fresh) => {}
            Ok(Accept::Dropped) => {
                connection.session.count_stale();
                return Ok(());
            }
            Err(violation) => return Err(connection.session.judge(violation)),
        }
        let event = match frame.event {
            StreamEvent::Barrier(id) => RemoteEvent::Barrier(id),
            StreamEvent::Watermark(time) => RemoteEvent::Watermark(time),
            StreamEvent::Application(bytes) => RemoteEvent::Application(Bytes::copy_from_slice(bytes)),
            StreamEvent::Abort => RemoteEvent::Abort,
            StreamEvent::Loss(amount) => RemoteEvent::Loss(from_wire(amount)),
            StreamEvent::EndOfData => RemoteEvent::EndOfData,
            StreamEvent::EndOfPartition => RemoteEvent::EndOfPartition,
            StreamEvent::Failed(cause) => RemoteEvent::Failed(cause),
        };
        receiving.channel.feeder.push(Delivery::Event(event));
        self.list_channel(place);
        Ok(())
    }

    fn on_priority(&mut self, slot: usize, frame: &PriorityFrame) -> Result<(), Violation> {
        let Some(connection) = self.connections.get_mut(slot) else { return Ok(()) };
        let Some(place) = connection.session.find(frame.stream, Kind::Priority)? else { return Ok(()) };
        let Some(receiving) = self.receiving.get_mut(place).and_then(Reading::channel) else { return Ok(()) };
        let Some(incoming) = &mut receiving.incoming else { return Ok(()) };
        match incoming.on_priority(frame) {
            Ok(Accept::Fresh) => {}
            Ok(Accept::Dropped) => {
                connection.session.count_stale();
                return Ok(());
            }
            Err(violation) => return Err(connection.session.judge(violation)),
        }
        // There is a place: the session counts those that were told as taken, which are no more than were.
        let placed = receiving.channel.feeder.push_priority(frame.event);
        debug_assert!(placed, "a priority event without a place");
        self.list_channel(place);
        Ok(())
    }

    /// An error about one stream ends that stream; one about the connection is given back.
    fn judge(&mut self, slot: usize, violation: Violation) -> Result<(), Violation> {
        let Scope::Stream(stream) = violation.scope else { return Err(violation) };
        if let Some(left_out) = self.may_log(slot) {
            let from = self.connections[slot].from;
            cold_event!(warn, %from, %violation, left_out, "the other end broke a rule: stream closed");
        }
        let Some(connection) = self.connections.get_mut(slot) else { return Ok(()) };
        self.endpoint.counts.violated();
        connection.say(&Frame::Error(violation.frame()));
        self.list(slot);
        self.drop_stream(slot, stream, &violation.to_string());
        Ok(())
    }

    /// A rule was broken.
    fn violated<T: Transport>(&mut self, slot: usize, violation: Violation, transport: &mut T) {
        let Err(violation) = self.judge(slot, violation) else { return };
        if let Some(left_out) = self.may_log(slot) {
            let from = self.connections[slot].from;
            cold_event!(warn, %from, %violation, left_out, "the other end broke a rule: connection closed");
        }
        let Some(connection) = self.connections.get_mut(slot) else { return };
        connection.say(&Frame::Error(violation.frame()));
        self.endpoint.counts.violated();
        self.part(slot, &violation.to_string(), transport);
    }

    /// A stream is over for this side, whatever it is.
    fn drop_stream(&mut self, slot: usize, stream: StreamId, reason: &str) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let Some(place) = connection.session.close(stream) else { return };
        match connection.dialled {
            Some(_) => self.channel_over(place, Over::Gone(Cause::Protocol(reason.into()))),
            None => drop(self.serving.try_remove(place)),
        }
    }
}

fn losses(lost: &[wire::Amount; wire::LOSSES]) -> Losses {
    let [discarded, overflowed, aborted, drained, dropped_oldest, skipped, unread] = lost.map(from_wire);
    Losses { discarded, overflowed, aborted, drained, dropped_oldest, skipped, unread }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn little_of_a_frame_does_not_keep_all_of_it() {
        let frame = Bytes::from(vec![7; 64 << 10]);
        let lies_in_frame = |chunk: &Chunk| frame.as_ptr_range().contains(&chunk.as_ptr());
        let little = Origin::Heap(&frame).chunk(100..200, false);
        assert!(!lies_in_frame(&little));
        assert_eq!(*little, [7; 100]);
        let most = Origin::Heap(&frame).chunk(100..40_000, false);
        assert!(lies_in_frame(&most));
        assert_eq!(most.len(), 39_900);
    }
}
