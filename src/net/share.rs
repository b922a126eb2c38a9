//! What one other worker may hold of this one: data connections, and binds that wait for a partition.
//!
//! Both are tables that all workers share (descriptors, the list of waiting binds); none of them may fill one alone.
//! The control thread gives each data connection its seat, the network threads give back what ends.

use crate::sync::{AtomicU64, Ordering};
use std::sync::Arc;

/// The limits of each other worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShareLimits {
    pub(crate) connections: u64,
    pub(crate) binds_waiting: u64,
}

impl Default for ShareLimits {
    fn default() -> Self {
        Self { connections: 512, binds_waiting: 2500 }
    }
}

/// What one other worker holds, over all its connections to all endpoints.
#[derive(Debug)]
pub(crate) struct Share {
    limits: ShareLimits,
    connections: AtomicU64,
    binds_waiting: AtomicU64,
}

/// A data connection of a share.
#[derive(Debug)]
pub(crate) struct Seat {
    share: Arc<Share>,
    /// The other worker has made the connection. Those that this one makes are its own affair.
    is_counted: bool,
}

/// A bind of a share that waits.
#[derive(Debug)]
pub(crate) struct WaitingSeat(Arc<Share>);

/// One more, if there are less than `most`; else how many there are.
fn take(counter: &AtomicU64, most: u64) -> Result<(), u64> {
    // Relaxed: a bound on a number, which publishes nothing.
    let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
    counter.fetch_update(set, get, |held| (held < most).then_some(held + 1)).map(drop)
}

impl Share {
    pub(crate) fn new(limits: ShareLimits) -> Arc<Self> {
        Arc::new(Self { limits, connections: AtomicU64::new(0), binds_waiting: AtomicU64::new(0) })
    }

    /// A seat for a connection that the other worker has made.
    ///
    /// # Errors
    /// It has as many as it may have: how many.
    pub(crate) fn seat(self: &Arc<Self>) -> Result<Seat, u64> {
        take(&self.connections, self.limits.connections)?;
        Ok(Seat { share: self.clone(), is_counted: true })
    }

    /// A seat for a connection that this worker has made.
    pub(crate) fn own_seat(self: &Arc<Self>) -> Seat {
        Seat { share: self.clone(), is_counted: false }
    }

    /// How many connections the other worker has here.
    #[cfg(all(test, not(loom)))]
    pub(super) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed) // Relaxed: see `take`
    }

    /// How many connections the other worker has, if it may have no more.
    pub(crate) fn is_full(&self) -> Option<u64> {
        let held = self.connections.load(Ordering::Relaxed); // Relaxed: see `take`
        (held >= self.limits.connections).then_some(held)
    }
}

impl Seat {
    /// A seat for a bind that may have to wait.
    ///
    /// # Errors
    /// As many of this worker's binds wait as may: how many.
    pub(super) fn wait(&self) -> Result<WaitingSeat, u64> {
        take(&self.share.binds_waiting, self.share.limits.binds_waiting)?;
        Ok(WaitingSeat(self.share.clone()))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.is_counted {
            self.share.connections.fetch_sub(1, Ordering::Relaxed); // Relaxed: see `take`
        }
    }
}

impl Drop for WaitingSeat {
    fn drop(&mut self) {
        self.0.binds_waiting.fetch_sub(1, Ordering::Relaxed); // Relaxed: see `take`
    }
}
