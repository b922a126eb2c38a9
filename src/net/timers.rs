//! What a network thread has to look at again, and when.

use crate::clock::Moment;
use crate::id::RemoteAddress;
use crate::wire::StreamId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What is due. Connections are named with their generation: a timer of something that is gone means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A stream that is served was empty, and its writer relies on a look.
    Look { connection: usize, generation: u64, stream: StreamId },
    /// Acknowledgements of a connection.
    Acknowledge { connection: usize, generation: u64 },
    /// A peer that could not be reached.
    Redial(RemoteAddress),
    /// The end of a connection's patience for its last words.
    Part { connection: usize, generation: u64 },
    /// An end that waits for a connection, by the token of its channel.
    End(u32),
    /// The end of a shutdown's patience.
    Stop,
}

/// All timers of one network thread, the earliest first.
#[derive(Debug, Default)]
pub(super) struct Timers(BinaryHeap<Reverse<(Moment, Timer)>>);

impl Timers {
    pub(super) fn set(&mut self, at: Moment, timer: Timer) {
        self.0.push(Reverse((at, timer)));
    }

    /// The next timer that is due at `now`.
    pub(super) fn pop_due(&mut self, now: Moment) -> Option<Timer> {
        let Reverse((at, _)) = self.0.peek()?;
        if *at > now {
            return None;
        }
        self.0.pop().map(|Reverse((_, timer))| timer)
    }

    /// When the earliest is due.
    pub(super) fn next(&self) -> Option<Moment> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_never_too_early() {
        let mut timers = Timers::default();
        let at = Moment::from_nanos;
        timers.set(at(30), Timer::Stop);
        timers.set(at(10), Timer::Look { connection: 1, generation: 2, stream: StreamId(5) });
        timers.set(at(20), Timer::Acknowledge { connection: 3, generation: 4 });
        assert_eq!(timers.next(), Some(at(10)));
        assert_eq!(timers.pop_due(at(9)), None);
        assert_eq!(
            timers.pop_due(at(25)),
            Some(Timer::Look { connection: 1, generation: 2, stream: StreamId(5) })
        );
        assert_eq!(timers.pop_due(at(25)), Some(Timer::Acknowledge { connection: 3, generation: 4 }));
        assert_eq!(timers.pop_due(at(25)), None);
        assert_eq!(timers.pop_due(at(30)), Some(Timer::Stop));
        assert_eq!(timers.next(), None);
    }
}
