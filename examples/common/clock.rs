//! The clocks of measurements. The monotonic one is the same in all processes of a machine, so that a time read in one
//! can be compared with a time read in another.

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::num::NonZeroU64;
use std::time::Duration;

const NANOS: u64 = 1_000_000_000;

/// Nanoseconds of the monotonic clock.
#[inline]
pub(crate) fn now() -> u64 {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// Processor time of this process, all its threads, user and system, in nanoseconds.
pub(crate) fn processor_time() -> u64 {
    nanos(clock_gettime(ClockId::ProcessCPUTime))
}

/// Sleeps until the monotonic clock is at `at` or beyond.
pub(crate) fn sleep_until(at: u64) {
    let request = Timespec { tv_sec: (at / NANOS) as i64, tv_nsec: (at % NANOS) as i64 };
    // An interrupted sleep is begun again; any other error would end the loop at once, and the clock tells.
    while now() < at && clock_nanosleep_absolute(ClockId::Monotonic, &request).is_err() {}
}

/// A stretch of time in nanoseconds.
pub(crate) fn span(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Timers of the calling thread fire as exactly as the kernel can: for senders that keep a pace.
pub(crate) fn exact_timers() -> rustix::io::Result<()> {
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))
}

fn nanos(time: Timespec) -> u64 {
    time.tv_sec as u64 * NANOS + time.tv_nsec as u64
}
