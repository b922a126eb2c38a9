//! How a writer waits: one place to sleep for all its subpartitions, alarms, and threads that park.
//!
//! A wake-up is never lost: the writer looks, announces itself, and looks once more before it sleeps
//! (`sync::Waiter`). Whoever makes a look succeed notifies afterwards: readers that release, whoever frees a
//! segment, every transition of a subpartition, the partition's end.

use super::RecordWriter;
use crate::clock::{Clock, Moment};
use crate::sync::{Waiter, thread};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

#[derive(Debug)]
pub(super) struct Waits {
    waiter: Arc<Waiter>,
    clock: Arc<dyn Clock>,
    /// The announcement stands, as far as this side knows.
    announced: bool,
    /// The earliest moment at which a look will succeed by itself.
    deadline: Option<Moment>,
    /// The last alarm that was set, and for whom: polls in between don't set it again.
    alarm: Option<(Moment, Waker)>,
    /// The waker of the thread that blocked last.
    parked: Option<(thread::ThreadId, Waker)>,
}

/// Wakes a thread that parks.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

impl Waits {
    pub(super) fn new(waiter: Arc<Waiter>, clock: Arc<dyn Clock>) -> Self {
        Self { waiter, clock, announced: false, deadline: None, alarm: None, parked: None }
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// A look fails now, and succeeds at `until` at the latest.
    pub(super) fn until(&mut self, until: Option<Moment>) {
        self.deadline = match (self.deadline, until) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }

    fn announce(&mut self, waker: &Waker) {
        self.waiter.announce(waker);
        self.announced = true;
    }

    pub(super) fn retract(&mut self) {
        if std::mem::replace(&mut self.announced, false) {
            self.waiter.retract();
        }
    }

    fn set_alarm(&mut self, waker: &Waker) {
        let Some(at) = self.deadline else { return };
        if self.alarm.as_ref().is_some_and(|(set, whose)| *set == at && whose.will_wake(waker)) {
            return;
        }
        self.clock.wake_at(at, waker);
        self.alarm = Some((at, waker.clone()));
    }

    /// A waker of this thread: the same as long as it is the same thread.
    fn parking_waker(&mut self) -> Waker {
        let thread = thread::current();
        if let Some((id, waker)) = &self.parked
            && *id == thread.id()
        {
            return waker.clone();
        }
        let id = thread.id();
        let waker = Waker::from(Arc::new(Unpark(thread)));
        self.parked = Some((id, waker.clone()));
        waker
    }
}

impl RecordWriter {
    /// Looks, and before it says `Pending` announces the task and looks again.
    pub(super) fn poll_look<R>(
        &mut self,
        cx: &mut Context<'_>,
        mut look: impl FnMut(&mut Self) -> Poll<R>,
    ) -> Poll<R> {
        let mut found = look(self);
        if found.is_pending() {
            self.waits.announce(cx.waker());
            self.waits.deadline = None;
            found = look(self);
        }
        if found.is_ready() {
            self.waits.retract();
            self.waits.deadline = None;
        } else {
            self.waits.set_alarm(cx.waker());
        }
        found
    }

    /// Parks the thread until `poll` is ready.
    pub(super) fn park<R>(&mut self, mut poll: impl FnMut(&mut Self, &mut Context<'_>) -> Poll<R>) -> R {
        let waker = self.waits.parking_waker();
        let mut cx = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(ready) = poll(self, &mut cx) {
                return ready;
            }
            thread::park();
        }
    }

    /// Parks the thread until `poll` is ready, or until `deadline`: then `None`.
    pub(super) fn block<R>(
        &mut self,
        deadline: Moment,
        mut poll: impl FnMut(&mut Self, &mut Context<'_>) -> Poll<R>,
    ) -> Option<R> {
        let waker = self.waits.parking_waker();
        let mut cx = Context::from_waker(&waker);
        let mut armed = false;
        loop {
            if let Poll::Ready(ready) = poll(self, &mut cx) {
                return Some(ready);
            }
            if self.waits.clock.now() >= deadline {
                self.waits.retract();
                return None;
            }
            if !std::mem::replace(&mut armed, true) {
                self.waits.clock.wake_at(deadline, &waker);
            }
            thread::park();
        }
    }
}
