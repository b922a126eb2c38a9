//! The writer's half of a subpartition: records in, entries out.
//!
//! # Guarantees
//! - A record is published whole, or in parts that end where entries end; a part that was published is
//!   followed by the rest, or by an ABORT.
//! - A record belongs to the stream in which its last byte was committed. If its stream changes while
//!   nothing of it is published, the policy decides about it as a whole.
//! - Appending never waits: it is done, dropped by policy (and counted), or blocked, to be tried again.
//!
//! # The short way
//! One load of the state word, compared with the one word under which the last record went through;
//! one comparison of lengths; the copy; one release store. Everything else is on the long way.

mod entries;
mod record;
mod room;
mod row;
mod shared;

pub(crate) use entries::Blocked;
use entries::Tail;
use record::Progress;
pub(crate) use record::SPLIT_SHARE;
pub(super) use shared::Inherited;
pub(crate) use shared::SharedPart;
use shared::SharedSpan;

use super::account::{EventKind, WriterLoss};
use super::bind::Subpartition;
use super::policy::{BeforeFirstBind, Flush, WhenAbsent};
use super::position::Amount;
use super::slot::Kind;
use super::state::{Phase, Word};
use crate::doorbell::ReadyNode;
use crate::event::{Event, PriorityEvent};
use crate::id::BindEpoch;
use crate::memory::{SegmentCache, SegmentName};
use crate::record::{First, RECORD_BYTES_LEAST, RecordLayout};
use crate::sync::{Ordering, fence, sync};
use std::collections::VecDeque;
use std::sync::Arc;

/// What became of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Append {
    /// It is in the ring.
    Done,
    /// The policy dropped it; it is counted.
    Dropped,
    /// No room: try again when the partition's waiter wakes.
    Blocked(Blocked),
    /// The partition is released.
    Closed,
}

/// What the policies say to a new record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    Write,
    Discard,
    Closed,
}

/// What is done about a record that was published: [`Flush`] in one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Telling {
    WhenFull,
    Each,
    IfQuiet,
}

impl From<Flush> for Telling {
    fn from(flush: Flush) -> Self {
        match flush {
            Flush::WhenFull => Self::WhenFull,
            Flush::EveryRecord => Self::Each,
            Flush::Interval(_) => Self::IfQuiet,
        }
    }
}

/// A word that the state never has: the short way is shut.
const NEVER: u64 = u64::MAX;

/// See the module's text. Not `Clone`: there is one writer.
#[derive(Debug)]
pub(crate) struct WriteHalf {
    sub: Arc<Subpartition>,
    tail: Tail,
    /// The state word under which a record may go the short way.
    writable: u64,
    /// The state word under which a record is dropped at once: the last that one was dropped under.
    discarding: u64,
    /// Payload lengths that need no check: the least, and how many more.
    unchecked: (usize, usize),
    prefix_bytes: usize,
    telling: Telling,
    /// The stream that the last record or event belongs to.
    stream: u8,
    progress: Option<Progress>,
    /// What the last LOSS entry said.
    loss_told: Amount,
    /// Something was published since the last ring.
    dirty: bool,
    /// Full segments that the reader was not told of.
    untold: u32,
    node: Option<Arc<ReadyNode>>,
    node_epoch: BindEpoch,
    /// The silence of `node` that it was rung for last.
    rung: Option<u32>,
    ended: bool,
    /// The holds of shared segments that this ring has entries in, oldest first.
    shared: VecDeque<SharedSpan>,
}

impl WriteHalf {
    /// The one writer of `sub`.
    pub(crate) fn new(sub: Arc<Subpartition>) -> Self {
        let unchecked = match sub.layout() {
            RecordLayout::Lengths => (0, RECORD_BYTES_LEAST),
            RecordLayout::Fixed(bytes) => (bytes.get() as usize, 0),
        };
        Self {
            tail: Tail::new(&sub.ring),
            prefix_bytes: sub.layout().prefix_bytes(),
            telling: sub.policies.flush.into(),
            writable: NEVER,
            discarding: NEVER,
            unchecked,
            stream: 0,
            progress: None,
            loss_told: Amount::ZERO,
            dirty: false,
            untold: 0,
            node: None,
            node_epoch: BindEpoch::NEVER,
            rung: None,
            ended: false,
            shared: VecDeque::new(),
            sub,
        }
    }

    pub(crate) fn subpartition(&self) -> &Arc<Subpartition> {
        &self.sub
    }

    /// Whether something was published that nobody was told of.
    #[inline]
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Appends a record the short way if it can go it: nothing changed, and it fits where the last one went.
    #[inline(always)]
    pub(crate) fn append_short(&mut self, payload: &[u8]) -> bool {
        if self.sub.state.load().bits() != self.writable
            || !self.tail.append(&self.sub.ring, self.prefix_bytes != 0, payload)
        {
            return false;
        }
        self.after_publish();
        true
    }

    /// Drops a record the short way if it can go it: nothing changed since one was dropped for want of a reader, and
    /// the length is one that any partition of this layout allows.
    #[inline]
    pub(crate) fn discard_short(&mut self, payload_bytes: usize) -> bool {
        let (least, more) = self.unchecked;
        if self.sub.state.load().bits() != self.discarding || payload_bytes.wrapping_sub(least) > more {
            return false;
        }
        self.sub.counts.discard(Amount::new(1, (payload_bytes + self.prefix_bytes) as u64));
        true
    }

    #[inline]
    fn publish_record(&mut self) {
        self.tail.end_record(&self.sub.ring);
        self.after_publish();
    }

    /// Counts what was published, and tells the reader if that is due.
    #[inline]
    fn after_publish(&mut self) {
        self.count_published();
        match self.telling {
            Telling::WhenFull => self.dirty = true,
            Telling::Each => self.ring(),
            Telling::IfQuiet => self.ring_if_quiet(),
        }
    }

    #[inline]
    fn count_published(&self) {
        let amount = self.tail.amount();
        // Relaxed: statistics, exact at quiet points.
        self.sub.counts.hot.records.store(amount.records, Ordering::Relaxed);
        self.sub.counts.hot.bytes.store(amount.bytes, Ordering::Relaxed);
    }

    /// `Flush::Interval`: rings if the reader won't look by itself. A bind that this look at the state misses is
    /// of a view that falls quiet later, or looks by itself: its last look before that sees what was published
    /// (DOOR_F1 orders the state word as it does `quiet`).
    #[inline]
    fn ring_if_quiet(&mut self) {
        self.dirty = true;
        let owes = self.node.as_ref().is_none_or(|node| node.owes_ring(self.rung));
        if owes || self.sub.state.load().epoch() != self.node_epoch {
            self.ring();
        }
    }

    /// A segment is full. A reader that will look by itself within the interval (it isn't quiet) needs to be told
    /// only so often that it keeps up; how often is its own choice.
    fn ring_for_segment(&mut self) {
        if let (Telling::IfQuiet, Some(node)) = (self.telling, &self.node)
            && self.untold + 1 < node.patience()
            && !node.is_quiet_after_publish()
            && self.sub.state.load().epoch() == self.node_epoch
        {
            self.untold += 1;
            self.dirty = true;
            return;
        }
        self.ring();
    }

    /// Tells the reader that there is something to take.
    #[inline(never)]
    pub(crate) fn ring(&mut self) {
        self.dirty = false;
        self.untold = 0;
        fence(sync!(BIND_F1.writer, SeqCst));
        let epoch = self.sub.state.load().epoch();
        if epoch != self.node_epoch {
            // Cold: a bind or an outage since the last ring. The mutex has the pair that belongs together.
            (self.node_epoch, self.node) = self.sub.node();
        }
        if let Some(node) = &self.node {
            // Before the ring: a silence that begins after it isn't served by it.
            self.rung = node.silence();
            node.ring();
        }
    }

    /// What is to become of a record or event that begins now.
    fn admission(&self, word: Word) -> Admission {
        if word.is_released() {
            return Admission::Closed;
        }
        let policies = &self.sub.policies;
        let discard = match word.phase() {
            Phase::Unbound => policies.before_first_bind == BeforeFirstBind::Discard,
            Phase::Unavailable => policies.when_absent == WhenAbsent::Discard,
            Phase::Bound | Phase::Suspended => false,
        };
        if discard { Admission::Discard } else { Admission::Write }
    }

    /// Appends a LOSS entry if records were dropped since the last one.
    fn tell_loss(&mut self) -> Result<(), Blocked> {
        let lost = self.sub.counts.lost();
        if lost == self.loss_told {
            return Ok(());
        }
        if !self.tail.has_slot(&self.sub.ring) {
            return Err(Blocked::Slots);
        }
        self.push_loss(lost);
        Ok(())
    }

    fn push_loss(&mut self, lost: Amount) {
        self.tail.push(&self.sub.ring, Kind::Loss, SegmentName::from_bits(lost.bytes), lost.records);
        self.loss_told = lost;
    }

    /// Appends an event to this subpartition. `Dropped` while the consumer is absent.
    pub(crate) fn append_event(&mut self, event: &Event, cache: &mut SegmentCache) -> Append {
        debug_assert!(self.progress.is_none(), "an event never stands between two halves of a record");
        self.writable = NEVER;
        let word = loop {
            let word = self.sub.state.load();
            match self.admission(word) {
                Admission::Closed => return Append::Closed,
                Admission::Write if word.phase() != Phase::Unavailable => break word,
                Admission::Write | Admission::Discard => {}
            }
            let kind = match event {
                // A reader has come since: it gets the barrier.
                Event::Barrier(id) if !self.sub.drop_barrier(*id, word) => continue,
                Event::Barrier(_) => EventKind::Barrier,
                Event::Watermark(_) => EventKind::Watermark,
                Event::Application(_) => EventKind::Application,
            };
            self.sub.counts.drop_event(kind);
            return Append::Dropped;
        };
        self.stream = word.stream();
        let mut tried = self.try_event(event, cache);
        if tried.is_err() && self.sweep_shared() {
            tried = self.try_event(event, cache);
        }
        if let Err(blocked) = tried {
            self.ring();
            return Append::Blocked(blocked);
        }
        self.ring();
        Append::Done
    }

    fn try_event(&mut self, event: &Event, cache: &mut SegmentCache) -> Result<(), Blocked> {
        self.tell_loss()?;
        let ring = &self.sub.ring;
        match event {
            Event::Barrier(id) => {
                if !self.tail.has_slot(ring) {
                    return Err(Blocked::Slots);
                }
                self.tail.end_entry(ring);
                let tail = &mut self.tail;
                self.sub.publish_barrier(*id, || tail.push(ring, Kind::Barrier, SegmentName::NONE, *id));
            }
            Event::Watermark(time) => {
                if !self.tail.has_slot(ring) {
                    return Err(Blocked::Slots);
                }
                self.tail.push(ring, Kind::Watermark, SegmentName::NONE, *time as u64);
            }
            Event::Application(bytes) => {
                self.tail.end_entry(ring);
                self.tail.make_room(ring, &self.sub.charge, cache, bytes.len().max(1), |_| First::at(0))?;
                self.tail.push_bytes(ring, bytes);
            }
        }
        Ok(())
    }

    /// Sends an event past everything that is queued.
    pub(crate) fn append_priority(&mut self, event: PriorityEvent) -> Append {
        let word = self.sub.state.load();
        match self.admission(word) {
            Admission::Closed => return Append::Closed,
            Admission::Write if word.phase() != Phase::Unavailable => {}
            Admission::Write | Admission::Discard => {
                self.sub.counts.drop_event(EventKind::Priority);
                return Append::Dropped;
            }
        }
        if self.sub.priority.push(event).is_err() {
            self.ring();
            return Append::Blocked(Blocked::Priority);
        }
        self.ring();
        Append::Done
    }

    /// Appends the end: there is always room for it. A record that is half written is broken off.
    pub(crate) fn append_end(&mut self, kind: EndKind) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        self.abort(WriterLoss::Aborted);
        self.writable = NEVER;
        let lost = self.sub.counts.lost();
        if lost != self.loss_told {
            self.push_loss(lost);
        }
        let ring = &self.sub.ring;
        if kind == EndKind::Finished {
            self.tail.push(ring, Kind::EndOfData, SegmentName::NONE, 0);
            self.tail.push(ring, Kind::EndOfPartition, SegmentName::NONE, 0);
        } else {
            self.tail.push(ring, Kind::Failed, SegmentName::NONE, 0);
        }
        self.tail.close(ring);
        self.sub.state.finish();
        self.ring();
    }

    /// Whether a record is half written.
    pub(crate) fn is_mid_record(&self) -> bool {
        self.progress.is_some()
    }

    /// The phase of the reader, for whoever decides how long to wait.
    pub(crate) fn phase(&self) -> Phase {
        self.sub.state.load().phase()
    }
}

/// How a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndKind {
    /// All data was written.
    Finished,
    /// The producer failed.
    Failed,
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        self.abort(WriterLoss::Aborted);
        self.tail.close(&self.sub.ring);
        self.bequeath_shared();
    }
}
