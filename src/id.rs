//! The names of things: jobs, partitions, attempts, binds.
//!
//! All ids come from the engine and mean nothing to Pirn beyond equality, except the attempt, which grows.
#![forbid(unsafe_code)]

use std::fmt;

/// A job of the engine: everything of it ends together by `release_job`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct JobId(pub u128);

/// The output of one vertex of a job: one partition for each of its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct DataSetId(pub u128);

/// All output of one producer task, over all its attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct PartitionId {
    /// The job it belongs to.
    pub job: JobId,
    /// The data set it is a part of.
    pub data_set: DataSetId,
    /// Which of the data set's partitions; by custom the producer task's index.
    pub index: u32,
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}/{:x}/{}", self.job.0, self.data_set.0, self.index)
    }
}

/// The number of a deployment of a task. Every redeployment has a greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Attempt(pub u32);

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt {}", self.0)
    }
}

/// Tells two runs of one attempt apart: chosen at random by each run of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Incarnation(pub u64);

impl Incarnation {
    /// A random incarnation.
    ///
    /// # Errors
    /// The operating system's random source failed.
    pub fn random() -> std::io::Result<Self> {
        Ok(Self(getrandom::u64()?))
    }
}

/// What a consumer shows to bind: given out with the partition's descriptor. A wrong one is answered as if
/// the partition didn't exist.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BindSecret(u128);

impl BindSecret {
    /// The secret with these bits; the engine may derive them from whatever it trusts.
    #[must_use]
    pub const fn new(bits: u128) -> Self {
        Self(bits)
    }

    /// A random secret.
    ///
    /// # Errors
    /// The operating system's random source failed.
    pub fn random() -> std::io::Result<Self> {
        Ok(Self(u128::from(getrandom::u64()?) << 64 | u128::from(getrandom::u64()?)))
    }

    /// Its bits, to be shown to the worker that has the partition.
    pub(crate) const fn bits(self) -> u128 {
        self.0
    }

    /// Compares in a time that doesn't depend on where the two differ.
    pub(crate) fn matches(self, presented: Self) -> bool {
        // One 128-bit difference, compared as a whole: no early exit by byte.
        std::hint::black_box(self.0 ^ presented.0) == 0
    }
}

impl fmt::Debug for BindSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BindSecret(..)")
    }
}

/// Tells the workers of a cluster apart: chosen at random by each start of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub u64);

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {:016x}", self.0)
    }
}

/// Where a worker is reached, and which of its network threads or reactors has what is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RemoteAddress {
    /// The worker's data port.
    pub socket: std::net::SocketAddr,
    /// Which network thread or reactor of that worker, counted from 0.
    pub endpoint: u16,
}

impl fmt::Display for RemoteAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.socket, self.endpoint)
    }
}

/// Counts the binds (and outages) of one subpartition; compared by equality only. 0 means never bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct BindEpoch(pub u32);

impl BindEpoch {
    /// No bind has happened.
    pub const NEVER: Self = Self(0);

    /// The epoch after this one; never [`BindEpoch::NEVER`].
    pub(crate) const fn next(self) -> Self {
        match self.0.wrapping_add(1) {
            0 => Self(1),
            epoch => Self(epoch),
        }
    }
}

impl fmt::Display for BindEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {}", self.0)
    }
}
