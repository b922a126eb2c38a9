//! Fills the batches of one connection: control frames first, then streams in turn.

use crate::memory::Lent;
use crate::transport::{Batch, Part};

/// The most payload that one batch takes, in bytes: 16 segments of 32 KiB.
pub(super) const BATCH_BYTES_MAX: usize = 512 * 1024;
/// The most stretches that one batch takes: a header and a segment each for 64 subpartitions.
pub(super) const PARTS_MAX: usize = 128;
/// Payloads under so many bytes are copied behind their headers, larger ones are sent from where they lie.
pub(super) const COPY_BYTES_MAX: usize = 4096;

/// What [`Batch`] can do for a sender.
pub(super) trait Gather {
    /// Appends what `write` writes to the staging memory.
    fn stage<R>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> R) -> R;

    /// Appends a range by reference.
    fn refer(&mut self, lent: Lent);

    /// Whether no more should be put in.
    fn is_full(&self) -> bool;

    /// Ready for the next send, with its memory kept.
    fn empty(&mut self);
}

impl Gather for Batch {
    fn stage<R>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let start = self.staging.len();
        let result = write(&mut self.staging);
        let end = self.staging.len();
        debug_assert!(end >= start, "staging memory only grows");
        self.bytes += end - start;
        match self.parts.last_mut() {
            Some(Part::Staged(range)) if range.end == start => range.end = end,
            _ if end > start => self.parts.push(Part::Staged(start..end)),
            _ => {}
        }
        result
    }

    fn refer(&mut self, lent: Lent) {
        self.bytes += lent.len();
        self.parts.push(Part::Segment(lent));
    }

    fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES_MAX || self.parts.len() + 2 > PARTS_MAX
    }

    fn empty(&mut self) {
        self.staging.clear();
        self.parts.clear();
        self.returns.clear();
        self.bytes = 0;
    }
}
