//! Which barriers the channels are at, so that a task that aligns them is told of those that won't come.
//!
//! A task that has had a barrier from one channel may wait for it from the others. A barrier is lost where the
//! consumer was absent, or went with the producer or with the reader that had it; the wait would be for ever.
//! So every pair of a barrier and a channel that can't be counted on for it is told, once: by what the channel
//! yields, by what its bind says, or by its outage. Nothing here holds up anything; what to make of it is the
//! task's.
//!
//! Barriers of a channel come with growing ids. That they are the same over channels is all that is known
//! of them.

use std::collections::VecDeque;

/// Barriers that are watched at a time; beyond, the oldest is forgotten. Who aligns has one or a few.
const OPEN_MAX: usize = 64;

/// Whether a channel may bring a barrier that it has not brought yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is bound, or about to be.
    Awaited,
    /// It is unavailable.
    Away,
    /// It has ended: nobody waits for it.
    Ended,
}

/// A barrier that another channel has yielded, and that `channel` can't be counted on for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) barrier: u64,
    pub(super) channel: u32,
}

/// A barrier that some channels have yielded and so many have not.
#[derive(Debug)]
struct Open {
    id: u64,
    missing: usize,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Alignment {
    /// Of each channel: no barrier up to this id is awaited of it.
    passed: Vec<Option<u64>>,
    /// By growing id.
    open: VecDeque<Open>,
    /// The newest barrier that was given up for want of room.
    forgotten: Option<u64>,
    notices: VecDeque<Broken>,
}

impl Alignment {
    pub(super) fn new(channels: usize) -> Self {
        Self {
            passed: vec![None; channels],
            open: VecDeque::new(),
            forgotten: None,
            notices: VecDeque::new(),
        }
    }

    /// What is to be told next.
    pub(super) fn next_notice(&mut self) -> Option<Broken> {
        self.notices.pop_front()
    }

    pub(super) fn has_notice(&self) -> bool {
        !self.notices.is_empty()
    }

    /// The channel has yielded a barrier.
    pub(super) fn yielded(&mut self, channel: usize, id: u64, standing: impl Fn(usize) -> Standing) {
        if self.passed[channel] >= Some(id) {
            return;
        }
        if let Some(before) = id.checked_sub(1) {
            self.pass(channel, before, true);
        }
        if self.forgotten < Some(id) && !self.open.iter().any(|open| open.id == id) {
            self.open(channel, id, standing);
        }
        self.pass(channel, id, false);
    }

    /// The first channel is at a barrier.
    fn open(&mut self, first: usize, id: u64, standing: impl Fn(usize) -> Standing) {
        let missing = self.passed.iter().filter(|passed| **passed < Some(id)).count();
        let at = self.open.partition_point(|open| open.id < id);
        self.open.insert(at, Open { id, missing });
        for other in (0..self.passed.len()).filter(|other| *other != first) {
            match standing(other) {
                Standing::Away if self.passed[other] < Some(id) => self.pass(other, id, true),
                // It has brought a later one already.
                Standing::Away | Standing::Awaited if self.passed[other] >= Some(id) => {
                    self.notices.push_back(Broken { barrier: id, channel: other as u32 });
                }
                Standing::Away | Standing::Awaited | Standing::Ended => {}
            }
        }
        if self.open.len() > OPEN_MAX {
            self.forgotten = self.open.pop_front().map(|open| open.id);
        }
    }

    /// What the channel has not brought up to `id` it won't bring.
    pub(super) fn lost(&mut self, channel: usize, id: Option<u64>) {
        if let Some(id) = id {
            self.pass(channel, id, true);
        }
    }

    /// Whatever the channel has not brought so far may be lost.
    pub(super) fn away(&mut self, channel: usize) {
        if let Some(newest) = self.open.back().map(|open| open.id) {
            self.pass(channel, newest, true);
        }
    }

    pub(super) fn ended(&mut self, channel: usize) {
        self.pass(channel, u64::MAX, false);
    }

    /// Nobody has to wait for barriers up to `id` of the channel any more, whether they came or not (`broken`).
    fn pass(&mut self, channel: usize, id: u64, broken: bool) {
        let before = self.passed[channel];
        if before >= Some(id) {
            return;
        }
        self.passed[channel] = Some(id);
        for open in self.open.iter_mut().filter(|open| Some(open.id) > before && open.id <= id) {
            open.missing -= 1;
            if broken {
                self.notices.push_back(Broken { barrier: open.id, channel: channel as u32 });
            }
        }
        self.close();
    }

    /// Who is at a barrier is behind all before it: they complete in order.
    fn close(&mut self) {
        while let Some(open) = self.open.front()
            && open.missing == 0
        {
            self.open.pop_front();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
