//! Reads a subpartition from the task's own thread: records by borrow, straight from the segments.
//!
//! # Guarantees
//! - Items come in the order of the ring. A record is yielded whole or not at all.
//! - What was yielded counts as consumed when the next item is asked for, or when its [`Mark`] is
//!   acknowledged (explicit mode). Of records that are stepped over in a row the binder learns when the reader is
//!   asked for something else: till then they are in doubt.
//!
//! # Invariants
//! - I1 `range` are the bytes of `piece`, which this view took and holds: it is let go only by `pass`,
//!   which needs `&mut self`, so no record borrowed from it is alive then.
//! - I2 A view holds at most one segment to read from and lends at most two.

use super::bind::Ending;
use super::payload::{Origin, Payload};
use super::position::{Amount, Position};
use super::reading::{Acked, Mark, Next, Stretch};
use super::ring::Piece;
use super::slot::Kind;
use super::view::View;
use super::write::EndKind;
use crate::event::PriorityEvent;
use crate::record::{Admission, Assembler, Found, Run, Steps};
use bytes::Bytes;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct LocalReader {
    view: View,
    assembler: Assembler,
    pieces: Vec<Piece>,
    /// The piece that is being read, and how far.
    piece: Option<Piece>,
    range: RawRange,
    /// How far: the records that lie whole in `range` are stepped over here, and counted by `fold`.
    run: Run,
    /// Stream bytes since the bind that lie in pieces passed.
    passed: u64,
    /// What was yielded, since the bind, and the entry where that place is; without what `run` has stepped over
    /// since it was counted.
    mark: Mark,
    /// What was consumed last.
    consumed: Mark,
    explicit: bool,
    /// The end was yielded, or the failure: nothing follows.
    ended: Option<EndKind>,
    /// The record yielded last was assembled; else it lies in `range`, where `run` stands.
    is_assembled: bool,
    /// Records and events that the turn may yet yield, and the stream bytes since the bind before which they begin.
    turn: (u32, u64),
}

/// The bytes of a piece without a lifetime; see I1.
#[derive(Clone, Copy, Debug)]
struct RawRange(*const [u8]);

// SAFETY: I1: the bytes are in a segment held by the reader that owns this, and are only read.
unsafe impl Send for RawRange {}
// SAFETY: as above.
unsafe impl Sync for RawRange {}

impl RawRange {
    const EMPTY: Self = Self(&[]);
}

impl LocalReader {
    /// `explicit`: only [`LocalReader::acknowledge`] makes what was yielded count as consumed.
    pub(crate) fn new(view: View, record_bytes_max: usize, explicit: bool) -> Self {
        let mark = Mark { amount: Amount::ZERO, aborted: 0, events: 0, entry: view.position().entry };
        Self {
            view,
            assembler: Assembler::new(record_bytes_max),
            pieces: Vec::with_capacity(1),
            piece: None,
            range: RawRange::EMPTY,
            run: Run::new(),
            passed: 0,
            mark,
            consumed: mark,
            explicit,
            ended: None,
            is_assembled: false,
            turn: (0, 0),
        }
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// How far the task has been given items.
    pub(crate) fn mark(&self) -> Mark {
        let Some(stepped) = self.run.stepped() else { return self.mark };
        let bytes = self.passed + self.run.at() as u64;
        let entry = self.piece.as_ref().map_or(self.mark.entry, |piece| piece.index);
        let records = self.mark.amount.records + u64::from(stepped.records);
        Mark { amount: Amount::new(records, bytes), entry, ..self.mark }
    }

    /// Counts what was stepped over.
    #[inline]
    fn fold(&mut self) {
        self.mark = self.mark();
        self.turn.0 = self.run.left();
        self.run.count();
    }

    /// The channel's turn begins: so many records and events, of which none begins behind so many stream bytes.
    pub(crate) fn begin_turn(&mut self, records: u32, bytes: u64) {
        self.fold();
        self.turn = (records, self.mark.amount.bytes + bytes);
        self.run_on();
    }

    /// The channel's turn is over.
    pub(crate) fn end_turn(&mut self) {
        self.fold();
        self.turn = (0, 0);
        self.run_on();
    }

    /// Whether its turn goes on.
    #[inline]
    pub(crate) fn has_turn(&self) -> bool {
        self.run.left() > 0 && self.mark().amount.bytes < self.turn.1
    }

    /// The records that lie whole at hand may be stepped over, as far as the turn goes. What was stepped over
    /// before is counted.
    fn run_on(&mut self) {
        // A record that is held, half or lent, comes to its end first.
        let is_idle = self.assembler.is_idle();
        self.is_assembled &= !is_idle;
        let Some(piece) = &self.piece else {
            return self.run.wait(self.turn.0);
        };
        let end = if is_idle { self.turn.1 } else { 0 };
        let limit = usize::try_from(end.saturating_sub(self.passed)).unwrap_or(usize::MAX);
        let (at, longest) = (self.run.at(), self.assembler.record_bytes_max());
        self.run.begin(&piece.facts, at, limit, self.turn.0, longest);
    }

    /// The next record if it lies whole in the piece at hand: the way of nearly all of them, and
    /// [`LocalReader::next`] without the rest of it. False says nothing of what comes.
    #[inline]
    pub(crate) fn next_whole(&mut self) -> bool {
        if !self.explicit {
            self.consume(self.mark());
        }
        // SAFETY: I1.
        self.run.step(unsafe { &*self.range.0 })
    }

    /// The records that lie whole in the piece at hand, as far as the turn goes. Each counts as yielded when it is
    /// stepped over.
    pub(crate) fn records(&mut self) -> Stretch<'_> {
        self.fold();
        if !self.explicit {
            self.consume(self.mark);
        }
        let entry = self.piece.as_ref().map_or(self.mark.entry, |piece| piece.index);
        // SAFETY: I1: and `pass` needs what this borrows.
        let range: &[u8] = unsafe { &*self.range.0 };
        Stretch::new(self.mark, self.passed, entry, Steps::new(range, &mut self.run))
    }

    /// The next item. Everything yielded before counts as consumed from here on, unless explicit.
    pub(crate) fn next(&mut self, admission: &mut Admission) -> Next {
        self.fold();
        if !self.explicit {
            self.consume(self.mark);
        }
        let next = self.find(admission);
        self.turn.0 = self.turn.0.saturating_sub(1);
        self.run_on();
        next
    }

    fn find(&mut self, admission: &mut Admission) -> Next {
        loop {
            if let Some(piece) = &self.piece {
                // SAFETY: I1.
                let range: &[u8] = unsafe { &*self.range.0 };
                let mut at = self.run.at();
                match self.assembler.advance(&piece.facts, range, &mut at, admission) {
                    Found::InRange(payload) => {
                        self.run.found(at, payload.len());
                        self.note_record(false);
                        return Next::Record;
                    }
                    Found::Assembled => {
                        self.run.stop(at);
                        self.note_record(true);
                        return Next::Record;
                    }
                    Found::More => self.pass(),
                    Found::Refused(refused) => {
                        self.run.stop(at);
                        return Next::Refused(refused);
                    }
                }
            }
            if let Some(item) = self.next_piece(admission) {
                return item;
            }
        }
    }

    /// The record that [`LocalReader::next`] answered with, if nothing was asked of the reader since.
    #[inline]
    pub(crate) fn current(&self) -> Payload<'_> {
        if self.is_assembled {
            return Payload { bytes: self.assembler.assembled(), origin: None };
        }
        // SAFETY: I1.
        self.payload(self.run.last_of(unsafe { &*self.range.0 }))
    }

    #[inline]
    fn note_record(&mut self, is_assembled: bool) {
        self.is_assembled = is_assembled;
        self.mark.amount.records += 1;
        self.mark.amount.bytes = self.passed + self.run.at() as u64;
        if let Some(piece) = &self.piece {
            self.mark.entry = piece.index;
        }
    }

    /// Where a payload in the current piece came from, so that it can be lent.
    #[inline]
    fn payload<'a>(&'a self, bytes: &'a [u8]) -> Payload<'a> {
        let origin = self.piece.as_ref().map(|piece| Origin {
            view: &self.view,
            segment: piece.entry.segment,
            end: piece.segment_offset() + self.run.at(),
        });
        Payload { bytes, origin }
    }

    /// The current piece is used up.
    fn pass(&mut self) {
        let Some(piece) = self.piece.take() else { return };
        self.range = RawRange::EMPTY;
        self.run.stop(0);
        self.passed += u64::from(piece.bytes);
        if !self.assembler.is_mid_record() {
            self.mark.entry = piece.end.entry;
        }
        self.view.let_go(&piece);
    }

    /// Takes the next piece. `None` when it is one to read records from.
    #[cold]
    fn next_piece(&mut self, admission: &mut Admission) -> Option<Next> {
        if self.ended.is_some() {
            return Some(Next::Empty);
        }
        match self.view.take_priority() {
            Ok(Some(event)) => return Some(Next::Priority(event)),
            Ok(None) => {}
            Err(_) => return Some(Next::Fenced),
        }
        let mut pieces = std::mem::take(&mut self.pieces);
        let taken = self.view.take(1, &mut pieces);
        let piece = pieces.pop();
        self.pieces = pieces;
        match taken {
            Ok(skipped) => self.skip(skipped),
            Err(_) => return Some(Next::Fenced),
        }
        let Some(piece) = piece else { return Some(Next::Empty) };
        if piece.entry.kind.is_data() {
            // SAFETY: I1: taken just now, let go by `pass`.
            self.range = RawRange(unsafe { self.view.bytes(&piece) });
            self.piece = Some(piece);
            return None;
        }
        // An entry without stream bytes: the place behind it is the next entry.
        self.mark.entry = piece.end.entry;
        self.mark.events += 1;
        self.event(&piece, admission)
    }

    fn skip(&mut self, skipped: Amount) {
        if skipped != Amount::ZERO {
            self.passed += skipped.bytes;
            self.mark.amount += skipped;
            self.consume(self.mark);
        }
    }

    fn event(&mut self, piece: &Piece, admission: &mut Admission) -> Option<Next> {
        let aux = piece.entry.aux;
        Some(match piece.entry.kind {
            Kind::Data | Kind::Shared => return None,
            Kind::Abort => {
                // What came of the broken record is behind us, and is nobody's.
                self.mark.aborted += u64::from(self.assembler.clear(admission));
                self.mark.amount.bytes = self.passed;
                return None;
            }
            Kind::Barrier => Next::Barrier(aux),
            Kind::Watermark => Next::Watermark(aux as i64),
            Kind::Application => {
                // SAFETY: taken just now, let go below.
                let bytes = Bytes::copy_from_slice(unsafe { self.view.event_bytes(piece) });
                self.view.let_go(piece);
                Next::Application(bytes)
            }
            Kind::Loss => Next::Loss(Amount::new(aux, piece.entry.segment.to_bits())),
            Kind::EndOfData => Next::EndOfData,
            Kind::EndOfPartition => {
                self.ended = Some(EndKind::Finished);
                Next::EndOfPartition { news: !self.explicit && self.view.acknowledge_end() }
            }
            Kind::Failed => {
                self.ended = Some(EndKind::Failed);
                Next::Failed
            }
        })
    }

    /// Explicit mode: everything up to `mark` is consumed. Acknowledging is cumulative: an older mark that
    /// comes late takes nothing back.
    pub(crate) fn acknowledge(&mut self, mark: Mark) -> Acked {
        self.fold();
        if !mark.is_after(self.consumed) || mark.is_after(self.mark) {
            return Acked::Ignored;
        }
        self.consume(mark);
        let is_end = self.ended == Some(EndKind::Finished) && mark == self.mark;
        Acked::Done { end: is_end && self.view.acknowledge_end() }
    }

    #[inline]
    fn consume(&mut self, mark: Mark) {
        if mark.entry == self.consumed.entry && mark.aborted == self.consumed.aborted {
            // Within an entry, and with nothing broken off, one word says it all.
            if mark.amount != self.consumed.amount {
                self.view.account().set_consumed(mark.amount);
                self.consumed = mark;
            }
            return;
        }
        self.consume_entry(mark);
    }

    #[cold]
    fn consume_entry(&mut self, mark: Mark) {
        let account = self.view.account();
        if mark.aborted != self.consumed.aborted {
            account.set_aborted(mark.aborted);
        }
        account.set_consumed(mark.amount);
        if mark.entry != self.consumed.entry {
            account.set_consumed_entry(mark.entry);
            if self.view.retains() {
                // Fenced: the next take says so.
                let _ = self.view.release(Position::at_entry(mark.entry));
            }
        }
        self.consumed = mark;
    }

    /// The channel is paused: its half record gives its admission to others.
    pub(crate) fn set_aside(&mut self, admission: &mut Admission) {
        self.assembler.set_aside(admission);
    }

    /// The task has asked for more, and other channels come first: what was yielded counts as consumed,
    /// unless explicit, and a record that ran over pieces is done with.
    pub(crate) fn settle(&mut self, admission: &mut Admission) {
        self.fold();
        if !self.explicit {
            self.consume(self.mark);
        }
        self.assembler.settle(admission);
        self.run_on();
    }

    /// The next priority event, if one waits. Fenced: none, and [`LocalReader::next`] says so.
    pub(crate) fn take_priority(&mut self) -> Option<PriorityEvent> {
        if self.ended.is_some() {
            return None;
        }
        self.view.take_priority().ok().flatten()
    }

    /// Whether [`LocalReader::next`] may find something; nothing is taken.
    pub(crate) fn has_more(&self) -> bool {
        self.piece.is_some() || self.view.has_more()
    }

    /// Bytes of a record whose rest hasn't come, and the parts of records that were skipped.
    pub(crate) fn torn(&self) -> Amount {
        self.view.account().skipped() + Amount::new(0, self.assembler.pending_bytes() as u64)
    }

    /// What the writer has published or dropped for this view and the reader hasn't come to. Exact when the
    /// writer is at rest. `begin` is where the bind began, `told` what the writer had dropped by the last
    /// report.
    pub(crate) fn left_behind(&self, begin: Amount, told: Amount) -> Amount {
        let counts = &self.view.subpartition().counts;
        let had = begin + self.mark().amount + Amount::new(0, self.assembler.pending_bytes() as u64);
        counts.published().beyond(had) + counts.lost().beyond(told)
    }

    /// Whole records yielded since the bind.
    pub(crate) fn yielded(&self) -> Amount {
        self.whole(self.mark())
    }

    /// Whole records that count as consumed since the bind.
    pub(crate) fn consumed(&self) -> Amount {
        self.whole(self.consumed)
    }

    fn whole(&self, mark: Mark) -> Amount {
        mark.amount.beyond(self.view.account().skipped() + Amount::new(0, mark.aborted))
    }

    /// Drops the half record, before the reader is dropped or when its view is fenced.
    pub(crate) fn clear(&mut self, admission: &mut Admission) {
        self.assembler.clear(admission);
    }
}

impl Drop for LocalReader {
    fn drop(&mut self) {
        self.fold();
        self.pass();
        self.view.close(Ending::Closed { yielded: self.mark.amount });
    }
}
