//! What became of every record: delivered, lost (by cause), in doubt, or still queued.
//!
//! While the writer's process lives, `written = delivered + lost + in doubt + queued` holds exactly at every
//! quiet point, in records and in stream bytes. Each count has one owner: the writer counts what it never
//! put into the ring or broke off; whoever moved `taken` past a record's last byte counts that record.
//!
//! # Edges
//! `ACCT_E1` consumed (view → binder): what of it was skipped or broken off, so that it isn't counted as
//! delivered. `ACCT_E2` consumed entry (view → binder): the amount that was consumed up to there, so that a
//! replay leaves no record out. What a view holds is noted before its take (`RING_E3`).

use super::position::Amount;
use crate::memory::SegmentName;
use crate::sync::{AtomicU32, AtomicU64, CachePadded, Ordering, sync};

/// Records that certainly never reached a reader, by cause. The causes never overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Losses {
    /// Dropped by the writer because the consumer was absent.
    pub discarded: Amount,
    /// Dropped by the writer because the consumer didn't keep up (`when_full: Discard`).
    pub overflowed: Amount,
    /// Broken off: the record was dropped, or its stream changed, after a part of it was published.
    pub aborted: Amount,
    /// Queued when the consumer went away under `Discard`.
    pub drained: Amount,
    /// The oldest of a retained queue that was full.
    pub dropped_oldest: Amount,
    /// The rest of a record whose begin went to an older reader.
    pub skipped: Amount,
    /// Taken by a reader that was closed in order before it yielded them.
    pub unread: Amount,
}

impl Losses {
    /// All causes together.
    #[must_use]
    pub fn total(&self) -> Amount {
        self.discarded
            + self.overflowed
            + self.aborted
            + self.drained
            + self.dropped_oldest
            + self.skipped
            + self.unread
    }

    /// What was lost since `earlier`, a former state of the same account.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            discarded: self.discarded.since(earlier.discarded),
            overflowed: self.overflowed.since(earlier.overflowed),
            aborted: self.aborted.since(earlier.aborted),
            drained: self.drained.since(earlier.drained),
            dropped_oldest: self.dropped_oldest.since(earlier.dropped_oldest),
            skipped: self.skipped.since(earlier.skipped),
            unread: self.unread.since(earlier.unread),
        }
    }
}

/// Events that were dropped because nobody was there, by kind. Ends are never dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DroppedEvents {
    /// Barriers.
    pub barriers: u64,
    /// Watermarks.
    pub watermarks: u64,
    /// Application events.
    pub application: u64,
    /// Priority events.
    pub priority: u64,
}

impl std::ops::AddAssign for DroppedEvents {
    fn add_assign(&mut self, other: Self) {
        self.barriers += other.barriers;
        self.watermarks += other.watermarks;
        self.application += other.application;
        self.priority += other.priority;
    }
}

/// The account of one subpartition since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Account {
    /// All that the writer was given and did not refuse.
    pub written: Amount,
    /// What readers consumed.
    pub delivered: Amount,
    /// What certainly never reached a reader.
    pub lost: Losses,
    /// What a reader had when it was fenced, and had not consumed: it may have used it or not.
    pub in_doubt: Amount,
    /// What waits in the ring, or lies with the bound reader and isn't consumed yet.
    pub queued: Amount,
    /// Events that nobody got.
    pub dropped_events: DroppedEvents,
}

impl Account {
    /// Whether every record and byte is accounted for. Holds at quiet points: no write under way, no bind
    /// under way, the reader between two items.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.written == self.delivered + self.lost.total() + self.in_doubt + self.queued
    }
}

/// The writer's own counts; it alone stores them, anybody may read.
#[derive(Debug, Default)]
pub(super) struct WriterCounts {
    pub(super) hot: CachePadded<HotCounts>,
    pub(super) cold: CachePadded<ColdCounts>,
}

#[derive(Debug, Default)]
pub(super) struct HotCounts {
    /// Records whose last byte is published.
    pub(super) records: AtomicU64,
    /// Stream bytes that are published.
    pub(super) bytes: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct ColdCounts {
    discarded: Count,
    overflowed: Count,
    aborted: Count,
    barriers: AtomicU64,
    watermarks: AtomicU64,
    application: AtomicU64,
    priority: AtomicU64,
}

/// An [`Amount`] with one writer.
#[derive(Debug, Default)]
struct Count {
    records: AtomicU64,
    bytes: AtomicU64,
}

impl Count {
    fn add(&self, more: Amount) {
        let sum = self.get() + more;
        // Relaxed: one writer; what a reader must see in time goes with an entry (LOSS) or a quiet point.
        self.records.store(sum.records, Ordering::Relaxed);
        self.bytes.store(sum.bytes, Ordering::Relaxed);
    }

    fn get(&self) -> Amount {
        // Relaxed: as above.
        Amount::new(self.records.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// Why the writer dropped a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriterLoss {
    Discarded,
    Overflowed,
    Aborted,
}

/// Which kind of event the writer dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    Barrier,
    Watermark,
    Application,
    Priority,
}

impl WriterCounts {
    /// A record dropped for want of a reader.
    #[inline]
    pub(super) fn discard(&self, amount: Amount) {
        self.cold.discarded.add(amount);
    }

    pub(super) fn lose(&self, cause: WriterLoss, amount: Amount) {
        match cause {
            WriterLoss::Discarded => self.discard(amount),
            WriterLoss::Overflowed => self.cold.overflowed.add(amount),
            WriterLoss::Aborted => self.cold.aborted.add(amount),
        }
    }

    pub(super) fn drop_event(&self, kind: EventKind) {
        let counter = match kind {
            EventKind::Barrier => &self.cold.barriers,
            EventKind::Watermark => &self.cold.watermarks,
            EventKind::Application => &self.cold.application,
            EventKind::Priority => &self.cold.priority,
        };
        // Relaxed: one writer, a statistic.
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Everything published.
    pub(super) fn published(&self) -> Amount {
        // Relaxed: exact at quiet points only.
        Amount::new(self.hot.records.load(Ordering::Relaxed), self.hot.bytes.load(Ordering::Relaxed))
    }

    /// All that the writer itself dropped: what a LOSS entry carries.
    pub(super) fn lost(&self) -> Amount {
        self.losses().total()
    }

    /// The same by cause. The writer may be dropping the next record meanwhile: whoever needs two answers
    /// that belong together makes both of one reading.
    pub(super) fn losses(&self) -> Losses {
        Losses {
            discarded: self.cold.discarded.get(),
            overflowed: self.cold.overflowed.get(),
            aborted: self.cold.aborted.get(),
            ..Losses::default()
        }
    }

    pub(super) fn dropped_events(&self) -> DroppedEvents {
        // Relaxed: statistics.
        DroppedEvents {
            barriers: self.cold.barriers.load(Ordering::Relaxed),
            watermarks: self.cold.watermarks.load(Ordering::Relaxed),
            application: self.cold.application.load(Ordering::Relaxed),
            priority: self.cold.priority.load(Ordering::Relaxed),
        }
    }
}

/// How many pieces a view holds that reads one after the other: the one it leaves and the next.
pub(super) const OWN_NOTES: u16 = 2;
/// How many segments a view lends to the task at a time.
pub(super) const LENT_NOTES: usize = 2;

/// The notes of one bound view; the view stores them, the binder reads them after its bump.
///
/// `consumed` is one word, so that the binder reads records and bytes that belong together; it counts bytes
/// modulo 2^32 and records modulo 2^31 from the view's begin. That alone is not enough: a task that
/// acknowledges seldom may have taken more than 4 GiB since. The full counts are stored before the word, so they
/// are at least as new as the word that a binder reads, and tell what was cut off from it. The word's top bit
/// says which of the two words of `aborted` belongs to it.
#[derive(Debug)]
pub(crate) struct ViewAccount {
    consumed: AtomicU64,
    consumed_records: AtomicU64,
    consumed_bytes: AtomicU64,
    consumed_entry: AtomicU32,
    skipped: AtomicU64,
    aborted: [AtomicU64; 2],
    /// Which of `aborted` is the newest; the view's own.
    turn: AtomicU32,
    /// Names of segments; `NONE` where a place is free. The last [`LENT_NOTES`] are of what is lent.
    held: Box<[AtomicU64]>,
}

impl ViewAccount {
    /// Of a view that begins to read at `entry` and holds so many pieces at a time.
    pub(super) fn new(entry: u16, holds: u16) -> Self {
        // No note names a segment: zero would be the first one of the arena.
        let none = || AtomicU64::new(SegmentName::NONE.to_bits());
        Self {
            consumed: AtomicU64::new(0),
            consumed_records: AtomicU64::new(0),
            consumed_bytes: AtomicU64::new(0),
            consumed_entry: AtomicU32::new(u32::from(entry)),
            skipped: AtomicU64::new(0),
            aborted: [AtomicU64::new(0), AtomicU64::new(0)],
            turn: AtomicU32::new(0),
            held: (0..usize::from(holds) + LENT_NOTES).map(|_| none()).collect(),
        }
    }

    /// The notes of all that the view holds.
    pub(super) fn held(&self) -> &[AtomicU64] {
        &self.held
    }

    /// The notes of the pieces that the view has in its hands.
    pub(super) fn own(&self) -> &[AtomicU64] {
        &self.held[..self.held.len() - LENT_NOTES]
    }

    /// The notes of what is lent to the task.
    pub(super) fn lent(&self) -> &[AtomicU64] {
        &self.held[self.held.len() - LENT_NOTES..]
    }
}

const TURN_SHIFT: u32 = 63;
const RECORDS: u64 = 0x7fff_ffff;
const BYTES: u64 = 0xffff_ffff;

/// `{0 | records 31 | bytes 32}`
fn pack(amount: Amount) -> u64 {
    (amount.records & RECORDS) << 32 | (amount.bytes & BYTES)
}

fn unpack(bits: u64) -> Amount {
    Amount::new(bits >> 32 & RECORDS, bits & BYTES)
}

impl ViewAccount {
    /// View: everything up to `since_begin` (counted from the view's begin) is consumed. The binder may read
    /// an older word; what it misses is in doubt, which is true.
    pub(crate) fn set_consumed(&self, since_begin: Amount) {
        // Relaxed: one writer; released by ACCT_E1.
        self.consumed_records.store(since_begin.records, Ordering::Relaxed);
        self.consumed_bytes.store(since_begin.bytes, Ordering::Relaxed);
        let turn = u64::from(self.turn.load(Ordering::Relaxed)) << TURN_SHIFT; // Relaxed: this thread's own
        self.consumed.store(turn | pack(since_begin), sync!(ACCT_E1.consume, Release));
    }

    /// View: every entry before `entry` is consumed. Stored after the amounts, read before them.
    pub(crate) fn set_consumed_entry(&self, entry: u16) {
        self.consumed_entry.store(u32::from(entry), sync!(ACCT_E2.consume, Release));
    }

    pub(crate) fn add_skipped(&self, amount: Amount) {
        // Relaxed: one writer; a binder that misses it has what was skipped in doubt, and one that sees it
        // consumed sees it skipped (ACCT_E1).
        let sum = unpack(self.skipped.load(Ordering::Relaxed)) + amount;
        self.skipped.store(pack(sum), Ordering::Relaxed);
    }

    /// View: so many bytes of what is consumed next are of records that were broken off, more than before.
    /// A binder that still reads the amount of before finds the number of before.
    pub(crate) fn set_aborted(&self, bytes: u64) {
        let turn = 1 - self.turn.load(Ordering::Relaxed); // Relaxed: this thread's own
        self.aborted[turn as usize].store(bytes, Ordering::Relaxed); // Relaxed: released by ACCT_E1
        self.turn.store(turn, Ordering::Relaxed); // Relaxed: this thread's own
    }

    /// What is consumed since the view's begin, and how many bytes of it were broken off. After the bump the
    /// second belongs to the first: a view takes the end of a broken record by a take of its own, so that
    /// at most one is noted that isn't in the amount. (Only a burst of explicit acknowledgements could note
    /// two; then bytes that were delivered or broken off change places in the account.)
    pub(super) fn consumed(&self) -> (Amount, u64) {
        let word = self.consumed.load(sync!(ACCT_E1.settle, Acquire));
        let low = unpack(word);
        // The last place up to a newer one that ends in the same bits.
        let full = |newer: u64, low: u64, bits: u64| newer.wrapping_sub(newer.wrapping_sub(low) & bits);
        // Relaxed: these, too, are ordered by the load above.
        let records = full(self.consumed_records.load(Ordering::Relaxed), low.records, RECORDS);
        let bytes = full(self.consumed_bytes.load(Ordering::Relaxed), low.bytes, BYTES);
        // Relaxed: as above.
        let aborted = self.aborted[(word >> TURN_SHIFT) as usize].load(Ordering::Relaxed);
        (Amount::new(records, bytes), aborted)
    }

    pub(super) fn consumed_entry(&self) -> u16 {
        self.consumed_entry.load(sync!(ACCT_E2.settle, Acquire)) as u16
    }

    pub(super) fn skipped(&self) -> Amount {
        unpack(self.skipped.load(Ordering::Relaxed)) // Relaxed: see `add_skipped`
    }

    /// What came of `consumed` (counted from the view's begin, `aborted` bytes of it broken off): delivered,
    /// skipped, aborted. A view may be fenced between its stores, so that the parts are held to the whole.
    pub(super) fn shares(&self, consumed: Amount, aborted: u64) -> (Amount, Amount, Amount) {
        let skipped = self.skipped();
        let skipped = Amount::new(skipped.records.min(consumed.records), skipped.bytes.min(consumed.bytes));
        let rest = consumed.since(skipped);
        let aborted = Amount::new(0, aborted.min(rest.bytes));
        (rest.since(aborted), skipped, aborted)
    }
}
