//! Barriers as a task sees them that aligns: of each that one channel has brought, every other one brings it, has
//! ended, or is told as broken at once when it brings a later one or becomes unavailable, and once only.
//!
//! The producers here number their barriers each by itself, so that hardly one comes from all; and each attempt of a
//! producer begins anew, which real ones don't. Nothing is asked of the numbers that a later attempt brings.

use super::oracle::Verdict;
use std::collections::{BTreeMap, BTreeSet};

/// So many barriers are watched.
const WATCHED: usize = 64;

/// A run of a consumer task: task, attempt.
type Run = (usize, u32);

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Barriers(BTreeMap<Run, Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// Which channels have brought it.
    came: BTreeMap<u64, BTreeSet<usize>>,
    told: BTreeSet<(u64, usize)>,
    ended: BTreeSet<usize>,
    /// Which producer attempt a channel had first.
    first: BTreeMap<usize, u32>,
    /// Channels that have had another one since, and what they brought.
    anew: BTreeSet<usize>,
    odd: BTreeSet<u64>,
    owed: BTreeSet<(u64, usize)>,
}

impl Barriers {
    pub(super) fn available(&mut self, run: Run, channel: usize, producer: u32) {
        let seen = self.0.entry(run).or_default();
        if *seen.first.entry(channel).or_insert(producer) != producer {
            seen.anew.insert(channel);
        }
    }

    pub(super) fn came(&mut self, run: Run, channel: usize, id: u64) {
        let seen = self.0.entry(run).or_default();
        if seen.anew.contains(&channel) {
            seen.odd.insert(id);
        }
        // What is older than what the channel brought before is of another attempt of its producer.
        let is_older = seen.came.range(id..).any(|(_, channels)| channels.contains(&channel));
        if is_older || seen.told.range((id, 0)..).any(|(_, other)| *other == channel) {
            return;
        }
        seen.came.entry(id).or_default().insert(channel);
        seen.owe_before(channel, id);
    }

    pub(super) fn away(&mut self, run: Run, channel: usize) {
        self.0.entry(run).or_default().owe_before(channel, u64::MAX);
    }

    pub(super) fn ended(&mut self, run: Run, channel: usize) {
        self.0.entry(run).or_default().ended.insert(channel);
    }

    pub(super) fn told(&mut self, run: Run, channel: usize, id: u64) -> Verdict {
        let seen = self.0.entry(run).or_default();
        if seen.odd.contains(&id) {
            return Ok(());
        }
        let brought = seen.came.get(&id);
        if brought.is_none_or(|channels| channels.contains(&channel)) || seen.ended.contains(&channel) {
            return Err(format!("barrier {id} is no broken one of channel {channel}: {brought:?}"));
        }
        if !seen.told.insert((id, channel)) {
            return Err(format!("barrier {id} of channel {channel} is broken twice"));
        }
        seen.owed.remove(&(id, channel));
        Ok(())
    }

    /// Something else comes: everything was told that was to be told.
    pub(super) fn nothing_owed(&self, run: Run) -> Verdict {
        match self.0.get(&run).and_then(|seen| seen.owed.first()) {
            Some((id, channel)) => Err(format!("nobody says that barrier {id} of channel {channel} is lost")),
            None => Ok(()),
        }
    }
}

impl Seen {
    /// The channel won't bring what it has not brought before `id`.
    fn owe_before(&mut self, channel: usize, id: u64) {
        let Self { came, told, owed, odd, .. } = self;
        let newest = came.iter().rev().take(WATCHED).filter(|(other, _)| **other < id);
        for (other, channels) in newest {
            if !channels.contains(&channel) && !told.contains(&(*other, channel)) && !odd.contains(other) {
                owed.insert((*other, channel));
            }
        }
    }
}
