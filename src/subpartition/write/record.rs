//! The long way of a record: through closed segments, changed streams and full rings.

use super::super::account::WriterLoss;
use super::super::policy::{WhenAbsent, WhenRetained};
use super::super::position::Amount;
use super::super::slot::Kind;
use super::super::state::Phase;
use super::{Admission, Append, Blocked, NEVER, WriteHalf};
use crate::error::WriteError;
use crate::memory::{SegmentCache, SegmentName};
use crate::record::{LayoutError, RecordCursor};
use bytes::Buf;

/// Records up to an eighth of a segment are not split: the entry ends early instead, and a reader gets them
/// in one piece.
pub(crate) const SPLIT_SHARE: usize = 8;

/// A record on its way.
#[derive(Debug)]
pub(super) struct Progress {
    cursor: RecordCursor,
    payload_bytes: u32,
    /// Where the record begins: which entry, and how far into it.
    entry: u16,
    filled: usize,
    /// Stream bytes of it that were published with an entry's end.
    published: u64,
}

impl WriteHalf {
    /// Whether a record of so many bytes may be written here at all.
    pub(crate) fn check(&self, payload_bytes: usize, record_bytes_max: usize) -> Result<(), WriteError> {
        let layout = self.sub.layout();
        layout.check(payload_bytes, record_bytes_max).map_err(|error| match error {
            LayoutError::Width { bytes, fixed } => WriteError::Width { bytes: bytes as u64, fixed },
            LayoutError::TooLong { bytes, max } => {
                WriteError::TooLong { bytes: bytes as u64, max: max as u64 }
            }
        })?;
        if let WhenAbsent::Replay { quota } = self.sub.policies.when_absent {
            // What is kept for a replay must fit beside one segment that is being filled, in what there is of
            // memory: a quota may be more than its partition has reserved.
            let segment = self.sub.pool().segment_bytes(self.sub.charge.budget().class()) as u64;
            let max = u64::from(quota.min(self.sub.charge.reach()).saturating_sub(1)) * segment;
            if layout.encoded_bytes(payload_bytes) > max {
                return Err(WriteError::TooLong { bytes: payload_bytes as u64, max });
            }
        }
        Ok(())
    }

    /// Appends the record in `source`, or goes on with the one that is half written: `source` is then what
    /// the earlier call left of it. The caller has called [`WriteHalf::check`] before the first.
    pub(crate) fn append(&mut self, source: &mut impl Buf, cache: &mut SegmentCache) -> Append {
        match self.append_parts(source, cache) {
            Ok(append) => append,
            Err(blocked) => {
                self.ring();
                Append::Blocked(blocked)
            }
        }
    }

    fn append_parts(&mut self, source: &mut impl Buf, cache: &mut SegmentCache) -> Result<Append, Blocked> {
        if self.progress.is_none() {
            self.writable = NEVER;
            let word = self.sub.state.load();
            match self.admission(word) {
                Admission::Write => {}
                Admission::Closed => return Ok(Append::Closed),
                Admission::Discard => {
                    // What has to fit into a replay is checked, whoever is there.
                    if !matches!(self.sub.policies.when_absent, WhenAbsent::Replay { .. }) {
                        self.discarding = word.bits();
                    }
                    return Ok(self.discard(source));
                }
            }
            self.stream = word.stream();
            while let Err(blocked) = self.tell_loss() {
                if !(self.may_drop_oldest() && self.drop_oldest()) {
                    return Err(blocked);
                }
            }
            self.progress = Some(Progress {
                cursor: RecordCursor::new(self.sub.layout(), source.remaining() as u32),
                payload_bytes: source.remaining() as u32,
                entry: self.tail.entry(),
                filled: self.tail.filled(),
                published: 0,
            });
        }
        loop {
            if let Some(ended) = self.look_at_stream(source) {
                return Ok(ended);
            }
            match self.next_part(source, cache) {
                Ok(true) => break,
                // A part was published with its entry: look at the stream again before the next one.
                Ok(false) => {}
                Err(blocked) => {
                    if self.sweep_shared() {
                        continue;
                    }
                    if !self.may_drop_oldest() {
                        return Err(blocked);
                    }
                    if !self.drop_oldest() {
                        if !self.may_drop_oldest() {
                            // A reader came back meanwhile: it makes room.
                            return Err(blocked);
                        }
                        // The record alone fills the quota.
                        source.advance(source.remaining());
                        self.abort(WriterLoss::Aborted);
                        return Ok(Append::Dropped);
                    }
                }
            }
        }
        self.progress = None;
        let word = self.sub.state.load();
        self.publish_record();
        if word.stream() == self.stream && self.admission(word) == Admission::Write {
            self.writable = word.bits();
        }
        Ok(Append::Done)
    }

    /// Has the stream changed since the record began, and what does that mean for it?
    fn look_at_stream(&mut self, source: &mut impl Buf) -> Option<Append> {
        let word = self.sub.state.load();
        if word.is_released() {
            source.advance(source.remaining());
            self.abort(WriterLoss::Aborted);
            return Some(Append::Closed);
        }
        if word.stream() == self.stream {
            return None;
        }
        self.stream = word.stream();
        let published = self.progress.as_ref().is_some_and(|progress| progress.published > 0);
        let broken = if published {
            self.sub.policies.when_absent == WhenAbsent::Discard
        } else {
            self.admission(word) == Admission::Discard
        };
        if !broken {
            return None;
        }
        source.advance(source.remaining());
        self.abort(if published { WriterLoss::Aborted } else { WriterLoss::Discarded });
        Some(Append::Dropped)
    }

    /// Writes what fits. True when the record is complete (and not published yet), false when its entry
    /// ended first.
    fn next_part(&mut self, source: &mut impl Buf, cache: &mut SegmentCache) -> Result<bool, Blocked> {
        let Some(progress) = &mut self.progress else { return Ok(true) };
        let ring = &self.sub.ring;
        let left = progress.cursor.remaining_bytes();
        let fresh = progress.cursor.written_bytes() == 0;
        let payload_bytes = progress.payload_bytes;
        let segment = self.tail.segment_bytes().unwrap_or(usize::MAX);
        let least = if fresh && left <= (segment / SPLIT_SHARE) as u64 {
            left as usize
        } else if fresh {
            self.prefix_bytes.max(1)
        } else {
            1
        };
        if self.tail.room() < least || self.tail.room() == 0 {
            let before = self.tail.entry();
            if !fresh {
                // Ending the entry publishes the part that is in it.
                progress.published = progress.cursor.written_bytes();
            }
            let cursor = &progress.cursor;
            let room = self
                .tail
                .make_room(ring, &self.sub.charge, cache, least.max(1), |room| cursor.first_of_next(room));
            if before != self.tail.entry() {
                self.count_published();
                self.ring_for_segment();
            }
            room?;
            if !fresh {
                return Ok(false);
            }
            if let Some(progress) = &mut self.progress {
                progress.entry = self.tail.entry();
                progress.filled = self.tail.filled();
            }
        }
        if fresh {
            // Before anything of the record is published: the hint must hold for what readers see.
            self.tail.note_length(&self.sub.ring, payload_bytes);
        }
        self.fill(source);
        Ok(self.progress.as_ref().is_none_or(|progress| progress.cursor.remaining_bytes() == 0))
    }

    /// Copies as much of the record as the open entry takes.
    fn fill(&mut self, source: &mut impl Buf) {
        let room = self.tail.room();
        let Some(progress) = &mut self.progress else { return };
        // The caller's buffer may panic: the record is then where it was, and can be broken off.
        let mut cursor = progress.cursor.clone();
        let Some(piece) = cursor.next_piece(room) else { return };
        let prefix = piece.prefix.as_ref().map_or(&[][..], |prefix| &prefix[..]);
        let Some(spare) = self.tail.spare(prefix.len() + piece.payload) else { return };
        let (head, body) = spare.split_at_mut(prefix.len());
        head.copy_from_slice(prefix);
        source.copy_to_slice(body);
        self.tail.advance(prefix.len() + piece.payload);
        progress.cursor = cursor;
    }

    /// Drops a record before its first byte.
    fn discard(&mut self, source: &mut impl Buf) -> Append {
        let encoded = self.sub.layout().encoded_bytes(source.remaining());
        source.advance(source.remaining());
        self.sub.counts.lose(WriterLoss::Discarded, Amount::new(1, encoded));
        Append::Dropped
    }

    /// Gives up a record that found no room for too long, before its first byte or in the middle.
    pub(crate) fn overflow(&mut self, source: &mut impl Buf) {
        self.writable = NEVER;
        let encoded = self.sub.layout().encoded_bytes(source.remaining());
        // Before it is counted: a buffer that panics here leaves a record that is yet to be given up.
        source.advance(source.remaining());
        if self.progress.is_some() {
            self.abort(WriterLoss::Overflowed);
        } else {
            self.sub.counts.lose(WriterLoss::Overflowed, Amount::new(1, encoded));
        }
    }

    /// Gives up a record at its writer's wish: one that is half written, or one of `payload_bytes` that was
    /// accepted and found no room yet.
    pub(crate) fn give_up(&mut self, payload_bytes: usize) {
        self.writable = NEVER;
        if self.progress.is_some() {
            self.abort(WriterLoss::Aborted);
        } else {
            let encoded = self.sub.layout().encoded_bytes(payload_bytes);
            self.sub.counts.lose(WriterLoss::Aborted, Amount::new(1, encoded));
        }
    }

    /// Gives up a record whose source panicked. One that has not begun counts for nothing.
    pub(crate) fn give_up_begun(&mut self) {
        self.abort(WriterLoss::Aborted);
    }

    /// Takes a record back that found no room, as if it had never been begun. False if a part of it is
    /// published: then it is as it was.
    pub(crate) fn retract(&mut self) -> bool {
        if self.progress.as_ref().is_some_and(|progress| progress.published > 0) {
            return false;
        }
        if let Some(progress) = self.progress.take()
            && self.tail.entry() == progress.entry
        {
            self.tail.rewind(progress.filled);
        }
        true
    }

    /// Payload bytes of the half-written record that are still to come.
    pub(crate) fn record_left(&self) -> Option<usize> {
        let progress = self.progress.as_ref()?;
        let payload = u64::from(progress.payload_bytes);
        Some(progress.cursor.remaining_bytes().min(payload) as usize)
    }

    /// Breaks off the record that is half written, if there is one. What was published of it is followed by
    /// an ABORT; else nobody ever saw it.
    pub(crate) fn abort(&mut self, cause: WriterLoss) {
        let Some(progress) = self.progress.take() else { return };
        self.writable = NEVER;
        let encoded = self.sub.layout().encoded_bytes(progress.payload_bytes as usize);
        self.sub.counts.lose(cause, Amount::new(1, encoded - progress.published));
        if progress.published == 0 {
            if self.tail.entry() == progress.entry {
                self.tail.rewind(progress.filled);
            }
            return;
        }
        self.tail.rewind(0);
        self.tail.push(&self.sub.ring, Kind::Abort, SegmentName::NONE, 0);
        self.ring();
    }

    pub(super) fn may_drop_oldest(&self) -> bool {
        let retain = self.sub.policies.when_absent;
        matches!(retain, WhenAbsent::Retain { then: WhenRetained::DropOldest, .. })
            && self.phase() == Phase::Unavailable
    }

    pub(super) fn drop_oldest(&self) -> bool {
        let keep_from = match &self.progress {
            Some(progress) if progress.published > 0 => progress.entry,
            _ => self.tail.entry(),
        };
        self.sub.drop_oldest(keep_from)
    }
}
