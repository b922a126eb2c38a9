//! Writes records once, for all rings, and gets memory back from who holds it too long.

use super::lane::Lane;
use crate::memory::{Charge, OpenSegment, SegmentCache, SegmentName, SegmentPool};
use crate::record::{RecordCursor, RecordLayout};
use crate::subpartition::{SPLIT_SHARE, SharedPart};
use bytes::Buf;
use std::collections::VecDeque;
use std::sync::Arc;

/// The share of a ring's slots that the parts of one record may take.
const SLOTS_SHARE: u16 = 4;

/// The segments of the broadcast account.
#[derive(Debug)]
pub(super) struct SharedFill {
    pool: Arc<SegmentPool>,
    charge: Arc<Charge>,
    /// The segments of the record under way; the last of them is being filled. Open, they live until every
    /// ring has got its entries.
    segments: Vec<OpenSegment>,
    /// Bytes of the last segment that are written.
    filled: usize,
    /// Segments for a record that isn't begun yet.
    fresh: Vec<OpenSegment>,
    parts: Vec<SharedPart>,
    /// Segments that some ring may still need, oldest first.
    live: VecDeque<SegmentName>,
}

impl SharedFill {
    pub(super) fn new(pool: Arc<SegmentPool>, charge: Arc<Charge>) -> Self {
        let most = charge.limit() as usize;
        Self {
            pool,
            charge,
            segments: Vec::with_capacity(most),
            filled: 0,
            fresh: Vec::with_capacity(most),
            parts: Vec::with_capacity(most),
            live: VecDeque::with_capacity(most),
        }
    }

    /// Where the record under way lies.
    pub(super) fn parts(&self) -> &[SharedPart] {
        &self.parts
    }

    /// Every ring has its entries of the record, or never will.
    pub(super) fn record_is_out(&mut self) {
        let Some(newest) = self.segments.pop() else { return };
        self.segments.clear();
        if self.filled < newest.capacity() {
            self.segments.push(newest);
        }
        self.parts.clear();
    }

    /// The caller's buffer may have panicked in the middle of a record: no ring got any of it, and parts that
    /// stayed would name segments that are free by then.
    fn forget_unfinished(&mut self) {
        if !self.parts.is_empty() {
            self.record_is_out();
        }
        self.fresh.clear();
    }

    /// Writes the record of `payload_bytes` into shared segments. False, with the record untouched, if it finds
    /// no room there.
    pub(super) fn place(
        &mut self,
        record: &mut impl Buf,
        payload_bytes: u32,
        layout: RecordLayout,
        lanes: &mut [Lane],
        cache: &mut SegmentCache,
    ) -> bool {
        self.forget_unfinished();
        let encoded = layout.encoded_bytes(payload_bytes as usize);
        let segment_bytes = self.pool.segment_bytes(self.charge.budget().class());
        let rest = self.segments.last().map_or(0, |open| open.capacity() - self.filled);
        let fits = encoded <= rest as u64;
        // As for other records: a short one is not split, nor is a prefix.
        let split = encoded > (segment_bytes / SPLIT_SHARE) as u64 && rest >= layout.prefix_bytes().max(1);
        let mut usable = if fits || split { rest } else { 0 };
        let slots = u64::from(lanes.first().map_or(0, |lane| lane.half.ring_slots()) / SLOTS_SHARE);
        let most = u64::from(self.charge.limit()).min(slots);
        loop {
            let segments = encoded.saturating_sub(usable as u64).div_ceil(segment_bytes as u64);
            if segments + u64::from(usable > 0) <= most && self.get_fresh(segments, lanes, cache) {
                break;
            }
            if usable == 0 {
                return false;
            }
            // What is left of the segment at hand is given up: closed, it can come back itself.
            usable = 0;
            self.segments.clear();
        }
        if usable == 0 {
            self.segments.clear();
        }
        let mut cursor = RecordCursor::new(layout, payload_bytes);
        if usable > 0 {
            self.write_part(&mut cursor, record);
        }
        while let Some(open) = self.fresh.pop() {
            self.live.push_back(open.name());
            self.segments.push(open);
            self.filled = 0;
            self.write_part(&mut cursor, record);
        }
        debug_assert!(cursor.remaining_bytes() == 0, "the segments were counted for the record");
        true
    }

    /// Gets so many segments, or none.
    fn get_fresh(&mut self, segments: u64, lanes: &mut [Lane], cache: &mut SegmentCache) -> bool {
        while (self.fresh.len() as u64) < segments {
            match self.pool.allocate(&self.charge, cache) {
                Ok(open) => self.fresh.push(open),
                Err(_) if self.relieve(lanes, cache) => {}
                Err(_) => {
                    self.fresh.clear();
                    return false;
                }
            }
        }
        true
    }

    /// Writes what goes into the last segment.
    fn write_part(&mut self, cursor: &mut RecordCursor, record: &mut impl Buf) {
        let Some(open) = self.segments.last_mut() else { return };
        let room = open.capacity() - self.filled;
        let first = cursor.first_of_next(room);
        let Some(piece) = cursor.next_piece(room) else { return };
        let prefix = piece.prefix.as_ref().map_or(&[][..], |prefix| &prefix[..]);
        let bytes = prefix.len() + piece.payload;
        let range = self.filled..self.filled + bytes;
        let (head, body) = open.spare(range.clone()).split_at_mut(prefix.len());
        head.copy_from_slice(prefix);
        record.copy_to_slice(body);
        open.commit(range.end);
        self.parts.push(SharedPart { segment: open.name(), from: range.start, bytes, first });
        self.filled = range.end;
    }

    /// Gets a shared segment back: from rings that have passed it without having looked since, else by private
    /// copies for the few that lag, each on its own account. Tells whether it was worth another try.
    fn relieve(&mut self, lanes: &mut [Lane], cache: &mut SegmentCache) -> bool {
        if sweep(lanes) {
            return true;
        }
        while let Some(name) = self.live.pop_front() {
            let holders = lanes.iter().filter(|lane| lane.half.needs_shared(name)).count();
            let in_use = self.segments.iter().chain(&self.fresh).any(|open| open.name() == name);
            if holders == 0 && !in_use {
                // Free, or with readers who are at it.
                continue;
            }
            // Copies for most of the rings would cost more than the record itself in each.
            if !in_use
                && holders * 2 <= lanes.len()
                && lanes.iter_mut().all(|lane| lane.half.make_private(name, cache))
            {
                return true;
            }
            self.live.push_front(name);
            return false;
        }
        false
    }
}

/// Gives up what the rings have passed: all of them look, whoever finds something.
pub(super) fn sweep(lanes: &mut [Lane]) -> bool {
    lanes.iter_mut().map(|lane| lane.half.sweep_shared()).filter(|swept| *swept).count() > 0
}
