//! What one producer attempt has written, entry by entry, and what became of each: the truth that everything else
//! is held to.

use super::oracle::Verdict;
use crate::partition::Partition;
use crate::record::RecordLayout;
use crate::subpartition::{Amount, WhenAbsent};
use std::sync::Arc;

/// The first bytes of a payload, which say what it is.
pub(super) const HEAD_BYTES: usize = 8;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// So many bytes of payload.
    Record(usize),
    Barrier,
    Watermark,
    Application(usize),
}

/// What has become of an entry in one subpartition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It isn't for this one, or was refused before its first byte.
    NotMine,
    /// Its writer isn't done with it.
    Open,
    Queued,
    /// Dropped by its writer, in this step of the simulation.
    Dropped(u64),
    /// An event that was given up, or something that met the end of its partition.
    Unknown,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) what: What,
    /// Many get it in one operation, one after the other.
    pub(super) is_shared: bool,
    pub(super) fates: Vec<Fate>,
    /// No older epoch reads it.
    pub(super) epochs: Vec<u32>,
    /// How often each subpartition's consumers were given it.
    pub(super) yielded: Vec<u32>,
}

/// What of a subpartition was given to whom.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// Given to the writer and not refused.
    pub(super) accepted: Amount,
    /// Of these, dropped by the writer.
    pub(super) dropped: u64,
    /// Told to consumers with binds, and since the newest of these, whose epoch it is: as lost, in doubt.
    pub(super) told_lost: u64,
    pub(super) told_since: u64,
    pub(super) newest: u32,
    pub(super) told_doubt: u64,
    /// Given to consumers: each once, and as often as it was.
    pub(super) distinct: Amount,
    pub(super) yields: Amount,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) producer: usize,
    pub(super) attempt: u32,
    layout: RecordLayout,
    /// While its worker is there.
    pub(super) partition: Option<Arc<Partition>>,
    pub(super) replays: bool,
    pub(super) entries: Vec<Entry>,
    pub(super) sums: Vec<Sums>,
    /// Priority events sent to each subpartition.
    pub(super) priorities: Vec<u64>,
    /// `finish` was called.
    pub(super) finishing: bool,
    /// `finish` was ready.
    pub(super) finished: bool,
    /// The partition was closed under its writer.
    pub(super) closed: bool,
    /// Whose consumers were given the end.
    pub(super) ends: Vec<bool>,
}

/// The payload of a record or of an application event.
pub(super) fn payload(producer: usize, attempt: u32, sequence: usize, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len.max(HEAD_BYTES));
    bytes.extend_from_slice(&(sequence as u32).to_le_bytes());
    bytes.extend_from_slice(&[producer as u8, attempt as u8, len as u8, (len >> 8) as u8]);
    let mut state = (sequence as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(attempt);
    while bytes.len() < len {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(producer as u64 | 1);
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Which entry a payload says it is.
pub(super) fn sequence_of(payload: &[u8]) -> Option<usize> {
    payload.first_chunk().map(|bytes| u32::from_le_bytes(*bytes) as usize)
}

impl Log {
    pub(super) fn new(producer: usize, partition: Arc<Partition>) -> Self {
        let subpartitions = partition.config.subpartition_count() as usize;
        Self {
            producer,
            attempt: partition.attempt.0,
            layout: partition.config.record_layout(),
            replays: matches!(partition.config.policy().when_absent, WhenAbsent::Replay { .. }),
            partition: Some(partition),
            entries: Vec::new(),
            sums: vec![Sums::default(); subpartitions],
            priorities: vec![0; subpartitions],
            finishing: false,
            finished: false,
            closed: false,
            ends: vec![false; subpartitions],
        }
    }

    /// A new entry for one subpartition, or all. Returns its number, and its payload if it has one.
    pub(super) fn begin(&mut self, what: What, target: Option<u32>) -> (usize, Vec<u8>) {
        let sequence = self.entries.len();
        let subpartitions = self.sums.len();
        let fate = |index: usize| match target {
            Some(target) if target as usize != index => Fate::NotMine,
            _ => Fate::Open,
        };
        self.entries.push(Entry {
            what,
            is_shared: target.is_none(),
            fates: (0..subpartitions).map(fate).collect(),
            epochs: self.epochs(),
            yielded: vec![0; subpartitions],
        });
        let bytes = match what {
            What::Record(len) | What::Application(len) => payload(self.producer, self.attempt, sequence, len),
            What::Barrier | What::Watermark => Vec::new(),
        };
        (sequence, bytes)
    }

    fn epochs(&self) -> Vec<u32> {
        let Some(partition) = &self.partition else { return vec![0; self.sums.len()] };
        partition.snapshot().subpartitions.iter().map(|sub| sub.epoch.0).collect()
    }

    /// Before a try to get on with an entry for one subpartition: its last byte is not published yet.
    pub(super) fn poll_one(&mut self, sequence: usize) {
        let epochs = self.epochs();
        if let Some(entry) = self.entries.get_mut(sequence).filter(|entry| !entry.is_shared) {
            entry.epochs = epochs;
        }
    }

    /// What the writer itself has dropped of each subpartition: records, and events.
    pub(super) fn dropped(&self) -> Vec<(u64, u64)> {
        let Some(partition) = &self.partition else { return vec![(0, 0); self.sums.len()] };
        let dropped = |account: &crate::subpartition::Account| {
            let lost = &account.lost;
            let records = lost.discarded.records + lost.overflowed.records + lost.aborted.records;
            let events = &account.dropped_events;
            (records, events.barriers + events.watermarks + events.application)
        };
        partition.snapshot().subpartitions.iter().map(|sub| dropped(&sub.account)).collect()
    }

    /// After a try: whatever grew in the writer's own accounts, which stood at `before`, was this entry.
    pub(super) fn polled(&mut self, sequence: usize, before: &[(u64, u64)], step: u64) -> Verdict {
        let now = self.dropped();
        let is_record = matches!(self.entries[sequence].what, What::Record(_));
        for (index, ((records, events), (old_records, old_events))) in now.iter().zip(before).enumerate() {
            let more = if is_record { records - old_records } else { events - old_events };
            match more {
                0 => continue,
                1 if self.entries[sequence].fates[index] == Fate::Open => {}
                _ => {
                    return Err(format!(
                        "{more} more dropped of subpartition {index} by entry {sequence}, which is {:?} there",
                        self.entries[sequence].fates[index]
                    ));
                }
            }
            self.entries[sequence].fates[index] = Fate::Dropped(step);
            self.accept(sequence, index);
            self.sums[index].dropped += u64::from(is_record);
        }
        Ok(())
    }

    /// The writer is done with the entry: what wasn't dropped of it has this fate.
    pub(super) fn settle(&mut self, sequence: usize, fate: Fate) {
        for index in 0..self.sums.len() {
            if self.entries[sequence].fates[index] == Fate::Open {
                self.entries[sequence].fates[index] = fate;
                if fate == Fate::Queued {
                    self.accept(sequence, index);
                }
            }
        }
    }

    /// How many have it queued, and how many dropped it.
    pub(super) fn reach(&self, sequence: usize) -> (u32, u32) {
        let fates = &self.entries[sequence].fates;
        let queued = fates.iter().filter(|fate| **fate == Fate::Queued).count();
        let dropped = fates.iter().filter(|fate| matches!(fate, Fate::Dropped(_))).count();
        (queued as u32, dropped as u32)
    }

    fn accept(&mut self, sequence: usize, index: usize) {
        if let Some(amount) = self.amount(sequence) {
            self.sums[index].accepted += amount;
        }
    }

    /// What a record adds to an account.
    pub(super) fn amount(&self, sequence: usize) -> Option<Amount> {
        match self.entries[sequence].what {
            What::Record(len) => Some(Amount::new(1, self.layout.encoded_bytes(len))),
            _ => None,
        }
    }

    /// The entries of a subpartition in `range` that are queued there.
    pub(super) fn first_queued(&self, index: usize, range: std::ops::Range<usize>) -> Option<usize> {
        range.into_iter().find(|at| self.entries[*at].fates[index] == Fate::Queued)
    }

    /// Records of a subpartition in `range` that the writer dropped: all, and those dropped later than `step`.
    pub(super) fn dropped_between(
        &self,
        index: usize,
        range: std::ops::Range<usize>,
        step: u64,
    ) -> (u64, u64) {
        let (mut all, mut later) = (0, 0);
        for entry in &self.entries[range] {
            if let (Fate::Dropped(at), What::Record(_)) = (entry.fates[index], entry.what) {
                all += 1;
                later += u64::from(at > step);
            }
        }
        (all, later)
    }
}
