//! Counters of a worker, and events on cold paths, for those who operate one.
#![forbid(unsafe_code)]

use crate::sync::{AtomicU64, Ordering};

/// An event on a cold path, for whoever subscribes; nothing without the feature `tracing`.
#[cfg(feature = "tracing")]
macro_rules! cold_event {
    ($level:ident, $($fields:tt)+) => { ::tracing::$level!($($fields)+) };
}
/// An event on a cold path; the feature `tracing` is off.
#[cfg(not(feature = "tracing"))]
macro_rules! cold_event {
    ($level:ident, $($name:ident = $value:expr,)* $text:literal) => { $(let _ = &$value;)* };
}
pub(crate) use cold_event;

/// Counters of a worker.
#[derive(Debug, Default)]
pub(crate) struct WorkerCounts {
    lost_wakeups: AtomicU64,
}

impl WorkerCounts {
    pub(crate) fn add_lost_wakeups(&self, count: u64) {
        self.lost_wakeups.fetch_add(count, Ordering::Relaxed); // Relaxed: a statistic
    }

    pub(crate) fn lost_wakeups(&self) -> u64 {
        self.lost_wakeups.load(Ordering::Relaxed) // Relaxed: a statistic
    }
}
