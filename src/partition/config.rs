//! The settings of a partition, each with its cost in memory.

use crate::error::Cause;
use crate::id::{Attempt, BindSecret, PartitionId};
use crate::memory::{MemoryError, SegmentClass};
use crate::record::{RECORD_BYTES_LEAST, RecordLayout};
use crate::subpartition::{Policies, WhenAbsent};
use thiserror::Error;

/// The most slots that a ring may have.
const ENTRIES_MAX: u32 = 1 << 15;
/// Slots beside one a segment: events, and the reserve for the ends.
const ENTRIES_EXTRA: u32 = 16;

/// How a partition is laid out.
///
/// Memory: `subpartitions x guaranteed + floating + broadcast` segments of `segment_class` are reserved from
/// the worker's arena when the partition is created, or creation fails with the numbers. Beside the arena a
/// subpartition takes about 1 KiB and 48 bytes a ring entry, and about 6 KiB more while a remote consumer reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionConfig {
    subpartitions: u32,
    layout: RecordLayout,
    policies: Policies,
    record_bytes_max: usize,
    segment_class: SegmentClass,
    guaranteed: u32,
    floating: Option<u32>,
    quota: Option<u32>,
    broadcast: u32,
    secret: Option<BindSecret>,
}

/// The default quota, at most, where the thread that writes sends, too: two sends of 512 KiB.
const SENDING_TASK_QUOTA: u32 = 32;

impl PartitionConfig {
    /// A partition for `subpartitions` consumers, with defaults for everything else.
    #[must_use]
    pub fn new(subpartitions: u32) -> Self {
        Self {
            subpartitions,
            layout: RecordLayout::Lengths,
            policies: Policies::default(),
            record_bytes_max: 128 << 20,
            segment_class: SegmentClass::K32,
            guaranteed: 1,
            floating: None,
            quota: None,
            broadcast: 4,
            secret: None,
        }
    }

    /// How records lie in the stream. Default: with lengths.
    #[must_use]
    pub fn layout(mut self, layout: RecordLayout) -> Self {
        self.layout = layout;
        self
    }

    /// What happens when a consumer is absent or slow, and when it is told. Default: see [`Policies`].
    #[must_use]
    pub fn policies(mut self, policies: Policies) -> Self {
        self.policies = policies;
        self
    }

    /// The longest record, in bytes of payload; at least 32 KiB. Default: 128 MiB.
    #[must_use]
    pub fn record_bytes_max(mut self, bytes: usize) -> Self {
        self.record_bytes_max = bytes;
        self
    }

    /// The size of the segments. Default: 32 KiB; smaller ones for many subpartitions with little data.
    #[must_use]
    pub fn segment_class(mut self, class: SegmentClass) -> Self {
        self.segment_class = class;
        self
    }

    /// Segments that each subpartition has for itself; at least 1. Default: 1.
    #[must_use]
    pub fn guaranteed_segments(mut self, segments: u32) -> Self {
        self.guaranteed = segments;
        self
    }

    /// Segments that the subpartitions share beyond their own. Default: twice the number of subpartitions,
    /// at least 8 and at most 256: little memory, for many partitions. A busy partition is faster with as much as the
    /// quotas of a few subpartitions (see [`PartitionConfig::quota_segments`]): 128 for one, 512 for four or more.
    #[must_use]
    pub fn floating_segments(mut self, segments: u32) -> Self {
        self.floating = Some(segments);
        self
    }

    /// The most segments that one subpartition may fill while its consumer is bound. Default: 512 divided
    /// by the number of subpartitions, at least 8 and at most 128. For a remote consumer that is what waits to be sent
    /// and what is on its way: with less than some mebibytes a writer stands still while acknowledgements travel. On a
    /// thread with a [`Reactor`](crate::Reactor), which sends by itself, the default is at most 32.
    #[must_use]
    pub fn quota_segments(mut self, segments: u32) -> Self {
        self.quota = Some(segments);
        self
    }

    /// Segments for records that are broadcast and longer than 512 bytes. Default: 4. One is being filled, one
    /// is being read, and one more for each reader that stands still in the middle of another; with none to be
    /// had the record is copied into every subpartition instead, on its own account.
    #[must_use]
    pub fn broadcast_segments(mut self, segments: u32) -> Self {
        self.broadcast = segments;
        self
    }

    /// What consumers have to show. Default: a random one for every attempt, found in its descriptors.
    ///
    /// Give all attempts of a partition the same one if consumers may bind before the attempt is created, by a
    /// descriptor that the engine made itself, and if the descriptor of an older attempt is to be answered as out
    /// of date instead of as a stranger's.
    #[must_use]
    pub fn secret(mut self, secret: BindSecret) -> Self {
        self.secret = Some(secret);
        self
    }

    pub(crate) fn subpartition_count(&self) -> u32 {
        self.subpartitions
    }

    pub(crate) fn record_layout(&self) -> RecordLayout {
        self.layout
    }

    pub(crate) fn policy(&self) -> Policies {
        self.policies
    }

    pub(crate) fn record_limit(&self) -> usize {
        self.record_bytes_max
    }

    pub(crate) fn class(&self) -> SegmentClass {
        self.segment_class
    }

    pub(crate) fn guaranteed(&self) -> u32 {
        self.guaranteed
    }

    pub(crate) fn broadcast(&self) -> u32 {
        self.broadcast
    }

    pub(crate) fn given_secret(&self) -> Option<BindSecret> {
        self.secret
    }

    pub(crate) fn floating(&self) -> u32 {
        self.floating.unwrap_or_else(|| self.subpartitions.saturating_mul(2).clamp(8, 256))
    }

    pub(crate) fn quota(&self) -> u32 {
        self.quota.unwrap_or_else(|| (512 / self.subpartitions.max(1)).clamp(8, 128))
    }

    /// The thread that writes sends, too: it can't get far ahead of its socket, and what goes round stays in a
    /// core's cache if there is little of it.
    pub(crate) fn for_a_sending_task(mut self) -> Self {
        self.quota =
            Some(self.quota.unwrap_or_else(|| self.quota().min(SENDING_TASK_QUOTA).max(self.guaranteed)));
        self
    }

    /// Slots of each ring: one for each segment it may hold, and some for events.
    pub(crate) fn entries(&self) -> u16 {
        let absent = match self.policies.when_absent {
            WhenAbsent::Retain { quota, .. } | WhenAbsent::Replay { quota } => quota,
            WhenAbsent::Discard => 0,
        };
        let wanted = self.quota().max(absent).saturating_mul(2).saturating_add(ENTRIES_EXTRA);
        // At most 2^15 by the clamp.
        wanted.min(ENTRIES_MAX).next_power_of_two() as u16
    }

    pub(crate) fn validate(&self) -> Result<(), CreateError> {
        let refuse = |what: String| Err(CreateError::Config { what });
        if self.subpartitions == 0 {
            return refuse("no subpartitions; a partition has at least 1".into());
        }
        if self.guaranteed == 0 {
            return refuse(
                "`guaranteed_segments` is 0; a subpartition needs at least 1 to be written to".into(),
            );
        }
        if self.record_bytes_max < RECORD_BYTES_LEAST || u32::try_from(self.record_bytes_max).is_err() {
            return refuse(format!(
                "`record_bytes_max` is {}; it must be between {RECORD_BYTES_LEAST} and {}",
                self.record_bytes_max,
                u32::MAX
            ));
        }
        if self.quota() < self.guaranteed {
            return refuse(format!(
                "`quota_segments` is {}, less than the {} guaranteed; raise it",
                self.quota(),
                self.guaranteed
            ));
        }
        if let RecordLayout::Fixed(width) = self.layout
            && width.get() as usize > self.record_bytes_max
        {
            return refuse(format!(
                "records of {width} bytes are longer than `record_bytes_max`, {}",
                self.record_bytes_max
            ));
        }
        match self.policies.when_absent {
            WhenAbsent::Retain { quota: 0, .. } => {
                refuse("`Retain` with a quota of 0 keeps nothing; use `Discard`".into())
            }
            WhenAbsent::Replay { quota: 0 | 1 } => {
                refuse("`Replay` needs a quota of at least 2 segments".into())
            }
            WhenAbsent::Replay { .. } if self.guaranteed.saturating_add(self.floating()) < 2 => {
                refuse("`Replay` needs 2 segments: raise `guaranteed_segments` or `floating_segments`".into())
            }
            _ => Ok(()),
        }
    }
}

/// Why a partition can't be created.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The memory isn't there.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The same or a newer attempt of this partition is here already.
    #[error("partition {partition}: {presented} can't be created, {current} is here; use a newer attempt")]
    Stale {
        /// The partition.
        partition: PartitionId,
        /// The attempt that was to be created.
        presented: Attempt,
        /// The attempt that is here.
        current: Attempt,
    },
    /// A setting doesn't fit.
    #[error("partition configuration: {what}")]
    Config {
        /// What doesn't fit, and what would.
        what: String,
    },
    /// The job was released, or the worker is shutting down.
    #[error("partition {partition} can't be created: {cause}")]
    Closed {
        /// The partition.
        partition: PartitionId,
        /// Why nothing can be created any more.
        cause: Cause,
    },
}
