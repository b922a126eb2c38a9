//! The other workers that this one knows, and what has to be done about each: a table without I/O.
//!
//! A worker is met by the handshake of any connection. From then on it is listened to on control connections
//! ("links"): the worker that dialled a data connection makes one unless there is one already. Should both dial at
//! once there are two, which does no harm. A peer leaves the table by its death or goodbye alone, so that the table
//! has as many rows as there are workers alive, and never more than `peers_max`.
//!
//! # Life of a peer
//! ```text
//!   met ──link──► linked ──last link ends──► lost ──link──► linked
//!    │              │                          │
//!    └─ silent ─────┴─ silent, goodbye ────────┴─ silent, refused, replaced ──► gone (the endpoints are told)
//! ```

use super::Token;
use crate::clock::Moment;
use crate::id::WorkerId;
use crate::net::{Share, ShareLimits};
use crate::wire::Purpose;
use crate::worker::liveness::{Found, Observer, Pulse, Standing, Verdict};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Peers {
    most: usize,
    limits: ShareLimits,
    /// Of this worker itself.
    own: Arc<Share>,
    rows: HashMap<WorkerId, Peer>,
}

#[derive(Debug)]
pub(super) struct Peer {
    pulse: Pulse,
    standing: Standing,
    /// Where it can be dialled: this worker has done so, or the peer has said it.
    address: Option<SocketAddr>,
    /// The control connection that this worker made, and the one that the peer made.
    made: Option<Token>,
    given: Option<Token>,
    /// Whether a dial of a control connection is under way, or waits for its moment.
    dialling: bool,
    /// Whether there was a control connection, and the last one ended.
    lost: bool,
    /// When the newest control connection began.
    linked: Moment,
    /// When it is looked after next.
    pub(super) due: Moment,
    pub(super) round_trip: Option<Duration>,
    share: Arc<Share>,
}

/// The table is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

/// What follows from a link's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unlinked {
    /// It was the last one: the endpoints are told.
    pub(super) last: bool,
    /// When to connect again, if this worker is to: at once, unless the connection was a short one.
    pub(super) dial: Option<Moment>,
}

/// How a peer stands at its look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) standing: Standing,
    pub(super) before: Standing,
}

impl Peers {
    pub(super) fn new(most: usize, limits: ShareLimits) -> Self {
        Self { most, limits, own: Share::new(limits), rows: HashMap::new() }
    }

    /// What a worker holds of this one; one that isn't known is this worker itself.
    pub(super) fn share(&self, worker: WorkerId) -> &Arc<Share> {
        self.rows.get(&worker).map_or(&self.own, |peer| &peer.share)
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn has_room_for(&self, worker: WorkerId) -> bool {
        self.rows.len() < self.most || self.rows.contains_key(&worker)
    }

    pub(super) fn get(&self, worker: WorkerId) -> Option<&Peer> {
        self.rows.get(&worker)
    }

    pub(super) fn get_mut(&mut self, worker: WorkerId) -> Option<&mut Peer> {
        self.rows.get_mut(&worker)
    }

    /// A handshake with this worker was finished. True if it wasn't known.
    ///
    /// That of a data connection is no sign of life of one that is known: its liveness is its control connection's,
    /// or data connections that follow each other would keep older ones that are dead.
    pub(super) fn met(
        &mut self,
        observer: &Observer,
        worker: WorkerId,
        purpose: Purpose,
        now: Moment,
    ) -> Result<bool, Full> {
        if let Some(peer) = self.rows.get_mut(&worker) {
            if purpose == Purpose::Control {
                peer.pulse.heard(now);
            }
            return Ok(false);
        }
        if self.rows.len() >= self.most {
            return Err(Full);
        }
        let peer = Peer {
            pulse: Pulse::new(now, observer.periods()),
            standing: Standing::Alive,
            address: None,
            made: None,
            given: None,
            dialling: false,
            lost: false,
            linked: Moment::default(),
            due: now.plus(observer.periods().interval()),
            round_trip: None,
            share: Share::new(self.limits),
        };
        self.rows.insert(worker, peer);
        Ok(true)
    }

    /// A control connection that this worker dialled has found the worker at this address.
    pub(super) fn lives_at(&mut self, worker: WorkerId, address: SocketAddr) {
        if let Some(peer) = self.rows.get_mut(&worker) {
            peer.address = Some(address);
        }
    }

    /// A worker that connected from `from` says where it listens. With the end of its control connection that is
    /// where to look for it: the kernel may keep the data connections of a killed process open for a second, as it
    /// does with those of an io_uring, but its port closes at once.
    ///
    /// Believed only of the host that it connected from: a refusal by another one would say nothing of it.
    pub(super) fn says_it_listens(&mut self, worker: WorkerId, said: &str, from: SocketAddr) {
        let said = said.parse().ok().filter(|said: &SocketAddr| said.ip() == from.ip() && said.port() != 0);
        if let Some(peer) = self.rows.get_mut(&worker) {
            peer.address = peer.address.or(said);
        }
    }

    /// A data connection was dialled to the worker at this address. Tells where a control connection is to be
    /// made now, if one is.
    pub(super) fn dialled(&mut self, worker: WorkerId, address: SocketAddr) -> Option<SocketAddr> {
        let peer = self.rows.get_mut(&worker)?;
        peer.address = Some(address);
        peer.wants_link().inspect(|_| peer.dialling = true)
    }

    /// A control connection stands. The one of the same direction that it takes the place of is to be closed.
    pub(super) fn linked(
        &mut self,
        worker: WorkerId,
        token: Token,
        made: bool,
        now: Moment,
    ) -> Option<Token> {
        let peer = self.rows.get_mut(&worker)?;
        peer.lost = false;
        peer.linked = now;
        if made {
            peer.dialling = false;
            peer.made.replace(token)
        } else {
            peer.given.replace(token)
        }
    }

    pub(super) fn heard(&mut self, worker: WorkerId, now: Moment) {
        if let Some(peer) = self.rows.get_mut(&worker) {
            peer.pulse.heard(now);
        }
    }

    /// A control connection has ended by itself. `None` if nothing depends on it (any more).
    pub(super) fn unlinked(
        &mut self,
        observer: &Observer,
        worker: WorkerId,
        token: Token,
        now: Moment,
    ) -> Option<Unlinked> {
        let peer = self.rows.get_mut(&worker)?;
        let mine = [&mut peer.made, &mut peer.given].into_iter().find(|link| **link == Some(token))?;
        *mine = None;
        let last = peer.made.is_none() && peer.given.is_none();
        peer.lost = last;
        // A peer that ends every connection as soon as it stands is not dialled without a pause.
        let at = now.max(peer.linked.plus(observer.periods().redial()));
        let dial = peer.wants_link().map(|_| at);
        peer.dialling |= dial.is_some();
        Some(Unlinked { last, dial })
    }

    /// What was found at the address where a control connection was dialled. `None` if that needs no answer: the
    /// peer is gone, or there is a control connection by now.
    pub(super) fn found(&mut self, observer: &Observer, worker: WorkerId, found: Found) -> Option<Verdict> {
        let peer = self.rows.get_mut(&worker)?;
        peer.dialling = false;
        if peer.made.is_some() || peer.given.is_some() {
            return None;
        }
        // Only behind the end of a control connection does a refusal mean that the process is gone.
        let verdict = match observer.found(found) {
            Verdict::Dead if !peer.lost && found == Found::Refused => observer.found(Found::Nothing),
            verdict => verdict,
        };
        peer.dialling = matches!(verdict, Verdict::DialAgain { .. });
        Some(verdict)
    }

    /// Where to dial a control connection whose moment has come; `None` if there is one by now.
    pub(super) fn redial(&mut self, worker: WorkerId) -> Option<SocketAddr> {
        let peer = self.rows.get_mut(&worker)?;
        peer.dialling = false;
        peer.wants_link().inspect(|_| peer.dialling = true)
    }

    /// Judges a peer by what was heard, and says how it stood before.
    pub(super) fn judge(&mut self, observer: &Observer, worker: WorkerId) -> Option<Look> {
        let peer = self.rows.get_mut(&worker)?;
        let standing = observer.judge(&peer.pulse);
        let before = std::mem::replace(&mut peer.standing, standing);
        Some(Look { standing, before })
    }

    pub(super) fn remove(&mut self, worker: WorkerId) -> Option<Peer> {
        self.rows.remove(&worker)
    }
}

impl Peer {
    pub(super) fn links(&self) -> impl Iterator<Item = Token> + use<> {
        [self.made, self.given].into_iter().flatten()
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    pub(super) fn standing(&self) -> Standing {
        self.standing
    }

    pub(super) fn last_heard(&self) -> Moment {
        self.pulse.last()
    }

    fn wants_link(&self) -> Option<SocketAddr> {
        let none = self.made.is_none() && self.given.is_none() && !self.dialling;
        self.address.filter(|_| none)
    }
}
