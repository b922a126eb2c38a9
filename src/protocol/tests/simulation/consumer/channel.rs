//! What a channel stores of its stream, and what its task takes of that.

use super::super::producer::{Unit, unit};
use super::super::{Dice, Marks};
use super::{Channel, ChannelState};
use crate::protocol::{EVENT_BYTES_MAX, EVENTS_MAX, Incoming, Progress};
use crate::wire::*;

impl Channel {
    /// For what comes of a stream that is open. `None` behind its last word.
    pub(super) fn incoming(&mut self) -> Option<&mut Incoming> {
        match &mut self.state {
            ChannelState::Bound(incoming) => Some(incoming),
            ChannelState::Told(..) => None,
            other => panic!("the session has it open: {other:?}"),
        }
    }

    /// A bind starts anew.
    pub(super) fn start(&mut self, base: u64, priority_base: u64) {
        self.queue.clear();
        self.progress = Progress::default();
        self.urgent = 0;
        (self.next, self.next_priority) = (base, priority_base);
        self.unsaid = None;
    }

    /// What comes is what has to come, and the queue holds no more than was granted.
    pub(super) fn store(&mut self, index: usize, total: u64, units: impl Iterator<Item = Unit>, now: u64) {
        for came in units {
            assert_eq!(came, unit(index, self.next, total), "unit {} of {index}", self.next);
            self.next += 1;
            self.queue.push_back(came);
        }
        self.unsaid = self.unsaid.or(Some(now));
        let bytes = self.queue.iter().filter(|unit| matches!(unit, Unit::Byte(_))).count() as u64;
        let events = self.queue.len() as u64 - bytes;
        assert!(bytes <= self.window, "{bytes} bytes wait in a window of {}", self.window);
        assert!(events <= EVENTS_MAX, "{events} events wait");
        let application = |unit: &Unit| if let Unit::Application(bytes) = unit { *bytes } else { 0 };
        assert!(self.queue.iter().map(application).sum::<usize>() <= EVENT_BYTES_MAX);
    }

    /// The task takes some of what waits, and is done with it now or later.
    pub(super) fn take(&mut self, count: u64, dice: &mut Dice, marks: &mut Marks) {
        let before = self.progress.left;
        let mut checkpoint = false;
        for taken in self.queue.drain(..(count as usize).min(self.queue.len())) {
            match taken {
                Unit::Byte(_) => self.progress.left.bytes += 1,
                event => {
                    self.progress.left.entries += 1;
                    checkpoint |=
                        self.progress.left.entries.is_multiple_of(150) || event == Unit::EndOfPartition;
                }
            }
        }
        let left = self.progress.left;
        let consumed = match self.explicit {
            // What was taken before counts as consumed when more is asked for.
            false if self.queue.is_empty() => left,
            false => before,
            true if checkpoint => left,
            true => return,
        };
        if self.explicit && consumed.entries > 100 {
            marks.note("acknowledged late by the task");
        }
        self.progress.consumed = Consumed {
            records: consumed.bytes,
            bytes: consumed.bytes,
            entries: consumed.entries,
            aborted: 0,
        };
        self.progress.pinned = dice.below(self.window / 2 + 1);
        let priority = dice.below(u64::from(self.urgent) + 1) as u32;
        self.urgent -= priority;
        self.progress.priority = self.progress.priority.wrapping_add(priority);
    }
}
