//! Where are the processors? The time of a cache line's round trip between two of them, which on a virtual machine
//! changes within seconds and moves every figure with it.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fmt;
use std::hint::spin_loop;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const BLOCKS: u64 = 15;
const ROUNDS: u64 = 100;
/// At most so many nanoseconds a round trip: the two share a cache. Processors that share one were seen to take 30 to
/// 170, others 400 to 500, and none in between.
const NEAR_MOST: u64 = 250;
/// A round trip that isn't done by then says that the processors do something else.
const PATIENCE: Duration = Duration::from_millis(500);

/// A class of placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Placement {
    Near,
    Far,
    /// It was not the same before and after.
    Mixed,
    /// There is one processor, or threads may not choose theirs.
    Unknown,
}

impl Placement {
    /// Of now. Takes less than a millisecond on quiet processors.
    pub(crate) fn probe() -> Self {
        match round_trip() {
            Ok(Some(nanos)) => Self::of(nanos),
            Ok(None) | Err(_) => Self::Unknown,
        }
    }

    /// Of a launch, by what was found before and after it.
    pub(crate) fn between(before: Self, after: Self) -> Self {
        if before == after { before } else { Self::Mixed }
    }

    fn of(nanos: u64) -> Self {
        if nanos <= NEAR_MOST { Self::Near } else { Self::Far }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Near => "near",
            Self::Far => "far",
            Self::Mixed => "mixed",
            Self::Unknown => "unknown",
        })
    }
}

/// Nanoseconds of a round trip between the first two processors of this process, the best of some blocks.
fn round_trip() -> io::Result<Option<u64>> {
    let allowed = sched_getaffinity(None)?;
    let mut processors = (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor));
    let (Some(here), Some(there)) = (processors.next(), processors.next()) else { return Ok(None) };
    let (ping, pong, over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    // Both in threads that end with it: this thread keeps its processors, and its children get them.
    let (asked, answered) = thread::scope(|scope| {
        let answer = scope.spawn(|| {
            let pinned = pin(there);
            // Acquire, Release: as messages go; what they say is their value.
            for round in 1..=BLOCKS * ROUNDS {
                while pinned.is_ok() && ping.load(Ordering::Acquire) < round {
                    if over.load(Ordering::Relaxed) {
                        return pinned;
                    }
                    spin_loop();
                }
                pong.store(round, Ordering::Release);
            }
            pinned
        });
        let ask = scope.spawn(|| {
            let best = pin(here).map(|()| ask(&ping, &pong));
            over.store(true, Ordering::Relaxed); // Relaxed: no data goes with it
            best
        });
        (ask.join(), answer.join())
    });
    let panicked = || io::Error::other("a thread of the probe panicked");
    answered.map_err(|_| panicked())??;
    asked.map_err(|_| panicked())?
}

/// The best block, if one came to its end.
fn ask(ping: &AtomicU64, pong: &AtomicU64) -> Option<u64> {
    let begin = Instant::now();
    let mut best = None;
    for block in 0..BLOCKS {
        let start = Instant::now();
        for round in block * ROUNDS + 1..=(block + 1) * ROUNDS {
            ping.store(round, Ordering::Release);
            while pong.load(Ordering::Acquire) < round {
                spin_loop();
            }
        }
        let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX) / ROUNDS;
        best = Some(best.map_or(nanos, |best: u64| best.min(nanos)));
        if begin.elapsed() > PATIENCE {
            break;
        }
    }
    best
}

fn pin(processor: usize) -> io::Result<()> {
    let mut one = CpuSet::new();
    one.set(processor);
    Ok(sched_setaffinity(None, &one)?)
}

#[cfg(test)]
mod tests;
