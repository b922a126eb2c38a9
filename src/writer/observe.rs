//! What a writer can tell: who it is, what consumers need, how things stand, why it waits.

use super::{Partitioner, RecordWriter};
use crate::error::WriteError;
use crate::id::{Attempt, PartitionId};
use crate::partition::{ChannelDescriptor, PartitionSnapshot};
use crate::subpartition::{Blocked, Phase, WhenAbsent};
use std::fmt;

impl RecordWriter {
    /// How many subpartitions there are.
    #[inline]
    #[must_use]
    pub fn subpartitions(&self) -> u32 {
        self.lanes.len() as u32
    }

    /// The partition.
    #[must_use]
    pub fn partition_id(&self) -> PartitionId {
        self.partition.id
    }

    /// The producer's attempt.
    #[must_use]
    pub fn attempt(&self) -> Attempt {
        self.partition.attempt
    }

    /// What the consumer of subpartition `target` needs to find and bind it. A bind with the descriptor of a
    /// subpartition that doesn't exist is refused.
    #[must_use]
    pub fn descriptor(&self, target: u32) -> ChannelDescriptor {
        self.partition.descriptor(target)
    }

    /// The descriptors of all subpartitions, in order.
    #[must_use]
    pub fn descriptors(&self) -> Vec<ChannelDescriptor> {
        (0..self.subpartitions()).map(|target| self.descriptor(target)).collect()
    }

    /// A picture of the partition: exact while this writer rests and no bind is under way.
    #[must_use]
    pub fn snapshot(&self) -> PartitionSnapshot {
        self.partition.snapshot()
    }

    /// The subpartition that `partitioner` chooses for a record, for use with any form of writing.
    ///
    /// # Errors
    /// [`WriteError::NoSuchSubpartition`] if it chose an index out of range.
    pub fn target_of(&self, partitioner: &mut impl Partitioner, record: &[u8]) -> Result<u32, WriteError> {
        let target = partitioner.target(record, self.subpartitions());
        self.exists(target).map(|()| target)
    }

    /// Why the last record or event for subpartition `target` found no room; `NotBlocked` if it did find room
    /// or there is no such subpartition.
    #[must_use]
    pub fn why_blocked(&self, target: u32) -> WriterBlocked {
        let Some(lane) = self.lanes.get(target as usize) else { return WriterBlocked::NotBlocked };
        let Some(blocked) = lane.blocked else { return WriterBlocked::NotBlocked };
        let sub = lane.half.subpartition();
        let (used, max) = sub.segments();
        let full = used >= max;
        match (blocked, sub.phase(), sub.policies().when_absent) {
            (Blocked::Priority, ..) => WriterBlocked::PriorityEvents,
            (Blocked::Slots, ..) => WriterBlocked::Entries,
            (Blocked::Memory, Phase::Unbound, _) if full => WriterBlocked::NotBoundYet { used, max },
            (Blocked::Memory, _, WhenAbsent::Replay { .. }) if full => {
                WriterBlocked::Acknowledge { used, max }
            }
            (Blocked::Memory, Phase::Unavailable, _) if full => WriterBlocked::Retained { used, max },
            (Blocked::Memory, ..) if full => WriterBlocked::Quota { used, max },
            (Blocked::Memory, ..) => WriterBlocked::Floating { used, max },
        }
    }
}

/// Why a write waits. Its `Display` says it in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriterBlocked {
    /// Nothing waits.
    NotBlocked,
    /// The bound reader has not read enough: the subpartition's quota of segments is used up.
    Quota {
        /// Segments in use.
        used: u32,
        /// Segments it may use.
        max: u32,
    },
    /// The subpartition may use more segments, but its siblings use all that are shared.
    Floating {
        /// Segments in use.
        used: u32,
        /// Segments it may use.
        max: u32,
    },
    /// Every entry of the ring is in use: many events, or many small pieces.
    Entries,
    /// No consumer has bound yet, and what may be kept for it is.
    NotBoundYet {
        /// Segments in use.
        used: u32,
        /// Segments it may use.
        max: u32,
    },
    /// The consumer is gone, and what may be retained for the next one is.
    Retained {
        /// Segments in use.
        used: u32,
        /// Segments it may use.
        max: u32,
    },
    /// Under `Replay`: what the consumer has not acknowledged fills the quota.
    Acknowledge {
        /// Segments in use.
        used: u32,
        /// Segments it may use.
        max: u32,
    },
    /// As many priority events wait as may wait.
    PriorityEvents,
}

impl fmt::Display for WriterBlocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBlocked => f.write_str("not blocked"),
            Self::Quota { used, max } => {
                write!(f, "waiting for the reader: no memory, {used} of {max} segments in use")
            }
            Self::Floating { used, max } => write!(
                f,
                "waiting for memory: {used} of {max} segments in use, and the floating share is used up by \
                 other subpartitions; raise `floating_segments`"
            ),
            Self::Entries => f.write_str("waiting for the reader: no ring entries left"),
            Self::NotBoundYet { used, max } => {
                write!(f, "waiting for a consumer to bind: {used} of {max} segments in use")
            }
            Self::Retained { used, max } => write!(
                f,
                "waiting for the next attempt of the consumer: {used} of {max} retained segments in use"
            ),
            Self::Acknowledge { used, max } => {
                write!(f, "waiting for acknowledge: {used} of {max} segments kept for a replay are in use")
            }
            Self::PriorityEvents => f.write_str("waiting for the reader: all priority events are in use"),
        }
    }
}
