//! Receive buffers lent to the task with a record, counted until they are given back.
//!
//! A buffer (one [`Chunk`]) is lent while its channel lends fewer than two and what it pins stays within half
//! of the window: the other half always comes back as credit, so lent records never stop the stream. Of the receive
//! buffers of a network thread at most half are kept by lent records, so these never stop other channels.

use super::{Chunk, Shared};
use crate::memory::Pin;
use crate::sync::Ordering;
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;

/// The most buffers that a channel lends.
const LENT_MAX: u64 = 2;

/// Shorter payloads are copied, which costs less than what counts a buffer, and leaves the buffer free.
const LENT_BYTES_MIN: usize = 4 * 1024;

/// Where the count of lent buffers begins in the word of pins; below it are their bytes.
const COUNT_SHIFT: u32 = 56;
const BYTES_MASK: u64 = (1 << COUNT_SHIFT) - 1;

/// What a buffer of so many bytes adds to the word of pins.
const fn pin(bytes: usize) -> u64 {
    1 << COUNT_SHIFT | bytes as u64
}

impl Chunk {
    /// `Some` if it may be kept for long: memory of its own may, a receive buffer if enough others stay free.
    fn try_pin(&self) -> Option<Option<Pin>> {
        match self {
            Self::Lent(lent) => lent.try_pin().map(Some),
            Self::Heap(_) => Some(None),
        }
    }
}

impl Shared {
    /// Stream bytes in buffers lent to the task.
    pub(super) fn pinned(&self) -> u64 {
        self.pins.load(Ordering::Relaxed) & BYTES_MASK // Relaxed: one word, a moment's picture
    }

    /// Whether a buffer of `bytes` is lent; then it is counted.
    fn try_pin(&self, bytes: usize) -> bool {
        let more = |pins: u64| {
            let fits = (pins & BYTES_MASK) + bytes as u64 <= self.window / 2;
            (fits && pins >> COUNT_SHIFT < LENT_MAX).then(|| pins + pin(bytes))
        };
        // Relaxed: a count; the buffer itself is kept and given back by its own.
        self.pins.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

/// A payload lent to the task with its buffer.
#[derive(Debug)]
struct LentRecord {
    chunk: Chunk,
    /// The receive buffer is much larger than the chunk: of all of them at least half stay free.
    _pin: Option<Pin>,
    range: Range<usize>,
    shared: Arc<Shared>,
}

impl AsRef<[u8]> for LentRecord {
    fn as_ref(&self) -> &[u8] {
        &self.chunk[self.range.clone()]
    }
}

impl Drop for LentRecord {
    fn drop(&mut self) {
        // Relaxed: a count; the ring brings it to the network thread, which grants credit for it.
        self.shared.pins.fetch_sub(pin(self.chunk.len()), Ordering::Relaxed);
        self.shared.network_node.ring();
    }
}

/// The payload at `range` of `chunk` as an owned value: lent with the buffer if it fills at least half of it
/// and the channel may lend, else copied.
pub(super) fn owned(shared: &Arc<Shared>, chunk: &Chunk, range: Range<usize>) -> Bytes {
    let bytes = range.len();
    let is_worth_it = bytes >= LENT_BYTES_MIN && bytes * 2 >= chunk.len();
    if let (true, Some(pin)) = (is_worth_it, chunk.try_pin())
        && shared.try_pin(chunk.len())
    {
        let (chunk, shared) = (chunk.clone(), shared.clone());
        return Bytes::from_owner(LentRecord { chunk, _pin: pin, range, shared });
    }
    Bytes::copy_from_slice(chunk.get(range).unwrap_or(&[]))
}
