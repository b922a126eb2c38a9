//! The control thread of a worker: keeps the time, wakes who asked for it, looks after things once a second.

use crate::clock::{Clock, Moment, Monotonic};
use crate::sync::{Mutex, lock, wake};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::task::Waker;
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

/// How often the worker looks after things by itself.
const TICK: Duration = Duration::from_secs(1);

/// Room for alarms from the start, so that setting one allocates nothing in the steady state.
const ALARMS: usize = 1024;

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
    thread: Option<Thread>,
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

    /// Starts the control thread, which calls `look_after` about once a second.
    ///
    /// # Errors
    /// The operating system refused a thread.
    pub(super) fn start(
        self: &Arc<Self>,
        mut look_after: impl FnMut() + Send + 'static,
    ) -> std::io::Result<JoinHandle<()>> {
        let clock = self.clone();
        let builder = std::thread::Builder::new().name("pirn-control".into());
        let handle = builder.spawn(move || {
            let mut next_tick = clock.now().plus(TICK);
            let mut due = Vec::with_capacity(ALARMS);
            while clock.wait_until(next_tick, &mut due) {
                due.drain(..).for_each(wake);
                if clock.now() >= next_tick {
                    look_after();
                    next_tick = clock.now().plus(TICK);
                }
            }
        })?;
        lock(&self.alarms).thread = Some(handle.thread().clone());
        // The thread may have looked before its name was known; from here on alarms reach it.
        handle.thread().unpark();
        Ok(handle)
    }

    pub(super) fn stop(&self) {
        let mut alarms = lock(&self.alarms);
        alarms.stopping = true;
        let thread = alarms.thread.clone();
        let unrung = std::mem::take(&mut alarms.heap);
        drop(alarms);
        // Nobody rings them any more. Kept, the wakers would keep their tasks alive, and those this clock.
        for Reverse(alarm) in unrung {
            wake(alarm.waker);
        }
        if let Some(thread) = thread {
            thread.unpark();
        }
    }

    /// Sleeps until an alarm is due or `until` has come. False when the worker stops.
    fn wait_until(&self, until: Moment, due: &mut Vec<Waker>) -> bool {
        let mut alarms = lock(&self.alarms);
        if alarms.stopping {
            return false;
        }
        let now = self.now();
        while alarms.heap.peek().is_some_and(|Reverse(alarm)| alarm.at <= now) {
            due.extend(alarms.heap.pop().map(|Reverse(alarm)| alarm.waker));
        }
        let next = alarms.heap.peek().map_or(until, |Reverse(alarm)| alarm.at.min(until));
        drop(alarms);
        if due.is_empty() && next > now {
            std::thread::park_timeout(next.since(now));
        }
        true
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
        let thread = alarms.thread.clone().filter(|_| earliest);
        drop(alarms);
        if let Some(thread) = thread {
            thread.unpark();
        }
    }
}
