//! The header of a segment: one word that decides who may touch it, and whose account it stands on.

use super::budget::Charge;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, check, sync};
use std::ptr;
use std::sync::Arc;

/// Bit 31: the write half is open. Below it the holders, above it the generation.
const OPEN: u64 = 1 << 31;
const HOLDERS: u64 = OPEN - 1;
const GENERATION_SHIFT: u32 = 32;
/// A hold beyond this is refused, far from where the count would run into the open bit.
const HOLDERS_MAX: u64 = 1 << 30;

/// One life of one segment: index and generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SegmentName {
    pub(crate) id: u32,
    pub(crate) generation: u32,
}

impl SegmentName {
    /// Names no segment, and never will.
    pub(crate) const NONE: Self = Self { id: u32::MAX, generation: 0 };

    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.id)
    }

    #[allow(clippy::cast_possible_truncation, reason = "the two halves of the word")]
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self { id: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// What is given up by [`Header::leave`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    WriteHalf,
    Hold,
}

#[derive(Debug)]
pub(super) struct Header {
    /// `{generation 32 | open 1 | holders 31}`; only ever changed by read-modify-writes.
    word: AtomicU64,
    /// One strong count of the charge while the segment isn't free; null while it is.
    charge: AtomicPtr<Charge>,
    /// The segment below in the free list.
    pub(super) next: AtomicU32,
    pub(super) class: u8,
    /// Where the segment begins in the arena, in bytes.
    pub(super) offset: usize,
}

/// A moment's look at a header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) open: bool,
    pub(super) holders: u32,
    pub(super) charged: bool,
}

#[allow(clippy::cast_possible_truncation, reason = "the upper half of the word")]
fn generation_of(word: u64) -> u32 {
    (word >> GENERATION_SHIFT) as u32
}

fn is_free(word: u64) -> bool {
    word & (OPEN | HOLDERS) == 0
}

impl Header {
    pub(super) fn new(class: u8, offset: usize) -> Self {
        Self {
            // Generation 1, so that zeroed memory never names a segment.
            word: AtomicU64::new(1 << GENERATION_SHIFT),
            charge: AtomicPtr::new(ptr::null_mut()),
            next: AtomicU32::new(u32::MAX),
            class,
            offset,
        }
    }

    /// Opens the write half of a segment that the caller took off the free list, on `charge`'s account.
    /// Returns the generation.
    pub(super) fn open(&self, charge: Arc<Charge>) -> u32 {
        // Relaxed: the freeing thread gets it through MEM_E1 (every holder leaves after this).
        let before = self.charge.swap(Arc::into_raw(charge).cast_mut(), Ordering::Relaxed);
        debug_assert!(before.is_null(), "I3: a free segment stands on no account");
        // Relaxed: the segment is the caller's alone (I4); who gets its name gets this with it.
        let word = self.word.fetch_or(OPEN, Ordering::Relaxed);
        debug_assert!(is_free(word), "I4: only free segments are in the list");
        generation_of(word)
    }

    /// One hold more, unless the segment's life of that generation is over or hasn't begun. A free segment
    /// shows the generation of its next life already, and a number that was never a name (a fenced reader may
    /// read one out of a slot that is being reused) can match it: a hold then would free it a second time.
    pub(super) fn try_hold(&self, generation: u32) -> bool {
        // Relaxed: a guess for the exchange, which sees the newest word.
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let same_life = check!(MEM_E5.generation, generation_of(word) == generation);
            if !same_life || is_free(word) || word & HOLDERS >= HOLDERS_MAX {
                return false;
            }
            // Relaxed: the count alone keeps the segment; its bytes come with the edge that published them.
            match self.word.compare_exchange_weak(word, word + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(newer) => word = newer,
            }
        }
    }

    /// One hold more, by somebody who keeps the segment from becoming free meanwhile.
    pub(super) fn add_hold(&self, generation: u32) {
        // Relaxed: as with the clone of an `Arc`, the caller has a part already.
        let word = self.word.fetch_add(1, Ordering::Relaxed);
        debug_assert!(!is_free(word) && generation_of(word) == generation, "I1: held by the caller");
        assert!(word & HOLDERS < HOLDERS_MAX, "I6: fewer than 2^30 holders");
    }

    /// Gives up a part. True for the one caller that made the segment free and now has it alone: it
    /// frees it.
    #[must_use]
    pub(super) fn leave(&self, part: Part, generation: u32) -> bool {
        // Relaxed: a guess for the exchange, which sees the newest word.
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            debug_assert!(generation_of(word) == generation, "I1: who has a part knows the generation");
            let rest = match part {
                Part::WriteHalf => {
                    debug_assert!(word & OPEN != 0, "I1: the write half is closed once");
                    word & !OPEN
                }
                Part::Hold => {
                    debug_assert!(word & HOLDERS != 0, "I1: a hold is dropped once");
                    word - 1
                }
            };
            let last = is_free(rest);
            let (next, order) = if last {
                // The end of this life and the start of the next generation are one step: names of
                // before are dead from here on.
                let next = rest.wrapping_add(1 << GENERATION_SHIFT);
                (next, sync!(MEM_E1.last, Acquire))
            } else {
                (rest, sync!(MEM_E1.leave, Release))
            };
            match self.word.compare_exchange_weak(word, next, order, Ordering::Relaxed) {
                Ok(_) => return last,
                Err(newer) => word = newer,
            }
        }
    }

    /// The charge of a segment that has just become free.
    pub(super) fn take_charge(&self) -> Option<Arc<Charge>> {
        // Relaxed: ordered by MEM_E1 after the opening and after every `recharge`, which holds.
        let charge = self.charge.swap(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: I3: the pointer came from `Arc::into_raw` with one strong count, and the swap made that
        // count ours.
        (!charge.is_null()).then(|| unsafe { Arc::from_raw(charge) })
    }

    /// Puts `to` in place of `from`; false if the segment stands on another account. The caller holds the
    /// segment. On success the returned charge is the count that the header had of `from`.
    pub(super) fn change_charge(&self, from: &Arc<Charge>, to: &Arc<Charge>) -> Option<Arc<Charge>> {
        let old = Arc::as_ptr(from).cast_mut();
        let new = Arc::into_raw(Arc::clone(to)).cast_mut();
        // Relaxed: the caller's hold keeps the freeing thread away, which gets this through MEM_E1.
        let changed = self.charge.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        let ours = if changed { old } else { new };
        // SAFETY: I3: on success the header's strong count of `from` became ours; otherwise the one of
        // `to` that was just made comes back.
        let ours = unsafe { Arc::from_raw(ours) };
        changed.then_some(ours)
    }

    pub(super) fn look(&self) -> Look {
        // Relaxed: a moment's picture, exact when nobody changes it.
        let word = self.word.load(Ordering::Relaxed);
        #[allow(clippy::cast_possible_truncation, reason = "31 bits")]
        let holders = (word & HOLDERS) as u32;
        // Relaxed: as above.
        let charged = !self.charge.load(Ordering::Relaxed).is_null();
        Look { open: word & OPEN != 0, holders, charged }
    }

    /// Whether the life named by `generation` still goes on.
    pub(super) fn lives(&self, generation: u32) -> bool {
        // Relaxed: for assertions by somebody who has a part.
        let word = self.word.load(Ordering::Relaxed);
        !is_free(word) && generation_of(word) == generation
    }
}

impl Drop for Header {
    fn drop(&mut self) {
        drop(self.take_charge());
    }
}
