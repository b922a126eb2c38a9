//! Time that the simulation moves, and the alarms that it rings.

use crate::clock::{Clock, Moment};
use crate::sync::{Mutex, lock};
use std::collections::BTreeMap;
use std::task::Waker;

/// The clock of all workers.
#[derive(Debug, Default)]
pub(super) struct SimClock(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    now: Moment,
    number: u64,
    /// In the order of their moments, and of when they were set.
    alarms: BTreeMap<(Moment, u64), Waker>,
}

impl SimClock {
    /// Lets time go on to `at` and rings what is due.
    pub(super) fn advance_to(&self, at: Moment) {
        loop {
            let mut state = lock(&self.0);
            state.now = state.now.max(at);
            let now = state.now;
            match state.alarms.first_entry() {
                Some(first) if first.key().0 <= now => {
                    let waker = first.remove();
                    drop(state);
                    waker.wake();
                }
                _ => return,
            }
        }
    }

    /// When the next alarm rings.
    pub(super) fn next_alarm(&self) -> Option<Moment> {
        lock(&self.0).alarms.first_key_value().map(|((at, _), _)| *at)
    }
}

impl Clock for SimClock {
    fn now(&self) -> Moment {
        lock(&self.0).now
    }

    fn wake_at(&self, at: Moment, waker: &Waker) {
        let mut state = lock(&self.0);
        state.number += 1;
        let number = state.number;
        state.alarms.insert((at, number), waker.clone());
    }
}
