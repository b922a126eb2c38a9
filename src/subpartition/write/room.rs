//! Whether a record would go in as a whole.

use super::record::SPLIT_SHARE;
use super::{Admission, WriteHalf};
use crate::memory::SegmentCache;

impl WriteHalf {
    /// See [`Charge::await_half`](crate::memory::Charge::await_half).
    pub(crate) fn await_half(&self) -> bool {
        self.sub.charge.await_half()
    }

    /// Whatever is freed of the partition's memory is worth waking the writer.
    pub(crate) fn await_any(&self) {
        self.sub.charge.budget().await_any();
    }

    /// Whether a record of so many payload bytes goes in as a whole now. Nobody but the caller draws on the
    /// budget meanwhile; a transition may still lower the limit between this look and the append.
    pub(crate) fn has_room_for(&mut self, payload_bytes: usize, cache: &SegmentCache) -> bool {
        if self.admission(self.sub.state.load()) != Admission::Write || self.may_drop_oldest() {
            // Whatever becomes of it, it won't wait.
            return true;
        }
        self.sweep_shared();
        let encoded = self.sub.layout().encoded_bytes(payload_bytes);
        let segment = self.sub.pool().segment_bytes(self.sub.charge.budget().class());
        let rest = self.tail.rest();
        let fits = encoded <= rest as u64;
        // A short record is not split, nor is a prefix.
        let split = encoded > (segment / SPLIT_SHARE) as u64 && rest >= self.prefix_bytes;
        let usable = if fits || split { rest } else { 0 };
        let segments = encoded.saturating_sub(usable as u64).div_ceil(segment as u64);
        // One entry a segment, one in the segment at hand, a LOSS.
        let slots = u16::try_from(segments + 2).unwrap_or(u16::MAX);
        segments <= u64::from(self.sub.charge.free(cache.len() as u32))
            && slots <= self.sub.ring.capacity()
            && self.tail.has_slots(&self.sub.ring, slots)
    }

    /// Slots of the ring.
    pub(crate) fn ring_slots(&self) -> u16 {
        self.sub.ring.capacity()
    }
}
