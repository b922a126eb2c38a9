//! Ends of partitions that tasks have consumed, kept until the producer's worker is known to know of them.
//!
//! A producer finishes when each consumer has acknowledged its end. The acknowledgement is the last frame of a
//! stream: with its connection it may get lost, and the task that read the stream has nothing left to ask for. So the
//! network thread keeps the word ([`End`]) until it is answered: by GONE, or by a refusal, which says that there is
//! nothing left to tell (the partition is released, or a newer attempt reads it). When the connection is lost before,
//! the word goes by the next one, as a BIND that asks for nothing; the pauses between two dials are those of channels.
//!
//! A stream that was received to its end has no need of its connection, either: its task reads on without a notice
//! ([`Whole`]), and only then is there something to tell. So a task is never told of an outage behind which there is
//! nothing, and whatever it had acknowledged when the connection was lost, nothing comes to it twice.
//!
//! # How long
//! As long as the gate is there, like its channels. An acknowledgement that was given stays given when the gate is
//! dropped: it is told for [`TELL_FOR`] more. Earlier it ends when the worker is found dead, when this network thread
//! ends (a shutdown with a deadline waits for what isn't said: `NetSnapshot::ends_unsaid`), or when [`ENDS_MAX`] wait.

use super::core::NetCore;
use super::peers::Step;
use super::receiving::{Place, Reading, question};
use super::timers::Timer;
use crate::clock::Moment;
use crate::error::Cause;
use crate::id::{RemoteAddress, WorkerId};
use crate::inbox::Over;
use crate::metrics::cold_event;
use crate::partition::{ChannelDescriptor, GateLife, OpenChannel};
use crate::protocol::{Incoming, STREAMS_MAX};
use crate::subpartition::BindRequest;
use crate::wire::{Bind, Ended, Frame, StreamId};
use std::sync::Weak;
use std::time::Duration;

/// How long an end is told after its gate was dropped: as long as a bind waits for its partition.
pub(super) const TELL_FOR: Duration = Duration::from_secs(10);
/// How often it is looked whether the gate of an end that waits for a connection is there yet.
const LOOK: Duration = Duration::from_secs(1);
/// Ends that wait for connections, at most: as many as there are streams of one.
pub(super) const ENDS_MAX: usize = STREAMS_MAX;

/// An end that a task has consumed, and that isn't confirmed.
#[derive(Debug)]
pub(super) struct End {
    /// Of the channel that it was.
    pub(super) token: u32,
    pub(super) peer: RemoteAddress,
    /// Whom the task read from.
    worker: Option<WorkerId>,
    descriptor: ChannelDescriptor,
    request: BindRequest,
    pub(super) ended: Ended,
    gate: Weak<GateLife>,
    /// When to give up, once the gate is gone.
    until: Option<Moment>,
    /// When it is looked after next, or was last.
    look: Option<Moment>,
    /// There was a connection without room for a stream.
    is_crowded: bool,
    /// The stream by which it is being told, in the slot of its connection.
    pub(super) told_by: Option<(usize, StreamId)>,
}

/// A stream that was received to its end and has lost its connection, while the task has yet to read the rest.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) channel: Box<OpenChannel>,
    incoming: Incoming,
    worker: Option<WorkerId>,
}

impl End {
    pub(super) fn new(channel: &OpenChannel, ended: Ended, worker: Option<WorkerId>) -> Self {
        Self {
            token: channel.feeder.node().token(),
            peer: channel.peer,
            worker,
            descriptor: channel.descriptor.clone(),
            request: channel.request,
            ended,
            gate: channel.gate.clone(),
            until: None,
            look: None,
            is_crowded: false,
            told_by: None,
        }
    }

    /// Whether it was tried for long enough.
    fn is_given_up(&mut self, now: Moment) -> bool {
        if self.gate.strong_count() > 0 {
            return false;
        }
        now >= *self.until.get_or_insert(now.plus(TELL_FOR))
    }

    fn frame(&self, stream: StreamId) -> Frame<'static> {
        let asked = question(stream, &self.descriptor, self.request);
        Frame::Bind(Bind { ended: Some(self.ended), ..asked })
    }
}

impl NetCore {
    /// A stream that was received to its end is cut off: the task reads on.
    pub(super) fn keep_whole(
        &mut self,
        token: u32,
        channel: Box<OpenChannel>,
        incoming: Incoming,
        worker: Option<WorkerId>,
    ) {
        // From here on the task rings: nobody looks any more, but once below.
        channel.feeder.rest();
        self.channels.insert(token, Place::Whole(Box::new(Whole { channel, incoming, worker })));
        self.whole_rang(token);
    }

    /// The task of such a stream has moved on, or is gone.
    pub(super) fn whole_rang(&mut self, token: u32) {
        let Some(Place::Whole(whole)) = self.channels.get_mut(&token) else { return };
        let feeder = &mut whole.channel.feeder;
        let is_closed = feeder.is_closed();
        feeder.flush();
        let consumed = super::receiving::consumed(&feeder.progress());
        let ended = whole.incoming.ended(consumed);
        if ended.is_none() && !is_closed {
            return;
        }
        let end = ended.map(|ended| End::new(&whole.channel, ended, whole.worker));
        self.channels.remove(&token);
        if let Some(end) = end {
            self.tell(end);
        }
    }

    /// The end has to be told by another connection than that it was read by.
    pub(super) fn tell(&mut self, mut end: End) {
        end.told_by = None;
        if self.stopping {
            return self.give_up(&end, "the worker is shutting down");
        }
        if self.ends.len() >= ENDS_MAX {
            return self.give_up(&end, "too many wait");
        }
        let (token, now) = (end.token, self.now);
        if end.is_given_up(now) {
            return self.give_up(&end, "its gate is gone, and its time over");
        }
        if end.look.is_none_or(|at| at <= now) {
            self.arrange_look(&mut end);
        }
        self.ends.insert(token, end);
        self.seek(token);
        self.count_ends();
    }

    /// Tells the end at once, or when there is a connection.
    fn seek(&mut self, token: u32) {
        let Some(peer) = self.ends.get(&token).map(|end| end.peer) else { return };
        match self.peers.want(peer, token) {
            Step::Use(connection) => self.tell_by(token, connection),
            step => self.step(peer, step),
        }
    }

    fn arrange_look(&mut self, end: &mut End) {
        let at = self.now.plus(LOOK);
        end.look = Some(end.until.map_or(at, |until| until.min(at)));
        self.timers.set(end.look.unwrap_or(at), Timer::End(end.token));
    }

    /// Tells an end by this connection, if the token is that of one.
    pub(super) fn tell_by(&mut self, token: u32, connection: usize) {
        let Some(mut end) = self.ends.remove(&token) else { return };
        let Some(live) = self.connections.get_mut(connection) else {
            return self.give_up(&end, "its connection is no more");
        };
        let place = self.receiving.vacant_entry();
        let Some(stream) = live.session.tell(place.key()) else {
            // It carries as many streams as it may, or has given out all ids: another one does. The next look seeks
            // again.
            live.is_spent = true;
            self.peers.spent(end.peer, connection);
            self.leave_if_spent(connection);
            end.is_crowded = true;
            self.ends.insert(token, end);
            return;
        };
        live.say(&end.frame(stream));
        end.told_by = Some((connection, stream));
        place.insert(Reading::End(Box::new(end)));
        self.told_ends += 1;
        self.endpoint.counts.told_end();
        self.list(connection);
    }

    /// An end that waits for a connection is looked after.
    pub(super) fn look_after_end(&mut self, token: u32) {
        let now = self.now;
        let Some(end) = self.ends.get_mut(&token) else { return };
        if end.look.is_some_and(|at| at > now) {
            return;
        }
        if end.is_given_up(now) {
            return self.give_up_waiting(token, "its gate is gone, and its time over");
        }
        let is_crowded = std::mem::take(&mut end.is_crowded);
        let Some(mut end) = self.ends.remove(&token) else { return };
        self.arrange_look(&mut end);
        self.ends.insert(token, end);
        if is_crowded {
            self.seek(token);
        }
    }

    /// The answer to an end that was told: it counts, or nobody wants to know.
    pub(super) fn end_answered(&mut self, slot: usize, answer: Over) {
        let Some(Reading::End(end)) = self.receiving.try_remove(slot) else { return };
        self.told_ends -= 1;
        let Some((connection, stream)) = end.told_by else { return };
        if let Some(live) = self.connections.get_mut(connection) {
            live.session.close(stream);
            // It was of use.
            live.has_bound = true;
        }
        if let Over::Gone(Cause::Protocol(error)) = &answer {
            return self.give_up(&end, error);
        }
        let (partition, subpartition) = (end.descriptor.partition, end.descriptor.subpartition);
        cold_event!(debug, %partition, subpartition, answer = ?answer, "an end is known");
        self.count_ends();
    }

    /// Nobody is left there to tell.
    pub(super) fn forget_ends(&mut self, of: Option<WorkerId>, reason: &str) {
        let is_of = |worker: Option<WorkerId>| of.is_none() || worker == of;
        let waiting = self.ends.values().filter(|end| is_of(end.worker));
        let waiting: Vec<_> = waiting.map(|end| end.token).collect();
        for token in waiting {
            self.give_up_waiting(token, reason);
        }
        // What has come is read to its end, and then there is nothing to tell.
        let is_whole = |place: &Place| matches!(place, Place::Whole(whole) if is_of(whole.worker));
        let whole: Vec<_> =
            self.channels.iter().filter(|(_, place)| is_whole(place)).map(|(token, _)| *token).collect();
        for token in whole {
            let Some(Place::Whole(mut whole)) = self.channels.remove(&token) else { continue };
            if !whole.channel.feeder.flush() {
                self.channels.insert(token, Place::Over(whole.channel));
            }
        }
    }

    fn give_up_waiting(&mut self, token: u32, reason: &str) {
        let Some(end) = self.ends.remove(&token) else { return };
        self.peers.forget(end.peer, token);
        self.give_up(&end, reason);
    }

    fn give_up(&mut self, end: &End, reason: &str) {
        let (partition, subpartition, peer) =
            (end.descriptor.partition, end.descriptor.subpartition, end.peer);
        if self.stopping {
            // What was said in order arrives all the same, unless the network fails just now.
            cold_event!(debug, %partition, subpartition, %peer, reason, "a consumed end is not confirmed");
        } else {
            cold_event!(warn, %partition, subpartition, %peer, reason, "a consumed end was not confirmed");
        }
        self.endpoint.counts.gave_up_end();
        self.count_ends();
    }

    /// Says how many ends aren't confirmed.
    pub(super) fn count_ends(&self) {
        self.endpoint.counts.set_ends(self.told_ends + self.ends.len());
    }
}
