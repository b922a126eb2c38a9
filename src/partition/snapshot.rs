//! Pictures of partitions, for those who operate a worker: counters that are kept anyway.

use crate::id::{Attempt, BindEpoch, PartitionId};
use crate::subpartition::{Account, Phase, Subpartition};

/// A picture of one subpartition. Exact at quiet points, else a moment's view.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubpartitionSnapshot {
    /// Who reads it.
    pub phase: Phase,
    /// Counts binds and outages.
    pub epoch: BindEpoch,
    /// The newest consumer attempt that ever bound.
    pub consumer: Option<Attempt>,
    /// Segments charged to it.
    pub segments: u32,
    /// The most segments it may have now.
    pub segments_max: u32,
    /// What became of every record.
    pub account: Account,
}

impl SubpartitionSnapshot {
    pub(crate) fn of(sub: &Subpartition) -> Self {
        let (segments, segments_max) = sub.segments();
        Self {
            phase: sub.phase(),
            epoch: sub.epoch(),
            consumer: sub.newest(),
            segments,
            segments_max,
            account: sub.account(),
        }
    }
}

/// A picture of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionSnapshot {
    /// Which partition.
    pub partition: PartitionId,
    /// Which attempt of its producer.
    pub attempt: Attempt,
    /// Its subpartitions, in order.
    pub subpartitions: Vec<SubpartitionSnapshot>,
}
