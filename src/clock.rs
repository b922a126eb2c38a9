//! Time as the library sees it: nanoseconds of a monotonic clock, handed in from outside.
#![forbid(unsafe_code)]

use std::fmt;
use std::task::Waker;
use std::time::{Duration, Instant};

/// A moment of the monotonic clock, in nanoseconds since a start of the clock's own choosing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(u64);

impl Moment {
    /// The moment so many nanoseconds after the clock's start.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's start.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The moment `after` this one; the end of time if that can't be told.
    #[must_use]
    pub fn plus(self, after: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long from `earlier` until this moment; zero if it is not later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Tells the time and wakes tasks at a time. A worker brings one that runs on a thread of its own; a
/// simulator brings virtual time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The moment now. Never goes back.
    fn now(&self) -> Moment;

    /// Wakes `waker` once at or soon after `at`. A wake-up too many is harmless.
    fn wake_at(&self, at: Moment, waker: &Waker);
}

/// The operating system's monotonic clock, counted from when this was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Monotonic(Instant);

impl Monotonic {
    #[allow(clippy::disallowed_methods, reason = "the one place where time is read")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(&self) -> Moment {
        // 2^64 nanoseconds are 584 years.
        Moment::from_nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}
