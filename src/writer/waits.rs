//! How a writer waits: one place to sleep for all its subpartitions, alarms, and threads that park.
//!
//! A wake-up is never lost: the writer looks, announces itself, and looks once more before it sleeps
//! (`sync::Waiter`). Whoever makes a look succeed notifies afterwards: readers that release, whoever frees a
//! segment, every transition of a subpartition, the partition's end.

use super::{Doing, RecordWriter};
use crate::clock::{Clock, Moment};
use crate::subpartition::Blocked;
use crate::sync::{Parker, Waiter};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// How long a thread sleeps for half of a quota at a time. It looks then, takes what is free, and if nothing is, the
/// first segment wakes it.
const PATIENCE: Duration = Duration::from_millis(2);

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
    /// Whether the thread may sleep until half of a full subpartition's quota is free; whether it does.
    may_be_patient: bool,
    is_patient: bool,
    /// The thread that blocked last: kept, so that blocking again allocates nothing.
    parker: Option<Arc<Parker>>,
}

impl Waits {
    pub(super) fn new(waiter: Arc<Waiter>, clock: Arc<dyn Clock>) -> Self {
        Self {
            waiter,
            clock,
            announced: false,
            deadline: None,
            alarm: None,
            may_be_patient: false,
            is_patient: false,
            parker: None,
        }
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

    /// An alarm at the deadline, or an earlier one that is still to ring: it finds nothing, and then the next is
    /// set. An alarm can't be taken back, and most waits end long before theirs: one for each would pile up.
    fn set_alarm(&mut self, waker: &Waker) {
        let Some(at) = self.deadline else { return };
        let now = self.clock.now();
        let is_set = |(set, whose): &(Moment, Waker)| {
            *set <= at && (*set > now || *set == at) && whose.will_wake(waker)
        };
        if !self.alarm.as_ref().is_some_and(is_set) {
            self.clock.wake_at(at, waker);
            self.alarm = Some((at, waker.clone()));
        }
    }

    /// The calling thread's parker: the same as long as it is the same thread.
    fn parker(&mut self) -> Arc<Parker> {
        match &self.parker {
            Some(parker) if parker.is_current() => parker.clone(),
            _ => self.parker.insert(Arc::new(Parker::current())).clone(),
        }
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
            self.waits.is_patient = self.await_room();
            self.waits.announce(cx.waker());
            self.waits.deadline = None;
            found = look(self);
        }
        if found.is_ready() {
            self.waits.retract();
            self.waits.deadline = None;
        } else {
            self.waits.set_alarm(cx.waker());
            // After the announcement: what they make room for wakes this task.
            self.tell_before_waiting();
        }
        found
    }

    /// Says what is worth waking this task for. True if that is half of a full subpartition's quota.
    fn await_room(&self) -> bool {
        if self.waits.may_be_patient
            && let Doing::Record { target, .. } = self.doing
            && let Some(lane) = self.lanes.get(target as usize)
            && lane.blocked == Some(Blocked::Memory)
            && lane.half.await_half()
        {
            return true;
        }
        // All are of one budget.
        if let Some(lane) = self.lanes.first() {
            lane.half.await_any();
        }
        false
    }

    /// Parks the thread until `poll` is ready.
    pub(super) fn park<R>(&mut self, mut poll: impl FnMut(&mut Self, &mut Context<'_>) -> Poll<R>) -> R {
        let parker = self.waits.parker();
        let mut cx = Context::from_waker(parker.waker());
        let mut patient = true;
        loop {
            if let Poll::Ready(ready) = self.poll_patiently(patient, |writer| poll(writer, &mut cx)) {
                return ready;
            }
            parker.park(self.waits.is_patient.then_some(PATIENCE));
            patient = !self.waits.is_patient;
        }
    }

    /// Parks the thread until `poll` is ready, or until `deadline`: then `None`.
    pub(super) fn block<R>(
        &mut self,
        deadline: Moment,
        mut poll: impl FnMut(&mut Self, &mut Context<'_>) -> Poll<R>,
    ) -> Option<R> {
        let parker = self.waits.parker();
        let mut cx = Context::from_waker(parker.waker());
        let mut patient = true;
        loop {
            if let Poll::Ready(ready) = self.poll_patiently(patient, |writer| poll(writer, &mut cx)) {
                return Some(ready);
            }
            let left = deadline.since(self.waits.clock.now());
            if left.is_zero() {
                self.waits.retract();
                return None;
            }
            // No alarm: it would outlive a wait that ends early.
            parker.park(Some(if self.waits.is_patient { left.min(PATIENCE) } else { left }));
            patient = !self.waits.is_patient;
        }
    }

    /// Polls for a thread that looks again by itself: it may be patient. Tasks of executors may not: an alarm for
    /// each wait would cost more than it spares.
    fn poll_patiently<R>(&mut self, patient: bool, poll: impl FnOnce(&mut Self) -> Poll<R>) -> Poll<R> {
        (self.waits.may_be_patient, self.waits.is_patient) = (patient, false);
        let polled = poll(self);
        self.waits.may_be_patient = false;
        polled
    }
}
