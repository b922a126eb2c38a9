//! A picture of a worker.

use crate::memory::Census;
use crate::partition::PartitionSnapshot;

/// A picture of a worker.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkerSnapshot {
    /// The partitions that are here, by id.
    pub partitions: Vec<PartitionSnapshot>,
    /// Where the arena's segments are.
    pub census: Census,
    /// Binds that wait for a partition.
    pub binds_waiting: usize,
    /// Wake-ups that the once-a-second look found missing. Anything but 0 is a defect of this library.
    pub lost_wakeups: u64,
}
