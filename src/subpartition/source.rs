//! Serves a view to a consumer elsewhere: what a network thread does with a subpartition.
//!
//! The mirror image of `local`: there the task reads in place, here the bytes leave the process. What is sent
//! stays in the ring until the consumer has it, so that a new connection can go on where the old one broke off.
//!
//! # Guarantees
//! - Data and events come in the order of the ring, each byte once.
//! - A range that was lent stays readable until it is dropped, whatever becomes of the view.
//! - The account of the view follows what the consumer acknowledged, never what was sent.
//!
//! # Invariants
//! - I1 The pieces in `taken` and `lent` were taken by this view and have not been let go; each is let go once,
//!   when it leaves both.
//! - I2 Places are counted from the first byte sent: what the view skipped before it is in `skipped`.

use super::bind::Ending;
use super::position::{Amount, Position};
use super::ring::{Fenced, Piece};
use super::slot::Kind;
use super::view::View;
use super::{Subpartition, WhenAbsent};
use crate::doorbell::ReadyNode;
use crate::event::PriorityEvent;
use crate::memory::Lent;
use std::collections::VecDeque;
use std::sync::Arc;

/// How many pieces with segments a source holds at a time: those under way to the socket.
pub(crate) const HOLDS: u16 = 64;
/// How many are taken at once.
const TAKEN_MAX: usize = 16;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// So many bytes that lie together; `uniform` as in the entry's facts.
    Data { bytes: usize, uniform: u32 },
    /// An entry without stream bytes: [`Source::event`] takes it.
    Event,
    /// Everything that is there was taken.
    Empty,
    /// Pieces have to come back from the socket first ([`Source::let_go`]).
    Busy,
}

/// An entry without stream bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceEvent {
    Barrier(u64),
    Watermark(i64),
    /// Its bytes were appended to what the caller gave.
    Application,
    Abort,
    Loss(Amount),
    EndOfData,
    EndOfPartition,
    Failed,
}

/// How far the consumer has come, counted from the first byte sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Consumed {
    /// Whole records and their bytes, and the bytes of broken ones among them.
    pub(crate) amount: Amount,
    /// Bytes of `amount` that are of records broken off.
    pub(crate) aborted: u64,
    /// Entries without bytes.
    pub(crate) entries: u64,
}

/// Where a piece ended, here and in the ring.
#[derive(Clone, Copy, Debug)]
struct Sent {
    bytes: u64,
    entries: u64,
    end: Position,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Source {
    view: View,
    taken: VecDeque<Piece>,
    /// Bytes of the first of `taken` that were sent.
    used: usize,
    /// Pieces of which ranges are lent.
    lent: VecDeque<Piece>,
    /// Reused by every take.
    batch: Vec<Piece>,
    bytes: u64,
    entries: u64,
    /// What was sent and not released yet.
    sent: VecDeque<Sent>,
    /// Up to where the ring was given back, or where the view began.
    released: Position,
    skipped: Amount,
    consumed: Consumed,
    /// The end of the partition stands behind so many entries.
    end: Option<u64>,
    replays: bool,
}

impl Source {
    pub(crate) fn new(view: View) -> Self {
        let replays = matches!(view.subpartition().policies().when_absent, WhenAbsent::Replay { .. });
        Self {
            released: view.position(),
            view: view.keeping(),
            taken: VecDeque::with_capacity(TAKEN_MAX),
            used: 0,
            lent: VecDeque::new(),
            batch: Vec::with_capacity(TAKEN_MAX),
            bytes: 0,
            entries: 0,
            sent: VecDeque::new(),
            skipped: Amount::ZERO,
            consumed: Consumed::default(),
            end: None,
            replays,
        }
    }

    pub(crate) fn node(&self) -> &Arc<ReadyNode> {
        self.view.node()
    }

    pub(crate) fn subpartition(&self) -> &Arc<Subpartition> {
        self.view.subpartition()
    }

    /// Slots of the ring: the consumer acknowledges at least every quarter of them.
    pub(crate) fn ring_entries(&self) -> u16 {
        self.view.subpartition().ring.capacity()
    }

    /// What comes next; takes more from the ring if nothing is at hand.
    pub(crate) fn offer(&mut self) -> Result<Offer, Fenced> {
        loop {
            if let Some(piece) = self.taken.front() {
                if !piece.entry.kind.is_data() {
                    return Ok(Offer::Event);
                }
                let bytes = piece.bytes as usize - self.used;
                return Ok(Offer::Data { bytes, uniform: piece.facts.uniform });
            }
            let room = self.view.holds_left().min(TAKEN_MAX);
            if room == 0 {
                return Ok(Offer::Busy);
            }
            let skipped = self.view.take(room, &mut self.batch)?;
            if skipped != Amount::ZERO {
                self.skipped += skipped;
                self.note_consumed();
            }
            if self.batch.is_empty() {
                self.pass_entries()?;
                return Ok(Offer::Empty);
            }
            self.taken.extend(self.batch.drain(..));
        }
    }

    /// Nothing is at hand, and the view may stand in a later entry than what was sent last: behind the rest of a record
    /// whose begin went to an older view, or where an entry ended after all of it was sent. Of that nothing will be
    /// sent, so that no acknowledgement of its own will ever release it; the writer may need its memory to go on.
    fn pass_entries(&mut self) -> Result<(), Fenced> {
        let to = self.view.position();
        if let Some(last) = self.sent.back_mut() {
            // Released with that.
            last.end = to;
            return Ok(());
        }
        let before = std::mem::replace(&mut self.released, to);
        if to.entry == before.entry {
            return Ok(());
        }
        if self.replays {
            self.view.account().set_consumed_entry(to.entry);
        }
        self.view.release(to)
    }

    /// Appends the next `bytes` bytes of the data on offer to `out`.
    pub(crate) fn copy(&mut self, bytes: usize, out: &mut Vec<u8>) {
        let Some(piece) = self.taken.front() else { return };
        let range = self.used..self.used + bytes;
        // SAFETY: I1.
        let all = unsafe { self.view.bytes(piece) };
        debug_assert!(range.end <= all.len(), "no more than was on offer");
        out.extend_from_slice(all.get(range).unwrap_or(&[]));
        self.pass(bytes, false);
    }

    /// Lends the next `bytes` bytes of the data on offer. `None` if their segment is gone, which is a defect.
    pub(crate) fn lend(&mut self, bytes: usize) -> Option<Lent> {
        let piece = self.taken.front()?;
        // SAFETY: I1.
        let lent = unsafe { self.view.lend(piece, self.used..self.used + bytes) }?;
        self.pass(bytes, true);
        Some(lent)
    }

    /// Goes on by `bytes` bytes; a piece that is used up is let go, or waits in `lent` for the socket.
    fn pass(&mut self, bytes: usize, lent: bool) {
        self.bytes += bytes as u64;
        self.used += bytes;
        let Some(piece) = self.taken.front().copied() else { return };
        if self.used < piece.bytes as usize {
            return;
        }
        self.used = 0;
        self.taken.pop_front();
        self.sent.push_back(Sent { bytes: self.bytes, entries: self.entries, end: piece.end });
        if lent {
            self.lent.push_back(piece);
        } else {
            self.view.let_go(&piece);
        }
    }

    /// Takes the event on offer; the bytes of an application event are appended to `out`.
    pub(crate) fn event(&mut self, out: &mut Vec<u8>) -> Option<SourceEvent> {
        let piece = self.taken.pop_front()?;
        let aux = piece.entry.aux;
        let event = match piece.entry.kind {
            Kind::Data | Kind::Shared => {
                self.taken.push_front(piece);
                return None;
            }
            Kind::Barrier => SourceEvent::Barrier(aux),
            Kind::Watermark => SourceEvent::Watermark(aux as i64),
            Kind::Application => {
                // SAFETY: I1; let go below.
                out.extend_from_slice(unsafe { self.view.event_bytes(&piece) });
                self.view.let_go(&piece);
                SourceEvent::Application
            }
            Kind::Abort => SourceEvent::Abort,
            Kind::Loss => SourceEvent::Loss(Amount::new(aux, piece.entry.segment.to_bits())),
            Kind::EndOfData => SourceEvent::EndOfData,
            Kind::EndOfPartition => SourceEvent::EndOfPartition,
            Kind::Failed => SourceEvent::Failed,
        };
        self.entries += 1;
        if event == SourceEvent::EndOfPartition {
            self.end = Some(self.entries);
        }
        self.sent.push_back(Sent { bytes: self.bytes, entries: self.entries, end: piece.end });
        Some(event)
    }

    /// How many pieces have been lent from since the start of the oldest that is still under way.
    pub(crate) fn lent(&self) -> usize {
        self.lent.len()
    }

    /// The socket is done with the oldest `pieces` of those that were lent from.
    pub(crate) fn let_go(&mut self, pieces: usize) {
        for piece in self.lent.drain(..pieces.min(self.lent.len())) {
            self.view.let_go(&piece);
        }
    }

    /// The consumer has everything up to this place in its memory.
    pub(crate) fn received(&mut self, bytes: u64, entries: u64) -> Result<(), Fenced> {
        if self.replays { Ok(()) } else { self.release(bytes, entries) }
    }

    /// The consumer is done with everything up to this place. Tells whether the end of the partition is, and
    /// for the first time.
    pub(crate) fn consumed(&mut self, consumed: Consumed) -> Result<bool, Fenced> {
        if consumed.aborted != self.consumed.aborted {
            self.view.account().set_aborted(consumed.aborted);
        }
        self.consumed = consumed;
        self.note_consumed();
        if self.replays {
            self.release(consumed.amount.bytes, consumed.entries)?;
        }
        let is_end = self.end.is_some_and(|end| consumed.entries >= end);
        Ok(is_end && self.view.acknowledge_end())
    }

    /// The number of entries sent up to the end of the partition, once that was.
    pub(crate) fn end(&self) -> Option<u64> {
        self.end
    }

    fn note_consumed(&self) {
        self.view.account().set_consumed(self.skipped + self.consumed.amount);
    }

    fn release(&mut self, bytes: u64, entries: u64) -> Result<(), Fenced> {
        let mut to = None;
        while let Some(sent) = self.sent.front().filter(|sent| sent.bytes <= bytes && sent.entries <= entries)
        {
            to = Some(sent.end);
            self.sent.pop_front();
        }
        let Some(to) = to else { return Ok(()) };
        self.released = to;
        if self.replays {
            self.view.account().set_consumed_entry(to.entry);
        }
        self.view.release(to)
    }

    /// The next priority event.
    pub(crate) fn take_priority(&self) -> Result<Option<PriorityEvent>, Fenced> {
        self.view.take_priority()
    }

    /// Whether [`Source::offer`] may find something; nothing is taken.
    pub(crate) fn has_more(&self) -> bool {
        !self.taken.is_empty() || self.view.has_more()
    }

    /// Whether a priority event waits; a hint.
    pub(crate) fn has_priority(&self) -> bool {
        self.view.has_priority()
    }

    /// The consumer ended in order, after its task had been given so much.
    pub(crate) fn close(&mut self, yielded: Amount) {
        self.view.close(Ending::Closed { yielded: self.skipped + yielded });
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // First: what is still under way to the socket then counts for the orphans, not for the next view.
        self.view.close(Ending::Fenced);
        self.let_go(usize::MAX);
        for piece in std::mem::take(&mut self.taken) {
            self.view.let_go(&piece);
        }
    }
}
