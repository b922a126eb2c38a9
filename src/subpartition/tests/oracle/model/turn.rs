//! Turns from one reader to the next in the model: binds, outages, the release.

use super::read::Reader;
use super::{Fate, Model, Place};
use crate::id::Attempt;
use crate::subpartition::{Amount, Losses, Phase, Refusal, WhenAbsent};

/// What a bind tells its reader.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) lost: Losses,
    pub(crate) in_doubt: Amount,
    pub(crate) writer_lost: Amount,
    pub(crate) ended: bool,
}

impl Model {
    /// A new reader, with its number.
    pub(crate) fn bind(&mut self, attempt: u32, incarnation: u64, explicit: bool) -> Result<Told, Refusal> {
        if self.released_for_good {
            return Err(Refusal::Released);
        }
        if let Some((current, known)) = self.newest {
            let (presented, current) = (Attempt(attempt), Attempt(current));
            if presented < current {
                return Err(Refusal::Stale { presented, current });
            }
            if presented == current && known != incarnation {
                return Err(Refusal::DuplicateAttempt { attempt: current });
            }
        }
        let first = self.newest.is_none();
        let skip = self.sever(None) && !first;
        self.newest = Some((attempt, incarnation));
        self.phase = Phase::Bound;
        // The first reader finds everything: the stream that was begun before it came goes on.
        self.stream += u32::from(!first);
        self.limit = match self.setup.policies.when_absent {
            WhenAbsent::Replay { quota } => quota,
            _ => self.setup.quota,
        };
        self.readers.push(Reader::new(self.taken, skip, explicit));
        self.current = Some(self.readers.len() - 1);
        let account = self.account();
        let told = Told {
            lost: account.lost.since(&self.told.0),
            in_doubt: account.in_doubt.since(self.told.1),
            writer_lost: self.lost_by_writer(),
            ended: self.acknowledged,
        };
        self.told = (account.lost, account.in_doubt);
        Ok(told)
    }

    /// The reader is closed by its owner.
    pub(crate) fn close(&mut self, reader: usize) {
        self.pass(reader);
        if self.current == Some(reader) {
            let yielded = self.readers[reader].mark.place;
            self.unavailable(Some(yielded));
        }
    }

    /// The reader is gone without a word.
    pub(crate) fn outage(&mut self) {
        if self.current.is_some() {
            self.unavailable(None);
        }
    }

    fn unavailable(&mut self, yielded: Option<Place>) {
        self.sever(yielded);
        if let WhenAbsent::Retain { quota, .. } = self.setup.policies.when_absent {
            self.limit = quota;
        }
        self.phase = Phase::Unavailable;
        self.stream += 1;
    }

    pub(crate) fn release(&mut self) {
        if std::mem::replace(&mut self.released_for_good, true) {
            return;
        }
        self.sever(None);
        let (from, to) = (self.taken, self.written);
        self.settle_between(from, to, Fate::Drained);
        self.taken = to;
        self.release_until(to.0);
    }

    /// Ends whoever reads, and leaves `taken` where the next one begins. Tells whether that may be in the
    /// middle of a record. `yielded`: the reader closed in order, and had been given everything before.
    fn sever(&mut self, yielded: Option<Place>) -> bool {
        if self.newest.is_none() {
            return false;
        }
        let mut from = self.taken;
        let old = self.current.take();
        if let Some(old) = old {
            from = self.settle(old, yielded);
            self.dropped_events.priority += self.priority.len() as u64;
            self.priority.clear();
        }
        if !self.acknowledged {
            // Ends come again until one reader has consumed the last.
            from = self.first_end((self.released, 0), from).min(from);
        }
        let mut keep = from;
        if self.setup.policies.when_absent == WhenAbsent::Discard {
            keep = self.first_end(from, self.written);
            self.settle_between(from, keep, Fate::Drained);
        }
        let (at, skip) = self.align(keep);
        self.settle_between(keep, at, Fate::Skipped);
        self.taken = at;
        self.release_until(at.0);
        if let Some(old) = old {
            for segment in self.readers[old].held(&self.entries) {
                self.recharge(segment);
            }
        }
        skip
    }

    /// Closes the account of a reader; says where the next one begins.
    fn settle(&mut self, reader: usize, yielded: Option<Place>) -> Place {
        let replays = self.replays();
        for (entry, parts) in self.entries.iter_mut().map(|entry| &mut entry.parts).enumerate() {
            for (index, part) in parts.iter_mut().enumerate() {
                if part.fate == Fate::With(reader) {
                    let given = yielded.is_none_or(|yielded| (entry, index) < yielded);
                    part.given |= given && replays;
                    part.fate = match given {
                        _ if replays => Fate::Queued,
                        true => Fate::InDoubt,
                        false => Fate::Unread,
                    };
                }
            }
        }
        if !replays {
            return self.taken;
        }
        let (entry, index) = self.readers[reader].consumed.place;
        if entry < self.written.0 && self.entries[entry].is_data() && index == self.entries[entry].parts.len()
        {
            (entry + 1, 0)
        } else {
            (entry, index)
        }
    }
}
