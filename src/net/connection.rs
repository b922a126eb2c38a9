//! One connection of a network thread: what waits to go out by it, and the streams that it carries.

use super::framer::Framer;
use super::share::Seat;
use crate::clock::Moment;
use crate::id::RemoteAddress;
use crate::metrics::Lines;
use crate::protocol::{Agreed, Counts, Role, Session};
use crate::transport::ConnectionId;
use crate::wire::{Features, Frame, Limits, Purpose, StreamId};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    /// Tells it from others that had the same slot.
    pub(super) generation: u64,
    pub(super) agreed: Agreed,
    /// The other end, as the socket has it.
    pub(super) from: SocketAddr,
    pub(super) framer: Framer,
    /// Slots of what is served, or of what is read.
    pub(super) session: Session<usize>,
    /// Whom this worker dialled: then it reads. Else the other end binds, and this one serves.
    pub(super) dialled: Option<RemoteAddress>,
    /// Frames that go out before any stream's.
    pub(super) control: Vec<u8>,
    /// A batch is under way.
    pub(super) is_sending: bool,
    /// It stands in the list of connections that have something to send.
    pub(super) is_listed: bool,
    /// Served streams that may have something, in turn.
    pub(super) ready: VecDeque<StreamId>,
    /// Channels that may have something to acknowledge.
    pub(super) unacknowledged: Vec<StreamId>,
    /// It stands in the list of connections with such channels.
    pub(super) is_acknowledging: bool,
    /// When a timer looks after them.
    pub(super) acknowledge_at: Option<Moment>,
    /// A channel of this side was bound by it.
    pub(super) has_bound: bool,
    /// No stream is opened on it any more: it ends with the last one.
    pub(super) is_spent: bool,
    /// Its last frame is GOODBYE, behind whatever is left to be said.
    pub(super) is_leaving: bool,
    /// It is closed behind its last words, which wait for the batch under way.
    pub(super) is_parting: bool,
    /// Nothing is taken from it any more: it is being closed.
    pub(super) is_closing: bool,
    /// What its peer may hold of this worker. Given back when the descriptor is closed.
    pub(super) seat: Seat,
    /// What may be logged about it.
    pub(super) lines: Lines,
    /// Of the session's counts, what has been added to the endpoint's.
    pub(super) counted: Counts,
}

impl Connection {
    /// `dialled`: whom this worker dialled, if it did.
    pub(super) fn new(
        id: ConnectionId,
        generation: u64,
        agreed: Agreed,
        dialled: Option<RemoteAddress>,
        from: SocketAddr,
        seat: Seat,
    ) -> Self {
        let limits = Limits::Session { payload_bytes_max: agreed.payload_bytes_max };
        let peer = if dialled.is_some() { Role::Server } else { Role::Binder };
        Self {
            id,
            generation,
            agreed,
            from,
            framer: Framer::new(limits),
            session: Session::new(peer, Purpose::Data),
            dialled,
            control: Vec::new(),
            is_sending: false,
            is_listed: false,
            ready: VecDeque::new(),
            unacknowledged: Vec::new(),
            is_acknowledging: false,
            acknowledge_at: None,
            has_bound: false,
            is_spent: false,
            is_leaving: false,
            is_parting: false,
            is_closing: false,
            seat,
            lines: Lines::of_one(),
            counted: Counts::default(),
        }
    }

    pub(super) fn features(&self) -> Features {
        self.agreed.features
    }

    /// Whether channels have something that was not acknowledged.
    pub(super) fn has_unsaid(&self) -> bool {
        !self.is_closing && !self.unacknowledged.is_empty()
    }

    /// Whether frames wait for the batch under way.
    pub(super) fn is_held_back(&self) -> bool {
        !self.is_closing && self.is_sending && !self.control.is_empty()
    }

    /// Whether nothing is left to be said but GOODBYE.
    pub(super) fn has_left(&self) -> bool {
        self.is_leaving && self.ready.is_empty() && self.control.is_empty()
    }

    /// A frame to go out.
    pub(super) fn say(&mut self, frame: &Frame<'_>) {
        frame.encode(&mut self.control, self.agreed.features);
    }

    /// What was counted since this was called last.
    pub(super) fn counts(&mut self) -> Counts {
        let now = self.session.counts();
        let before = std::mem::replace(&mut self.counted, now);
        Counts {
            stale: now.stale - before.stale,
            unknown: now.unknown - before.unknown,
            violations: now.violations - before.violations,
        }
    }
}
