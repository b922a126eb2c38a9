//! What the transport asks of the kernel, as plain values: so that a scripted kernel can stand in for it.

use super::arena::Arena;
use crate::clock::Moment;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::time::Duration;

/// A completion has successors of the same operation.
pub(crate) const MORE: u32 = 1 << 1;
/// The completion names a provided buffer, in the upper half of its flags.
pub(crate) const BUFFER: u32 = 1;
/// The kernel keeps the provided buffer that the completion names: it goes on behind what it has filled.
pub(crate) const BUFFER_KEPT: u32 = 1 << 4;
/// The completion is the notification of a zero-copy send.
pub(crate) const NOTIFICATION: u32 = 1 << 3;
/// In the result of a notification: the kernel has copied.
pub(crate) const COPIED: u32 = 1 << 31;

/// One thing to do. Descriptors and addresses stay valid until the last completion: the operation table
/// keeps what they belong to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry {
    /// Completes at once.
    Nothing,
    /// Receives into provided buffers until told otherwise.
    Receive { socket: RawFd },
    /// Receives once, without waiting.
    ReceiveOnce { socket: RawFd, base: NonNull<u8>, bytes: u32 },
    /// Completes when the socket can be read.
    Readable { socket: RawFd },
    /// Completes when the socket takes bytes again.
    Writable { socket: RawFd },
    /// Sends what the message says, all of it if it can.
    Send { socket: RawFd, message: *const libc::msghdr, zero_copy: Option<ZeroCopySend> },
    /// Reads eight bytes.
    Read { file: RawFd, into: NonNull<u64> },
    /// Cancels whatever is under way on a socket.
    CancelSocket { socket: RawFd },
    /// Cancels whatever is under way.
    CancelAll,
}

/// How the pages of a zero-copy send are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ZeroCopySend {
    /// The registered region that all of the message lies in.
    pub(crate) region: Option<u16>,
    /// Whether the notification shall say what was copied.
    pub(crate) report: bool,
}

/// What became of an entry.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cqe {
    pub(crate) user_data: u64,
    pub(crate) result: i32,
    pub(crate) flags: u32,
}

impl Cqe {
    pub(crate) fn has_more(&self) -> bool {
        self.flags & MORE != 0
    }

    pub(crate) fn is_notification(&self) -> bool {
        self.flags & NOTIFICATION != 0
    }

    pub(crate) fn buffer(&self) -> Option<u16> {
        (self.flags & BUFFER != 0).then_some((self.flags >> 16) as u16)
    }

    /// Whether the kernel goes on filling that buffer.
    pub(crate) fn keeps_buffer(&self) -> bool {
        self.flags & BUFFER_KEPT != 0
    }

    /// The errno of a result below zero.
    pub(crate) fn errno(&self) -> Option<i32> {
        (self.result < 0).then(|| self.result.saturating_neg())
    }
}

/// How long an enter waits for a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    No,
    For(Duration),
    Forever,
}

/// The kernel's side.
pub(crate) trait Ring {
    /// Queues an entry; false if the queue is full, and then nothing happened.
    ///
    /// # Safety
    /// What the entry points to is valid, and is left alone by everybody else, until its last completion.
    unsafe fn push(&mut self, entry: &Entry, user_data: u64) -> bool;

    /// Entries that are queued and not submitted.
    fn queued(&self) -> usize;

    /// Whether completions are there that only an enter brings to light.
    fn is_due(&self) -> bool;

    /// Submits what is queued and waits for a completion. Interruptions, time-outs and refusals that pass
    /// are no errors: what isn't submitted stays queued.
    fn enter(&mut self, wait: Wait) -> io::Result<()>;

    /// Moves completions out, oldest first; says how many.
    fn reap(&mut self, into: &mut [Cqe]) -> usize;

    /// Whether there is a ring of provided buffers, for [`Entry::Receive`].
    fn takes_buffers(&self) -> bool;

    /// Gives a buffer to the kernel until a completion names it and doesn't say that it is kept. At most [`BUFFERS`] at
    /// a time. What is filled is told in its order.
    ///
    /// # Safety
    /// `bytes` from `base` on are valid for writes and left alone by everybody else until then.
    unsafe fn provide(&mut self, buffer: u16, base: NonNull<u8>, bytes: u32);

    /// Makes the socket a waiting one, and tells whether its other end is on this machine: the kernel copies
    /// then whatever it is asked for.
    fn adopt(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool>;

    /// No more bytes go out; with `both`, none come in either, and whatever waits ends.
    fn shut_down(&mut self, socket: BorrowedFd<'_>, both: bool);

    /// How many bytes the other end has acknowledged so far, for a look at progress; 0 if that can't be told.
    fn acknowledged(&mut self, socket: BorrowedFd<'_>) -> u64;

    /// How many bytes have to be there before the socket counts as readable.
    fn set_low_water(&mut self, socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()>;

    /// Closes; with `abort`, the other end sees a reset.
    fn close(&mut self, socket: OwnedFd, abort: bool);

    fn now(&self) -> Moment;

    /// Registers the memory that zero-copy sends come from; says what of it is registered. Called once, when
    /// the first connection asks for it.
    fn register_arena(&mut self) -> Arena;

    /// The kernel may still write where it was told to: what the ring itself shares with it is left to it.
    fn leak(&mut self);
}

/// The most provided buffers at a time, a power of two.
pub(crate) const BUFFERS: u16 = 64;
