//! Counters of a worker, and events on cold paths, for those who operate one.
#![forbid(unsafe_code)]

mod lines;

pub(crate) use lines::Lines;

use crate::sync::{AtomicU64, Ordering};

/// An event on a cold path, for whoever subscribes; nothing without the feature `tracing`.
#[cfg(feature = "tracing")]
macro_rules! cold_event {
    ($level:ident, $($fields:tt)+) => { ::tracing::$level!($($fields)+) };
}
/// An event on a cold path; the feature `tracing` is off.
#[cfg(not(feature = "tracing"))]
macro_rules! cold_event {
    ($level:ident, $($fields:tt)+) => { $crate::metrics::unheard!($($fields)+) };
}
/// Uses the fields of an event that nobody hears, so that both builds name the same things.
#[cfg(not(feature = "tracing"))]
macro_rules! unheard {
    ($text:literal) => {{}};
    ($name:ident = % $value:expr, $($rest:tt)+) => {{ let _ = &$value; $crate::metrics::unheard!($($rest)+); }};
    ($name:ident = ? $value:expr, $($rest:tt)+) => {{ let _ = &$value; $crate::metrics::unheard!($($rest)+); }};
    ($name:ident = $value:expr, $($rest:tt)+) => {{ let _ = &$value; $crate::metrics::unheard!($($rest)+); }};
    (% $value:ident, $($rest:tt)+) => {{ let _ = &$value; $crate::metrics::unheard!($($rest)+); }};
    ($value:ident, $($rest:tt)+) => {{ let _ = &$value; $crate::metrics::unheard!($($rest)+); }};
}
pub(crate) use cold_event;
#[cfg(not(feature = "tracing"))]
pub(crate) use unheard;

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
