//! How far the reader is, and how far it may go before other channels come.
//!
//! Records that lie whole are stepped over by a [`Run`](crate::record::Run), which counts nothing: what it passed is
//! added up here when somebody asks, and folded into the reader's own numbers before anything but a step changes
//! them.

use super::RemoteReader;
use crate::subpartition::Mark;

/// How much the channel may yield before others come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    pub(super) records: u32,
    /// Stream bytes since the bind before which records may begin.
    bytes_end: u64,
}

impl RemoteReader {
    /// How far the task has been given items.
    pub(crate) fn mark(&self) -> Mark {
        let mut mark = self.mark;
        if let Some(stepped) = self.run.stepped() {
            mark.amount.records += u64::from(stepped.records);
            mark.amount.bytes = self.passed + self.run.at() as u64;
        }
        mark
    }

    /// What the task is done with: all but what it was given last, or what it has acknowledged.
    pub(super) fn consumed_mark(&self) -> Mark {
        match self.run.stepped() {
            Some(stepped) if !self.explicit => {
                let Mark { mut amount, .. } = self.mark();
                amount.records -= 1;
                amount.bytes -= stepped.last_bytes;
                Mark { amount, ..self.mark }
            }
            _ => self.consumed,
        }
    }

    /// Counts what was stepped over.
    pub(super) fn fold(&mut self) {
        (self.mark, self.consumed) = (self.mark(), self.consumed_mark());
        self.turn.records = self.run.left();
        self.run.count();
    }

    /// The channel's turn begins: so many records and events, of which none begins behind so many stream bytes.
    pub(crate) fn begin_turn(&mut self, records: u32, bytes: u64) {
        self.fold();
        self.turn = Turn { records, bytes_end: self.mark.amount.bytes + bytes };
        self.run_on();
    }

    /// The channel's turn is over.
    pub(crate) fn end_turn(&mut self) {
        self.fold();
        self.turn = Turn::default();
        self.run_on();
    }

    /// Whether its turn goes on.
    pub(crate) fn has_turn(&self) -> bool {
        self.run.left() > 0 && self.mark().amount.bytes < self.turn.bytes_end
    }

    /// The records that lie whole at hand may be stepped over, as far as the turn goes. What was stepped over
    /// before is counted.
    pub(super) fn run_on(&mut self) {
        // A record that is held, half or lent, comes to its end first.
        let is_idle = self.assembler.is_idle();
        self.is_assembled &= !is_idle;
        let end = if is_idle { self.turn.bytes_end } else { 0 };
        let limit = usize::try_from(end.saturating_sub(self.passed)).unwrap_or(usize::MAX);
        let (at, longest) = (self.run.at(), self.assembler.record_bytes_max());
        self.run.begin(&self.facts, at, limit, self.turn.records, longest);
    }
}
