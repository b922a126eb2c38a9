//! Whose turn it is: the queues of channels that may have something, and the looks that a timer asks for.
//!
//! # Looks by themselves
//! Under `Flush::Interval(d)` the writer rings for the first publication after silence, and relies for those
//! that follow on a look within `d`. So a channel that is found empty after something was yielded is looked at
//! once more a little before `d` is over; only when that look finds nothing the node falls quiet, the ring is looked at a last
//! time, and from then on the writer rings again. One alarm of the clock serves all looks of a gate; at rest
//! there is none.

use super::channel::Channel;
use crate::clock::{Clock, Moment};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::task::Waker;
use std::time::Duration;

/// No channel.
pub(super) const NOBODY: usize = usize::MAX;

/// See the module's text. Holds each channel at most once in each of its parts.
#[derive(Debug)]
pub(super) struct Ready {
    run: VecDeque<u32>,
    urgent: VecDeque<u32>,
    looks: BinaryHeap<Reverse<(Moment, u32)>>,
    armed: Option<(Moment, Waker)>,
}

impl Ready {
    pub(super) fn new(channels: usize) -> Self {
        Self {
            run: VecDeque::with_capacity(channels),
            urgent: VecDeque::with_capacity(channels),
            looks: BinaryHeap::with_capacity(channels),
            armed: None,
        }
    }

    /// The channel may have something: it gets a turn.
    pub(super) fn queue(&mut self, index: usize, channel: &mut Channel) {
        if !std::mem::replace(&mut channel.is_queued, true) {
            self.run.push_back(index as u32);
        }
    }

    pub(super) fn next(&mut self) -> Option<usize> {
        self.run.pop_front().map(|index| index as usize)
    }

    /// The channel has a priority event: it is asked for it before anything else.
    pub(super) fn hurry(&mut self, index: usize, channel: &mut Channel) {
        if !std::mem::replace(&mut channel.is_urgent, true) {
            self.urgent.push_back(index as u32);
        }
    }

    pub(super) fn first_urgent(&self) -> Option<usize> {
        self.urgent.front().map(|index| *index as usize)
    }

    pub(super) fn drop_urgent(&mut self) {
        self.urgent.pop_front();
    }

    /// Asks for a look `after` from now on.
    pub(super) fn look_after(&mut self, clock: &dyn Clock, index: usize, after: Duration) {
        let now = clock.now();
        self.forget_alarm(now);
        self.looks.push(Reverse((now.plus(after), index as u32)));
    }

    /// Gives a turn to every channel whose look is due.
    pub(super) fn look_at_clock(&mut self, clock: &dyn Clock, channels: &mut [Channel]) {
        if self.looks.is_empty() {
            return;
        }
        let now = clock.now();
        self.forget_alarm(now);
        while let Some(Reverse((at, index))) = self.looks.peek().copied() {
            if at > now {
                return;
            }
            self.looks.pop();
            if let Some(channel) = channels.get_mut(index as usize) {
                channel.is_timed = false;
                self.queue(index as usize, channel);
            }
        }
    }

    /// Before sleep: whoever waits for `waker` is woken for the earliest look.
    pub(super) fn arm(&mut self, clock: &dyn Clock, waker: &Waker) {
        let Some(Reverse((at, _))) = self.looks.peek().copied() else { return };
        let is_armed = self.armed.as_ref().is_some_and(|(armed, by)| *armed <= at && by.will_wake(waker));
        if !is_armed {
            clock.wake_at(at, waker);
            self.armed = Some((at, waker.clone()));
        }
    }

    /// An alarm rings once.
    fn forget_alarm(&mut self, now: Moment) {
        if self.armed.as_ref().is_some_and(|(armed, _)| *armed <= now) {
            self.armed = None;
        }
    }
}
