//! What happens to records when their consumer is not there, or not taking.

use std::time::Duration;

/// Before a subpartition's first bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum BeforeFirstBind {
    /// Keep what is written up to the subpartition's quota; then writes wait.
    #[default]
    Wait,
    /// Drop whole records and count them.
    Discard,
}

/// While a consumer that was bound is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WhenAbsent {
    /// Drop what is queued and what comes, in whole records, and count it; the producer runs on.
    #[default]
    Discard,
    /// Keep what is queued and what comes, for the next attempt, up to `quota` segments. What the old attempt
    /// had taken out of the queue, at most one segment's records beside a half one, doesn't come again: it is
    /// told as [`unread`](super::Losses::unread) or in doubt. `Replay` brings it again.
    Retain {
        /// Segments of memory the absent consumer may hold; its siblings' memory is never touched.
        quota: u32,
        /// What happens when the quota is used up.
        then: WhenRetained,
    },
    /// As `Retain` with `Block`, and besides go back to what the old attempt had not consumed: every
    /// record arrives at least once.
    Replay {
        /// Segments of memory for what is not consumed yet, bound or not; no more than the subpartition's own and
        /// the floating ones. A record that fills more than all but one of them is refused.
        quota: u32,
    },
}

/// When a retained subpartition has used up its quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WhenRetained {
    /// Writes to this subpartition wait for the next bind.
    #[default]
    Block,
    /// The oldest entries are dropped and counted.
    DropOldest,
}

/// While a bound reader doesn't keep up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WhenFull {
    /// Writes wait: ordinary back-pressure.
    #[default]
    Block,
    /// Once a write has waited `after`, whole records are dropped and counted until there is room again.
    Discard {
        /// How long a write waits before it gives up; 0 drops at once.
        after: Duration,
    },
}

/// When the reader is told of what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flush {
    /// When a segment is full, at events, at `flush()`, and when the writer has to wait for room: best throughput, no
    /// promise for a lone record.
    WhenFull,
    /// After every record: best latency.
    EveryRecord,
    /// A lone record after silence at once, further ones within the interval.
    Interval(Duration),
}

impl Flush {
    /// How long after a look that found nothing the next one comes, where readers look by themselves: three quarters
    /// of the interval, so that what that look finds is delivered within the interval.
    pub(crate) fn look_after(self) -> Option<Duration> {
        match self {
            Self::Interval(interval) => Some(interval - interval / 4),
            Self::WhenFull | Self::EveryRecord => None,
        }
    }
}

impl Default for Flush {
    /// A millisecond: a lone record still goes out at once.
    fn default() -> Self {
        Self::Interval(Duration::from_millis(1))
    }
}

/// All policies of a subpartition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Policies {
    /// Before the first bind.
    pub before_first_bind: BeforeFirstBind,
    /// While the consumer is gone.
    pub when_absent: WhenAbsent,
    /// While the consumer doesn't keep up.
    pub when_full: WhenFull,
    /// When the reader is told.
    pub flush: Flush,
}
