//! The loop of the control thread, and the ways in and out of its tables.

use super::handshake::{Failure, Handshake, Origin, Step};
use super::listener::Accepted;
use super::port::DialError;
use super::session::Admission;
use super::sleep::Sleeper;
use super::{Control, LISTENER, Timer, Token, WAKER};
use crate::clock::{Clock, Moment};
use crate::metrics::cold_event;
use crate::sync::{Ordering, wake};
use crate::transport::Io;
use crate::worker::clock::{ALARMS, TICK};
use mio::net::TcpStream;
use mio::{Interest, Token as PollToken};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::task::Waker;
use std::time::Duration;

/// Timers of one turn.
const TIMERS_A_TURN: usize = 64;

/// How long the thread sleeps when the poll itself fails, which no documented cause explains.
const POLL_FAILED: Duration = Duration::from_millis(10);

impl Control {
    /// Runs until the clock stops.
    pub(super) fn run(mut self, io: Io, mut look_after: impl FnMut()) {
        let sleeper = Sleeper::open(io, &self.poll);
        let mut due: Vec<Waker> = Vec::with_capacity(ALARMS);
        let mut next_tick = self.clock.now().plus(TICK);
        while let Some(sleep) = self.clock.ring(self.until(next_tick), &mut due) {
            due.drain(..).for_each(wake);
            // Events that the last poll had no room for are no news to whoever waits for its descriptor.
            let all_seen = self.unread.is_empty() && self.events.iter().count() < self.events.capacity();
            self.wait(if all_seen { sleeper.sleep(sleep) } else { Duration::ZERO });
            let now = self.clock.now();
            self.look(now);
            self.sockets(now);
            self.timers(now);
            self.begin_dials(now);
            // Last, since it takes what room the others have made.
            self.accept(now);
            if now >= next_tick {
                look_after();
                next_tick = now.plus(TICK);
            }
        }
        self.end();
    }

    /// When the thread has something to do by itself.
    fn until(&self, next_tick: Moment) -> Moment {
        // The observer looks once an interval, or it would take its own idleness for a stall.
        let look = self.observer.looked().plus(self.network.periods.interval());
        let timer = self.timers.first().map(|(at, _)| *at);
        let accept = self.listener.due().filter(|_| self.has_room());
        [Some(look), timer, accept].into_iter().flatten().fold(next_tick, Moment::min)
    }

    fn has_room(&self) -> bool {
        self.inbound < self.network.handshakes_max
    }

    fn wait(&mut self, sleep: Duration) {
        if let Err(error) = self.poll.poll(&mut self.events, Some(sleep))
            && error.kind() != ErrorKind::Interrupted
        {
            cold_event!(error, error = %error, "the control thread can't poll");
            std::thread::park_timeout(POLL_FAILED);
        }
    }

    fn sockets(&mut self, now: Moment) {
        let mut tokens = std::mem::take(&mut self.unread);
        for event in &self.events {
            match event.token().0 {
                LISTENER => self.listener.is_ready(),
                // The alarms and the dials are looked at in any case.
                WAKER => {}
                token => tokens.push(token),
            }
        }
        for token in tokens {
            if self.links.contains_key(&token) {
                self.link_turn(token, now);
            } else {
                self.advance(token, now);
            }
        }
    }

    fn timers(&mut self, now: Moment) {
        for _ in 0..TIMERS_A_TURN {
            let Some((_, timer)) = self.timers.first().copied().filter(|(at, _)| *at <= now) else { return };
            self.timers.pop_first();
            match timer {
                Timer::Handshake(token) => {
                    if let Some(handshake) = self.handshakes.remove(&token) {
                        self.failed(handshake, Failure::TimedOut(self.network.handshake_timeout), now);
                    }
                }
                Timer::Tell(endpoint) => self.tell_again(endpoint, now),
                Timer::Peer(worker) => self.look_after_peer(worker, now),
                Timer::Redial(worker) => {
                    if let Some(address) = self.peers.redial(worker) {
                        self.dial(Origin::Link(worker), address, now);
                    }
                }
            }
        }
    }

    fn accept(&mut self, now: Moment) {
        self.listener.begin();
        while self.has_room() {
            match self.listener.accept(now) {
                Accepted::Connection(stream, peer) => {
                    self.shared.accepted.fetch_add(1, Ordering::Relaxed); // Relaxed: a statistic
                    let half = self.identity.host();
                    let deadline = now.plus(self.network.handshake_timeout);
                    self.begin(Handshake::accepted(stream, peer, half, deadline), now);
                }
                Accepted::Failed(error) => {
                    self.shared.journal.note(now, "accept failed", &self.listener_name(), &error);
                }
                Accepted::Nothing => return,
            }
        }
    }

    fn listener_name(&self) -> SocketAddr {
        self.identity.advertised()
    }

    fn begin_dials(&mut self, now: Moment) {
        while self.outbound < self.network.handshakes_max {
            let Some(request) = self.dials.next() else { return };
            self.dial(Origin::Dialled(request), request.peer.socket, now);
        }
    }

    /// Begins to connect. What comes of it, comes to who asked.
    pub(super) fn dial(&mut self, origin: Origin, address: SocketAddr, now: Moment) {
        self.shared.dialled.fetch_add(1, Ordering::Relaxed); // Relaxed: a statistic
        match TcpStream::connect(address) {
            Ok(stream) => {
                let half = self.identity.client(&origin);
                let deadline = now.plus(self.network.handshake_timeout);
                self.begin(Handshake::dialled(stream, (address, origin), half, deadline), now);
            }
            Err(error) => self.came_to_nothing(origin, address, Failure::Io(error), now),
        }
    }

    /// Takes a handshake in.
    fn begin(&mut self, mut handshake: Handshake, now: Moment) {
        let token = self.next;
        self.next += 1;
        *self.side(&handshake.origin) += 1;
        let stream = handshake.frames.stream();
        let ready =
            self.poll.registry().register(stream, PollToken(token), Interest::READABLE | Interest::WRITABLE);
        self.timers.insert((handshake.deadline, Timer::Handshake(token)));
        let deadline = handshake.deadline;
        match ready {
            Ok(()) => {
                self.handshakes.insert(token, handshake);
                self.count_handshakes();
            }
            Err(error) => {
                self.timers.remove(&(deadline, Timer::Handshake(token)));
                self.failed(handshake, Failure::Io(error), now);
            }
        }
    }

    fn side(&mut self, origin: &Origin) -> &mut usize {
        match origin {
            Origin::Accepted => &mut self.inbound,
            Origin::Dialled(_) | Origin::Link(_) => &mut self.outbound,
        }
    }

    fn count_handshakes(&self) {
        // Relaxed: a statistic, written here alone.
        self.shared.handshakes.store(self.handshakes.len() as u64, Ordering::Relaxed);
    }

    fn advance(&mut self, token: Token, now: Moment) {
        let Some(handshake) = self.handshakes.get_mut(&token) else { return };
        let own = self.identity.worker();
        let step = handshake.advance(Admission { own, endpoints: &self.endpoints, peers: &self.peers });
        if matches!(step, Step::Pending) {
            return;
        }
        let Some(handshake) = self.handshakes.remove(&token) else { return };
        self.timers.remove(&(handshake.deadline, Timer::Handshake(token)));
        match step {
            Step::Pending => {}
            Step::Agreed(agreed) => {
                *self.side(&handshake.origin) -= 1;
                self.agreed(token, handshake, agreed, now);
            }
            Step::Failed(failure) => self.failed(handshake, failure, now),
        }
        self.count_handshakes();
    }

    /// Ends a handshake that is out of the table already.
    fn failed(&mut self, handshake: Handshake, failure: Failure, now: Moment) {
        *self.side(&handshake.origin) -= 1;
        let (origin, peer) = (handshake.origin, handshake.peer);
        handshake.frames.close();
        self.count_handshakes();
        self.came_to_nothing(origin, peer, failure, now);
    }

    /// Tells who asked for a connection that there is none.
    pub(super) fn came_to_nothing(
        &mut self,
        origin: Origin,
        peer: SocketAddr,
        failure: Failure,
        now: Moment,
    ) {
        self.shared.journal.note(now, failure.rule(&origin), &peer, &failure);
        match origin {
            Origin::Accepted => {}
            Origin::Dialled(request) => self.dial_failed(request, failure.into(), now),
            Origin::Link(worker) => self.found_nothing(worker, &failure, now),
        }
    }

    /// The clock has stopped: says goodbye, answers whoever still waits, and closes everything.
    fn end(mut self) {
        let now = self.clock.now();
        for link in std::mem::take(&mut self.links).into_values() {
            link.goodbye();
        }
        for handshake in std::mem::take(&mut self.handshakes).into_values() {
            if let Origin::Dialled(request) = handshake.origin {
                self.dial_failed(request, DialError::Stopped, now);
            }
        }
        while let Some(request) = self.dials.next() {
            self.dial_failed(request, DialError::Stopped, now);
        }
        self.count_handshakes();
    }
}

/// A socket in the form in which it is handed over.
pub(super) fn hand_over(registry: &mio::Registry, mut stream: TcpStream) -> io::Result<std::os::fd::OwnedFd> {
    registry.deregister(&mut stream)?;
    stream.set_nodelay(true)?;
    Ok(std::net::TcpStream::from(stream).into())
}
