//! Owned holds, and ranges lent by them.

use super::pool::SegmentPool;
use super::segment::SegmentName;
use bytes::Bytes;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// One counted hold of a segment; dropping it gives it up.
#[derive(Debug)]
pub(crate) struct Hold {
    pool: Arc<SegmentPool>,
    name: SegmentName,
}

impl Hold {
    /// A hold of `name`, unless that life of the segment is over.
    pub(crate) fn try_new(pool: &Arc<SegmentPool>, name: SegmentName) -> Option<Self> {
        pool.try_hold(name).then(|| Self::from_counted(pool, name))
    }

    /// Takes over a hold that the caller counted (`try_hold` or `add_hold`).
    pub(crate) fn from_counted(pool: &Arc<SegmentPool>, name: SegmentName) -> Self {
        Self { pool: Arc::clone(pool), name }
    }

    pub(crate) fn name(&self) -> SegmentName {
        self.name
    }

    /// # Safety
    /// The bytes of `range` were committed by the write half and published to the caller: an edge leads
    /// from the commit to this call.
    pub(crate) unsafe fn bytes(&self, range: Range<usize>) -> &[u8] {
        // SAFETY: this hold keeps the segment for as long as the reference lives; the rest is the
        // caller's promise.
        unsafe { self.pool.read(self.name, range) }
    }

    /// Narrows the hold to a range that is safe to read from then on.
    ///
    /// # Safety
    /// As for [`Hold::bytes`]; and `range` lies inside the segment.
    pub(crate) unsafe fn lend(self, range: Range<usize>) -> Lent {
        Lent { hold: self, range }
    }

    /// The range as `Bytes`, without a copy.
    ///
    /// # Safety
    /// As for [`Hold::lend`].
    #[allow(dead_code, reason = "for tests and models")]
    pub(crate) unsafe fn into_bytes(self, range: Range<usize>) -> Bytes {
        // SAFETY: the caller's promise is the same.
        unsafe { self.lend(range) }.into_bytes()
    }
}

impl Clone for Hold {
    fn clone(&self) -> Self {
        self.pool.add_hold(self.name);
        Self::from_counted(&self.pool, self.name)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.pool.drop_hold(self.name);
    }
}

/// One of the pool's segments is kept for as long as somebody likes: counted, so that others stay free.
#[derive(Debug)]
pub(crate) struct Pin(Arc<SegmentPool>);

impl Drop for Pin {
    fn drop(&mut self) {
        self.0.unpin();
    }
}

/// Published bytes of a held segment: readable for as long as it lives.
#[derive(Debug, Clone)]
pub(crate) struct Lent {
    hold: Hold,
    range: Range<usize>,
}

impl Lent {
    /// A part of the range, by a hold of its own.
    pub(crate) fn part(&self, part: Range<usize>) -> Self {
        assert!(part.start <= part.end && part.end <= self.range.len(), "a part of what is lent");
        let range = self.range.start + part.start..self.range.start + part.end;
        Self { hold: self.hold.clone(), range }
    }

    /// The right to keep this range for long, if fewer than half of the pool's segments are kept so.
    pub(crate) fn try_pin(&self) -> Option<Pin> {
        self.hold.pool.try_pin().then(|| Pin(Arc::clone(&self.hold.pool)))
    }

    #[allow(dead_code, reason = "for tests and models")]
    pub(crate) fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl Deref for Lent {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the maker of this value promised that the range was published to it, and whoever has the
        // value now got it from there; the hold keeps the segment.
        unsafe { self.hold.bytes(self.range.clone()) }
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // The bytes were readable until now; a write that came meanwhile is a race to be seen.
        self.hold.pool.touch_read(self.hold.name, self.range.clone());
    }
}
