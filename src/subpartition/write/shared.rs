//! Records written once for many rings: entries that lie in shared segments.
//!
//! # Guarantees
//! - A shared record is in the ring whole or not at all, by one store, however many segments it lies in.
//! - Its bytes stay where they are until every ring has passed them, or has a private copy of them.
//! - A ring that lags can be given a private copy at any time, also while its reader is at it.
//!
//! # Ownership
//! The ring holds no shared segment; each [`WriteHalf`] holds those that its ring has entries in, one hold a
//! segment (a [`SharedSpan`]). It gives a hold up when `released` has passed the last entry of the segment:
//! looked at when memory is short, or when another segment is added. At its end it hands what is left to the
//! subpartition ([`Inherited`]), which lives as long as any reader of the ring.
//!
//! # Invariants
//! - S1 For each shared entry in `[released, written)` the half, or the subpartition after it, has a hold of
//!   the segment that the slot names. Spans are in ring order, and a span's hold goes only when `released`
//!   has passed its last entry. (Entry numbers come round after 2^16; a span that was passed long ago may
//!   then look alive again and is held longer, never the other way round.)
//! - S2 The writer alone stores a slot's segment, and stores that of a published entry only to name a copy:
//!   a segment whose bytes at the entry's offsets are the same and were all written before the store.
//! - S3 The hold of the original goes after that store. A reader that still has the old name holds the
//!   segment in its life of that name, and so reads the same bytes; or its hold is refused, and it reads the
//!   slot again.
//! - S4 An entry that has a private copy grows no more: the copy ends where the entry did.
//!
//! # Edges
//! `RING_E5`: `Slot::replace_segment` (`replace`) → `Slot::entry` (`read`): who reads the copy's name also
//! sees its bytes. The position that published the entry came before the copy and says nothing of it.

use super::super::account::WriterLoss;
use super::super::position::Amount;
use super::super::ring::Ring;
use super::super::slot::Kind;
use super::{Admission, Append, Blocked, NEVER, WriteHalf};
use crate::memory::{Hold, SegmentCache, SegmentName};
use crate::record::First;
use crate::sync::{Mutex, lock};
use std::collections::VecDeque;
use std::ops::Range;

/// A part of a record, where it lies in a shared segment. Whoever wrote it holds the segment until every
/// ring has the record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedPart {
    pub(crate) segment: SegmentName,
    /// Where in the segment it begins, in bytes.
    pub(crate) from: usize,
    /// Its bytes; a length prefix is never split from what stands before it.
    pub(crate) bytes: usize,
    /// Where the first record starts in an entry that begins with this part.
    pub(crate) first: First,
}

/// The hold of one shared segment (or of a private copy of it) for the entries of one ring.
#[derive(Debug)]
pub(in super::super) struct SharedSpan {
    hold: Hold,
    first: u16,
    last: u16,
}

impl SharedSpan {
    /// Whether a ring between `released` and `newest` has passed all of the span's entries.
    fn is_passed(&self, released: u16, newest: u16) -> bool {
        newest.wrapping_sub(self.last) > newest.wrapping_sub(released)
    }
}

impl WriteHalf {
    /// Appends a record of `payload_bytes` that lies in `parts`, each in a segment of its own.
    pub(crate) fn append_shared(&mut self, parts: &[SharedPart], payload_bytes: usize) -> Append {
        debug_assert!(self.progress.is_none(), "a record never stands between two halves of another");
        let word = self.sub.state.load();
        if word.bits() != self.writable {
            self.writable = NEVER;
            match self.admission(word) {
                Admission::Write => {}
                Admission::Closed => return Append::Closed,
                Admission::Discard => {
                    self.lose_whole(WriterLoss::Discarded, payload_bytes);
                    return Append::Dropped;
                }
            }
            self.stream = word.stream();
        }
        if let Err(blocked) = self.slots_for_shared(parts) {
            self.ring();
            return Append::Blocked(blocked);
        }
        let before = self.tail.entry();
        self.tail.push_shared(&self.sub.ring, parts, payload_bytes as u32);
        self.note_shared(parts);
        self.writable = word.bits();
        self.after_publish();
        if self.tail.entry() != before {
            self.ring();
        }
        Append::Done
    }

    /// Makes sure that there are slots for the record and for the loss to be told before it.
    fn slots_for_shared(&mut self, parts: &[SharedPart]) -> Result<(), Blocked> {
        loop {
            let has_slots = match self.tell_loss() {
                Ok(()) => {
                    let grows = parts.first().is_some_and(|part| self.tail.grows_shared(part));
                    self.tail.has_slots(&self.sub.ring, parts.len() as u16 - u16::from(grows))
                }
                Err(_) => false,
            };
            if has_slots {
                return Ok(());
            }
            if !self.may_drop_oldest() || !self.drop_oldest() {
                return Err(Blocked::Slots);
            }
        }
    }

    /// Counts the record's segments as held by this ring. Their writer still holds them: S1 holds meanwhile.
    fn note_shared(&mut self, parts: &[SharedPart]) {
        let newest = self.tail.entry();
        for (ahead, part) in parts.iter().rev().enumerate().rev() {
            let entry = newest.wrapping_sub(ahead as u16);
            match self.shared.back_mut() {
                Some(span) if span.hold.name() == part.segment => span.last = entry,
                _ => {
                    self.sweep_shared();
                    let pool = self.sub.pool();
                    pool.add_hold(part.segment);
                    let hold = Hold::from_counted(pool, part.segment);
                    self.shared.push_back(SharedSpan { hold, first: entry, last: entry });
                }
            }
        }
    }

    /// Counts a record dropped that lies in shared segments, or nowhere yet.
    fn lose_whole(&mut self, cause: WriterLoss, payload_bytes: usize) {
        let encoded = self.sub.layout().encoded_bytes(payload_bytes);
        self.sub.counts.lose(cause, Amount::new(1, encoded));
    }

    /// Gives up a shared record that found no room for too long.
    pub(crate) fn overflow_shared(&mut self, payload_bytes: usize) {
        self.writable = NEVER;
        self.lose_whole(WriterLoss::Overflowed, payload_bytes);
    }

    /// Gives up the holds that the ring has passed. Tells whether there was one.
    pub(crate) fn sweep_shared(&mut self) -> bool {
        !self.shared.is_empty() && sweep(&mut self.shared, &self.sub.ring, self.tail.entry(), drop)
    }

    /// Whether the ring still needs the shared segment.
    pub(crate) fn needs_shared(&self, name: SegmentName) -> bool {
        self.shared.iter().any(|span| span.hold.name() == name)
    }

    /// Copies what the ring needs of a shared segment into a private one, on the subpartition's account. An
    /// absent consumer whose policy it is drops its oldest entries for it. False if there is no room.
    pub(crate) fn make_private(&mut self, name: SegmentName, cache: &mut SegmentCache) -> bool {
        loop {
            self.sweep_shared();
            let Some(index) = self.shared.iter().position(|span| span.hold.name() == name) else {
                return true;
            };
            if self.copy_span(index, cache) {
                return true;
            }
            if !self.may_drop_oldest() || !self.drop_oldest() {
                return false;
            }
        }
    }

    fn copy_span(&mut self, index: usize, cache: &mut SegmentCache) -> bool {
        let Some(span) = self.shared.get_mut(index) else { return false };
        let name = span.hold.name();
        let Ok(mut copy) = self.sub.pool().allocate(&self.sub.charge, cache) else { return false };
        if span.last == self.tail.entry() {
            // S4. The entry is this very span's: the newest one that is shared.
            self.tail.end_entry(&self.sub.ring);
        }
        let ring = &self.sub.ring;
        let entries = Self::live_entries(ring, span.first, span.last);
        for entry in entries.clone() {
            let Some(range) = shared_range(ring, entry, name) else { continue };
            // SAFETY: S1: the span holds the segment; the bytes were committed before their entry was
            // published, by the thread that has this half now.
            let bytes = unsafe { span.hold.bytes(range.clone()) };
            copy.spare(range.clone()).copy_from_slice(bytes);
            copy.commit(range.end);
        }
        for entry in entries {
            if shared_range(ring, entry, name).is_some() {
                ring.slot(entry).replace_segment(copy.name());
            }
        }
        // S3: the original's hold goes now.
        span.hold = copy.hold();
        true
    }

    /// The entries from `first` to `last` that the ring has not passed.
    fn live_entries(ring: &Ring, first: u16, last: u16) -> impl Iterator<Item = u16> + Clone {
        let count = last.wrapping_sub(first).wrapping_add(1);
        let passed = ring.released().entry.wrapping_sub(first);
        // What was passed before `first` shows as a number beyond any ring's size.
        let begin = if passed <= count { passed } else { 0 };
        (begin..count).map(move |ahead| first.wrapping_add(ahead))
    }

    /// The half's end: what the ring still needs is the subpartition's from now on.
    pub(super) fn bequeath_shared(&mut self) {
        self.sweep_shared();
        self.sub.inherited.take_over(std::mem::take(&mut self.shared));
    }
}

/// Where in `name` the bytes of a complete entry lie, if it is a shared one of that segment.
fn shared_range(ring: &Ring, entry: u16, name: SegmentName) -> Option<Range<usize>> {
    let slot = ring.slot(entry).entry();
    if slot.kind != Kind::Shared || slot.segment != name {
        return None;
    }
    let bytes = ring.slot(entry.wrapping_add(1)).base().wrapping_sub(ring.slot(entry).base());
    let from = usize::from(slot.from);
    Some(from..from + bytes as usize)
}

/// Gives the spans that the ring has passed to `let_go`. Tells whether there was one.
fn sweep(
    spans: &mut VecDeque<SharedSpan>,
    ring: &Ring,
    newest: u16,
    mut let_go: impl FnMut(SharedSpan),
) -> bool {
    let released = ring.released().entry;
    let mut swept = false;
    while spans.front().is_some_and(|span| span.is_passed(released, newest)) {
        spans.pop_front().map(&mut let_go);
        swept = true;
    }
    swept
}

/// The spans that a writer left behind.
#[derive(Debug)]
pub(in super::super) struct Inherited(Mutex<Estate>);

#[derive(Debug, Default)]
struct Estate {
    spans: VecDeque<SharedSpan>,
    /// The subpartition is released, and whoever released it has done with the ring.
    closed: bool,
}

impl Inherited {
    pub(in super::super) fn new() -> Self {
        Self(Mutex::new(Estate::default()))
    }

    fn take_over(&self, spans: VecDeque<SharedSpan>) {
        if spans.is_empty() {
            return;
        }
        let mut estate = lock(&self.0);
        let unwanted = if estate.closed {
            spans
        } else {
            estate.spans = spans;
            VecDeque::new()
        };
        drop(estate);
        // Without the lock: the last hold of a segment may wake somebody.
        drop(unwanted);
    }

    /// A consumer has come to the end: what it has passed is let go.
    pub(in super::super) fn sweep(&self, ring: &Ring) {
        let mut passed = Vec::new();
        let mut estate = lock(&self.0);
        if !estate.spans.is_empty() {
            sweep(&mut estate.spans, ring, ring.written().entry, |span| passed.push(span));
        }
        drop(estate);
        drop(passed);
    }

    /// The subpartition is released and drained: nobody reads from the ring again.
    pub(in super::super) fn close(&self) {
        let mut estate = lock(&self.0);
        estate.closed = true;
        let spans = std::mem::take(&mut estate.spans);
        drop(estate);
        drop(spans);
    }
}
