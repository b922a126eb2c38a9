//! Moves bytes over connected sockets: what a network thread asks of the kernel, behind one trait.
//!
//! # Guarantees (of every implementation; `tests` hold all of them to it)
//! - Bytes of a connection come in order, each once, in ranges of receive buffers that stay readable as long
//!   as somebody holds them.
//! - At most one batch of a connection is under way. It is sent whole: [`Completion::Sent`], or the connection
//!   fails. Its memory is given back once, by [`Completion::Recycled`], after the kernel's last touch.
//! - After `Failed` or `Eof` nothing is received any more, and neither after [`Transport::close`]: what comes
//!   then is dropped. After [`Completion::Closed`] nothing but `Recycled` names the connection, and the
//!   descriptor is closed.
//! - A stream that was cut short never looks like one that ended: what can't be sent whole ends in a reset.
//! - No call but [`Transport::turn`] waits.
//! - When receive buffers run out nothing is lost: reading goes on when one comes free.

mod epoll;
mod error;
#[cfg(all(test, not(loom)))]
pub(crate) mod fake;
mod open;
#[cfg(feature = "tokio-uring")]
mod runtime;
mod sending;
mod table;
#[cfg(all(test, not(loom)))]
mod tests;
mod uring;

use crate::memory::Lent;
use std::io;
use std::os::fd::OwnedFd;
use std::task::Waker;
use std::time::Duration;

pub(crate) use epoll::Epoll;
pub use error::TransportError;
pub(crate) use open::{AnyTransport, Opened, open};
pub use open::{Io, UnknownIo};
#[cfg(feature = "tokio-uring")]
pub(crate) use runtime::RuntimeSleep;
pub use uring::ZeroCopy;
pub(crate) use uring::{ArenaShare, UringOptions};

/// Names a connection of one transport; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// One stretch of a batch.
#[derive(Debug)]
pub(crate) enum Part {
    /// Bytes of the batch's own staging memory.
    Staged(std::ops::Range<usize>),
    /// Bytes of a segment, held by the batch.
    Segment(Lent),
}

/// What one vectored send takes: headers and small payloads gathered in `staging`, large ones by reference.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) staging: Vec<u8>,
    pub(crate) parts: Vec<Part>,
    /// The sum of the parts' lengths.
    pub(crate) bytes: usize,
    /// The sender's own note of what comes back to it with the batch; means nothing to a transport.
    pub(crate) returns: Vec<Return>,
}

/// Pieces of a stream that are under way with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Return {
    pub(crate) connection: usize,
    pub(crate) generation: u64,
    pub(crate) stream: u32,
    pub(crate) pieces: usize,
}

/// How a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Close {
    /// What was handed over is sent first, then the other end sees the end of the stream. When nothing goes
    /// forward for [`CLOSE_PATIENCE`] it becomes abortive.
    Orderly,
    /// At once; the other end sees a reset.
    Abortive,
}

/// How long an orderly close waits for a step: for the other end to take some of what is left to be sent,
/// and then for it to end its own stream.
pub(crate) const CLOSE_PATIENCE: Duration = Duration::from_secs(1);

/// What became of something.
#[derive(Debug)]
pub(crate) enum Completion {
    /// Bytes came.
    Received { connection: ConnectionId, bytes: Lent },
    /// The other end sends no more.
    Eof { connection: ConnectionId },
    /// The batch was taken by the kernel whole: the next one may be sent.
    Sent { connection: ConnectionId },
    /// The kernel is done with the batch's memory.
    Recycled { batch: Box<Batch> },
    /// The connection is broken. It is closed by who owns it, with [`Transport::close`].
    Failed { connection: ConnectionId, error: io::Error },
    /// The descriptor is closed.
    Closed { connection: ConnectionId },
}

/// Counters of one transport since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TransportCounts {
    /// Syscalls that enter the kernel to submit or wait.
    pub(crate) enters: u64,
    /// System calls that send or receive by themselves (none with io_uring).
    pub(crate) calls: u64,
    /// Wake-ups by other threads that cost a system call.
    pub(crate) wakes: u64,
    /// Bytes sent and received.
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Sends that asked for zero copies, and those of them that the kernel copied.
    pub(crate) zero_copy_sends: u64,
    pub(crate) zero_copy_copied: u64,
    /// Times that no receive buffer was free.
    pub(crate) starved: u64,
}

/// See the module's text. Owned and called by one thread.
pub(crate) trait Transport {
    /// Takes over a connected stream socket with nothing in flight, and receives from it from now on.
    fn attach(&mut self, socket: OwnedFd) -> io::Result<ConnectionId>;

    /// Sends `batch`, which isn't empty. Only after the `Sent` of the one before. The batch of a connection
    /// that is broken or unknown is recycled, and nothing else happens.
    fn send(&mut self, connection: ConnectionId, batch: Box<Batch>);

    /// Ends a connection. `Closed` follows; again harmless, and `Abortive` after `Orderly` is obeyed.
    fn close(&mut self, connection: ConnectionId, how: Close);

    /// Submits what was asked for and appends what has become of things to `done`. Waits until there is
    /// something, a wake-up, or `timeout`; with `Some(ZERO)` not at all. It may return sooner, for nothing.
    ///
    /// # Errors
    /// The transport itself can't go on.
    fn turn(&mut self, timeout: Option<Duration>, done: &mut Vec<Completion>) -> io::Result<()>;

    /// Ends a `turn` that waits, or the next one; from any thread.
    fn waker(&self) -> &Waker;

    fn counts(&self) -> TransportCounts;

    /// Receive buffers that this transport took to receive into and that nothing came into yet: nobody else holds a
    /// part of them.
    fn untouched_buffers(&self) -> u32;
}
