//! Channels that this worker reads: from a socket to the inboxes of gates.

use super::core::NetCore;
use super::ending::{End, Whole};
use super::peers::Step;
use super::serving::to_wire;
use super::timers::Timer;
use crate::clock::Moment;
use crate::error::Cause;
use crate::id::{BindEpoch, RemoteAddress};
use crate::inbox::{Delivery, Over, Progress};
use crate::metrics::cold_event;
use crate::partition::{ChannelDescriptor, OpenChannel};
use crate::protocol::{self, ACK_DELAY, Incoming, withdrawal};
use crate::subpartition::BindRequest;
use crate::wire::{self, ACKS_MAX, Bind, Frame, StreamId, StreamPosition, encode_acks};
use std::sync::Arc;

/// What this side keeps with a stream that it has asked for.
#[derive(Debug)]
pub(super) enum Reading {
    /// A channel is fed by it.
    Channel(Receiving),
    /// It was read to its end, or opened to tell of one; its answer says that the other side knows.
    End(Box<End>),
}

impl Reading {
    /// Of the bind that it is about, once there is one.
    pub(super) fn epoch(&self) -> Option<BindEpoch> {
        match self {
            Self::Channel(receiving) => receiving.incoming.as_ref().map(Incoming::epoch),
            Self::End(end) => Some(end.ended.epoch),
        }
    }

    pub(super) fn channel(&mut self) -> Option<&mut Receiving> {
        match self {
            Self::Channel(receiving) => Some(receiving),
            Self::End(_) => None,
        }
    }
}

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
    /// Something was handed over that its task hasn't been told of; only within a turn.
    pub(super) is_unrung: bool,
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
    /// The same, and what had come is all of it.
    Whole(Box<Whole>),
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
        let Some(Place::Waiting(channel)) = self.channels.remove(&token) else {
            return self.tell_by(token, connection);
        };
        let Some(live) = self.connections.get_mut(connection) else { return };
        let (window, request) = (channel.window, channel.request);
        let place = self.receiving.vacant_entry();
        let slot = place.key();
        let Some(stream) = live.session.open(1, |_| slot) else {
            // It has given out all ids that there are, or carries as many streams as it may: another one does.
            live.is_spent = true;
            self.peers.spent(channel.peer, connection);
            self.leave_if_spent(connection);
            return self.open(channel);
        };
        let asked = question(stream, &channel.descriptor, request);
        let frame = Frame::Bind(Bind { limit: Incoming::initial_limit(window), ..asked });
        live.say(&frame);
        let receiving = Receiving {
            token,
            connection,
            stream,
            channel,
            incoming: None,
            is_listed: false,
            is_unrung: false,
        };
        place.insert(Reading::Channel(receiving));
        self.channels.insert(token, Place::Stream(slot));
        self.list(connection);
    }

    /// The task has moved on, or is gone.
    pub(super) fn channel_rang(&mut self, token: u32) {
        match self.channels.get_mut(&token) {
            Some(Place::Waiting(channel)) if channel.feeder.is_closed() => self.end_channel(token),
            None | Some(Place::Waiting(_)) => {}
            Some(Place::Whole(_)) => self.whole_rang(token),
            Some(Place::Over(channel)) => {
                if channel.feeder.flush() {
                    self.channels.remove(&token);
                }
            }
            Some(Place::Stream(slot)) => {
                let slot = *slot;
                let Some(receiving) = self.receiving.get_mut(slot).and_then(Reading::channel) else { return };
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
        let Some(receiving) = self.receiving.get_mut(slot).and_then(Reading::channel) else { return };
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
            let reading = session.get(*stream).and_then(|slot| all.get_mut(slot));
            let Some(receiving) = reading.and_then(Reading::channel) else { return false };
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

    /// The task reads no more: the stream is closed in order. If it was read to its end the other side answers.
    pub(super) fn end_channel(&mut self, token: u32) {
        let slot = match self.channels.remove(&token) {
            None | Some(Place::Over(_) | Place::Whole(_)) => return,
            Some(Place::Waiting(channel)) => return self.peers.forget(channel.peer, token),
            Some(Place::Stream(slot)) => slot,
        };
        let Some(reading) = self.receiving.get_mut(slot) else { return };
        let Some(receiving) = reading.channel() else { return };
        let Some(connection) = self.connections.get_mut(receiving.connection) else { return };
        let (slot_of, stream) = (receiving.connection, receiving.stream);
        let is_gone = receiving.channel.feeder.is_closed();
        let last = receiving.channel.feeder.progress();
        let (close, ended) = match &receiving.incoming {
            Some(incoming) => {
                let consumed = consumed(&last);
                // A task that reads on may be given all that has come: none of it is certainly unread.
                let yielded = if is_gone { to_wire(last.yielded) } else { incoming.at_most() };
                (incoming.closing(consumed, yielded), incoming.ended(consumed))
            }
            None => (withdrawal(stream), None),
        };
        connection.say(&Frame::Close(close));
        if let Some(ended) = ended {
            let worker = Some(connection.agreed.peer_worker);
            let mut end = End::new(&receiving.channel, ended, worker);
            end.told_by = Some((slot_of, stream));
            *reading = Reading::End(Box::new(end));
            self.told_ends += 1;
            self.count_ends();
        } else {
            connection.session.close(stream);
            self.receiving.try_remove(slot);
        }
        self.list(slot_of);
        self.leave_if_spent(slot_of);
    }

    /// The connection of the stream in this slot is gone.
    pub(super) fn channel_lost(&mut self, slot: usize, peer: RemoteAddress, reason: &str) {
        let receiving = match self.receiving.try_remove(slot) {
            None => return,
            Some(Reading::End(end)) => {
                self.told_ends -= 1;
                return self.tell(*end);
            }
            Some(Reading::Channel(receiving)) => receiving,
        };
        let Receiving { token, connection, channel, incoming, .. } = receiving;
        self.channels.remove(&token);
        let worker = self.connections.get(connection).map(|live| live.agreed.peer_worker);
        match incoming {
            Some(incoming) if incoming.is_whole() => {
                // What came last may not have been rung for: a range that broke a rule is not taken apart to its end.
                channel.feeder.ring();
                self.keep_whole(token, channel, incoming, worker);
            }
            _ if channel.feeder.is_closed() => {}
            Some(_) => self.over(token, channel, Over::Lost(lost(peer, reason))),
            // Nothing was read by it yet: it is asked for again by the next connection.
            None => self.open(channel),
        }
    }

    /// The stream in this slot is over.
    pub(super) fn channel_over(&mut self, slot: usize, over: Over) {
        let receiving = match self.receiving.get_mut(slot) {
            Some(Reading::End(_)) => return self.end_answered(slot, over),
            _ => match self.receiving.try_remove(slot) {
                Some(Reading::Channel(receiving)) => receiving,
                _ => return,
            },
        };
        self.channels.remove(&receiving.token);
        if let Some(connection) = self.connections.get_mut(receiving.connection) {
            connection.session.close(receiving.stream);
        }
        self.leave_if_spent(receiving.connection);
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
        if let Some(left_out) = self.comings.admit(self.now) {
            cold_event!(info, %peer, reason = &**reason, left_out, "peer not reached");
        }
        let step = self.peers.failed(peer, self.now);
        self.step(peer, step);
    }
}

/// Asks for the one subpartition that `descriptor` names, without credit and with no past: callers add what they have.
pub(super) fn question(stream: StreamId, descriptor: &ChannelDescriptor, request: BindRequest) -> Bind {
    Bind {
        stream,
        subpartition: descriptor.subpartition,
        count: 1,
        partition: descriptor.partition,
        producer_attempt: descriptor.producer_attempt,
        secret: descriptor.secret,
        layout: descriptor.layout,
        attempt: request.attempt,
        incarnation: request.incarnation,
        limit: Incoming::initial_limit(0),
        resume: None,
        ended: None,
    }
}

/// Why a channel lost its connection.
pub(super) fn lost(peer: RemoteAddress, reason: &str) -> Cause {
    Cause::ConnectionLost { peer, reason: reason.into() }
}

pub(super) fn consumed(progress: &Progress) -> wire::Consumed {
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
