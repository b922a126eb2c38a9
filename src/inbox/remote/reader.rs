//! Reads a remote channel from the task's thread: records by borrow, straight from the receive buffers.
//!
//! The same questions and answers as [`LocalReader`](crate::subpartition::LocalReader), whose place it takes.
//!
//! # Guarantees
//! - Items come in the order in which they were fed. A record is yielded whole or not at all.
//! - Lengths are taken from the stream alone: what a peer says besides of equal lengths is compared with each
//!   of them.
//! - What was yielded counts as consumed when the next item is asked for, or when its [`Mark`] is acknowledged
//!   (explicit mode). The network thread learns of it with every buffer, and before the task sleeps.
//!
//! # Invariants
//! - I1 `range` are the bytes of `chunk`, which doesn't move them when it is moved; it is let go only by
//!   `pass`, which needs `&mut self`, so no record borrowed from it is alive then.

mod tell;
mod turns;

use self::tell::{Ring, Told};
use self::turns::Turn;
use super::{Chunk, Delivery, Over, RemoteEnd, RemoteEvent, Shared, lend};
use crate::error::Cause;
use crate::event::PriorityEvent;
use crate::inbox::Popped;
use crate::record::{Admission, Assembler, EntryFacts, First, Found, RecordLayout, Run, Steps, UNIFORM_NONE};
use crate::subpartition::{Amount, Mark, Next, Stretch};
use crate::sync::Ordering;
use bytes::Bytes;
use std::sync::Arc;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct RemoteReader {
    end: RemoteEnd,
    assembler: Assembler,
    facts: EntryFacts,
    /// The buffer that is being read, and how far.
    chunk: Option<Chunk>,
    range: RawRange,
    /// How far: the records that lie whole in `range` are stepped over here, and counted by `fold`.
    run: Run,
    turn: Turn,
    /// Stream bytes in buffers passed.
    passed: u64,
    /// What was yielded, without what `run` has stepped over since it was counted.
    mark: Mark,
    consumed: Mark,
    explicit: bool,
    /// Priority events taken, modulo 2^32.
    priority: u32,
    /// Nothing follows.
    ending: Option<Ending>,
    /// The record yielded last was assembled; else it lies in `range`, where `run` stands.
    is_assembled: bool,
    told: Told,
}

/// Why nothing follows.
#[derive(Debug)]
enum Ending {
    Finished,
    Failed(Cause),
    Over(Over),
}

/// The bytes of a chunk without a lifetime; see I1.
#[derive(Clone, Copy, Debug)]
struct RawRange(*const [u8]);

// SAFETY: I1: the bytes are in a buffer held by the reader that owns this, and are only read.
unsafe impl Send for RawRange {}
// SAFETY: as above.
unsafe impl Sync for RawRange {}

impl RawRange {
    const EMPTY: Self = Self(&[]);
}

impl RemoteReader {
    /// `explicit`: only [`RemoteReader::acknowledge`] makes what was yielded count as consumed.
    pub(crate) fn new(end: RemoteEnd, layout: RecordLayout, record_bytes_max: usize, explicit: bool) -> Self {
        let mark = Mark { amount: Amount::ZERO, aborted: 0, events: 0, entry: 0 };
        Self {
            end,
            assembler: Assembler::new(record_bytes_max),
            facts: EntryFacts { layout, first: First::NONE, uniform: UNIFORM_NONE },
            chunk: None,
            range: RawRange::EMPTY,
            run: Run::new(),
            turn: Turn::default(),
            passed: 0,
            mark,
            consumed: mark,
            explicit,
            priority: 0,
            ending: None,
            is_assembled: false,
            told: Told::default(),
        }
    }

    /// The next record if it lies whole in the buffer at hand: the way of nearly all of them, and
    /// [`RemoteReader::next`] without the rest of it. False says nothing of what comes.
    #[inline]
    pub(crate) fn next_whole(&mut self) -> bool {
        // SAFETY: I1.
        let range: &[u8] = unsafe { &*self.range.0 };
        self.run.step(range)
    }

    /// The records that lie whole in the buffer at hand, as far as the turn goes. Each counts as yielded when it is
    /// stepped over.
    pub(crate) fn records(&mut self) -> Stretch<'_> {
        self.fold();
        self.consume_yielded();
        // SAFETY: I1: and `pass` needs what this borrows.
        let range: &[u8] = unsafe { &*self.range.0 };
        Stretch::new(self.mark, self.passed, 0, Steps::new(range, &mut self.run))
    }

    /// The next item. Everything yielded before counts as consumed from here on, unless explicit.
    pub(crate) fn next(&mut self, admission: &mut Admission) -> Next {
        self.fold();
        self.consume_yielded();
        let next = self.find(admission);
        self.turn.records = self.turn.records.saturating_sub(1);
        self.run_on();
        next
    }

    fn find(&mut self, admission: &mut Admission) -> Next {
        loop {
            if self.chunk.is_some() {
                // SAFETY: I1.
                let range: &[u8] = unsafe { &*self.range.0 };
                let mut at = self.run.at();
                if !self.assembler.is_mid_record() && !self.hint_holds(range.get(at..).unwrap_or(&[])) {
                    self.facts.uniform = UNIFORM_NONE;
                }
                let found = self.assembler.advance(&self.facts, range, &mut at, admission);
                match found {
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
                        self.report();
                        return Next::Refused(refused);
                    }
                }
            }
            if let Some(item) = self.next_delivery(admission) {
                return item;
            }
        }
    }

    /// Whether the record that starts at the begin of `rest` has the length that all are said to have. The
    /// length is read beside the guess and not before it, so that there is no chain from one to the next.
    #[inline]
    fn hint_holds(&self, rest: &[u8]) -> bool {
        let EntryFacts { layout, uniform, .. } = self.facts;
        match layout {
            RecordLayout::Lengths if uniform != UNIFORM_NONE => {
                layout.payload_of_prefix(rest) == Some(uniform)
            }
            _ => true,
        }
    }

    /// The payload that [`RemoteReader::next`] answered with, if nothing was asked of the reader since.
    #[inline]
    pub(crate) fn current(&self) -> &[u8] {
        if self.is_assembled {
            return self.assembler.assembled();
        }
        // SAFETY: I1.
        self.run.last_of(unsafe { &*self.range.0 })
    }

    /// The same payload as an owned value: see `lend`.
    pub(crate) fn current_owned(&self) -> Bytes {
        let payload = self.current();
        match &self.chunk {
            Some(chunk) if !self.is_assembled => {
                let end = self.run.at();
                lend::owned(&self.end.shared, chunk, end - payload.len()..end)
            }
            _ => Bytes::copy_from_slice(payload),
        }
    }

    fn consume_yielded(&mut self) {
        if !self.explicit {
            self.consumed = self.mark;
        }
    }

    fn note_record(&mut self, is_assembled: bool) {
        self.is_assembled = is_assembled;
        self.mark.amount.records += 1;
        self.mark.amount.bytes = self.passed + self.run.at() as u64;
    }

    /// The current buffer is used up.
    fn pass(&mut self) {
        let Some(chunk) = self.chunk.take() else { return };
        self.range = RawRange::EMPTY;
        self.run.stop(0);
        self.passed += chunk.len() as u64;
    }

    /// Takes the next delivery. `None` when there are bytes to read, or nothing to tell of it.
    #[cold]
    fn next_delivery(&mut self, admission: &mut Admission) -> Option<Next> {
        if self.ending.is_some() {
            return Some(Next::Empty);
        }
        if let Some(event) = self.take_priority() {
            return Some(Next::Priority(event));
        }
        let delivery = match self.end.pop() {
            Popped::Item(delivery) => delivery,
            Popped::Empty => {
                // Relaxed: a hint; what it misses waits for the look of a thread that isn't quiet.
                let more = self.end.shared.holds_back.load(Ordering::Relaxed);
                self.tell(if more { Ring::Now } else { Ring::IfQuiet });
                return Some(Next::Empty);
            }
            Popped::Closed => Delivery::Over(Over::Left),
        };
        self.told.taken += 1;
        match delivery {
            Delivery::Data { uniform, bytes } => {
                self.begin_chunk(uniform, bytes);
                None
            }
            Delivery::Event(event) => {
                self.mark.events += 1;
                self.event(event, admission)
            }
            Delivery::Over(over) => {
                self.ending = Some(Ending::Over(over));
                Some(Next::Fenced)
            }
            // Resumed: it goes on as if nothing had happened.
            Delivery::Bound(_) | Delivery::Waiting => None,
        }
    }

    fn begin_chunk(&mut self, uniform: u32, chunk: Chunk) {
        self.facts.uniform = uniform;
        self.range = RawRange(&raw const *chunk);
        self.chunk = Some(chunk);
        let shared = &self.end.shared;
        let is_quarter = (self.left() - self.told.left).saturating_mul(4) >= shared.window;
        // Relaxed: a hint; before the task sleeps it rings in any case.
        let makes_room =
            self.told.taken >= shared.capacity.div_ceil(2) && shared.holds_back.load(Ordering::Relaxed);
        self.tell(if is_quarter || makes_room { Ring::Now } else { Ring::No });
    }

    /// Stream bytes that left the queue.
    fn left(&self) -> u64 {
        self.passed + self.chunk.as_ref().map_or(0, |chunk| chunk.len() as u64)
    }

    fn event(&mut self, event: RemoteEvent, admission: &mut Admission) -> Option<Next> {
        Some(match event {
            RemoteEvent::Abort => {
                // What came of the broken record is behind us, and is nobody's.
                self.mark.aborted += u64::from(self.assembler.clear(admission));
                self.mark.amount.bytes = self.passed;
                return None;
            }
            RemoteEvent::Barrier(id) => Next::Barrier(id),
            RemoteEvent::Watermark(time) => Next::Watermark(time),
            RemoteEvent::Application(bytes) => Next::Application(bytes),
            RemoteEvent::Loss(total) => Next::Loss(total),
            RemoteEvent::EndOfData => Next::EndOfData,
            RemoteEvent::EndOfPartition => {
                self.ending = Some(Ending::Finished);
                self.consume_yielded();
                self.tell(Ring::Now);
                // What the partition keeps of its ends is on the producer's side.
                Next::EndOfPartition { news: false }
            }
            RemoteEvent::Failed(cause) => {
                self.ending = Some(Ending::Failed(cause));
                Next::Failed
            }
        })
    }

    /// The channel is paused: its half record gives its admission to others.
    pub(crate) fn set_aside(&mut self, admission: &mut Admission) {
        self.assembler.set_aside(admission);
    }

    /// The task has asked for more, and other channels come first: what was yielded counts as consumed, unless
    /// explicit, and a record that ran over buffers is done with.
    pub(crate) fn settle(&mut self, admission: &mut Admission) {
        self.fold();
        self.consume_yielded();
        self.assembler.settle(admission);
        self.end_turn();
        self.tell(Ring::No);
    }

    /// The next priority event, if one waits.
    pub(crate) fn take_priority(&mut self) -> Option<PriorityEvent> {
        if self.ending.is_some() || !self.has_priority() {
            return None;
        }
        let event = self.end.shared.priority.pop()?;
        self.priority = self.priority.wrapping_add(1);
        self.tell(Ring::IfQuiet);
        Some(event)
    }

    /// Whether a priority event waits; a hint.
    pub(crate) fn has_priority(&self) -> bool {
        // Relaxed: a hint; what was announced before a ring is seen after it.
        self.end.shared.announced.load(Ordering::Relaxed) != self.priority
    }

    /// Whether [`RemoteReader::next`] may find something; nothing is taken.
    pub(crate) fn has_more(&self) -> bool {
        self.chunk.is_some() || !self.end.shared.inbox.is_empty()
    }

    /// Why nothing follows, if the end was not the partition's.
    pub(crate) fn over(&self) -> Option<&Over> {
        match &self.ending {
            Some(Ending::Over(over)) => Some(over),
            _ => None,
        }
    }

    /// Why the producer failed, if it said so.
    pub(crate) fn failure(&self) -> Option<&Cause> {
        match &self.ending {
            Some(Ending::Failed(cause)) => Some(cause),
            _ => None,
        }
    }

    /// Bytes of a record whose rest hasn't come.
    pub(crate) fn torn(&self) -> Amount {
        Amount::new(0, self.assembler.pending_bytes() as u64)
    }

    /// Whole records that came since the bind, and stream bytes with those of a record whose rest hasn't come.
    pub(crate) fn received(&self) -> Amount {
        self.mark().amount + self.torn()
    }

    /// Whole records yielded since the bind.
    pub(crate) fn yielded(&self) -> Amount {
        whole(self.mark())
    }

    /// Whole records that count as consumed since the bind.
    pub(crate) fn consumed(&self) -> Amount {
        whole(self.consumed_mark())
    }

    /// Drops the half record, before the reader is dropped.
    pub(crate) fn clear(&mut self, admission: &mut Admission) {
        self.assembler.clear(admission);
    }

    /// For other threads that look at the channel.
    pub(crate) fn watch(&self) -> RemoteWatch {
        RemoteWatch(self.end.shared.clone())
    }
}

fn whole(mark: Mark) -> Amount {
    mark.amount.beyond(Amount::new(0, mark.aborted))
}

impl Drop for RemoteReader {
    fn drop(&mut self) {
        self.fold();
        self.pass();
        // The last word; the end tells the feeder of it.
        self.tell(Ring::No);
    }
}

/// A look at a remote channel from outside.
#[derive(Clone, Debug)]
pub(crate) struct RemoteWatch(Arc<Shared>);

impl RemoteWatch {
    /// Whether something waits to be taken.
    pub(crate) fn has_more(&self) -> bool {
        !self.0.inbox.is_empty()
    }

    /// Stream bytes that the producer's worker may send on top of what waits here.
    pub(crate) fn credit(&self) -> u64 {
        self.0.window.saturating_sub(self.0.pinned())
    }
}
