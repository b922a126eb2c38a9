//! What the network thread learns of the reader, and when it is woken for it.

use super::{Ending, RemoteReader};
use crate::inbox::remote::{Consumed, Progress};
use crate::subpartition::{Acked, Mark};

/// What the network thread has been told.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) progress: Progress,
    /// `left` when it was rung last.
    pub(super) left: u64,
    /// Deliveries taken since it was rung last.
    pub(super) taken: usize,
    /// Something was published since it was rung last.
    pub(super) is_news: bool,
}

/// When the network thread is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ring {
    No,
    /// If it doesn't look by itself.
    IfQuiet,
    Now,
}

impl RemoteReader {
    /// The task may sleep before it asks this reader again, though something waits: the network thread learns how
    /// far it is, which the producer may be waiting for.
    pub(crate) fn report(&mut self) {
        self.tell(Ring::IfQuiet);
    }

    /// Publishes how far the task is, and wakes the network thread as `ring` says, if there is anything to tell.
    pub(super) fn tell(&mut self, ring: Ring) {
        self.fold();
        let Mark { amount, aborted, events: entries, .. } = self.consumed;
        let progress = Progress {
            left: self.left(),
            left_entries: self.mark.events,
            pinned: 0,
            consumed: Consumed { amount, entries, aborted },
            yielded: self.mark.amount,
            priority: self.priority,
        };
        if progress != self.told.progress {
            self.end.shared.progress.publish(progress);
            self.told.progress = progress;
            self.told.is_news = true;
        }
        if ring == Ring::No || (!self.told.is_news && self.told.taken == 0) {
            return;
        }
        // A network thread that isn't quiet looks by itself within a millisecond (the fence stands behind what was
        // published and popped: DOOR_F1).
        if ring == Ring::Now || self.end.shared.network_node.is_quiet_after_publish() {
            self.told.left = progress.left;
            self.told.taken = 0;
            self.told.is_news = false;
            self.end.shared.network_node.ring();
        }
    }

    /// Explicit mode: everything up to `mark` is consumed. Acknowledging is cumulative: an older mark that
    /// comes late takes nothing back.
    pub(crate) fn acknowledge(&mut self, mark: Mark) -> Acked {
        self.fold();
        if !mark.is_after(self.consumed) || mark.is_after(self.mark) {
            return Acked::Ignored;
        }
        self.consumed = mark;
        let end = matches!(self.ending, Some(Ending::Finished)) && mark == self.mark;
        // At once: the task may ask for nothing more until the producer goes on by this.
        self.tell(if end { Ring::Now } else { Ring::IfQuiet });
        Acked::Done { end }
    }
}
