//! One subpartition as its writer sees it, with what it waits for there.

use crate::clock::{Clock, Moment};
use crate::subpartition::{Append, Blocked, Phase, WhenFull, WriteHalf};

/// How a full subpartition under `when_full: Discard` stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Full {
    No,
    /// A write waits there since then.
    Since(Moment),
    /// A write has waited in vain: the next ones don't, until one succeeds.
    Dropping,
}

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) half: WriteHalf,
    /// What the last append missed, if it was blocked.
    pub(super) blocked: Option<Blocked>,
    full: Full,
    /// It is in the writer's list of those to be told.
    unrung: bool,
}

/// What to do about an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Done,
    Dropped,
    Closed,
    /// Wait, at most until then; afterwards the record is given up.
    Wait(Option<Moment>),
    /// The record has found no room for too long: it is to be dropped.
    GiveUp,
}

impl Lane {
    pub(super) fn new(half: WriteHalf) -> Self {
        Self { half, blocked: None, full: Full::No, unrung: false }
    }

    /// Whether something is published that nobody was told of, and the list of those to be told lacks it.
    #[inline]
    pub(super) fn is_unlisted(&self) -> bool {
        !self.unrung && self.half.is_dirty()
    }

    /// The same, and from now on it is on that list.
    pub(super) fn is_newly_dirty(&mut self) -> bool {
        self.half.is_dirty() && !std::mem::replace(&mut self.unrung, true)
    }

    pub(super) fn ring(&mut self) {
        self.unrung = false;
        if self.half.is_dirty() {
            self.half.ring();
        }
    }

    /// Judges an append of a record. `moved`: a part of it found room this time.
    pub(super) fn judge(&mut self, append: Append, moved: bool, clock: &dyn Clock) -> Verdict {
        match append {
            Append::Blocked(blocked) => {
                self.blocked = Some(blocked);
                self.judge_full(moved, clock)
            }
            Append::Done => {
                self.settle();
                Verdict::Done
            }
            Append::Dropped => {
                self.settle();
                Verdict::Dropped
            }
            Append::Closed => {
                self.settle();
                Verdict::Closed
            }
        }
    }

    /// Judges an append of an event, which is never dropped for a reader that is only slow.
    pub(super) fn judge_event(&mut self, append: Append) -> Verdict {
        let verdict = match append {
            Append::Blocked(blocked) => {
                self.blocked = Some(blocked);
                return Verdict::Wait(None);
            }
            Append::Done => Verdict::Done,
            Append::Dropped => Verdict::Dropped,
            Append::Closed => Verdict::Closed,
        };
        self.blocked = None;
        verdict
    }

    fn settle(&mut self) {
        self.blocked = None;
        self.full = Full::No;
    }

    fn judge_full(&mut self, moved: bool, clock: &dyn Clock) -> Verdict {
        let WhenFull::Discard { after } = self.half.subpartition().policies().when_full else {
            return Verdict::Wait(None);
        };
        // While nobody is bound, other policies rule.
        if !matches!(self.half.phase(), Phase::Bound | Phase::Suspended) {
            self.full = Full::No;
            return Verdict::Wait(None);
        }
        if after.is_zero() || self.full == Full::Dropping {
            self.full = Full::Dropping;
            return Verdict::GiveUp;
        }
        let now = clock.now();
        let since = match self.full {
            Full::Since(since) if !moved => since,
            _ => now,
        };
        let until = since.plus(after);
        if until <= now {
            self.full = Full::Dropping;
            return Verdict::GiveUp;
        }
        self.full = Full::Since(since);
        Verdict::Wait(Some(until))
    }
}
