//! What is known of one connection.

use super::low_water::LowWater;
use super::zero_copy::Decision;
use crate::clock::Moment;
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
