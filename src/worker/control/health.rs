//! Heartbeats and the judgement of peers.

use super::link::{End, Heard};
use super::peers::Peer;
use super::port::News;
use super::{Control, Timer, Token};
use crate::clock::Moment;
use crate::id::WorkerId;
use crate::metrics::cold_event;
use crate::sync::{Ordering, lock};
use crate::worker::liveness::Standing;
use crate::worker::snapshot::{PeerSnapshot, PeerState};

/// Why a peer is gone that has left in order.
const GOODBYE: &str = "it said goodbye";

impl Control {
    /// The observer looks at the clock, before anybody is judged.
    pub(super) fn look(&mut self, now: Moment) {
        if self.observer.look(now) {
            // Relaxed: a statistic, written here alone.
            self.shared.observer_stalls.store(self.observer.stalls(), Ordering::Relaxed);
            cold_event!(
                warn,
                stalls = self.observer.stalls(),
                "the control thread was stalled: nobody is accused"
            );
        }
    }

    /// Reads what a control connection has to say.
    pub(super) fn link_turn(&mut self, token: Token, now: Moment) {
        let Some(link) = self.links.get_mut(&token) else { return };
        let worker = link.worker;
        let Heard { anything, round_trip, goodbye, more, end } = link.turn(now);
        if anything {
            self.peers.heard(worker, now);
        }
        if let (Some(round_trip), Some(peer)) = (round_trip, self.peers.get_mut(worker)) {
            peer.round_trip = Some(round_trip);
        }
        if goodbye {
            return self.dead(worker, GOODBYE, now);
        }
        if more {
            self.unread.push(token);
        }
        if let Some(end) = end {
            self.unlink(token, &end, now);
        }
    }

    /// A control connection has ended.
    fn unlink(&mut self, token: Token, end: &End, now: Moment) {
        let Some(link) = self.links.remove(&token) else { return };
        let worker = link.worker;
        if matches!(end, End::Violation(_)) {
            self.shared.journal.note(now, "not a control frame", &link.peer, end);
        }
        drop(link);
        let Some(unlinked) = self.peers.unlinked(&self.observer, worker, token, now) else { return };
        if let Some(left_out) = self.lines.admit(now) {
            cold_event!(info, worker = %worker, end = %end, left_out, "control connection ended");
        }
        if unlinked.last {
            self.tell_all(now, || News::ControlLost(worker));
        }
        if let Some(at) = unlinked.dial {
            self.timers.insert((at, Timer::Redial(worker)));
        }
        self.publish(worker);
    }

    /// Judges a peer, and sends it a heartbeat.
    pub(super) fn look_after_peer(&mut self, worker: WorkerId, now: Moment) {
        let Some(mut look) = self.peers.judge(&self.observer, worker) else { return };
        if look.standing == Standing::Dead {
            // What lies in the sockets has been sent in time, even if this thread hasn't come to it.
            let links: Vec<Token> =
                self.peers.get(worker).into_iter().flat_map(|peer| peer.links()).collect();
            links.into_iter().for_each(|token| self.link_turn(token, now));
            let Some(again) = self.peers.judge(&self.observer, worker) else { return };
            look.standing = again.standing;
        }
        if look.standing == Standing::Dead {
            return self.dead(worker, "silent for longer than dead_after", now);
        }
        if look.before != look.standing
            && let Some(left_out) = self.lines.admit(now)
        {
            let is_suspect = look.standing == Standing::Suspect;
            let news = if is_suspect { "suspect: unusually silent" } else { "heard again" };
            cold_event!(warn, worker = %worker, left_out, news, "a worker was not heard for long, or is again");
        }
        self.ping(worker, now);
        let due = now.plus(self.network.periods.interval());
        if let Some(peer) = self.peers.get_mut(worker) {
            peer.due = due;
            self.timers.insert((due, Timer::Peer(worker)));
        }
        self.publish(worker);
    }

    /// Sends a heartbeat on every control connection with this peer.
    pub(super) fn ping(&mut self, worker: WorkerId, now: Moment) {
        let links = self.peers.get(worker).map(Peer::links);
        for token in links.into_iter().flatten() {
            if let Some(end) = self.links.get_mut(&token).and_then(|link| link.ping(now)) {
                self.unlink(token, &end, now);
            }
        }
    }

    /// This worker is gone for all that is known: the endpoints end its connections.
    pub(super) fn dead(&mut self, worker: WorkerId, reason: &'static str, now: Moment) {
        let Some(peer) = self.peers.remove(worker) else { return };
        self.timers.remove(&(peer.due, Timer::Peer(worker)));
        for token in peer.links() {
            self.links.remove(&token);
        }
        lock(&self.shared.peers).remove(&worker);
        let silent = now.since(peer.last_heard());
        if let Some(left_out) = self.lines.admit(now) {
            if reason == GOODBYE {
                cold_event!(info, worker = %worker, left_out, "peer has left");
            } else {
                cold_event!(warn, worker = %worker, reason = reason, silent = ?silent, left_out, "peer is gone");
            }
        }
        self.shared.peers_gone.fetch_add(1, Ordering::Relaxed); // Relaxed: a statistic
        self.tell_all(now, || News::PeerDead(worker, reason));
    }

    /// Puts a peer's picture where other threads see it.
    pub(super) fn publish(&self, worker: WorkerId) {
        let Some(peer) = self.peers.get(worker) else { return };
        let state = match peer.standing() {
            _ if peer.links().next().is_none() => PeerState::Unconnected,
            Standing::Suspect => PeerState::Suspect,
            Standing::Alive | Standing::Dead => PeerState::Alive,
        };
        let picture = PeerSnapshot {
            worker,
            address: peer.address(),
            state,
            last_heard: peer.last_heard(),
            round_trip: peer.round_trip,
        };
        lock(&self.shared.peers).insert(worker, picture);
    }
}
