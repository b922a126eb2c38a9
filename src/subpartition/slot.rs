//! One slot of a ring: what an entry is, in words that any thread may read at any time.
//!
//! All words are relaxed atomics. The writer alone stores them; a reader trusts what it read only after
//! its compare-and-swap on `taken` has succeeded (see `ring`), so a torn picture of a reused slot is
//! noticed before anything is done with it.

use crate::memory::SegmentName;
use crate::record::{EntryFacts, First, RecordLayout, UNIFORM_NONE};
use crate::sync::{AtomicU32, AtomicU64, Ordering, sync};

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Records, or parts of one; the ring holds the segment.
    Data,
    /// Records in a segment shared by many rings; the writer holds the segment, not the ring.
    Shared,
    /// A checkpoint barrier; `aux` is its id.
    Barrier,
    /// A watermark; `aux` is its bits.
    Watermark,
    /// An application event; `aux` is the number of its bytes in the segment, which the ring holds.
    Application,
    /// The record before this entry ends here, unfinished.
    Abort,
    /// So many records (`aux`) and bytes (`segment`'s bits) were discarded so far, in all.
    Loss,
    /// No record follows.
    EndOfData,
    /// Nothing follows.
    EndOfPartition,
    /// The producer failed; nothing follows.
    Failed,
}

impl Kind {
    const ALL: [Self; 10] = [
        Self::Data,
        Self::Shared,
        Self::Barrier,
        Self::Watermark,
        Self::Application,
        Self::Abort,
        Self::Loss,
        Self::EndOfData,
        Self::EndOfPartition,
        Self::Failed,
    ];

    fn from_bits(bits: u64) -> Self {
        // A slot that is being reused may show anything; whoever reads it is fenced and won't act on it.
        Self::ALL.get((bits & 0xf) as usize).copied().unwrap_or(Self::Abort)
    }

    /// Whether it has stream bytes.
    pub(crate) const fn is_data(self) -> bool {
        matches!(self, Self::Data | Self::Shared)
    }

    /// Whether the ring owns a hold on the entry's segment, to be dropped when `released` passes it.
    pub(crate) const fn is_held_by_ring(self) -> bool {
        matches!(self, Self::Data | Self::Application)
    }

    /// Whether it must reach the consumer whatever the policy says.
    pub(crate) const fn is_end(self) -> bool {
        matches!(self, Self::EndOfData | Self::EndOfPartition | Self::Failed)
    }
}

/// See the module's text. `base` and `records` of a slot are stored when the entry *before* it is closed,
/// the rest before the entry itself is published.
#[derive(Debug)]
pub(crate) struct Slot {
    segment: AtomicU64,
    base: AtomicU64,
    records: AtomicU64,
    aux: AtomicU64,
    /// `{kind 4 | first 16 | from 16}`
    shape: AtomicU64,
    uniform: AtomicU32,
}

/// What a slot says, read once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    pub(crate) segment: SegmentName,
    /// Where in the segment the entry begins, in bytes.
    pub(crate) from: u16,
    pub(crate) first: First,
    pub(crate) aux: u64,
}

impl Slot {
    pub(crate) fn new() -> Self {
        Self {
            segment: AtomicU64::new(SegmentName::NONE.to_bits()),
            base: AtomicU64::new(0),
            records: AtomicU64::new(0),
            aux: AtomicU64::new(0),
            shape: AtomicU64::new(0),
            uniform: AtomicU32::new(UNIFORM_NONE),
        }
    }

    /// Writer, before the entry is published.
    pub(crate) fn fill(&self, entry: &Entry) {
        // Relaxed: published by `written` (RING_E1), and by RING_E5 where a published word is replaced.
        self.segment.store(entry.segment.to_bits(), Ordering::Relaxed);
        self.aux.store(entry.aux, Ordering::Relaxed);
        let kind = Kind::ALL.iter().position(|kind| *kind == entry.kind).unwrap_or(0) as u64;
        let shape = kind << 32 | u64::from(entry.first.to_bits()) << 16 | u64::from(entry.from);
        self.shape.store(shape, Ordering::Relaxed);
        self.uniform.store(UNIFORM_NONE, Ordering::Relaxed);
    }

    /// Writer, when the entry before this one is closed.
    pub(crate) fn set_base(&self, base: u64, records: u64) {
        // Relaxed: published by `written` (RING_E1).
        self.base.store(base, Ordering::Relaxed);
        self.records.store(records, Ordering::Relaxed);
    }

    /// Writer: all records that start in the entry so far have this payload length. Stored before the
    /// publication of the first record it speaks of, and set to none before that of one that differs: a
    /// reader that sees a record also sees a hint at least as new.
    pub(crate) fn set_uniform(&self, payload_bytes: u32) {
        // Relaxed: published by `written` (RING_E1).
        self.uniform.store(payload_bytes, Ordering::Relaxed);
    }

    pub(crate) fn base(&self) -> u64 {
        // Relaxed: after the acquire load of `written` (RING_E1), or on the writer's own thread.
        self.base.load(Ordering::Relaxed)
    }

    pub(crate) fn records(&self) -> u64 {
        // Relaxed: as `base`.
        self.records.load(Ordering::Relaxed)
    }

    pub(crate) fn entry(&self) -> Entry {
        // Acquire: a private copy of a shared entry is written after the entry was published (RING_E5).
        let segment = SegmentName::from_bits(self.segment.load(sync!(RING_E5.read, Acquire)));
        // Relaxed: as `base`.
        let shape = self.shape.load(Ordering::Relaxed);
        Entry {
            kind: Kind::from_bits(shape >> 32),
            segment,
            from: shape as u16,
            first: First::from_bits((shape >> 16) as u16),
            aux: self.aux.load(Ordering::Relaxed),
        }
    }

    /// The segment's name and whether the ring holds it: what a release has to drop.
    pub(crate) fn held(&self) -> SegmentName {
        // Relaxed: a ring-held entry's word never changes after publication.
        let kind = Kind::from_bits(self.shape.load(Ordering::Relaxed) >> 32);
        if kind.is_held_by_ring() {
            SegmentName::from_bits(self.segment.load(Ordering::Relaxed))
        } else {
            SegmentName::NONE
        }
    }

    pub(crate) fn facts(&self, layout: RecordLayout, first: First) -> EntryFacts {
        // Relaxed: see `set_uniform`.
        EntryFacts { layout, first, uniform: self.uniform.load(Ordering::Relaxed) }
    }

    /// Writer: the entry's bytes now also lie, at the same offsets, in the private segment `copy`.
    pub(crate) fn replace_segment(&self, copy: SegmentName) {
        self.segment.store(copy.to_bits(), sync!(RING_E5.replace, Release));
    }
}
