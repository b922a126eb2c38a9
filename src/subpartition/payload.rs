//! A record's payload as a reader yields it: by borrow, and as an owned value.

use super::account::ViewAccount;
use super::view::View;
use crate::memory::{Hold, Lent, SegmentName};
use crate::sync::Ordering;
use bytes::Bytes;
use std::sync::Arc;

/// A record's payload where it lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) origin: Option<Origin<'a>>,
}

/// The segment that a payload lies in; `end` is where the payload ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin<'a> {
    pub(super) view: &'a View,
    pub(super) segment: SegmentName,
    pub(super) end: usize,
}

impl<'a> Payload<'a> {
    #[inline]
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The payload as an owned value: its segment is lent if the payload fills at least half of it, the
    /// view lends fewer than two, and the subpartition's quota is more than half free; else it is copied.
    pub(crate) fn into_bytes(self) -> Bytes {
        match self.origin.and_then(|origin| origin.lend(self.bytes.len())) {
            Some(lent) => Bytes::from_owner(lent),
            None => Bytes::copy_from_slice(self.bytes),
        }
    }
}

impl Origin<'_> {
    fn lend(self, bytes: usize) -> Option<LentRecord> {
        let sub = self.view.subpartition();
        let pool = sub.pool();
        let (used, limit) = sub.segments();
        if bytes * 2 < pool.capacity(self.segment) || used * 2 > limit {
            return None;
        }
        let account = self.view.account();
        let hold = Hold::try_new(pool, self.segment)?;
        let (none, name) = (SegmentName::NONE.to_bits(), self.segment.to_bits());
        let free = account.lent().iter().position(|note| {
            // Relaxed: a count that several threads with copies of one record may draw on; a clear seen late
            // lends less. Seen by a binder that fences this view later, at the latest after the next take.
            note.compare_exchange(none, name, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        })?;
        // SAFETY: I1 of `local`: the payload was published before the take that brought it.
        let lent = unsafe { hold.lend(self.end - bytes..self.end) };
        Some(LentRecord { lent, account: account.clone(), note: free })
    }
}

/// A payload lent to the task with its segment; counted in its view until it is dropped.
#[derive(Debug)]
struct LentRecord {
    lent: Lent,
    account: Arc<ViewAccount>,
    note: usize,
}

impl AsRef<[u8]> for LentRecord {
    fn as_ref(&self) -> &[u8] {
        &self.lent
    }
}

impl Drop for LentRecord {
    fn drop(&mut self) {
        // Relaxed: a count; the segment's own count orders its reuse.
        self.account.lent()[self.note].store(SegmentName::NONE.to_bits(), Ordering::Relaxed);
    }
}
