//! Memory that bytes from sockets are received into.
//!
//! # The page-offset rule
//! The copy out of a socket is an order of magnitude slower when its destination lies a few bytes behind its
//! source modulo the page size. The source moves with the position in the stream. A reader that is behind
//! fills whole buffers: were their length a multiple of the page size, each would begin at the same distance
//! as the one before, and a slow distance would stay. So the *stride* of the buffers is a multiple of the page
//! size, and the *length* that is asked for is not: the distance changes from buffer to buffer.

use super::budget::Charge;
use super::cache::SegmentCache;
use super::census::Census;
use super::config::{MemoryError, SegmentClass};
use super::hold::Lent;
use super::open::OpenSegment;
use super::pool::SegmentPool;
use crate::sync::Waiter;
use std::sync::Arc;

/// Bytes of a receive buffer that are received into: half a mebibyte, and not a multiple of a page.
pub(crate) const RECEIVE_BYTES: usize = 512 * 1024 + 1088;

/// From the begin of one receive buffer to the next: the next multiple of the page size, and of the larger
/// page sizes in use (16 KiB), so that the rule holds there too.
pub(crate) const RECEIVE_STRIDE: usize = RECEIVE_BYTES.next_multiple_of(16 * 1024);

/// A buffer with less room than this is given up for a fresh one: short receives cost a system call each.
pub(crate) const RECEIVE_REST_MIN: usize = 16 * 1024;

/// The class that stands for receive buffers in their pool, which has no other.
const CLASS: SegmentClass = SegmentClass::K4;

/// The receive buffers of one transport, mapped at its start.
///
/// Clones are the same pool. A buffer is free again when its write half is closed and nothing that was lent
/// of it is held any more, by whichever thread.
#[derive(Debug, Clone)]
pub(crate) struct ReceivePool {
    pool: Arc<SegmentPool>,
    charge: Arc<Charge>,
}

impl ReceivePool {
    /// Maps `slots` buffers.
    pub(crate) fn new(slots: u32) -> Result<Self, MemoryError> {
        let pool = SegmentPool::with_geometry(&[(RECEIVE_STRIDE, slots)], 4096, 0)?;
        // All of them reserved for one account: no share floats, and nothing is kept in caches.
        let budget = pool.reserve(CLASS, slots, 0, Arc::new(Waiter::new()))?;
        let charge = budget.charge(slots, slots);
        Ok(Self { pool, charge })
    }

    /// A free buffer as a segment of [`RECEIVE_STRIDE`] bytes, of which the caller uses the first
    /// [`RECEIVE_BYTES`]. `None` if no buffer is free: then announce on [`Self::waiter`], try once more, sleep.
    pub(crate) fn open(&self) -> Option<OpenSegment> {
        let mut unused = SegmentCache::new(&self.pool, self.charge.budget());
        self.pool.allocate(&self.charge, &mut unused).ok()
    }

    /// Buffers that are free at this moment.
    pub(crate) fn free(&self) -> u32 {
        self.charge.free(0)
    }

    /// All buffers, free or not.
    pub(crate) fn slots(&self) -> u32 {
        self.charge.limit()
    }

    /// Notified whenever a buffer comes free. It holds the waker of one transport.
    pub(crate) fn waiter(&self) -> &Waiter {
        self.charge.budget().waiter()
    }

    /// Where the buffers are.
    pub(crate) fn census(&self) -> Census {
        self.pool.census()
    }
}

/// A receive buffer that is being filled, for transports that know a receive's length when it returns.
#[derive(Debug)]
pub(crate) struct ReceiveBuffer {
    open: OpenSegment,
    filled: usize,
}

impl ReceiveBuffer {
    /// A fresh one, if a buffer is free.
    pub(crate) fn open(pool: &ReceivePool) -> Option<Self> {
        pool.open().map(|open| Self { open, filled: 0 })
    }

    /// Where to receive to next.
    pub(crate) fn spare(&mut self) -> &mut [u8] {
        self.open.spare(self.filled..RECEIVE_BYTES)
    }

    /// The first `bytes` bytes of what was [`Self::spare`], which were received, are final from here on.
    pub(crate) fn received(&mut self, bytes: usize) -> Lent {
        let range = self.filled..self.filled + bytes;
        assert!(range.end <= RECEIVE_BYTES, "no more than was asked for");
        self.open.commit(range.end);
        self.filled = range.end;
        let hold = self.open.hold();
        // SAFETY: I2: the range was committed by this thread just now, and whoever gets the value gets it from
        // this thread; it lies in the segment, since the commit checked its end.
        unsafe { hold.lend(range) }
    }

    /// Whether nothing of it was ever lent.
    pub(crate) fn is_untouched(&self) -> bool {
        self.filled == 0
    }

    /// Whether so little room is left that the next receive should go into a fresh one.
    pub(crate) fn is_spent(&self) -> bool {
        RECEIVE_BYTES - self.filled < RECEIVE_REST_MIN
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
