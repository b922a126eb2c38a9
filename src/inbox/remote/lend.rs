//! Receive buffers lent to the task with a record, counted until they are given back.
//!
//! A buffer (one [`Chunk`](super::Chunk)) is lent while its channel lends fewer than two and what it pins stays
//! within half of the window: the other half always comes back as credit, so lent records never stop the
//! stream.

/// Where the count of lent buffers begins in the word of pins; below it are their bytes.
const COUNT_SHIFT: u32 = 56;
const BYTES_MASK: u64 = (1 << COUNT_SHIFT) - 1;

/// Bytes that a word of pins says.
pub(super) const fn bytes(pins: u64) -> u64 {
    pins & BYTES_MASK
}
