//! Who of the other workers is alive: the decision alone, without I/O and without a clock.
//!
//! # Rules
//! - A peer is **Dead** when nothing was heard of it for `dead_after` while the observer itself was on time. It is
//!   found within one heartbeat interval after that.
//! - **A stalled observer accuses nobody.** An observer that looks later than half an interval after it should
//!   have was stalled (a stopped process, a paused machine, a thread without a core): it can't tell its own
//!   silence from the peer's, so every peer gets a fresh period from then on.
//! - The silence that a peer usually keeps is estimated (mean and deviation of the gaps), and moves **Suspect**
//!   alone: a report for who operates the cluster, without consequences. Death has one fixed bound, so that two
//!   workers with the same settings agree on it, whatever they have seen before.
//! - **The end of a control connection is not yet death**: a connection can be cut between two workers that are
//!   well. The worker that knows the other's address (it has dialled it, or the other said so when it connected)
//!   connects again at once, and what it finds there decides:
//!
//!   | found at the peer's address | verdict | why |
//!   |---|---|---|
//!   | the same worker | alive | the connection was cut, the worker wasn't |
//!   | another worker | dead at once | the process was replaced; the old one listens no more |
//!   | a refusal by the kernel | dead at once | connection ended *and* port closed: the process is gone |
//!   | no answer, any other error, a REJECT | again soon | the network or an overloaded peer: silence decides |
//!
//!   A refusal counts only behind the end of a connection: alone it never accuses a peer that is being heard.
//!   The worker that knows no address waits to be connected to again; silence decides there too.
//! - **Without a control connection there is no liveness.** A worker that has data connections alone, since its control
//!   connection never came or has ended, is silent from its first handshake, or from the last it was heard on a control
//!   connection: it is dead after `dead_after`, and its data connections end. Further data connections are no sign of
//!   life; the silence of a data connection alone is none of death.
//! - A GOODBYE is the peer's own word that it ends.

use crate::clock::Moment;
use std::time::Duration;

/// The settings of liveness, checked by [`Periods::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Periods {
    dead_after: Duration,
    interval: Duration,
}

/// How long an unanswered dial of a control connection waits for the next one, at the least.
const REDIAL: Duration = Duration::from_millis(20);

impl Periods {
    /// `None` unless two heartbeats fit into `dead_after`, and the interval is at least a millisecond.
    pub(super) fn new(dead_after: Duration, interval: Duration) -> Option<Self> {
        let fits = interval >= Duration::from_millis(1) && dead_after >= interval.checked_mul(2)?;
        fits.then_some(Self { dead_after, interval })
    }

    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    /// How long after a dial without a result the next one is made.
    pub(super) fn redial(&self) -> Duration {
        (self.interval / 4).max(REDIAL)
    }
}

/// The observer's own health.
#[derive(Debug)]
pub(super) struct Observer {
    periods: Periods,
    looked: Moment,
    /// Silence from before this moment doesn't count.
    fresh_since: Moment,
    stalls: u64,
}

/// How a peer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Alive,
    /// Silent for longer than it usually is.
    Suspect,
    Dead,
}

/// What is known of one peer's life.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pulse {
    heard: Moment,
    gap_mean: Duration,
    gap_deviation: Duration,
}

/// What a worker found at the address of a peer whose control connection had ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    SameWorker,
    AnotherWorker,
    Refused,
    Nothing,
}

/// What follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Alive,
    Dead,
    DialAgain { at: Moment },
}

impl Observer {
    pub(super) fn new(periods: Periods, now: Moment) -> Self {
        Self { periods, looked: now, fresh_since: now, stalls: 0 }
    }

    pub(super) fn periods(&self) -> Periods {
        self.periods
    }

    /// The observer looks around. To be called at every turn of its loop, at least once an interval, and before
    /// anybody is judged. True if it was stalled, and everybody has a fresh period.
    pub(super) fn look(&mut self, now: Moment) -> bool {
        let late = now.since(self.looked) > self.periods.interval + self.periods.interval / 2;
        self.looked = now;
        if late {
            self.fresh_since = now;
            self.stalls += 1;
        }
        late
    }

    /// When it looked last.
    pub(super) fn looked(&self) -> Moment {
        self.looked
    }

    /// How often this observer was stalled.
    pub(super) fn stalls(&self) -> u64 {
        self.stalls
    }

    /// How a peer stands at the moment of the last look.
    pub(super) fn judge(&self, pulse: &Pulse) -> Standing {
        let silent = self.looked.since(pulse.heard.max(self.fresh_since));
        if silent >= self.periods.dead_after {
            Standing::Dead
        } else if silent > self.suspect_after(pulse) {
            Standing::Suspect
        } else {
            Standing::Alive
        }
    }

    /// What to do about a peer whose control connection had ended, by what was found at its address.
    pub(super) fn found(&self, found: Found) -> Verdict {
        match found {
            Found::SameWorker => Verdict::Alive,
            Found::AnotherWorker | Found::Refused => Verdict::Dead,
            Found::Nothing => Verdict::DialAgain { at: self.looked.plus(self.periods.redial()) },
        }
    }

    fn suspect_after(&self, pulse: &Pulse) -> Duration {
        let least = self.periods.interval + self.periods.interval / 2;
        let most = (self.periods.dead_after / 4 * 3).max(least);
        (pulse.gap_mean + pulse.gap_deviation * 4).clamp(least, most)
    }
}

impl Pulse {
    /// A peer that was met just now.
    pub(super) fn new(now: Moment, periods: Periods) -> Self {
        Self { heard: now, gap_mean: periods.interval, gap_deviation: Duration::ZERO }
    }

    /// Something came from the peer: any frame counts, whichever side asked for it.
    pub(super) fn heard(&mut self, now: Moment) {
        let gap = now.since(self.heard);
        self.heard = self.heard.max(now);
        // The weights of TCP's round-trip estimator: an eighth of the newest gap, a quarter of its deviation.
        self.gap_deviation = (self.gap_deviation * 3 + gap.abs_diff(self.gap_mean)) / 4;
        self.gap_mean = (self.gap_mean * 7 + gap) / 8;
    }

    /// When the peer was last heard.
    pub(super) fn last(&self) -> Moment {
        self.heard
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
