//! Numbers from a seed.

use std::ops::Range;

/// xorshift64*: the same numbers for the same seed, wherever.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // Neighbouring seeds far from each other, and none of them zero.
        Self(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// One of `range`, whose begin it is if it is empty.
    pub(crate) fn of(&mut self, range: Range<u64>) -> u64 {
        let len = range.end.saturating_sub(range.start).max(1);
        range.start + (self.next() >> 11) % len
    }

    /// True so many times of a thousand.
    pub(crate) fn chance(&mut self, permille: u64) -> bool {
        self.of(0..1000) < permille
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.of(0..at as u64 + 1) as usize);
        }
    }
}
