//! The ring of entries between one writer and the reader of the newest bind.
//!
//! # Guarantees
//! - What the writer published is taken once, in order, by the reader of the current bind epoch; a take or
//!   release of an older epoch fails with [`Fenced`] and touches nothing.
//! - What a reader took stays readable until it lets go, whatever binders and writers do meanwhile.
//! - Publishing is one store; taking and releasing are one compare-and-swap a batch. Nobody waits for
//!   anybody.
//!
//! Not here: who may write or bind (`write`, `bind`), when to ring (`doorbell`), what a policy drops.
//!
//! # Layout
//! ```text
//!   line 0  written   {entry 16 | offset 16}              writer
//!   line 1  taken     {epoch 32 | entry 16 | offset 16}   reader of that epoch, binder
//!   line 2  released  {epoch 32 | entry 16 | offset 16}   reader of that epoch, binder
//!   slots[capacity]   {segment, base, records, aux, shape, uniform}   writer
//!
//!        released          taken            written
//!   ──────┼──────────────────┼─────────────────┼───────>  entries
//!   reused│ retained (acks)  │ waiting         │ the writer's
//! ```
//!
//! # Ownership
//! | what | writer | readers | protected by |
//! |---|---|---|---|
//! | slot outside of `[released, written]` | writer | nobody who acts on it | I2 |
//! | slot inside | nobody (but `uniform`, and `segment` of a shared entry) | all | `RING_E1`, `RING_E5` |
//! | segment bytes before `written` | nobody | holders | `RING_E1`, holder count |
//! | segment bytes behind `written` | writer | nobody | `OpenSegment` |
//!
//! # Invariants
//! - I1 `released <= taken <= written` in ring order at every instant of one epoch.
//! - I2 The writer reuses a slot only after `released` has passed it.
//! - I3 The ring owns one hold of the segment of each `Data` and `Application` entry in
//!   `[released, written)`; whoever's compare-and-swap moved `released` past an entry drops it, from slot
//!   words read before that.
//! - I4 Bytes are touched only after the compare-and-swap on `taken` succeeded, under a hold of a segment
//!   whose generation is the slot's.
//! - I5 `base` and `records` of slot `e` are stored before any position `(e, _)` is published.
//!
//! # Edges
//! | id | release site | acquire site | what becomes visible |
//! |---|---|---|---|
//! | `RING_E1` | `publish` | `written` (take, binder) | slots and bytes before the position |
//! | `RING_E2` | `release` | `released` (writer), `bump` (binder) | the reader is done with the slots it passed; what it had consumed before |
//! | `RING_E3` | `commit_take` | `bump` (binder) | what the old reader noted about its take |
//! | `RING_E4` | — (comparison) | `commit_take`, `release` | the epoch is still the reader's |
//! | `RING_E5` | `Slot::replace_segment` | `Slot::entry` | the bytes of a private copy |
//!
//! # Why nothing is lost
//! Takes and the binder's bump are read-modify-writes of one word, so they have one order. A take before
//! the bump is the old reader's, wholly; a take after it fails. There is no third case, and no ABA: within
//! an epoch `taken` only grows, and an epoch is not used twice while a reader of it lives.

use super::account::DroppedEvents;
use super::position::{Amount, Position, Tagged};
use super::slot::{Entry, Kind, Slot};
use crate::id::BindEpoch;
use crate::memory::{SegmentName, SegmentPool};
use crate::record::{Boundary, EntryFacts, RecordLayout, boundary_at_or_after, ends_until};
use crate::rules::rule;
use crate::sync::{AtomicU32, AtomicU64, CachePadded, Ordering, check, spin_loop, sync};
use std::sync::Arc;

/// The caller's bind epoch is no longer the ring's: a newer reader has it, or nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fenced;

/// One stretch of an entry, as a reader takes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) entry: Entry,
    /// Which entry of the ring it is of.
    pub(crate) index: u16,
    /// Bytes of the entry that lie before this piece.
    pub(crate) offset: u32,
    /// Bytes of the piece.
    pub(crate) bytes: u32,
    pub(crate) facts: EntryFacts,
    /// The position behind the piece.
    pub(crate) end: Position,
}

impl Piece {
    /// Where the piece begins in its segment.
    pub(crate) fn segment_offset(&self) -> usize {
        usize::from(self.entry.from) + self.offset as usize
    }

    /// Whether its segment has to be held by who takes it.
    pub(crate) fn holds_segment(&self) -> bool {
        (self.entry.kind.is_data() && self.bytes > 0) || self.entry.kind == Kind::Application
    }
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Ring {
    written: CachePadded<AtomicU32>,
    taken: CachePadded<AtomicU64>,
    released: CachePadded<AtomicU64>,
    slots: Box<[Slot]>,
    layout: RecordLayout,
    pub(super) pool: Arc<SegmentPool>,
}

/// Holds that are dropped when this is: after the mutex that was held when they were let go, since the last
/// hold of a segment wakes a writer that waits for memory.
#[derive(Debug)]
pub(crate) struct Deferred<'a> {
    pool: &'a SegmentPool,
    names: Vec<SegmentName>,
}

impl<'a> Deferred<'a> {
    pub(crate) fn new(pool: &'a SegmentPool) -> Self {
        Self { pool, names: Vec::new() }
    }

    pub(crate) fn drop_hold(&mut self, name: SegmentName) {
        self.names.push(name);
    }
}

impl Drop for Deferred<'_> {
    fn drop(&mut self) {
        for name in self.names.drain(..) {
            self.pool.drop_hold(name);
        }
    }
}

/// How many slot words a release reads before each compare-and-swap.
const RELEASE_CHUNK: usize = 16;

impl Ring {
    /// `capacity` in slots: a power of two, at most 2^15 (checked by the configuration).
    pub(crate) fn new(pool: Arc<SegmentPool>, layout: RecordLayout, capacity: u16) -> Self {
        debug_assert!(capacity.is_power_of_two() && capacity <= 1 << 15);
        let nowhere = Tagged::new(BindEpoch::NEVER, Position::default()).to_bits();
        Self {
            written: CachePadded::new(AtomicU32::new(0)),
            taken: CachePadded::new(AtomicU64::new(nowhere)),
            released: CachePadded::new(AtomicU64::new(nowhere)),
            slots: (0..capacity).map(|_| Slot::new()).collect(),
            layout,
            pool,
        }
    }

    pub(crate) fn layout(&self) -> RecordLayout {
        self.layout
    }

    pub(crate) fn capacity(&self) -> u16 {
        self.slots.len() as u16
    }

    pub(crate) fn slot(&self, entry: u16) -> &Slot {
        // The mask keeps the index inside: the capacity is a power of two.
        &self.slots[usize::from(entry) & (self.slots.len() - 1)]
    }

    // ---- the writer's side -------------------------------------------------------------------------

    /// Writer: everything before `position` may be taken. Stands at a record's or an entry's end only.
    #[inline]
    pub(crate) fn publish(&self, position: Position) {
        self.written.store(position.to_bits(), sync!(RING_E1.publish, Release));
    }

    /// Writer: the first entry whose slot must not be reused yet.
    pub(crate) fn released(&self) -> Position {
        Tagged::from_bits(self.released.load(sync!(RING_E2.reuse, Acquire))).position
    }

    // ---- both sides --------------------------------------------------------------------------------

    /// Where publication stands, with everything before it visible to the caller.
    #[inline]
    pub(crate) fn written(&self) -> Position {
        Position::from_bits(self.written.load(sync!(RING_E1.take, Acquire)))
    }

    /// A glance at where the reader stands; only its owner or a holder of the bind mutex may rely on it.
    pub(crate) fn taken_glance(&self) -> Tagged {
        // Relaxed: a compare-and-swap, or the mutex, confirms it.
        Tagged::from_bits(self.taken.load(Ordering::Relaxed))
    }

    pub(crate) fn released_glance(&self) -> Tagged {
        // Relaxed: as above.
        Tagged::from_bits(self.released.load(Ordering::Relaxed))
    }

    // ---- the reader's side -------------------------------------------------------------------------

    /// Collects the pieces between `from` and what is written, at most `pieces_max`, each under a hold of
    /// its segment. They are the reader's only once `commit_take` has succeeded; else `drop_holds`.
    pub(crate) fn collect(&self, from: Position, pieces_max: usize, pieces: &mut Vec<Piece>) -> Position {
        let written = self.written();
        let mut at = from;
        while at != written && pieces.len() < pieces_max {
            let piece = self.piece(at, written);
            if piece.holds_segment() && !self.pool.try_hold(piece.entry.segment) {
                // A private copy took the place of a shared segment, or the caller is fenced: what was
                // collected so far is the batch, and the commit tells which. With nothing collected the
                // caller asks again.
                break;
            }
            at = piece.end;
            if piece.holds_segment() || !piece.entry.kind.is_data() {
                pieces.push(piece);
            }
        }
        at
    }

    /// The stretch from `at` to the end of its entry, or to what is written of it.
    fn piece(&self, at: Position, written: Position) -> Piece {
        let slot = self.slot(at.entry);
        let entry = slot.entry();
        let facts = slot.facts(self.layout, entry.first);
        let (limit, end) = if at.entry == written.entry {
            (u32::from(written.offset), written)
        } else {
            (self.entry_bytes(at.entry), Position::at_entry(at.entry.wrapping_add(1)))
        };
        let offset = u32::from(at.offset);
        Piece { entry, index: at.entry, offset, bytes: limit.saturating_sub(offset), facts, end }
    }

    /// The length of a complete entry. A reused slot may give any number, which is clamped and never acted
    /// on (I4).
    fn entry_bytes(&self, entry: u16) -> u32 {
        let begin = self.slot(entry).base();
        let end = self.slot(entry.wrapping_add(1)).base();
        u32::try_from(end.wrapping_sub(begin)).unwrap_or(0).min(1 << 15)
    }

    /// Makes what was collected the caller's: moves `taken` to `to`.
    pub(crate) fn commit_take(&self, epoch: BindEpoch, to: Position) -> Result<(), Fenced> {
        let now = self.taken_glance();
        if !rule!(VIEW_FENCE, check!(RING_E4.take_epoch, now.epoch == epoch)) {
            return Err(Fenced);
        }
        self.taken
            .compare_exchange(
                now.to_bits(),
                Tagged::new(now.epoch, to).to_bits(),
                sync!(RING_E3.take, Release),
                Ordering::Relaxed,
            )
            .map(drop)
            .map_err(|_| Fenced)
    }

    /// Whether the reader of `epoch` is still the one; a hint until its next compare-and-swap.
    pub(crate) fn is_current(&self, epoch: BindEpoch) -> bool {
        self.taken_glance().epoch == epoch
    }

    /// Gives back the holds of pieces that were collected.
    pub(crate) fn drop_holds(&self, pieces: &mut Vec<Piece>) {
        for piece in pieces.drain(..) {
            if piece.holds_segment() {
                self.pool.drop_hold(piece.entry.segment);
            }
        }
    }

    /// The reader needs nothing before `to` again: moves `released` there and gives the ring's holds to
    /// `let_go`, to be dropped. Tells whether anything moved.
    pub(crate) fn release(
        &self,
        epoch: BindEpoch,
        to: Position,
        mut let_go: impl FnMut(SegmentName),
    ) -> Result<bool, Fenced> {
        let mut moved = false;
        loop {
            let now = self.released_glance();
            if !check!(RING_E4.release_epoch, now.epoch == epoch) {
                return Err(Fenced);
            }
            if now.position == to {
                return Ok(moved);
            }
            let passed = usize::from(now.position.entries_to(to));
            debug_assert!(passed <= self.slots.len(), "I1: the ring is never released backwards");
            let chunk = passed.min(RELEASE_CHUNK);
            let mut held = [SegmentName::NONE; RELEASE_CHUNK];
            for (index, name) in held.iter_mut().take(chunk).enumerate() {
                *name = self.slot(now.position.entry.wrapping_add(index as u16)).held();
            }
            let next = if chunk == passed {
                to
            } else {
                Position::at_entry(now.position.entry.wrapping_add(chunk as u16))
            };
            self.released
                .compare_exchange(
                    now.to_bits(),
                    Tagged::new(now.epoch, next).to_bits(),
                    sync!(RING_E2.release, Release),
                    Ordering::Relaxed,
                )
                .map_err(|_| Fenced)?;
            held.into_iter().filter(|name| *name != SegmentName::NONE).for_each(&mut let_go);
            if next == to {
                return Ok(true);
            }
            moved = true;
        }
    }

    // ---- the binder's side (under the mutex of the bind record) ----------------------------------------

    /// Fences the reader before: from here on only `epoch` moves `taken` and `released`. Returns where the
    /// old reader got to.
    pub(crate) fn bump(&self, epoch: BindEpoch) -> Position {
        let taken = bump_word(&self.taken, epoch, sync!(RING_E3.bump, Acquire));
        // Who sees how far the ring was released also sees what was consumed before: it is never rewound
        // behind that.
        bump_word(&self.released, epoch, sync!(RING_E2.bump, Acquire));
        taken
    }

    /// Moves `taken` of the binder's own epoch: forward over what it drops, or back to rewind.
    pub(crate) fn set_taken(&self, epoch: BindEpoch, position: Position) {
        // Relaxed: older readers' compare-and-swaps fail on the epoch; the next reader is told by the
        // grant, under the mutex.
        self.taken.store(Tagged::new(epoch, position).to_bits(), Ordering::Relaxed);
    }

    /// What lies before `position`, which is in `[released, written]`.
    pub(crate) fn amount_at(&self, position: Position, later: &mut Deferred<'_>) -> Amount {
        let slot = self.slot(position.entry);
        let start = Amount::new(slot.records(), slot.base());
        if position.offset == 0 {
            return start;
        }
        let upto = usize::from(position.offset);
        let ended =
            self.with_bytes(position.entry, upto, later, |facts, bytes| ends_until(facts, bytes, upto));
        start + Amount::new(u64::from(ended), u64::from(position.offset))
    }

    /// The first place at or after `from` where a record starts. The flag says that this is not known yet:
    /// the entry that comes next will tell how much of it to skip.
    pub(crate) fn align(
        &self,
        from: Position,
        written: Position,
        later: &mut Deferred<'_>,
    ) -> (Position, bool) {
        let mut at = from;
        while at != written {
            let slot = self.slot(at.entry);
            if rule!(RECORD_BOUNDARY, !slot.entry().kind.is_data()) {
                return (at, false);
            }
            let growing = at.entry == written.entry;
            let next = Position::at_entry(at.entry.wrapping_add(1));
            let end = if growing { usize::from(written.offset) } else { self.entry_bytes(at.entry) as usize };
            let offset = usize::from(at.offset);
            let found = self
                .with_bytes(at.entry, end, later, |facts, bytes| boundary_at_or_after(facts, bytes, offset));
            match found {
                Boundary::At(start) if start < end || growing => {
                    return (Position::new(at.entry, start as u16), false);
                }
                Boundary::At(_) => return (next, false),
                Boundary::Beyond if growing => at = written,
                Boundary::Beyond => at = next,
            }
        }
        (at, true)
    }

    /// The place `byte` stream bytes after the subpartition's begin, at or behind the begin of `entry`. Of
    /// several entries that begin there it is the first, so that events at that place come again.
    pub(crate) fn position_of(&self, entry: u16, written: Position, byte: u64) -> Position {
        let mut at = entry;
        // An entry that begins there is the place, whatever follows it: it was not consumed.
        while at != written.entry && self.slot(at).base() != byte {
            let next = at.wrapping_add(1);
            if self.slot(next).base() > byte {
                break;
            }
            at = next;
        }
        let into = byte.wrapping_sub(self.slot(at).base());
        Position::new(at, u16::try_from(into).unwrap_or(0))
    }

    /// Counts the events between two positions, which are in `[released, written]`.
    pub(crate) fn events_between(&self, from: Position, to: Position) -> DroppedEvents {
        let mut events = DroppedEvents::default();
        for ahead in 0..from.entries_to(to) {
            match self.slot(from.entry.wrapping_add(ahead)).entry().kind {
                Kind::Barrier => events.barriers += 1,
                Kind::Watermark => events.watermarks += 1,
                Kind::Application => events.application += 1,
                _ => {}
            }
        }
        events
    }

    /// The ids of the first and the last barrier between two positions, which are in `[released, written]`.
    pub(crate) fn barriers_between(&self, from: Position, to: Position) -> Option<(u64, u64)> {
        let entries = (0..from.entries_to(to)).map(|ahead| self.slot(from.entry.wrapping_add(ahead)).entry());
        let mut ids = entries.filter(|entry| entry.kind == Kind::Barrier).map(|entry| entry.aux);
        let first = ids.next()?;
        Some((first, ids.next_back().unwrap_or(first)))
    }

    /// The first entry at or behind `from` that must not be dropped, else what is written.
    pub(crate) fn first_end(&self, from: Position, written: Position) -> Position {
        debug_assert!(usize::from(from.entries_to(written)) <= self.slots.len(), "I1: from here forward");
        let mut at = from;
        while at.entry != written.entry {
            if self.slot(at.entry).entry().kind.is_end() {
                return at;
            }
            at = Position::at_entry(at.entry.wrapping_add(1));
        }
        written
    }

    /// Calls `look` with the first `upto` bytes of an entry that is not released.
    fn with_bytes<R>(
        &self,
        entry: u16,
        upto: usize,
        later: &mut Deferred<'_>,
        look: impl FnOnce(&EntryFacts, &[u8]) -> R,
    ) -> R {
        loop {
            let slot = self.slot(entry);
            let found = slot.entry();
            let facts = slot.facts(self.layout, found.first);
            if upto == 0 {
                return look(&facts, &[]);
            }
            if self.pool.try_hold(found.segment) {
                let from = usize::from(found.from);
                // SAFETY: I4, I3: held since just now; the bytes lie before `written`, which the caller
                // has loaded, so nobody writes to them any more.
                let bytes = unsafe { self.pool.read(found.segment, from..from + upto) };
                let result = look(&facts, bytes);
                later.drop_hold(found.segment);
                return result;
            }
            // A private copy took the segment's place between the two lines above; the slot names it now.
            spin_loop();
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Nobody else has the ring any more: what it still holds goes back. The writer's half has closed
        // its last entry (its drop publishes), so `written` is the end.
        let written = self.written();
        let epoch = self.released_glance().epoch;
        let pool = self.pool.clone();
        let released = self.release(epoch, written, |name| pool.drop_hold(name));
        debug_assert!(released.is_ok(), "the only owner can't be fenced");
        if written.offset != 0 {
            let name = self.slot(written.entry).held();
            if name != SegmentName::NONE {
                self.pool.drop_hold(name);
            }
        }
    }
}

fn bump_word(word: &AtomicU64, epoch: BindEpoch, ordering: Ordering) -> Position {
    // Relaxed: the compare-and-swap confirms what was read.
    let mut now = word.load(Ordering::Relaxed);
    loop {
        let position = Tagged::from_bits(now).position;
        let next = Tagged::new(epoch, position).to_bits();
        match word.compare_exchange_weak(now, next, ordering, Ordering::Relaxed) {
            Ok(_) => return position,
            Err(seen) => now = seen,
        }
    }
}
