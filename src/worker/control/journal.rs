//! What was refused, counted by rule, and told once a second at most.
//!
//! Whoever can reach the port can make it refuse things as fast as he likes. Each refusal is counted; of each rule
//! one line a second is logged, with the number of those that were left out since the line before.

use crate::clock::Moment;
use crate::metrics::cold_event;
use crate::sync::{Mutex, lock};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

const LINE_EVERY: Duration = Duration::from_secs(1);

/// Counters by rule. The rules are literals of the source, so that there are few.
#[derive(Debug, Default)]
pub(super) struct Journal(Mutex<BTreeMap<&'static str, Tally>>);

#[derive(Clone, Debug, Default)]
struct Tally {
    count: u64,
    #[cfg(test)]
    lines: u64,
    silent_until: Option<Moment>,
    left_out: u64,
    #[cfg(test)]
    said: String,
}

impl Journal {
    /// Counts a refusal, and logs it unless a line of the same rule was logged less than a second ago.
    pub(super) fn note(&self, now: Moment, rule: &'static str, peer: &dyn Display, text: &dyn Display) {
        let mut rules = lock(&self.0);
        let tally = rules.entry(rule).or_default();
        tally.count += 1;
        if tally.silent_until.is_some_and(|until| now < until) {
            tally.left_out += 1;
            return;
        }
        let left_out = std::mem::take(&mut tally.left_out);
        tally.silent_until = Some(now.plus(LINE_EVERY));
        #[cfg(test)]
        {
            tally.lines += 1;
            tally.said = text.to_string();
        }
        drop(rules);
        cold_event!(warn, rule = rule, peer = %peer, left_out = left_out, reason = %text, "refused");
    }

    /// How often each rule was applied.
    pub(super) fn counts(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.0).iter().map(|(rule, tally)| (*rule, tally.count)).collect()
    }

    /// How many lines were logged.
    #[cfg(test)]
    pub(super) fn lines(&self, rule: &str) -> u64 {
        lock(&self.0).get(rule).map_or(0, |tally| tally.lines)
    }

    /// What the last line said.
    #[cfg(test)]
    pub(super) fn last(&self, rule: &str) -> Option<String> {
        lock(&self.0).get(rule).map(|tally| tally.said.clone())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_of_each_rule_and_every_refusal_counted() {
        let journal = Journal::default();
        for at in 0..3_000 {
            journal.note(Moment::from_nanos(at * 1_000_000), "often", &"peer", &"text");
        }
        journal.note(Moment::from_nanos(2_999_000_000), "seldom", &"peer", &"text");
        assert_eq!(journal.counts(), BTreeMap::from([("often", 3_000), ("seldom", 1)]));
        assert_eq!((journal.lines("often"), journal.lines("seldom")), (3, 1));
    }
}
