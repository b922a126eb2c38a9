//! What comes in: frames of one connection, each to what it is about.

use super::connection::{Connection, Session};
use super::core::NetCore;
use super::endpoint::Adopted;
use super::framer::Step;
use super::serving::{Served, Serving, State, from_wire, to_wire};
use crate::doorbell::ReadyNode;
use crate::error::{BindError, Cause};
use crate::inbox::{Chunk, Delivery, Inbox, Over, Popped, RemoteEvent, RemoteGrant};
use crate::memory::Lent;
use crate::metrics::cold_event;
use crate::partition::{BindAnswer, BindOutcome, BoundView, ChannelDescriptor, Location};
use crate::protocol::{Outgoing, Scope, Violation};
use crate::subpartition::{BindRequest, HOLDS, Losses, Source};
use crate::transport::{Close, Transport};
use crate::wire::{
    self, Bind, Bound, EventFrame, Frame, Refused, Runs, StreamEvent, StreamId, StreamPosition, Waiting,
    decode,
};
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;

/// Where the bytes of a frame lie.
#[derive(Clone, Copy)]
enum Origin<'a> {
    /// In a receive buffer, from this place of the range on.
    Buffer(&'a Lent, usize),
    /// In memory of their own.
    Heap(&'a Bytes),
}

impl Origin<'_> {
    /// The payload at `range` of the frame. Receive buffers are lent while more than half of them are free: what
    /// slow channels keep of them never stops the others.
    fn chunk(self, range: Range<usize>, may_lend: bool) -> Chunk {
        match self {
            Self::Buffer(lent, at) if may_lend => Chunk::Lent(lent.part(at + range.start..at + range.end)),
            Self::Buffer(lent, at) => {
                Chunk::Heap(Bytes::copy_from_slice(lent.get(at + range.start..at + range.end).unwrap_or(&[])))
            }
            Self::Heap(frame) => Chunk::Heap(frame.slice(range)),
        }
    }
}

impl NetCore {
    /// The control thread has a connection.
    pub(super) fn adopt<T: Transport>(&mut self, adopted: Adopted, transport: &mut T) {
        let Adopted { socket, agreed, dialled, from, early } = adopted;
        let id = match transport.attach(socket) {
            Ok(id) => id,
            Err(error) => {
                cold_event!(warn, %from, %error, "connection not taken over");
                if let Some(peer) = dialled {
                    self.dial_failed(peer, &error.to_string().into());
                }
                return;
            }
        };
        let generation = self.next_generation();
        let slot = self.connections.insert(Connection::new(id, generation, agreed, dialled, from));
        self.by_id.insert(id, slot);
        self.endpoint.counts.new_connection();
        if let Some(peer) = dialled {
            let Some(waiting) = self.peers.connected(peer, slot) else {
                return self.lose(id, "nobody waits for it", Close::Orderly, transport);
            };
            for token in waiting {
                self.bind(token, slot);
            }
        }
        // What came behind the handshake was not received by this transport.
        self.parse(slot, &early, None, transport);
    }

    /// A range of a receive buffer came.
    pub(super) fn received<T: Transport>(&mut self, slot: usize, bytes: &Lent, transport: &mut T) {
        self.parse(slot, bytes, Some(bytes), transport);
    }

    /// `lent`: the same bytes, if they lie in a receive buffer.
    fn parse<T: Transport>(&mut self, slot: usize, range: &[u8], lent: Option<&Lent>, transport: &mut T) {
        let may_lend = self.buffers.free() * 2 > self.buffers.slots();
        let mut at = 0;
        loop {
            let Some(connection) = self.connections.get_mut(slot).filter(|live| !live.is_closing) else {
                return;
            };
            let step = connection.framer.next(range, &mut at).map_err(Violation::from);
            let handled = match step {
                Ok(Step::More) => return,
                Ok(Step::Whole(frame)) => match lent {
                    Some(lent) => {
                        self.frame(slot, &range[frame.clone()], Origin::Buffer(lent, frame.start), may_lend)
                    }
                    None => {
                        let frame = Bytes::copy_from_slice(&range[frame]);
                        self.frame(slot, &frame, Origin::Heap(&frame), false)
                    }
                },
                Ok(Step::Joined(frame)) => self.frame(slot, &frame, Origin::Heap(&frame), false),
                Err(violation) => Err(violation),
            };
            if let Err(violation) = handled {
                self.violated(slot, violation, transport);
            }
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
        connection.conversation.admit(frame.kind())?;
        match frame {
            Frame::Data(runs) => return self.on_data(slot, runs, origin, may_lend),
            Frame::Acks(acks) => {
                for ack in acks.iter() {
                    // The other acknowledgements of the frame are other streams'.
                    if let Err(violation) = self.on_ack(slot, &ack) {
                        self.judge(slot, violation)?;
                    }
                }
            }
            Frame::Event(event) => return self.on_event(slot, event),
            Frame::Priority(priority) => {
                let Some(binder) = connection.binder() else { return Ok(()) };
                if let Some(reader) = binder.on_priority(&priority)?
                    && !reader.state.channel.feeder.push_priority(priority.event)
                {
                    // The session has counted those that were taken: one too many is its error, found above.
                    debug_assert!(false, "a priority event without a place");
                }
            }
            Frame::Bind(bind) => return self.on_bind(slot, &bind),
            Frame::Close(close) => {
                let Some(server) = connection.server() else { return Ok(()) };
                if let Some(feed) = server.on_close(&close)? {
                    self.on_close(feed, from_wire(close.yielded));
                }
            }
            Frame::Waiting(waiting) => {
                let Some(binder) = connection.binder() else { return Ok(()) };
                if let Some(state) = binder.on_waiting(&waiting)? {
                    state.channel.feeder.push(Delivery::Waiting);
                }
            }
            Frame::Refused(refused) => {
                let Some(binder) = connection.binder() else { return Ok(()) };
                if let Some(reader) = binder.on_refused(&refused)? {
                    self.channel_over(reader, Over::Refused(refused.error));
                }
            }
            Frame::Bound(bound) => {
                let Some(binder) = connection.binder() else { return Ok(()) };
                if let Some(reader) = binder.on_bound(&bound)? {
                    let grant = RemoteGrant {
                        epoch: bound.epoch,
                        lost: losses(&bound.lost),
                        in_doubt: from_wire(bound.in_doubt),
                        writer_lost: from_wire(bound.writer_lost),
                        ended: bound.ended,
                        resumed: bound.resumed,
                    };
                    reader.state.channel.feeder.push(Delivery::Bound(Box::new(grant)));
                }
            }
            Frame::Gone(gone) => {
                let Some(binder) = connection.binder() else { return Ok(()) };
                if let Some(reader) = binder.on_gone(&gone)? {
                    self.channel_over(reader, Over::Gone(gone.cause));
                }
            }
            Frame::Error(error) => {
                let (rule, text, from) = (error.rule, error.text, connection.from);
                cold_event!(warn, %from, %rule, text, "the other end found an error");
                match error.stream {
                    Some(stream) => self.drop_stream(slot, stream, text),
                    // It closes the connection now; what this side can still say is of no use.
                    None => return Ok(()),
                }
            }
            // The end of the stream follows.
            Frame::Goodbye => {}
            Frame::Hello(_) | Frame::Welcome(_) | Frame::Reject(_) | Frame::Ping(_) | Frame::Pong(_) => {}
        }
        Ok(())
    }

    fn on_data(
        &mut self,
        slot: usize,
        runs: Runs<'_>,
        origin: Origin<'_>,
        may_lend: bool,
    ) -> Result<(), Violation> {
        for (run, range) in runs.iter() {
            let Some(binder) = self.connections.get_mut(slot).and_then(Connection::binder) else {
                return Ok(());
            };
            let accepted = binder.on_run(&run);
            match accepted {
                Ok(Some(reader)) => {
                    if !may_lend {
                        self.endpoint.counts.copied_run();
                    }
                    let bytes = origin.chunk(range, may_lend);
                    reader.state.channel.feeder.push(Delivery::Data { uniform: run.uniform, bytes });
                    self.list_channel(slot, run.stream);
                }
                Ok(None) => {}
                // The other runs of the frame are other streams'.
                Err(violation) => self.judge(slot, violation)?,
            }
        }
        Ok(())
    }

    fn on_event(&mut self, slot: usize, frame: EventFrame<'_>) -> Result<(), Violation> {
        let Some(binder) = self.connections.get_mut(slot).and_then(Connection::binder) else { return Ok(()) };
        let Some(reader) = binder.on_event(&frame)? else { return Ok(()) };
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
        reader.state.channel.feeder.push(Delivery::Event(event));
        self.list_channel(slot, frame.stream);
        Ok(())
    }

    /// An error about one stream ends that stream; one about the connection is given back.
    fn judge(&mut self, slot: usize, violation: Violation) -> Result<(), Violation> {
        let Scope::Stream(stream) = violation.scope else { return Err(violation) };
        let Some(connection) = self.connections.get_mut(slot) else { return Ok(()) };
        let from = connection.from;
        cold_event!(warn, %from, %violation, "the other end broke a rule: stream closed");
        connection.say(&Frame::Error(violation.frame()));
        self.list(slot);
        self.drop_stream(slot, stream, &violation.to_string());
        Ok(())
    }

    /// A rule was broken.
    fn violated<T: Transport>(&mut self, slot: usize, violation: Violation, transport: &mut T) {
        let Err(violation) = self.judge(slot, violation) else { return };
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let (id, from) = (connection.id, connection.from);
        cold_event!(warn, %from, %violation, "the other end broke a rule: connection closed");
        connection.say(&Frame::Error(violation.frame()));
        self.endpoint.counts.violated();
        self.last_words(slot, transport);
        self.lose(id, &violation.to_string(), Close::Orderly, transport);
    }

    /// A stream is over for this side, whatever it is.
    fn drop_stream(&mut self, slot: usize, stream: StreamId, reason: &str) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        match &mut connection.session {
            Session::Server(server) => {
                if let Some(feed) = server.on_error(stream) {
                    self.names.try_remove(feed.state.name);
                }
            }
            Session::Binder(_, binder) => {
                if let Some(reader) = binder.on_error(stream) {
                    self.channel_over(reader, Over::Gone(Cause::Protocol(reason.into())));
                }
            }
        }
    }
}

fn losses(lost: &[wire::Amount; wire::LOSSES]) -> Losses {
    let [discarded, overflowed, aborted, drained, dropped_oldest, skipped, unread] = lost.map(from_wire);
    Losses { discarded, overflowed, aborted, drained, dropped_oldest, skipped, unread }
}
