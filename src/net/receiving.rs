//! Channels that this worker reads: from a socket to the inboxes of gates.

use super::connection::{Connection, Session};
use super::core::NetCore;
use super::peers::Step;
use super::serving::to_wire;
use crate::error::Cause;
use crate::id::RemoteAddress;
use crate::inbox::{Delivery, Over, Progress};
use crate::partition::OpenChannel;
use crate::protocol::{self, Incoming, Reader};
use crate::wire::{self, ACKS_MAX, Ack, Bind, Frame, StreamId, StreamPosition, encode_acks};
use std::sync::Arc;

/// What this side keeps with a stream that it reads.
#[derive(Debug)]
pub(super) struct Receiving {
    pub(super) token: u32,
    pub(super) channel: Box<OpenChannel>,
    /// It stands in its connection's list of those that may have something to acknowledge.
    pub(super) is_listed: bool,
}

/// Where a channel is.
#[derive(Debug)]
pub(super) enum Place {
    /// It waits for a connection to its peer.
    Waiting(Box<OpenChannel>),
    /// A stream of a connection.
    Stream(usize, StreamId),
}

impl NetCore {
    /// A gate wants a channel.
    pub(super) fn open(&mut self, channel: OpenChannel) {
        let (token, peer) = (channel.feeder.node().token(), channel.peer);
        self.channels.insert(token, Place::Waiting(Box::new(channel)));
        match self.peers.want(peer, token) {
            Step::Use(connection) => self.bind(token, connection),
            step => self.step(peer, step),
        }
    }

    /// Asks for a channel by a connection.
    pub(super) fn bind(&mut self, token: u32, slot: usize) {
        let Some(Place::Waiting(mut channel)) = self.channels.remove(&token) else { return };
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let Some(binder) = connection.binder() else { return };
        let (peer, window) = (channel.peer, channel.window);
        let descriptor = channel.descriptor.clone();
        let request = channel.request;
        let mut kept = Some(channel);
        let opened = binder.open(1, window, |_| {
            let Some(channel) = kept.take() else { unreachable!("one stream is opened") };
            Receiving { token, channel, is_listed: false }
        });
        let Some(stream) = opened else {
            let reason = format!("the connection has no room for another stream, {} are open", binder.len());
            if let Some(left) = &mut kept {
                left.feeder.push(Delivery::Over(Over::Lost(lost(peer, &reason))));
            }
            return;
        };
        self.channels.insert(token, Place::Stream(slot, stream));
        let frame = Frame::Bind(Bind {
            stream,
            subpartition: descriptor.subpartition,
            count: 1,
            partition: descriptor.partition,
            producer_attempt: descriptor.producer_attempt,
            secret: descriptor.secret,
            layout: descriptor.layout,
            attempt: request.attempt,
            incarnation: request.incarnation,
            limit: Incoming::initial_limit(window),
            resume: None,
        });
        connection.say(&frame);
        self.list(slot);
    }

    /// The task has moved on, or is gone.
    pub(super) fn channel_rang(&mut self, token: u32) {
        match self.channels.get_mut(&token) {
            None => {}
            Some(Place::Waiting(channel)) => {
                if channel.feeder.is_closed() {
                    let peer = channel.peer;
                    self.channels.remove(&token);
                    self.peers.forget(peer, token);
                }
            }
            Some(Place::Stream(slot, stream)) => {
                let (slot, stream) = (*slot, *stream);
                let reader = self.connections.get_mut(slot).and_then(Connection::binder);
                let Some(reader) = reader.and_then(|binder| binder.get(stream)) else { return };
                if reader.state.channel.feeder.is_closed() {
                    return self.end_channel(token);
                }
                reader.state.channel.feeder.flush();
                self.list_channel(slot, stream);
            }
        }
    }

    /// The channel has something to acknowledge, or may.
    pub(super) fn list_channel(&mut self, slot: usize, stream: StreamId) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let Some(reader) = connection.binder().and_then(|binder| binder.get(stream)) else { return };
        if !std::mem::replace(&mut reader.state.is_listed, true) {
            connection.unacknowledged.push(stream);
            self.acknowledging.push(slot);
        }
    }

    /// Acknowledges what is due on the connections where something happened.
    pub(super) fn acknowledge_due(&mut self) {
        while let Some(slot) = self.acknowledging.pop() {
            self.acknowledge(slot, false);
        }
    }

    /// Says what is due of a connection's channels; with `force` everything that is new.
    pub(super) fn acknowledge(&mut self, slot: usize, force: bool) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let Session::Binder(_, binder) = &mut connection.session else { return };
        let mut next = None;
        let acks = &mut self.acks;
        let now = self.now;
        connection.unacknowledged.retain(|stream| {
            let Some(reader) = binder.get(*stream) else { return false };
            let progress = progress(reader.state.channel.feeder.progress());
            let Some(incoming) = reader.incoming() else {
                reader.state.is_listed = false;
                return false;
            };
            acks.extend(incoming.acknowledgement(&progress, now, force));
            let due = incoming.due_at();
            next = match (next, due) {
                (Some(next), Some(due)) => Some(std::cmp::min::<crate::clock::Moment>(next, due)),
                (next, due) => next.or(due),
            };
            reader.state.is_listed = due.is_some();
            due.is_some()
        });
        for acks in self.acks.chunks(ACKS_MAX) {
            encode_acks(&mut connection.control, connection.agreed.features, acks);
        }
        let said = !self.acks.is_empty();
        self.acks.clear();
        if let Some(due) = next
            && connection.acknowledge_at.is_none_or(|at| at > due)
        {
            connection.acknowledge_at = Some(due);
            let generation = connection.generation;
            self.timers.set(due, super::timers::Timer::Acknowledge { connection: slot, generation });
        }
        if said {
            self.list(slot);
        }
    }

    /// The task reads no more: the stream is closed in order.
    pub(super) fn end_channel(&mut self, token: u32) {
        match self.channels.remove(&token) {
            None => {}
            Some(Place::Waiting(channel)) => self.peers.forget(channel.peer, token),
            Some(Place::Stream(slot, stream)) => {
                let Some(connection) = self.connections.get_mut(slot) else { return };
                let Some(mut reader) = connection.binder().and_then(|binder| binder.remove(stream)) else {
                    return;
                };
                let last = reader.state.channel.feeder.progress();
                let close = reader.closing(stream, consumed(&last), to_wire(last.yielded));
                connection.say(&Frame::Close(close));
                self.list(slot);
            }
        }
    }

    /// The connection of a channel is gone.
    pub(super) fn channel_lost(&mut self, peer: RemoteAddress, reader: Reader<Receiving>, reason: &str) {
        let (incoming, state) = reader.into_parts();
        let Receiving { token, mut channel, .. } = state;
        self.channels.remove(&token);
        if channel.feeder.is_closed() {
            return;
        }
        if incoming.is_some() {
            channel.feeder.push(Delivery::Over(Over::Lost(lost(peer, reason))));
        } else {
            // Nothing was read by it yet: it is asked for again by the next connection.
            self.open(*channel);
        }
    }

    /// A stream that this side reads is over.
    pub(super) fn channel_over(&mut self, reader: Reader<Receiving>, over: Over) {
        let (_, mut state) = reader.into_parts();
        self.channels.remove(&state.token);
        state.channel.feeder.push(Delivery::Over(over));
    }

    /// The control thread could not reach a peer.
    pub(super) fn dial_failed(&mut self, peer: RemoteAddress, reason: &Arc<str>) {
        crate::metrics::cold_event!(info, %peer, reason = &**reason, "peer not reached");
        let step = self.peers.failed(peer, self.now);
        self.step(peer, step);
    }
}

/// Why a channel lost its connection.
pub(super) fn lost(peer: RemoteAddress, reason: &str) -> Cause {
    Cause::ConnectionLost { peer, reason: reason.into() }
}

fn consumed(progress: &Progress) -> wire::Consumed {
    let consumed = progress.consumed;
    wire::Consumed {
        records: consumed.amount.records,
        bytes: consumed.amount.bytes,
        entries: consumed.entries,
        aborted: consumed.aborted,
    }
}

fn progress(progress: Progress) -> protocol::Progress {
    protocol::Progress {
        left: StreamPosition::new(progress.left, progress.consumed.entries),
        pinned: progress.pinned,
        consumed: consumed(&progress),
        priority: progress.priority,
    }
}

/// Of acknowledgements, to be reused.
pub(super) type Acks = Vec<Ack>;
