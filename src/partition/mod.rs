//! Result partitions: all output of one producer task attempt, found by id, bound by consumers, released once.
//!
//! `manager` has the registry: who is here, who waits for whom. This file has the partition itself.
//!
//! # Life of a partition
//! ```text
//!   create ──> here ──> finished ──> all ends acknowledged ──> released (Consumed)
//!               │
//!               ├─ fail / writer dropped: consumers read what is there, then learn of it
//!               └─ release, release_job, newer attempt: readers and the writer learn of it at once
//! ```
#![forbid(unsafe_code)]

mod admission;
mod config;
mod descriptor;
mod ended;
mod manager;
#[allow(dead_code, reason = "on its way to `net`")]
mod network;
mod snapshot;
mod waiting;

pub use config::{CreateError, PartitionConfig};
pub(crate) use descriptor::Home;
pub use descriptor::{ChannelDescriptor, DescriptorError, Location};
pub(crate) use ended::EndError;
pub(crate) use manager::{BindOutcome, BoundView, Manager, WaitLimits};
#[allow(unused_imports, reason = "on its way to `net`")]
pub(crate) use network::{GateLife, Network, OpenChannel, OpenError};
pub use snapshot::{PartitionSnapshot, SubpartitionSnapshot};
pub(crate) use waiting::{BindAnswer, Ticket};

use crate::error::Cause;
use crate::id::{Attempt, BindSecret, Incarnation, PartitionId};
use crate::memory::{Charge, SegmentCache, SegmentPool};
use crate::metrics::cold_event;
use crate::subpartition::{Subpartition, WriteHalf};
use crate::sync::{AtomicU32, Mutex, Ordering, Waiter, lock};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Weak};

/// One attempt's partition.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) id: PartitionId,
    pub(crate) attempt: Attempt,
    /// Tells this run of the attempt from others.
    pub(crate) incarnation: Incarnation,
    pub(crate) config: PartitionConfig,
    secret: BindSecret,
    /// Where other workers find it.
    location: Location,
    /// Of the attempt before: who shows it is out of date, not a stranger.
    former_secret: Mutex<Option<BindSecret>>,
    subpartitions: Box<[Arc<Subpartition>]>,
    /// Where the writer sleeps.
    waiter: Arc<Waiter>,
    /// Ends that consumers have not acknowledged yet.
    unacknowledged: AtomicU32,
    /// How the writer ended it, if it failed.
    failed: Mutex<Option<Cause>>,
    closed: Mutex<Option<Cause>>,
    manager: Weak<Manager>,
}

/// What the writer of a new partition works with.
#[derive(Debug)]
pub(crate) struct WriterParts {
    pub(crate) partition: Arc<Partition>,
    pub(crate) halves: Vec<WriteHalf>,
    pub(crate) cache: SegmentCache,
    /// The account of records that are written once for many subpartitions.
    pub(crate) broadcast: Arc<Charge>,
    pub(crate) pool: Arc<SegmentPool>,
}

impl Partition {
    /// Reserves the memory and makes the subpartitions.
    pub(crate) fn create(
        pool: &Arc<SegmentPool>,
        manager: Weak<Manager>,
        id: PartitionId,
        attempt: Attempt,
        config: PartitionConfig,
        secret: BindSecret,
        location: Location,
    ) -> Result<WriterParts, CreateError> {
        config.validate()?;
        let waiter = Arc::new(Waiter::new());
        let count = config.subpartition_count();
        let own = count.saturating_mul(config.guaranteed()).saturating_add(config.broadcast());
        let budget = pool.reserve(config.class(), own, config.floating(), waiter.clone())?;
        let subpartitions: Box<[_]> = (0..count)
            .map(|_| {
                let charge = budget.charge(config.guaranteed(), config.quota());
                Subpartition::new(
                    pool.clone(),
                    config.record_layout(),
                    config.entries(),
                    config.policy(),
                    charge,
                    waiter.clone(),
                )
            })
            .collect();
        let halves = subpartitions.iter().map(|sub| WriteHalf::new(sub.clone())).collect();
        let cache = SegmentCache::new(pool, &budget);
        let broadcast = budget.charge(config.broadcast(), config.broadcast());
        let partition = Arc::new(Self {
            id,
            attempt,
            // Random without an error to handle; equality is all that is asked of it.
            incarnation: Incarnation(RandomState::new().hash_one(attempt)),
            config,
            secret,
            location,
            former_secret: Mutex::new(None),
            subpartitions,
            waiter,
            unacknowledged: AtomicU32::new(count),
            failed: Mutex::new(None),
            closed: Mutex::new(None),
            manager,
        });
        Ok(WriterParts { partition, halves, cache, broadcast, pool: pool.clone() })
    }

    pub(crate) fn subpartition(&self, index: u32) -> Option<&Arc<Subpartition>> {
        self.subpartitions.get(index as usize)
    }

    pub(crate) fn waiter(&self) -> &Arc<Waiter> {
        &self.waiter
    }

    /// What a consumer of subpartition `index` needs to find and bind it.
    pub(crate) fn descriptor(&self, index: u32) -> ChannelDescriptor {
        ChannelDescriptor {
            partition: self.id,
            producer_attempt: self.attempt,
            subpartition: index,
            location: self.location.clone(),
            secret: self.secret,
            layout: self.config.record_layout(),
        }
    }

    /// Whether `presented` is this attempt's secret, or one of the attempt before.
    pub(super) fn knows(&self, presented: BindSecret) -> bool {
        let former = *lock(&self.former_secret);
        self.secret.matches(presented) | former.is_some_and(|former| former.matches(presented))
    }

    /// Why the partition is closed, if it is.
    pub(crate) fn closed(&self) -> Option<Cause> {
        lock(&self.closed).clone()
    }

    /// Why the producer failed, if it did: the reason behind a `Failed` entry.
    pub(crate) fn failure(&self) -> Option<Cause> {
        lock(&self.failed).clone()
    }

    /// A writer whose partition was closed under it has no cause of its own: some of its subpartitions may not
    /// have heard of it yet.
    pub(crate) fn set_failure(&self, cause: Cause) {
        let cause = self.closed().unwrap_or(cause);
        lock(&self.failed).get_or_insert(cause);
    }

    /// One more consumer has acknowledged the end of its subpartition. The last one releases the partition.
    pub(crate) fn acknowledge_end(&self) {
        // Relaxed: the release below takes locks of its own.
        if self.unacknowledged.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.release(Cause::Consumed);
        }
    }

    pub(crate) fn is_fully_acknowledged(&self) -> bool {
        self.unacknowledged.load(Ordering::Relaxed) == 0 // Relaxed: the waiter's fence orders it for sleepers
    }

    /// Ends the partition: takes it out of the registry, drops what is queued, wakes everybody.
    pub(crate) fn release(&self, cause: Cause) {
        if let Some(manager) = self.manager.upgrade() {
            manager.forget(self, &cause);
        }
        self.close(&cause);
    }

    pub(super) fn close(&self, cause: &Cause) {
        let mut closed = lock(&self.closed);
        if closed.is_some() {
            return;
        }
        *closed = Some(cause.clone());
        drop(closed);
        cold_event!(info, partition = %self.id, attempt = %self.attempt, %cause, "partition closed");
        for sub in &self.subpartitions {
            sub.release(cause);
        }
        self.waiter.notify();
    }

    pub(crate) fn snapshot(&self) -> PartitionSnapshot {
        PartitionSnapshot {
            partition: self.id,
            attempt: self.attempt,
            subpartitions: self.subpartitions.iter().map(|sub| SubpartitionSnapshot::of(sub)).collect(),
        }
    }

    /// Looks for publications that nobody was told of. Returns how many there were; each is rung for.
    pub(crate) fn rescan(&self) -> u64 {
        self.subpartitions.iter().map(|sub| u64::from(sub.rescan())).sum()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
