//! What a reader of a subpartition answers with, local or remote.

use super::position::Amount;
use crate::event::PriorityEvent;
use crate::record::{Refused, Steps};
use bytes::Bytes;

/// What comes next of a subpartition.
#[derive(Debug)]
pub(crate) enum Next {
    /// A record: the reader's `current` lends it. Not by borrow here, since whoever goes on asking until a record
    /// comes could not keep that borrow.
    Record,
    Barrier(u64),
    Watermark(i64),
    Application(Bytes),
    Priority(PriorityEvent),
    /// So much was dropped by the writer since the bind, in all, counted from the writer's begin.
    Loss(Amount),
    EndOfData,
    /// `news`: the first time that this is acknowledged.
    EndOfPartition {
        news: bool,
    },
    Failed,
    Empty,
    /// Nothing more comes: another view reads now, or the producer's worker or the way to it is gone.
    Fenced,
    Refused(Refused),
}

/// How far a reader has come: what its `acknowledge` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) amount: Amount,
    /// Bytes of `amount` that are of records broken off.
    pub(crate) aborted: u64,
    /// Entries without stream bytes: with the bytes they make later marks greater.
    pub(crate) events: u64,
    /// In the ring; of no meaning, and always 0, where the ring is another worker's.
    pub(crate) entry: u16,
}

impl Mark {
    /// Whether this is a later place of the same bind than `other`.
    pub(crate) fn is_after(self, other: Self) -> bool {
        let (bytes, other_bytes) = (self.amount.bytes, other.amount.bytes);
        if (bytes, self.events) == (other_bytes, other.events) {
            // No record and no event lies between them: they are at most a few passed pieces apart.
            return self.entry.wrapping_sub(other.entry) as i16 > 0;
        }
        bytes >= other_bytes && self.events >= other.events
    }
}

/// Records that lie whole in a row, as a reader steps over them.
#[derive(Debug)]
pub(crate) struct Stretch<'r> {
    /// How far the reader was.
    before: Mark,
    /// Stream bytes in the ranges before this one.
    passed: u64,
    /// The entry that the range belongs to.
    entry: u16,
    steps: Steps<'r>,
}

impl<'r> Stretch<'r> {
    /// `steps` have counted nothing yet.
    #[inline]
    pub(crate) fn new(before: Mark, passed: u64, entry: u16, steps: Steps<'r>) -> Self {
        Self { before, passed, entry, steps }
    }

    /// The next record.
    #[inline]
    pub(crate) fn step(&mut self) -> Option<&'r [u8]> {
        self.steps.next()
    }

    /// How far the reader is.
    pub(crate) fn mark(&self) -> Mark {
        let run = self.steps.run();
        let Some(stepped) = run.stepped() else { return self.before };
        let records = self.before.amount.records + u64::from(stepped.records);
        let amount = Amount::new(records, self.passed + run.at() as u64);
        Mark { amount, entry: self.entry, ..self.before }
    }
}

/// What became of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acked {
    /// It was acknowledged before, or was never yielded.
    Ignored,
    /// `end`: this was the end of the partition, for the first time.
    Done { end: bool },
}
