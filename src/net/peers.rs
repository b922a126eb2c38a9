//! The workers that this network thread reads from: connected, being dialled, or waited for.
//!
//! A decision table without I/O: the core asks it what to do and tells it what became of that.

use crate::clock::Moment;
use crate::id::RemoteAddress;
use std::collections::HashMap;
use std::time::Duration;

/// The pause after the first failure to reach a peer; it doubles up to [`BACK_OFF_MAX`].
pub(super) const BACK_OFF_MIN: Duration = Duration::from_millis(10);
/// The longest pause between two dials.
pub(super) const BACK_OFF_MAX: Duration = Duration::from_secs(1);

/// How one peer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing is under way.
    Idle,
    /// The control thread dials.
    Dialling,
    /// By the connection in this slot, since then.
    Connected(usize, Moment),
    /// Until then nobody dials.
    Waiting(Moment),
}

#[derive(Debug)]
struct Peer {
    state: State,
    /// Dials one after the other that failed, or led to connections that came to nothing.
    failures: u32,
    /// Channels (by token) that wait for a connection.
    waiting: Vec<u32>,
}

impl Peer {
    /// Nobody dials for a while: the longer, the more often it has come to nothing.
    fn pause(&mut self, now: Moment) -> Step {
        let pause = BACK_OFF_MIN.saturating_mul(1 << self.failures.min(16)).min(BACK_OFF_MAX);
        self.failures += 1;
        let at = now.plus(pause);
        self.state = State::Waiting(at);
        Step::At(at)
    }
}

/// What to do next for a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Ask the control thread for a connection.
    Dial,
    /// Look again at this moment.
    At(Moment),
    /// The connection in this slot is there.
    Use(usize),
    /// Something is under way, or nobody waits.
    Nothing,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Peers(HashMap<RemoteAddress, Peer>);

impl Peers {
    fn peer(&mut self, address: RemoteAddress) -> &mut Peer {
        let new = || Peer { state: State::Idle, failures: 0, waiting: Vec::new() };
        self.0.entry(address).or_insert_with(new)
    }

    /// The channel `token` wants to be bound at a peer.
    pub(super) fn want(&mut self, address: RemoteAddress, token: u32) -> Step {
        let peer = self.peer(address);
        if let State::Connected(connection, _) = peer.state {
            return Step::Use(connection);
        }
        peer.waiting.push(token);
        if peer.state != State::Idle {
            return Step::Nothing;
        }
        peer.state = State::Dialling;
        Step::Dial
    }

    /// The channel `token` doesn't wait any more.
    pub(super) fn forget(&mut self, address: RemoteAddress, token: u32) {
        let Some(peer) = self.0.get_mut(&address) else { return };
        peer.waiting.retain(|waiting| *waiting != token);
        if peer.waiting.is_empty() && matches!(peer.state, State::Idle | State::Waiting(_)) {
            self.0.remove(&address);
        }
    }

    /// The connection in slot `connection` leads to the peer: gives the channels that waited for it. `None`
    /// if there is one already, or nobody wants it.
    pub(super) fn connected(
        &mut self,
        address: RemoteAddress,
        connection: usize,
        now: Moment,
    ) -> Option<Vec<u32>> {
        let peer = self.0.get_mut(&address)?;
        if matches!(peer.state, State::Connected(..)) || peer.waiting.is_empty() {
            if peer.waiting.is_empty() && peer.state == State::Dialling {
                self.0.remove(&address);
            }
            return None;
        }
        peer.state = State::Connected(connection, now);
        Some(std::mem::take(&mut peer.waiting))
    }

    /// A dial failed, or could not be asked for.
    pub(super) fn failed(&mut self, address: RemoteAddress, now: Moment) -> Step {
        let Some(peer) = self.0.get_mut(&address).filter(|peer| peer.state == State::Dialling) else {
            return Step::Nothing;
        };
        if peer.waiting.is_empty() {
            self.0.remove(&address);
            return Step::Nothing;
        }
        peer.pause(now)
    }

    /// The pause may be over.
    pub(super) fn redial(&mut self, address: RemoteAddress, now: Moment) -> Step {
        let Some(peer) = self.0.get_mut(&address) else { return Step::Nothing };
        match peer.state {
            State::Waiting(at) if at <= now && peer.waiting.is_empty() => {
                self.0.remove(&address);
                Step::Nothing
            }
            State::Waiting(at) if at <= now => {
                peer.state = State::Dialling;
                Step::Dial
            }
            _ => Step::Nothing,
        }
    }

    /// The connection in slot `connection` takes no more streams: the next one who wants the peer has another dialled.
    pub(super) fn spent(&mut self, address: RemoteAddress, connection: usize) {
        if let Some(peer) = self.0.get_mut(&address)
            && matches!(peer.state, State::Connected(current, _) if current == connection)
        {
            peer.state = State::Idle;
        }
    }

    /// The connection in slot `connection` is gone; `bound`: a stream was bound by it. One that didn't last is
    /// followed by a pause as after a failure: who shakes hands and leaves would be dialled without end.
    pub(super) fn lost(
        &mut self,
        address: RemoteAddress,
        connection: usize,
        bound: bool,
        now: Moment,
    ) -> Step {
        let Some(peer) = self.0.get_mut(&address) else { return Step::Nothing };
        let State::Connected(current, since) = peer.state else { return Step::Nothing };
        if current != connection {
            return Step::Nothing;
        }
        if now.since(since) >= BACK_OFF_MAX {
            self.0.remove(&address);
            return Step::Nothing;
        }
        if bound {
            peer.failures = 0;
        }
        peer.pause(now)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const PEER: RemoteAddress = RemoteAddress {
        socket: std::net::SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1),
        endpoint: 0,
    };

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn one_dial_serves_all_that_wait() {
        let mut peers = Peers::default();
        assert_eq!(peers.want(PEER, 1), Step::Dial);
        assert_eq!(peers.want(PEER, 2), Step::Nothing);
        assert_eq!(peers.connected(PEER, 7, at(0)), Some(vec![1, 2]));
        assert_eq!(peers.want(PEER, 3), Step::Use(7));
        assert_eq!(peers.lost(PEER, 6, true, at(5)), Step::Nothing);
        assert_eq!(peers.want(PEER, 3), Step::Use(7), "another connection's end is not this one's");
        assert_eq!(peers.lost(PEER, 7, true, at(1000)), Step::Nothing);
        assert_eq!(peers.want(PEER, 4), Step::Dial, "one that lasted is replaced at once");
    }

    #[test]
    fn pauses_double_up_to_a_second_and_begin_anew_after_a_success() {
        let mut peers = Peers::default();
        assert_eq!(peers.want(PEER, 1), Step::Dial);
        let mut now = at(0);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let Step::At(next) = peers.failed(PEER, now) else { panic!("somebody waits") };
            pauses.push(next.since(now).as_millis());
            assert_eq!(peers.redial(PEER, now), Step::Nothing, "not before its time");
            now = next;
            assert_eq!(peers.redial(PEER, now), Step::Dial);
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert!(peers.connected(PEER, 1, now).is_some());
        let later = now.plus(BACK_OFF_MAX);
        assert_eq!(peers.lost(PEER, 1, false, later), Step::Nothing);
        assert_eq!(peers.want(PEER, 1), Step::Dial);
        assert_eq!(peers.failed(PEER, later), Step::At(later.plus(BACK_OFF_MIN)));
    }

    #[test]
    fn a_connection_that_does_not_last_is_followed_by_a_pause() {
        let mut peers = Peers::default();
        let mut now = at(0);
        assert_eq!(peers.want(PEER, 1), Step::Dial);
        for pause in [10, 20, 40] {
            assert!(peers.connected(PEER, 1, now).is_some());
            let next = now.plus(Duration::from_millis(pause));
            assert_eq!(peers.lost(PEER, 1, false, now), Step::At(next));
            assert_eq!(peers.want(PEER, 1), Step::Nothing, "it waits");
            now = next;
            assert_eq!(peers.redial(PEER, now), Step::Dial);
        }
        // By this one something was read.
        assert!(peers.connected(PEER, 1, now).is_some());
        let next = now.plus(BACK_OFF_MIN);
        assert_eq!(peers.lost(PEER, 1, true, now), Step::At(next));
        assert_eq!(peers.redial(PEER, next), Step::Nothing, "nobody asked meanwhile");
        assert!(peers.0.is_empty());
    }

    #[test]
    fn nobody_is_dialled_for_nobody() {
        let mut peers = Peers::default();
        assert_eq!(peers.want(PEER, 1), Step::Dial);
        peers.forget(PEER, 1);
        assert_eq!(peers.failed(PEER, at(1)), Step::Nothing);
        assert_eq!(peers.want(PEER, 1), Step::Dial);
        peers.forget(PEER, 1);
        assert_eq!(peers.connected(PEER, 3, at(1)), None, "the connection isn't wanted any more");
        assert_eq!(peers.want(PEER, 2), Step::Dial);
        let Step::At(next) = peers.failed(PEER, at(2)) else { panic!("somebody waits") };
        peers.forget(PEER, 2);
        assert_eq!(peers.redial(PEER, next), Step::Nothing);
        assert!(peers.0.is_empty());
    }
}
