//! Raw bytes shared between threads by ranges; under loom every granule is a tracked cell.

use std::ops::Range;
use std::ptr::NonNull;

/// Bytes that several threads hold at once, each its own ranges.
///
/// No reference to the whole exists anywhere: a range is written by one owner before it is published,
/// and only read from then on until its segment is free again. Under loom each `granule` bytes are one
/// tracked cell, and an access touches exactly the cells it covers.
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<u8>,
    len: usize,
    #[cfg(loom)]
    granule: usize,
    #[cfg(loom)]
    cells: Vec<loom::cell::UnsafeCell<()>>,
}

// SAFETY: the region is an address and a length; all access goes through unsafe functions whose callers
// promise that no two threads touch a byte at once unless both read.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// `granule` is the size in bytes of a tracked cell under loom and means nothing elsewhere.
    ///
    /// # Safety
    /// `base` is valid for reads and writes of `len` bytes for as long as the region is used.
    pub(crate) unsafe fn new(base: NonNull<u8>, len: usize, granule: usize) -> Self {
        #[cfg(not(loom))]
        let _ = granule;
        Self {
            base,
            len,
            #[cfg(loom)]
            granule,
            #[cfg(loom)]
            cells: (0..len.div_ceil(granule)).map(|_| loom::cell::UnsafeCell::new(())).collect(),
        }
    }

    /// Shared bytes of `range`.
    ///
    /// # Safety
    /// - Every byte of `range` was written before, with an edge from that write to this call.
    /// - Nobody writes to `range` while the reference lives.
    #[inline]
    pub(crate) unsafe fn read(&self, range: Range<usize>) -> &[u8] {
        assert!(range.start <= range.end && range.end <= self.len, "range outside of the region");
        self.touch_read(range.clone());
        // SAFETY: inside the region by the assertion above; the caller excludes writers.
        let start = unsafe { self.base.as_ptr().add(range.start) };
        // SAFETY: the caller promises initialised bytes without a writer.
        unsafe { std::slice::from_raw_parts(start, range.end - range.start) }
    }

    /// The bytes of `range` for writing.
    ///
    /// # Safety
    /// Nobody else reads or writes any byte of `range` while the reference lives.
    #[inline]
    #[allow(clippy::mut_from_ref, reason = "the range is the caller's alone, as the contract says")]
    pub(crate) unsafe fn write(&self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.len, "range outside of the region");
        #[cfg(loom)]
        for cell in self.covered(range.clone()) {
            cell.with_mut(|_| ());
        }
        // SAFETY: inside the region by the assertion above; the caller has the range alone.
        let start = unsafe { self.base.as_ptr().add(range.start) };
        // SAFETY: the mapping is initialised (zero or older bytes), and the range is the caller's alone.
        unsafe { std::slice::from_raw_parts_mut(start, range.end - range.start) }
    }

    /// Under loom: records a read of `range` now. Called where a lent range is given back, so that a
    /// write that came while it was lent is seen as the race it is.
    #[inline]
    pub(crate) fn touch_read(&self, range: Range<usize>) {
        #[cfg(loom)]
        for cell in self.covered(range) {
            cell.with(|_| ());
        }
        #[cfg(not(loom))]
        let _ = range;
    }

    #[cfg(loom)]
    fn covered(&self, range: Range<usize>) -> &[loom::cell::UnsafeCell<()>] {
        if range.is_empty() {
            return &[];
        }
        &self.cells[range.start / self.granule..range.end.div_ceil(self.granule)]
    }
}
