//! What follows a handshake: a data connection goes to its endpoint, a control connection stays.

use super::handshake::{Failure, Handshake, Origin};
use super::link::Link;
use super::port::{Adopted, News};
use super::session::{too_many, too_many_connections};
use super::turn::hand_over;
use super::{Control, Timer, Token};
use crate::clock::Moment;
use crate::id::WorkerId;
use crate::metrics::cold_event;
use crate::protocol::Agreed;
use crate::sync::Ordering;
use crate::wire::{Features, Purpose};
use crate::worker::liveness::{Found, Verdict};

impl Control {
    /// Both sides have agreed; the handshake is out of the table, its socket still registered as `token`.
    pub(super) fn agreed(&mut self, token: Token, handshake: Handshake, agreed: Agreed, now: Moment) {
        let worker = agreed.peer_worker;
        let (origin, peer) = (handshake.origin, handshake.peer);
        if worker != self.identity.worker() {
            match self.peers.met(&self.observer, worker, agreed.purpose, now) {
                Ok(false) => {}
                Ok(true) => {
                    let due = now.plus(self.network.periods.interval());
                    self.timers.insert((due, Timer::Peer(worker)));
                    self.publish(worker);
                }
                Err(_) => {
                    return self.came_to_nothing(origin, peer, too_many(&self.peers), now);
                }
            }
        }
        if matches!(origin, Origin::Accepted) {
            self.peers.says_it_listens(worker, &agreed.peer_address, peer);
        }
        let other = (worker, agreed.features);
        match (origin, agreed.purpose) {
            (Origin::Link(expected), _) => self.link_made(token, handshake, (expected, other), now),
            (Origin::Accepted, Purpose::Control) => self.link(token, handshake, other, now),
            (Origin::Accepted | Origin::Dialled(_), _) => self.adopt(handshake, agreed, now),
        }
    }

    /// Hands a data connection over to its endpoint.
    fn adopt(&mut self, handshake: Handshake, agreed: Agreed, now: Moment) {
        let (origin, peer, worker) = (handshake.origin, handshake.peer, agreed.peer_worker);
        let (endpoint, dialled) = match origin {
            Origin::Dialled(request) => (request.from, Some(request.peer)),
            // It was there when the other side was welcomed; another stands in for it.
            Origin::Accepted | Origin::Link(_) => {
                (self.endpoints.serving(agreed.endpoint).unwrap_or(agreed.endpoint), None)
            }
        };
        if self.endpoints.get(endpoint).is_none() {
            // The end of the connection tells the other side.
            let text = format!("endpoint {endpoint} is gone");
            return self.shared.journal.note(now, "unknown endpoint", &peer, &text);
        }
        let share = self.peers.share(worker);
        let seat = if dialled.is_some() { Ok(share.own_seat()) } else { share.seat() };
        let seat = match seat {
            Ok(seat) => seat,
            // Others were welcomed at the same time; the end of the connection tells it.
            Err(held) => return self.came_to_nothing(origin, peer, too_many_connections(held), now),
        };
        match hand_over(self.poll.registry(), handshake.frames.into_stream()) {
            Ok(socket) => {
                self.shared.handed_over.fetch_add(1, Ordering::Relaxed); // Relaxed: a statistic
                let adopted = Adopted { socket, agreed, peer, dialled, seat };
                self.tell(endpoint, News::Adopt(Box::new(adopted)), now);
            }
            Err(error) => return self.came_to_nothing(origin, peer, Failure::Io(error), now),
        }
        if let Some(address) = dialled.and_then(|remote| self.peers.dialled(worker, remote.socket)) {
            self.dial(Origin::Link(worker), address, now);
        }
    }

    /// A control connection that this worker made stands; the one who was looked for may be another by now.
    fn link_made(
        &mut self,
        token: Token,
        handshake: Handshake,
        (expected, other): (WorkerId, (WorkerId, Features)),
        now: Moment,
    ) {
        let worker = other.0;
        if worker == expected {
            self.found(expected, Found::SameWorker, now);
        } else {
            self.found(expected, Found::AnotherWorker, now);
            // From now on the connection serves the worker that has answered.
            self.peers.lives_at(worker, handshake.peer);
        }
        self.link(token, handshake, other, now);
    }

    /// A control connection stands.
    fn link(
        &mut self,
        token: Token,
        handshake: Handshake,
        (worker, features): (WorkerId, Features),
        now: Moment,
    ) {
        let made = !matches!(handshake.origin, Origin::Accepted);
        let mut link = Link::new(handshake.frames, worker, handshake.peer, features);
        if let Err(error) = link.frames.stream().set_nodelay(true)
            && let Some(left_out) = self.lines.admit(now)
        {
            // The socket is broken, which its next use tells with consequences; heartbeats would do without.
            cold_event!(debug, worker = %worker, error = %error, left_out, "no TCP_NODELAY");
        }
        if worker == self.identity.worker() {
            // A worker needs no heartbeats from itself.
            return link.goodbye();
        }
        if let Some(replaced) = self.peers.linked(worker, token, made, now) {
            // The peer has connected again before the old connection's end was seen.
            self.links.remove(&replaced);
        }
        self.links.insert(token, link);
        if let Some(left_out) = self.lines.admit(now) {
            cold_event!(debug, worker = %worker, made = made, left_out, "control connection");
        }
        // What came right behind the handshake has had its edge already.
        self.link_turn(token, now);
        self.ping(worker, now);
        self.publish(worker);
    }

    /// A dial of a control connection came to nothing.
    pub(super) fn found_nothing(&mut self, worker: WorkerId, failure: &Failure, now: Moment) {
        let refused =
            matches!(failure, Failure::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused);
        self.found(worker, if refused { Found::Refused } else { Found::Nothing }, now);
    }

    fn found(&mut self, worker: WorkerId, found: Found, now: Moment) {
        match self.peers.found(&self.observer, worker, found) {
            None | Some(Verdict::Alive) => {}
            Some(Verdict::DialAgain { at }) => {
                self.timers.insert((at, Timer::Redial(worker)));
            }
            Some(Verdict::Dead) if found == Found::Refused => {
                self.dead(worker, "its control connection ended and its port refuses connections", now);
            }
            Some(Verdict::Dead) => self.dead(worker, "another worker answers at its address", now),
        }
    }
}
