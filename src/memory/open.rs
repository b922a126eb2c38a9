//! The write half of a segment.

use super::hold::Hold;
use super::pool::SegmentPool;
use super::segment::SegmentName;
use std::ops::Range;
use std::sync::Arc;

/// The one owner of a segment's bytes beyond what is committed. A byte once committed is never lent
/// mutably again; dropping it closes the write half.
#[derive(Debug)]
pub(crate) struct OpenSegment {
    pool: Arc<SegmentPool>,
    name: SegmentName,
    /// Where the segment begins in the arena.
    begin: usize,
    capacity: usize,
    committed: usize,
}

impl OpenSegment {
    pub(super) fn new(pool: Arc<SegmentPool>, name: SegmentName) -> Self {
        let (begin, capacity) = pool.extent(name);
        Self { pool, name, begin, capacity, committed: 0 }
    }

    pub(crate) fn name(&self) -> SegmentName {
        self.name
    }

    /// Bytes of the segment.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes to write to, at or beyond what is committed. They have some value already: zero, or what a
    /// former life left there.
    #[inline]
    pub(crate) fn spare(&mut self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start >= self.committed, "a committed byte is final");
        assert!(range.start <= range.end && range.end <= self.capacity, "range outside of the segment");
        // SAFETY: I2: bytes at or beyond `committed` are touched by the one write half only, which is
        // borrowed exclusively for as long as the reference lives; the range lies in its segment.
        unsafe { self.pool.write(self.begin + range.start..self.begin + range.end) }
    }

    /// Copies a prefix and a payload behind what is committed, and makes them final. False, with nothing done, where
    /// there is no room for them.
    #[inline]
    pub(crate) fn append(&mut self, prefix: Option<[u8; 4]>, payload: &[u8]) -> bool {
        let at = self.committed;
        let bytes = payload.len() + prefix.map_or(0, |prefix| prefix.len());
        if bytes > self.capacity - at {
            return false;
        }
        let start = self.begin + at;
        // SAFETY: I2: beyond `committed`, in the segment by the look above, and borrowed exclusively.
        let spare = unsafe { self.pool.write(start..start + bytes) };
        let (head, body) = spare.split_at_mut(bytes - payload.len());
        if let (Some(prefix), Ok(head)) = (prefix, head.try_into()) {
            let head: &mut [u8; 4] = head;
            *head = prefix;
        }
        body.copy_from_slice(payload);
        self.committed = at + bytes;
        true
    }

    /// All that may be written, for records put there one behind the other.
    #[inline]
    pub(crate) fn appender(&mut self) -> Appender<'_> {
        let (begin, end) = (self.begin + self.committed, self.begin + self.capacity);
        // SAFETY: I2: beyond `committed`, in the segment, and borrowed exclusively.
        let spare = unsafe { self.pool.write(begin..end) };
        Appender { spare, committed: &mut self.committed }
    }

    /// Makes all bytes before `upto` final; from here on they may be published.
    #[inline]
    pub(crate) fn commit(&mut self, upto: usize) {
        assert!(self.committed <= upto && upto <= self.capacity, "commits go forward");
        self.committed = upto;
    }

    /// Bytes that were committed, read back.
    #[allow(dead_code, reason = "for tests and models")]
    pub(crate) fn committed(&self, range: Range<usize>) -> &[u8] {
        assert!(range.end <= self.committed, "only committed bytes are read");
        // SAFETY: I2: below `committed` nobody writes while the write half is open, and this very owner
        // wrote them.
        unsafe { self.pool.read(self.name, range) }
    }

    /// One hold more, to be dropped by name ([`SegmentPool::drop_hold`]).
    pub(crate) fn add_hold(&self) {
        self.pool.add_hold(self.name);
    }

    /// An owned hold.
    pub(crate) fn hold(&self) -> Hold {
        self.add_hold();
        Hold::from_counted(&self.pool, self.name)
    }
}

/// What of an open segment isn't written yet, borrowed for a row of records: what one of them fills is let go of, and
/// final from then on.
#[derive(Debug)]
pub(crate) struct Appender<'o> {
    spare: &'o mut [u8],
    committed: &'o mut usize,
}

impl Appender<'_> {
    /// See [`OpenSegment::append`].
    #[inline]
    pub(crate) fn append(&mut self, prefix: Option<[u8; 4]>, payload: &[u8]) -> bool {
        let head_bytes = prefix.map_or(0, |prefix| prefix.len());
        let bytes = payload.len() + head_bytes;
        if bytes > self.spare.len() {
            return false;
        }
        let (now, rest) = std::mem::take(&mut self.spare).split_at_mut(bytes);
        let (head, body) = now.split_at_mut(head_bytes);
        if let (Some(prefix), Ok(head)) = (prefix, head.try_into()) {
            let head: &mut [u8; 4] = head;
            *head = prefix;
        }
        body.copy_from_slice(payload);
        self.spare = rest;
        *self.committed += bytes;
        true
    }
}

impl Drop for OpenSegment {
    fn drop(&mut self) {
        self.pool.close(self.name);
    }
}
