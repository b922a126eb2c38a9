//! How connections end: at once, or behind their last words.
//!
//! A batch may be under way when a connection is to end, and what is left to be said has to wait for it: an orderly
//! end hands its last frames over when the socket takes them, and only then closes. How long it waits is bounded, by
//! the patience of the shutdown or of a closing socket: a peer that doesn't read keeps nothing here.

use super::batch::Gather;
use super::core::NetCore;
use super::receiving::{Place, Reading};
use super::timers::Timer;
use crate::error::Cause;
use crate::id::WorkerId;
use crate::inbox::{Delivery, Over};
use crate::metrics::cold_event;
use crate::transport::{CLOSE_PATIENCE, Close, ConnectionId, Transport};
use std::time::Duration;

/// Why connections end with their worker.
pub(super) const SHUTTING_DOWN: &str = "the worker is shutting down";

impl NetCore {
    /// A connection is of no use any more: what it carried is told so, and its socket closed.
    pub(super) fn lose<T: Transport>(
        &mut self,
        id: ConnectionId,
        reason: &str,
        how: Close,
        transport: &mut T,
    ) {
        transport.close(id, how);
        if let Some(slot) = self.by_id.get(&id).copied() {
            self.settle(slot, reason);
        }
    }

    /// As [`NetCore::lose`], but what is left to be said goes out first.
    pub(super) fn part<T: Transport>(&mut self, slot: usize, reason: &str, transport: &mut T) {
        let Some(connection) = self.connections.get_mut(slot).filter(|live| !live.is_closing) else { return };
        let words = std::mem::take(&mut connection.control);
        self.settle(slot, reason);
        let Some(connection) = self.connections.get_mut(slot) else { return };
        connection.control = words;
        connection.is_parting = true;
        let generation = connection.generation;
        self.timers.set(self.now.plus(CLOSE_PATIENCE), Timer::Part { connection: slot, generation });
        self.last_words(slot, transport);
    }

    /// Hands the last words of a connection over and closes it behind them, unless the socket is busy: then its
    /// completion leads here again.
    pub(super) fn last_words<T: Transport>(&mut self, slot: usize, transport: &mut T) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if !connection.is_parting || connection.is_sending {
            return;
        }
        connection.is_parting = false;
        let id = connection.id;
        if !connection.control.is_empty() {
            let mut batch = self.batches.pop().unwrap_or_default();
            batch.stage(|out| out.append(&mut connection.control));
            connection.is_sending = true;
            transport.send(id, batch);
        }
        transport.close(id, Close::Orderly);
    }

    /// Whether the last words of a connection wait for its socket.
    pub(super) fn is_parting(&self, id: ConnectionId) -> bool {
        let slot = self.by_id.get(&id);
        slot.and_then(|slot| self.connections.get(*slot)).is_some_and(|live| live.is_parting)
    }

    /// The batch that the last words of a connection wait for has had its time.
    pub(super) fn part_is_due<T: Transport>(&mut self, slot: usize, transport: &mut T) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if std::mem::take(&mut connection.is_parting) {
            transport.close(connection.id, Close::Abortive);
        }
    }

    /// What a connection carried is over. Nothing is taken from it any more.
    fn settle(&mut self, slot: usize, reason: &str) {
        let connection = &mut self.connections[slot];
        if std::mem::replace(&mut connection.is_closing, true) {
            return;
        }
        connection.control.clear();
        connection.ready.clear();
        connection.unacknowledged.clear();
        let from = connection.from;
        self.lines.add_left_out(connection.lines.take_left_out());
        if let Some(left_out) = self.comings.admit(self.now) {
            cold_event!(info, %from, reason, left_out, "connection closed");
        }
        self.endpoint.counts.lost_connection();
        self.endpoint.counts.add(&connection.counts());
        let streams: Vec<_> = connection.session.drain().map(|(_, place)| place).collect();
        let (dialled, has_bound) = (connection.dialled, connection.has_bound);
        if let Some(peer) = dialled {
            // First: channels that ask again must not get this one.
            let step = self.peers.lost(peer, slot, has_bound, self.now);
            self.step(peer, step);
        }
        for place in streams {
            match dialled {
                Some(peer) => self.channel_lost(place, peer, reason),
                // Its view is fenced: the policy of the partition rules until the consumer binds again.
                None => drop(self.serving.try_remove(place)),
            }
        }
    }

    /// A connection that takes no more streams ends with the last one.
    pub(super) fn leave_if_spent(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if connection.is_spent && connection.session.len() == 0 {
            connection.is_leaving = true;
            self.list(slot);
        }
    }

    pub(super) fn peer_dead<T: Transport>(&mut self, worker: WorkerId, reason: &str, transport: &mut T) {
        let all = self.connections.iter();
        let dead: Vec<_> =
            all.filter(|(_, live)| live.agreed.peer_worker == worker).map(|(_, live)| live.id).collect();
        for id in dead {
            self.lose(id, &format!("{worker} is dead: {reason}"), Close::Abortive, transport);
        }
        self.forget_ends(Some(worker), "its worker is dead");
    }

    /// Ends every stream in order, then the connections; at the latest after `deadline`.
    pub(super) fn stop<T: Transport>(&mut self, deadline: Duration, transport: &mut T) {
        self.stopping = true;
        self.timers.set(self.now.plus(deadline), Timer::Stop);
        let tokens: Vec<_> = self.channels.keys().copied().collect();
        for token in tokens {
            self.tell_shutdown(token);
            self.end_channel(token);
        }
        self.forget_ends(None, SHUTTING_DOWN);
        // What is served is visited once more: there may be bytes within the credit, or the end to be told.
        let served: Vec<_> = self.serving.iter().map(|(slot, serving)| (slot, serving.is_bound())).collect();
        for (slot, is_bound) in served {
            if is_bound {
                self.list_stream(slot);
            } else {
                self.answered(slot);
            }
        }
        let slots: Vec<_> = self.connections.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.connections[slot].is_leaving = true;
            self.list(slot);
        }
        self.send(transport);
    }

    /// The task learns why nothing comes any more; one that is too far behind sees the end alone, and asks again.
    fn tell_shutdown(&mut self, token: u32) {
        let channel = match self.channels.get_mut(&token) {
            Some(Place::Waiting(channel)) => channel,
            Some(Place::Stream(slot)) => match self.receiving.get_mut(*slot).and_then(Reading::channel) {
                Some(receiving) => &mut receiving.channel,
                None => return,
            },
            // It was told how it ended, or has all that there was.
            Some(Place::Over(_) | Place::Whole(_)) | None => return,
        };
        channel.feeder.push(Delivery::Over(Over::Gone(Cause::Shutdown)));
    }

    pub(super) fn end_all<T: Transport>(&mut self, reason: &str, transport: &mut T) {
        let ids: Vec<_> = self.connections.iter().map(|(_, connection)| connection.id).collect();
        for id in ids {
            self.lose(id, reason, Close::Abortive, transport);
        }
    }
}
