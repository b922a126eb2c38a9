//! The time of a worker, and the alarms that its control thread rings.
//!
//! The control thread takes what is due by [`WorkerClock::ring`] and sleeps until the moment that it is told. It
//! has two forms: [`WorkerClock::start`] runs one that only sleeps, for a worker without a network; with one,
//! the loop of `control` sleeps in its poll instead. Either way an earlier alarm rouses the sleeper.

use crate::clock::{Clock, Moment, Monotonic};
use crate::sync::{Mutex, Parker, lock, wake};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the worker looks after things by itself.
pub(super) const TICK: Duration = Duration::from_secs(1);

/// Room for alarms from the start, so that setting one allocates nothing in the steady state.
pub(super) const ALARMS: usize = 1024;

/// The monotonic clock of a worker, with the alarms that its control thread rings.
#[derive(Debug)]
pub(super) struct WorkerClock {
    time: Monotonic,
    alarms: Mutex<Alarms>,
}

#[derive(Debug, Default)]
struct Alarms {
    /// Grows to the number of alarms at a time, and keeps its room.
    heap: BinaryHeap<Reverse<Alarm>>,
    next_number: u64,
    /// Ends the sleep of the control thread. None before it runs, and after the stop.
    sleeper: Option<Waker>,
    stopping: bool,
}

#[derive(Debug)]
struct Alarm {
    at: Moment,
    /// Makes the order total and first come, first served.
    number: u64,
    waker: Waker,
}

impl PartialEq for Alarm {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl Eq for Alarm {}
impl PartialOrd for Alarm {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Alarm {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl WorkerClock {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            time: Monotonic::start(),
            alarms: Mutex::new(Alarms { heap: BinaryHeap::with_capacity(ALARMS), ..Alarms::default() }),
        })
    }

    /// Starts a control thread without a network, which calls `look_after` about once a second.
    ///
    /// # Errors
    /// The operating system refused a thread.
    pub(super) fn start(
        self: &Arc<Self>,
        mut look_after: impl FnMut() + Send + 'static,
    ) -> std::io::Result<JoinHandle<()>> {
        let clock = self.clone();
        let builder = std::thread::Builder::new().name("pirn-control".into());
        builder.spawn(move || {
            let parker = Parker::current();
            // Whatever was set before is seen by the first look; from here on alarms rouse the thread.
            clock.rouse_by(parker.waker().clone());
            let mut next_tick = clock.now().plus(TICK);
            let mut due = Vec::with_capacity(ALARMS);
            while let Some(sleep) = clock.ring(next_tick, &mut due) {
                due.drain(..).for_each(wake);
                if clock.now() >= next_tick {
                    look_after();
                    next_tick = clock.now().plus(TICK);
                } else if !sleep.is_zero() {
                    parker.park(Some(sleep));
                }
            }
        })
    }

    /// From now on `sleeper` ends the control thread's sleep.
    pub(super) fn rouse_by(&self, sleeper: Waker) {
        let mut alarms = lock(&self.alarms);
        if !alarms.stopping {
            alarms.sleeper = Some(sleeper);
        }
    }

    /// Hands something over to the control thread and ends its sleep, or its next one. None when the worker stops,
    /// and then nothing was handed over: what is, is seen by the thread, at the latest at its end. `hand_over` runs
    /// under the lock of the alarms and only puts something into a queue.
    pub(super) fn rouse<T>(&self, hand_over: impl FnOnce() -> T) -> Option<T> {
        let alarms = lock(&self.alarms);
        if alarms.stopping {
            return None;
        }
        let handed_over = hand_over();
        let sleeper = alarms.sleeper.clone();
        drop(alarms);
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
        Some(handed_over)
    }

    pub(super) fn stop(&self) {
        let mut alarms = lock(&self.alarms);
        alarms.stopping = true;
        let sleeper = alarms.sleeper.take();
        let unrung = std::mem::take(&mut alarms.heap);
        drop(alarms);
        // Nobody rings them any more. Kept, the wakers would keep their tasks alive, and those this clock.
        for Reverse(alarm) in unrung {
            wake(alarm.waker);
        }
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
    }

    /// Takes the alarms that are due, and tells how long the thread may sleep then: until the next one, `until`,
    /// or not at all if something was due. None when the worker stops.
    pub(super) fn ring(&self, until: Moment, due: &mut Vec<Waker>) -> Option<Duration> {
        let mut alarms = lock(&self.alarms);
        if alarms.stopping {
            return None;
        }
        let now = self.now();
        while alarms.heap.peek().is_some_and(|Reverse(alarm)| alarm.at <= now) {
            due.extend(alarms.heap.pop().map(|Reverse(alarm)| alarm.waker));
        }
        let next = alarms.heap.peek().map_or(until, |Reverse(alarm)| alarm.at.min(until));
        drop(alarms);
        Some(if due.is_empty() { next.since(now) } else { Duration::ZERO })
    }
}

impl Clock for WorkerClock {
    fn now(&self) -> Moment {
        self.time.now()
    }

    fn wake_at(&self, at: Moment, waker: &Waker) {
        let waker = waker.clone();
        let mut alarms = lock(&self.alarms);
        if alarms.stopping {
            return;
        }
        let earliest = alarms.heap.peek().is_none_or(|Reverse(alarm)| at < alarm.at);
        let number = alarms.next_number;
        alarms.next_number += 1;
        alarms.heap.push(Reverse(Alarm { at, number, waker }));
        let sleeper = alarms.sleeper.clone().filter(|_| earliest);
        drop(alarms);
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
    }
}
