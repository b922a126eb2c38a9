//! How many lines of a log other workers can make this one write.
//!
//! Whoever is connected can break rules, ask for what isn't there, and come and go, as fast as he likes; each time
//! would be a line. A few come at once, then one each interval; how many were left out is said with the next.

use crate::clock::Moment;
use std::time::Duration;

/// See the module's text. Time comes in from outside.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    /// The most that come at once.
    burst: u32,
    every: Duration,
    left: u32,
    /// Up to when `left` was counted on.
    counted: Moment,
    left_out: u64,
}

impl Lines {
    /// At most `burst` lines at once, and one more for each `every`, which isn't zero.
    pub(crate) const fn new(burst: u32, every: Duration) -> Self {
        Self { burst, every, left: burst, counted: Moment::from_nanos(0), left_out: 0 }
    }

    /// Of one connection: others have lines, too.
    pub(crate) const fn of_one() -> Self {
        Self::new(4, Duration::from_secs(1))
    }

    /// Of all that one thread or table has to do with.
    pub(crate) const fn of_all() -> Self {
        Self::new(64, Duration::from_millis(100))
    }

    /// Whether a line may be written at `now`: then how many were left out since the one before. Else it is counted
    /// as left out.
    pub(crate) fn admit(&mut self, now: Moment) -> Option<u64> {
        let more = now.since(self.counted).as_nanos() / self.every.as_nanos().max(1);
        if let Ok(more @ 1..) = u32::try_from(more) {
            self.left = self.left.saturating_add(more).min(self.burst);
            self.counted = self.counted.plus(self.every.saturating_mul(more));
        } else if more > 0 {
            (self.left, self.counted) = (self.burst, now);
        }
        let Some(left) = self.left.checked_sub(1) else {
            self.left_out += 1;
            return None;
        };
        if self.left == self.burst {
            // A full purse doesn't save up.
            self.counted = self.counted.max(now);
        }
        self.left = left;
        Some(self.take_left_out())
    }

    /// So many more were left out by somebody else, to be said here.
    pub(crate) fn add_left_out(&mut self, lines: u64) {
        self.left_out += lines;
    }

    /// How many were left out, to be said elsewhere.
    pub(crate) fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_few_come_at_once_and_then_one_each_interval_that_says_how_many_did_not() {
        let mut lines = Lines::new(3, Duration::from_millis(100));
        let mut said = Vec::new();
        for millis in 10_000..10_500 {
            said.extend(lines.admit(at(millis)).map(|left_out| (millis - 10_000, left_out)));
        }
        assert_eq!(said, [(0, 0), (1, 0), (2, 0), (100, 97), (200, 99), (300, 99), (400, 99)]);
        // After a pause there are as many as at the begin, and no more.
        let said: Vec<_> =
            (0..10).map(|millis| lines.admit(at(1 << 40).plus(at(millis).since(at(0))))).collect();
        assert_eq!(said.iter().flatten().collect::<Vec<_>>(), [&99, &0, &0]);
    }

    #[test]
    fn what_another_left_out_is_said_once() {
        let (mut one, mut all) = (Lines::new(1, Duration::from_secs(1)), Lines::of_all());
        assert_eq!((0..5).filter_map(|_| one.admit(at(5000))).count(), 1);
        all.add_left_out(one.take_left_out());
        assert_eq!((all.admit(at(5000)), all.admit(at(5000))), (Some(4), Some(0)));
        assert_eq!(one.admit(at(6000)), Some(0));
    }
}
