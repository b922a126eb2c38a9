//! `perf wake`: what it costs to wake a sleeping thread, the least that any hand-over to a thread at rest takes.

use crate::common::{AnyError, clock};
use crate::latency::{Quantiles, histogram};
use crate::options::Wake;
use crate::report::{Report, Value};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::thread::futex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;

/// Nanoseconds between two wake-ups: long enough for the woken thread to sleep again.
const PERIOD: u64 = 100_000;

/// A way to sleep and to wake.
trait Bell: Sync {
    fn sleep(&self) -> Result<(), AnyError>;
    fn wake(&self) -> Result<(), AnyError>;
}

/// Rung is 1.
struct Futex(AtomicU32);

impl Bell for Futex {
    fn sleep(&self) -> Result<(), AnyError> {
        // Acquire: the time stands before the ring.
        while self.0.swap(0, Ordering::Acquire) == 0 {
            match futex::wait(&self.0, futex::Flags::PRIVATE, 0, None) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn wake(&self) -> Result<(), AnyError> {
        self.0.store(1, Ordering::Release);
        futex::wake(&self.0, futex::Flags::PRIVATE, 1)?;
        Ok(())
    }
}

struct Eventfd(OwnedFd);

impl Bell for Eventfd {
    fn sleep(&self) -> Result<(), AnyError> {
        rustix::io::retry_on_intr(|| rustix::io::read(&self.0, &mut [0; 8]))?;
        Ok(())
    }

    fn wake(&self) -> Result<(), AnyError> {
        rustix::io::write(&self.0, &1_u64.to_ne_bytes())?;
        Ok(())
    }
}

pub(crate) fn measure(options: &Wake) -> Result<Report, AnyError> {
    let futex = ring(&Futex(AtomicU32::new(0)), options)?;
    let eventfd = ring(&Eventfd(eventfd(0, EventfdFlags::CLOEXEC)?), options)?;
    let micros = |nanos: u64| Value::Number(nanos as f64 / 1e3, 2);
    Ok(Report {
        what: "wake",
        fields: vec![
            ("futex_p50_us", micros(futex.way.p50)),
            ("futex_p99_us", micros(futex.way.p99)),
            ("futex_call_us", micros(futex.call.p50)),
            ("eventfd_p50_us", micros(eventfd.way.p50)),
            ("eventfd_p99_us", micros(eventfd.way.p99)),
            ("eventfd_call_us", micros(eventfd.call.p50)),
            ("count", Value::Count(futex.way.count.min(eventfd.way.count))),
        ],
    })
}

/// From the begin of the waking call until the woken thread runs, and until the call is done.
struct Costs {
    way: Quantiles,
    call: Quantiles,
}

fn ring(bell: &impl Bell, options: &Wake) -> Result<Costs, AnyError> {
    let (rung_at, over) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let mut ways = histogram()?;
            loop {
                bell.sleep()?;
                let now = clock::now();
                // Relaxed: the bell orders it.
                if over.load(Ordering::Relaxed) {
                    return Ok::<_, AnyError>(ways);
                }
                ways.saturating_record(now.saturating_sub(rung_at.load(Ordering::Relaxed)).max(1));
            }
        });
        let calls = ring_for(bell, options, &rung_at);
        over.store(true, Ordering::Relaxed);
        bell.wake()?;
        let ways = sleeper.join().map_err(|_| "the thread to be woken panicked")??;
        Ok(Costs { way: Quantiles::from(&ways), call: calls? })
    })
}

/// Rings in a steady pace.
fn ring_for(bell: &impl Bell, options: &Wake, rung_at: &AtomicU64) -> Result<Quantiles, AnyError> {
    clock::exact_timers()?;
    let mut calls = histogram()?;
    let until = clock::now() + clock::span(options.seconds);
    let mut now = clock::now();
    while now < until {
        clock::sleep_until(now + PERIOD);
        now = clock::now();
        rung_at.store(now, Ordering::Relaxed); // Relaxed: the bell orders it
        bell.wake()?;
        calls.saturating_record((clock::now() - now).max(1));
    }
    Ok(Quantiles::from(&calls))
}
