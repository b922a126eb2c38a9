//! What is known of one connection, and the table of them.

use super::low_water::LowWater;
use super::zero_copy::Decision;
use crate::clock::Moment;
use crate::transport::ConnectionId;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Whether and how bytes are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiving {
    /// An operation is under way; the completion says how it goes on.
    Armed,
    /// No buffer was free; in the queue of those who wait for one.
    Starved,
    /// End of the stream, or broken, or closed: nothing is received any more.
    Over,
}

/// How far a close has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    No,
    /// Bytes are on their way out. `seen` is how much the other end had acknowledged at `since`.
    Sending {
        since: Moment,
        seen: u64,
    },
    /// All is sent, and the end of the stream too; the other end's is waited for.
    Ended {
        since: Moment,
    },
    /// Whatever is under way is being cancelled. `abort`: the other end shall see a reset.
    Cancelling {
        abort: bool,
        since: Moment,
    },
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    pub(super) socket: OwnedFd,
    /// Operations whose last completion concerning the descriptor is still to come. The descriptor isn't
    /// closed before there are none.
    pub(super) ops: u32,
    pub(super) receiving: Receiving,
    /// The other end's stream is at its end.
    pub(super) ended: bool,
    /// The batch that waits for its completion.
    pub(super) sending: Option<u32>,
    pub(super) failed: bool,
    pub(super) closing: Closing,
    pub(super) zero_copy: Decision,
    pub(super) low_water: LowWater,
}

impl Connection {
    pub(super) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    pub(super) fn borrow(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn is_cancelling(&self) -> bool {
        matches!(self.closing, Closing::Cancelling { .. })
    }

    /// Whether its owner hears of what comes.
    pub(super) fn is_open(&self) -> bool {
        self.closing == Closing::No
    }
}

#[derive(Debug, Default)]
struct Place {
    generation: u32,
    connection: Option<Box<Connection>>,
}

/// All connections of one transport.
#[derive(Debug, Default)]
pub(super) struct Connections {
    places: Vec<Place>,
    free: Vec<u32>,
}

impl Connections {
    pub(super) fn insert(&mut self, make: impl FnOnce(ConnectionId) -> Connection) -> ConnectionId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[index as usize];
        place.generation = place.generation.wrapping_add(1);
        let id = ConnectionId { index, generation: place.generation };
        place.connection = Some(Box::new(make(id)));
        id
    }

    pub(super) fn get(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let place = self.places.get_mut(id.index as usize)?;
        place.connection.as_deref_mut().filter(|connection| connection.id == id)
    }

    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<Box<Connection>> {
        self.get(id)?;
        let connection = self.places[id.index as usize].connection.take();
        // A place whose names are used up is used no more.
        if id.generation != u32::MAX {
            self.free.push(id.index);
        }
        connection
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = ConnectionId> {
        self.places.iter().filter_map(|place| Some(place.connection.as_ref()?.id))
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}
