//! The reader's handle of one bind: takes, releases and acknowledges under its epoch.
//!
//! Used by whoever serves a consumer: the gate of a local channel, a network thread for a remote one. A view
//! of an older epoch gets [`Fenced`] from everything and changes nothing.

use super::account::ViewAccount;
use super::bind::{Ending, Grant, Subpartition};
use super::policy::WhenAbsent;
use super::position::{Amount, Position};
use super::ring::{Fenced, Piece};
use crate::doorbell::ReadyNode;
use crate::event::PriorityEvent;
use crate::id::BindEpoch;
use crate::memory::{Hold, Lent, SegmentName};
use crate::sync::{AtomicU64, Ordering, spin_loop};
use std::ops::Range;
use std::sync::Arc;

/// See the module's text. Dropping it without [`View::close`] leaves in doubt what it had not consumed.
#[derive(Debug)]
pub(crate) struct View {
    sub: Arc<Subpartition>,
    #[allow(dead_code, reason = "for tests and models")]
    node: Arc<ReadyNode>,
    account: Arc<ViewAccount>,
    epoch: BindEpoch,
    /// Where the next take begins.
    at: Position,
    /// The record start isn't reached yet: what comes is skipped up to it.
    skip: bool,
    /// The first end that was taken, by its entry.
    end: Option<u16>,
    /// What is taken stays in the ring until it is released.
    keeps: bool,
    closed: bool,
}

/// Whether a note names no segment.
fn is_free(note: &AtomicU64) -> bool {
    note.load(Ordering::Relaxed) == SegmentName::NONE.to_bits() // Relaxed: the view's own notes
}

impl View {
    pub(crate) fn new(sub: Arc<Subpartition>, node: Arc<ReadyNode>, grant: &Grant) -> Self {
        let sub_policy = sub.policies.when_absent;
        Self {
            sub,
            node,
            account: grant.account.clone(),
            epoch: grant.epoch,
            at: grant.start,
            skip: grant.skip,
            end: None,
            keeps: matches!(sub_policy, WhenAbsent::Replay { .. }),
            closed: false,
        }
    }

    /// What is taken stays in the ring until [`View::release`] says that it is not needed again.
    pub(crate) fn keeping(mut self) -> Self {
        self.keeps = true;
        self
    }

    #[allow(dead_code, reason = "for tests and models")]
    pub(crate) fn epoch(&self) -> BindEpoch {
        self.epoch
    }

    #[allow(dead_code, reason = "for tests and models")]
    pub(crate) fn node(&self) -> &Arc<ReadyNode> {
        &self.node
    }

    pub(crate) fn subpartition(&self) -> &Arc<Subpartition> {
        &self.sub
    }

    /// Where the next take begins.
    pub(crate) fn position(&self) -> Position {
        self.at
    }

    pub(crate) fn account(&self) -> &Arc<ViewAccount> {
        &self.account
    }

    /// Takes at most `pieces_max` pieces into `pieces`, which is empty. Each comes with a hold of its
    /// segment, to be given back by [`View::let_go`]. Nothing taken means that nothing is there. Returns
    /// what was skipped before the first piece: the rest of a record that an older view had begun.
    pub(crate) fn take(&mut self, pieces_max: usize, pieces: &mut Vec<Piece>) -> Result<Amount, Fenced> {
        debug_assert!(pieces.is_empty());
        let mut skipped = Amount::ZERO;
        loop {
            let ring = &self.sub.ring;
            let to = ring.collect(self.at, pieces_max, pieces);
            if to == self.at {
                if !ring.is_current(self.epoch) {
                    return Err(Fenced);
                }
                if ring.written() == self.at {
                    return Ok(skipped);
                }
                // A private copy took the place of a shared segment meanwhile: the slot names it now. Or this
                // view is fenced, and the epoch that says so is on its way here.
                spin_loop();
                continue;
            }
            self.note_held(pieces);
            if let Err(fenced) = ring.commit_take(self.epoch, to) {
                ring.drop_holds(pieces);
                return Err(fenced);
            }
            self.at = to;
            let end = pieces.iter().find(|piece| piece.entry.kind.is_end()).map(|piece| piece.index);
            self.end = self.end.or(end);
            if self.skip {
                skipped += self.skip_to_record(pieces);
            }
            if !self.retains() {
                // Fenced meanwhile: the binder has released it. What was taken before is still ours.
                let _ = self.release(to);
            }
            if !pieces.is_empty() {
                return Ok(skipped);
            }
        }
    }

    /// Notes what is about to be held, for the binder that fences this view (RING_E3). A name whose take
    /// fails is stale, and harmless: moving its charge needs a hold of that very generation.
    fn note_held(&self, pieces: &[Piece]) {
        let mut free = self.account.own().iter().filter(|note| is_free(note));
        // What a LOSS carries in place of a segment names none, and must not be taken for one.
        for piece in pieces.iter().filter(|piece| piece.holds_segment()) {
            let Some(note) = free.next() else { return };
            note.store(piece.entry.segment.to_bits(), Ordering::Relaxed); // Relaxed: released by the take's CAS
        }
    }

    /// How many pieces with segments may be taken before one is let go.
    pub(crate) fn holds_left(&self) -> usize {
        self.account.own().iter().filter(|note| is_free(note)).count()
    }

    /// Cuts off the rest of a record whose begin went to an older view.
    fn skip_to_record(&mut self, pieces: &mut Vec<Piece>) -> Amount {
        let mut skipped = Amount::ZERO;
        let mut kept = 0;
        for index in 0..pieces.len() {
            let mut piece = pieces[index];
            if self.skip && piece.entry.kind.is_data() {
                let first = piece.entry.first.get().map_or(u32::MAX, u32::from);
                let cut = first.saturating_sub(piece.offset).min(piece.bytes);
                let reached = first <= piece.offset + piece.bytes;
                skipped += Amount::new(u64::from(reached && cut > 0), u64::from(cut));
                piece.offset += cut;
                piece.bytes -= cut;
                self.skip = !reached;
            } else {
                self.skip = false;
            }
            if piece.entry.kind.is_data() && piece.bytes == 0 {
                self.drop_noted(piece.entry.segment);
            } else {
                pieces[kept] = piece;
                kept += 1;
            }
        }
        pieces.truncate(kept);
        // After the take, not before: had it failed, nothing would have been skipped.
        self.account.add_skipped(skipped);
        skipped
    }

    /// Whether the ring keeps what is taken until it is released.
    pub(crate) fn retains(&self) -> bool {
        self.keeps
    }

    /// Lets the ring give up everything before `to`, and wakes the writer if that made room.
    pub(crate) fn release(&self, to: Position) -> Result<(), Fenced> {
        let pool = self.sub.pool();
        let released = self.sub.ring.released_glance().position;
        // Ends stay in the ring: a newer view gets them again unless the last one is acknowledged.
        let to = match self.end.map(Position::at_entry) {
            Some(end) if released.entries_to(end) < released.entries_to(to) => end,
            _ => to,
        };
        // Within an entry nothing is freed: the position is brought up to date when it leaves it.
        if released.entry == to.entry {
            return Ok(());
        }
        if self.sub.ring.release(self.epoch, Position::at_entry(to.entry), |name| pool.drop_hold(name))? {
            self.sub.charge.notify();
        }
        Ok(())
    }

    /// Gives back the hold of a piece that was taken.
    pub(crate) fn let_go(&self, piece: &Piece) {
        if piece.holds_segment() {
            let from = piece.segment_offset();
            self.sub.pool().touch_read(piece.entry.segment, from..from + piece.bytes as usize);
            self.drop_noted(piece.entry.segment);
        }
    }

    /// Drops a hold and its note: a binder must not charge orphans for what the view is done with, which the
    /// ring or the writer may have in use for long.
    fn drop_noted(&self, segment: SegmentName) {
        // Relaxed: this thread's own notes; a binder that reads an older one charges the orphans for it.
        let is_note = |note: &&AtomicU64| note.load(Ordering::Relaxed) == segment.to_bits();
        if let Some(note) = self.account.own().iter().find(is_note) {
            note.store(SegmentName::NONE.to_bits(), Ordering::Relaxed); // Relaxed: as above
        }
        self.sub.pool().drop_hold(segment);
    }

    /// A part of a piece that this view took and has not let go, held by itself: it stays readable when the piece
    /// is let go. `None` for a piece without a segment.
    ///
    /// # Safety
    /// As for [`View::bytes`].
    pub(crate) unsafe fn lend(&self, piece: &Piece, part: Range<usize>) -> Option<Lent> {
        debug_assert!(part.end <= piece.bytes as usize);
        let hold = Hold::try_new(self.sub.pool(), piece.entry.segment)?;
        let from = piece.segment_offset();
        // SAFETY: I4 of the ring: taken, hence published before the take.
        Some(unsafe { hold.lend(from + part.start..from + part.end) })
    }

    /// The bytes of a piece that this view took and has not let go.
    ///
    /// # Safety
    /// `piece` came from [`View::take`] of this view, and [`View::let_go`] was not called for it.
    pub(crate) unsafe fn bytes(&self, piece: &Piece) -> &[u8] {
        let from = piece.segment_offset();
        // SAFETY: I4 of the ring: taken, hence published before the take and held since.
        unsafe { self.sub.pool().read(piece.entry.segment, from..from + piece.bytes as usize) }
    }

    /// The bytes of an application event's piece, as for [`View::bytes`].
    ///
    /// # Safety
    /// As for [`View::bytes`].
    pub(crate) unsafe fn event_bytes(&self, piece: &Piece) -> &[u8] {
        let from = usize::from(piece.entry.from);
        // SAFETY: as in `bytes`; the event's length is the slot's `aux`.
        unsafe { self.sub.pool().read(piece.entry.segment, from..from + piece.entry.aux as usize) }
    }

    /// The next priority event.
    pub(crate) fn take_priority(&self) -> Result<Option<PriorityEvent>, Fenced> {
        if self.sub.priority.is_empty() {
            return Ok(None);
        }
        let event = self.sub.priority.take(self.epoch)?;
        if event.is_some() {
            self.sub.writer.notify();
        }
        Ok(event)
    }

    /// Whether a take may find something.
    pub(crate) fn has_more(&self) -> bool {
        self.sub.ring.written() != self.at
    }

    /// Whether a priority event waits; a hint.
    pub(crate) fn has_priority(&self) -> bool {
        !self.sub.priority.is_empty()
    }

    /// The end of the partition is consumed. Tells whether this is news.
    pub(crate) fn acknowledge_end(&self) -> bool {
        self.sub.acknowledge_end(self.epoch)
    }

    /// Ends the view: `Closed` when its owner ends in order, `Fenced` when what it had is in doubt.
    pub(crate) fn close(&mut self, ending: Ending) {
        if !std::mem::replace(&mut self.closed, true) {
            self.sub.make_unavailable(self.epoch, ending);
        }
    }
}

impl Subpartition {
    /// Whether something is published that no reader has taken; a moment's picture for observers.
    pub(crate) fn has_untaken(&self) -> bool {
        self.ring.written() != self.ring.taken_glance().position
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.close(Ending::Fenced);
    }
}
