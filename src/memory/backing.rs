//! The bytes behind the arena: an anonymous mapping in production, a heap block in models.

#[cfg(not(loom))]
use memmap2::{Advice, MmapOptions, MmapRaw};
use std::io;
use std::ptr::NonNull;

/// Zeroed bytes at one address for as long as the value lives. It never makes a reference to them.
#[cfg(not(loom))]
#[derive(Debug)]
pub(super) struct Backing(MmapRaw);

#[cfg(not(loom))]
impl Backing {
    /// Maps `bytes` bytes, page-aligned. Advice that the system refuses costs speed and nothing else; what
    /// was refused is told in `notes`.
    pub(super) fn new(bytes: usize, notes: &mut Vec<&'static str>) -> io::Result<Self> {
        let map = MmapRaw::from(MmapOptions::new().len(bytes.max(1)).map_anon()?);
        if map.advise(Advice::HugePage).is_err() {
            notes.push("huge pages were refused for the arena (madvise MADV_HUGEPAGE)");
        }
        if map.advise(Advice::DontFork).is_err() {
            notes.push("the arena is copied by fork (madvise MADV_DONTFORK was refused)");
        }
        Ok(Self(map))
    }

    /// Where the bytes begin; `None` only if the system mapped address 0, which it doesn't unasked.
    pub(super) fn base(&self) -> Option<NonNull<u8>> {
        NonNull::new(self.0.as_mut_ptr())
    }
}

#[cfg(loom)]
#[derive(Debug)]
pub(super) struct Backing(NonNull<[u8]>);

#[cfg(loom)]
impl Backing {
    pub(super) fn new(bytes: usize, _notes: &mut Vec<&'static str>) -> io::Result<Self> {
        Ok(Self(NonNull::from(Box::leak(vec![0; bytes].into_boxed_slice()))))
    }

    pub(super) fn base(&self) -> Option<NonNull<u8>> {
        Some(self.0.cast())
    }
}

#[cfg(loom)]
impl Drop for Backing {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a leaked box, and the pool that owns this is being dropped.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

#[cfg(loom)]
// SAFETY: an owned heap block, of which this type gives out the address only.
unsafe impl Send for Backing {}
#[cfg(loom)]
// SAFETY: as above.
unsafe impl Sync for Backing {}
