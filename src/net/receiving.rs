//! Channels that this worker reads: from a socket to the inboxes of gates.

use super::core::NetCore;
use super::peers::Step;
use super::serving::to_wire;
use super::timers::Timer;
use crate::clock::Moment;
use crate::error::{BindError, Cause};
use crate::id::RemoteAddress;
use crate::inbox::{Delivery, Over, Progress};
use crate::metrics::cold_event;
use crate::partition::OpenChannel;
use crate::protocol::{self, ACK_DELAY, Incoming, withdrawal};
use crate::wire::{self, ACKS_MAX, Bind, Frame, StreamId, StreamPosition, encode_acks};
use std::sync::Arc;

/// What this side keeps with a stream that it reads.
#[derive(Debug)]
pub(super) struct Receiving {
    pub(super) token: u32,
    pub(super) connection: usize,
    pub(super) stream: StreamId,
    pub(super) channel: Box<OpenChannel>,
    /// Once it is bound.
    pub(super) incoming: Option<Incoming>,
    /// It stands in its connection's list of those that may have something to acknowledge.
    pub(super) is_listed: bool,
}

/// Where a channel is.
#[derive(Debug)]
pub(super) enum Place {
    /// It waits for a connection to its peer.
    Waiting(Box<OpenChannel>),
    /// A stream is open for it, with this slot.
    Stream(usize),
    /// Its stream is over, and its task has yet to take what had come.
    Over(Box<OpenChannel>),
}

impl NetCore {
    /// A gate wants a channel.
    pub(super) fn open(&mut self, channel: Box<OpenChannel>) {
        let (token, peer) = (channel.feeder.node().token(), channel.peer);
        self.channels.insert(token, Place::Waiting(channel));
        match self.peers.want(peer, token) {
            Step::Use(connection) => self.bind(token, connection),
            step => self.step(peer, step),
        }
    }

    /// Asks for a channel by a connection.
    pub(super) fn bind(&mut self, token: u32, connection: usize) {
        let Some(Place::Waiting(mut channel)) = self.channels.remove(&token) else { return };
        let Some(live) = self.connections.get_mut(connection) else { return };
        let (window, request) = (channel.window, channel.request);
        let place = self.receiving.vacant_entry();
        let slot = place.key();
        let Some(stream) = live.session.open(1, |_| slot) else {
            // Not as a lost connection: the gate would ask again at once, and for ever.
            let error = BindError::TooManyWaiting { waiting: live.session.len() };
            channel.feeder.push(Delivery::Over(Over::Refused(error)));
            return;
        };
        let descriptor = &channel.descriptor;
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
        live.say(&frame);
        place.insert(Receiving { token, connection, stream, channel, incoming: None, is_listed: false });
        self.channels.insert(token, Place::Stream(slot));
        self.list(connection);
    }

    /// The task has moved on, or is gone.
    pub(super) fn channel_rang(&mut self, token: u32) {
        match self.channels.get_mut(&token) {
            Some(Place::Waiting(channel)) if channel.feeder.is_closed() => self.end_channel(token),
            None | Some(Place::Waiting(_)) => {}
            Some(Place::Over(channel)) => {
                if channel.feeder.flush() {
                    self.channels.remove(&token);
                }
            }
            Some(Place::Stream(slot)) => {
                let slot = *slot;
                let Some(receiving) = self.receiving.get_mut(slot) else { return };
                if receiving.channel.feeder.is_closed() {
                    return self.end_channel(token);
                }
                receiving.channel.feeder.flush();
                self.list_channel(slot);
            }
        }
    }

    /// The channel in this slot has something to acknowledge, or may.
    pub(super) fn list_channel(&mut self, slot: usize) {
        let Some(receiving) = self.receiving.get_mut(slot) else { return };
        let Some(connection) = self.connections.get_mut(receiving.connection) else { return };
        if !std::mem::replace(&mut receiving.is_listed, true) {
            connection.unacknowledged.push(receiving.stream);
            receiving.channel.feeder.watch();
        }
        if !std::mem::replace(&mut connection.is_acknowledging, true) {
            self.acknowledging.push(receiving.connection);
        }
    }

    /// Acknowledges what is due on the connections where something happened.
    pub(super) fn acknowledge_due(&mut self) {
        while let Some(slot) = self.acknowledging.pop() {
            if let Some(connection) = self.connections.get_mut(slot) {
                connection.is_acknowledging = false;
            }
            self.acknowledge(slot, false);
        }
    }

    /// Says what is due of a connection's channels; with `force` everything that is new.
    pub(super) fn acknowledge(&mut self, slot: usize, force: bool) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let (now, acks) = (self.now, &mut self.acks);
        let mut next: Option<Moment> = None;
        let (session, all) = (&connection.session, &mut self.receiving);
        connection.unacknowledged.retain(|stream| {
            let Some(receiving) = session.get(*stream).and_then(|slot| all.get_mut(slot)) else {
                return false;
            };
            let feeder = &mut receiving.channel.feeder;
            // As long as it looks by itself nobody rings for the room that a dry queue has.
            feeder.flush();
            let seen = progress(feeder.progress());
            let mut due = None;
            if let Some(incoming) = &mut receiving.incoming {
                let ack = incoming.acknowledgement(&seen, now, force);
                // While the stream flows this side looks by itself: the task has nobody to wake.
                due = incoming.due_at().or(ack.is_some().then(|| now.plus(ACK_DELAY)));
                acks.extend(ack);
            }
            if due.is_none() {
                feeder.rest();
                feeder.flush();
                if progress(feeder.progress()) != seen {
                    feeder.watch();
                    due = Some(now.plus(ACK_DELAY));
                }
            }
            next = [next, due].into_iter().flatten().min();
            receiving.is_listed = due.is_some();
            due.is_some()
        });
        for acks in self.acks.chunks(ACKS_MAX) {
            encode_acks(&mut connection.control, connection.agreed.features, acks);
        }
        if let Some(due) = next
            && connection.acknowledge_at.is_none_or(|at| at > due)
        {
            connection.acknowledge_at = Some(due);
            let generation = connection.generation;
            self.timers.set(due, Timer::Acknowledge { connection: slot, generation });
        }
        if !self.acks.is_empty() {
            self.acks.clear();
            self.list(slot);
        }
    }

    /// The task reads no more: the stream is closed in order.
    pub(super) fn end_channel(&mut self, token: u32) {
        match self.channels.remove(&token) {
            None | Some(Place::Over(_)) => {}
            Some(Place::Waiting(channel)) => self.peers.forget(channel.peer, token),
            Some(Place::Stream(slot)) => {
                let Some(mut receiving) = self.receiving.try_remove(slot) else { return };
                let Some(connection) = self.connections.get_mut(receiving.connection) else { return };
                let is_gone = receiving.channel.feeder.is_closed();
                let last = receiving.channel.feeder.progress();
                let close = match &receiving.incoming {
                    Some(incoming) => {
                        // A task that reads on may be given all that has come: none of it is certainly unread.
                        let yielded = if is_gone { to_wire(last.yielded) } else { incoming.at_most() };
                        incoming.closing(consumed(&last), yielded)
                    }
                    None => withdrawal(receiving.stream),
                };
                connection.session.close(receiving.stream);
                connection.say(&Frame::Close(close));
                self.list(receiving.connection);
            }
        }
    }

    /// The connection of the channel in this slot is gone.
    pub(super) fn channel_lost(&mut self, slot: usize, peer: RemoteAddress, reason: &str) {
        let Some(receiving) = self.receiving.try_remove(slot) else { return };
        self.channels.remove(&receiving.token);
        if receiving.channel.feeder.is_closed() {
            return;
        }
        if receiving.incoming.is_some() {
            self.over(receiving.token, receiving.channel, Over::Lost(lost(peer, reason)));
        } else {
            // Nothing was read by it yet: it is asked for again by the next connection.
            self.open(receiving.channel);
        }
    }

    /// The stream of the channel in this slot is over.
    pub(super) fn channel_over(&mut self, slot: usize, over: Over) {
        let Some(receiving) = self.receiving.try_remove(slot) else { return };
        self.channels.remove(&receiving.token);
        if let Some(connection) = self.connections.get_mut(receiving.connection) {
            connection.session.close(receiving.stream);
        }
        self.over(receiving.token, receiving.channel, over);
    }

    /// The last thing that a channel is told. It comes behind all that had come before: where the task is behind,
    /// the channel stays until that is taken.
    fn over(&mut self, token: u32, mut channel: Box<OpenChannel>, over: Over) {
        channel.feeder.push(Delivery::Over(over));
        // From here on the task rings: nobody looks any more.
        channel.feeder.rest();
        if !channel.feeder.flush() {
            self.channels.insert(token, Place::Over(channel));
        }
    }

    /// The control thread could not reach a peer.
    pub(super) fn dial_failed(&mut self, peer: RemoteAddress, reason: &Arc<str>) {
        cold_event!(info, %peer, reason = &**reason, "peer not reached");
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
        left: StreamPosition::new(progress.left, progress.left_entries),
        pinned: progress.pinned,
        consumed: consumed(&progress),
        priority: progress.priority,
    }
}
