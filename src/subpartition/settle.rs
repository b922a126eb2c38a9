//! The steps of a transition between views, all under the mutex of the bind record. See the module above.

use super::account::{DroppedEvents, Losses, ViewAccount};
use super::bind::{BindRequest, Ending, Refusal, Subpartition};
use super::ended::LastView;
use super::policy::WhenAbsent;
use super::position::{Amount, Position};
use super::ring::Deferred;
use super::state::Word;
use crate::doorbell::ReadyNode;
use crate::error::Cause;
use crate::event::LostBarriers;
use crate::id::{Attempt, BindEpoch, Incarnation};
use crate::memory::SegmentName;
use crate::rules::rule;
use crate::sync::{Ordering, lock};
use std::sync::Arc;

/// What is known of the views so far; cold, under the mutex.
#[derive(Debug)]
pub(super) struct BindRecord {
    pub(super) epoch: BindEpoch,
    /// The newest attempt that ever bound.
    pub(super) newest: Option<(Attempt, Incarnation)>,
    pub(super) view: Option<Bound>,
    /// The view that was severed last, whose reader may have a last word.
    pub(super) last: Option<LastView>,
    pub(super) delivered: Amount,
    pub(super) lost: Losses,
    pub(super) in_doubt: Amount,
    /// `Replay`: readers that are gone may have been given everything up to here, though it is to come again.
    pub(super) given: Amount,
    pub(super) dropped_events: DroppedEvents,
    /// `lost` and `in_doubt` as the last grant left them.
    pub(super) told: (Losses, Amount),
    /// The newest barrier that the writer has published or dropped.
    pub(super) barrier: Option<u64>,
    pub(super) acknowledged: bool,
    pub(super) released: Option<Cause>,
    /// Where `written` and `taken` stood when a look found a publication that nobody was told of.
    pub(super) suspected: Option<(Position, Position)>,
}

#[derive(Debug)]
pub(super) struct Bound {
    pub(super) node: Arc<ReadyNode>,
    pub(super) account: Arc<ViewAccount>,
    pub(super) start: Amount,
}

impl Subpartition {
    /// Fences whoever reads, settles its account and applies the policy. The ring then belongs to
    /// `record.epoch`, which no view has yet.
    pub(super) fn sever(&self, record: &mut BindRecord, ending: Ending, later: &mut Deferred<'_>) -> Severed {
        let first = record.newest.is_none();
        let before = record.epoch;
        record.epoch = before.next();
        let taken = self.ring.bump(record.epoch);
        self.priority.bump(record.epoch);
        let written = self.ring.written();
        let old = record.view.take();
        let mut severed = Severed { at: taken, skip: !first, node: None, held: Vec::new() };
        if first {
            return severed;
        }
        let mut from = taken;
        if let Some(bound) = old {
            let last;
            (from, last) = self.settle(record, &bound, taken, written, ending, later);
            record.last = Some(LastView { epoch: before, ..last });
            // Relaxed: noted before the take, which the bump has acquired (RING_E3).
            let names = bound.account.held().iter().map(|held| held.load(Ordering::Relaxed));
            severed.held =
                names.map(SegmentName::from_bits).filter(|name| *name != SegmentName::NONE).collect();
            severed.node = Some(bound.node);
        }
        // Also what a writer sent that hadn't heard of the outage yet.
        record.dropped_events.priority += self.priority.drain(record.epoch);
        if !record.acknowledged {
            // Ends come again until they are acknowledged: `View::release` left them in the ring.
            from = self.ring.first_end(self.ring.released_glance().position, from);
        }
        let keep = if self.policies.when_absent == WhenAbsent::Discard {
            let end = self.ring.first_end(from, written);
            self.drop_until(record, from, end, |lost| &mut lost.drained, later);
            end
        } else {
            from
        };
        let (at, skip) = self.ring.align(keep, written, later);
        self.drop_until(record, keep, at, |lost| &mut lost.skipped, later);
        self.ring.set_taken(record.epoch, at);
        self.release_until(record, at, later);
        severed.at = at;
        severed.skip = skip;
        severed
    }

    /// Closes the account of a view that had taken everything up to `taken`. Returns where the next view
    /// begins: there, or under Replay where the old one had consumed; and what is remembered of the view.
    pub(super) fn settle(
        &self,
        record: &mut BindRecord,
        bound: &Bound,
        taken: Position,
        written: Position,
        ending: Ending,
        later: &mut Deferred<'_>,
    ) -> (Position, LastView) {
        // The entry first: amounts newer than it only mean that more is consumed (see `position_of`).
        let entry = bound.account.consumed_entry();
        let progress = self.ring.amount_at(taken, later).since(bound.start);
        let (noted, broken) = match ending {
            Ending::Consumed { aborted } => (progress, aborted),
            Ending::Fenced | Ending::Closed { .. } => bound.account.consumed(),
        };
        let open = progress.beyond(noted);
        let consumed = progress.since(open);
        let (delivered, skipped, aborted) = bound.account.shares(consumed, broken);
        record.delivered += delivered;
        record.lost.skipped += skipped;
        record.lost.aborted += aborted;
        let last = LastView {
            epoch: record.epoch,
            account: bound.account.clone(),
            progress,
            open,
            skipped,
            aborted: aborted.bytes,
            // One that closed in order has said its last word.
            had_end: matches!(ending, Ending::Fenced) && self.is_past_end(taken),
        };
        let in_doubt = match ending {
            Ending::Consumed { .. } => return (taken, last),
            _ if matches!(self.policies.when_absent, WhenAbsent::Replay { .. }) => {
                let given = match ending {
                    Ending::Closed { yielded } => yielded.at_most(progress),
                    _ => progress,
                };
                record.given = record.given.at_least(bound.start + given);
                let consumed = bound.start.bytes + consumed.bytes;
                return (self.ring.position_of(entry, written, consumed), last);
            }
            Ending::Fenced => open,
            // A consumer far away is believed no more than it can have got.
            Ending::Closed { yielded } => yielded.beyond(noted).at_most(open),
        };
        record.in_doubt += in_doubt;
        record.lost.unread += open.since(in_doubt);
        (taken, last)
    }

    /// Drops everything from `from` on, for good. What a reader may have been given before it was to come again is
    /// in doubt: that nobody got it isn't certain.
    pub(super) fn drain(&self, record: &mut BindRecord, from: Position, later: &mut Deferred<'_>) {
        let written = self.ring.written();
        let (begin, end) = (self.ring.amount_at(from, later), self.ring.amount_at(written, later));
        let given = record.given.beyond(begin).at_most(end.since(begin));
        self.drop_until(record, from, written, |lost| &mut lost.drained, later);
        record.lost.drained = record.lost.drained.since(given);
        record.in_doubt += given;
        self.release_until(record, written, later);
    }

    /// Counts what lies between two places as lost for one cause, and moves `taken` behind it.
    pub(super) fn drop_until(
        &self,
        record: &mut BindRecord,
        from: Position,
        to: Position,
        cause: impl FnOnce(&mut Losses) -> &mut Amount,
        later: &mut Deferred<'_>,
    ) {
        if from == to {
            return;
        }
        let lost = self.ring.amount_at(to, later).since(self.ring.amount_at(from, later));
        *cause(&mut record.lost) += lost;
        record.dropped_events += self.ring.events_between(from, to);
        self.ring.set_taken(record.epoch, to);
    }

    pub(super) fn release_until(&self, record: &BindRecord, to: Position, later: &mut Deferred<'_>) {
        let released = self.ring.release(record.epoch, to, |name| later.drop_hold(name));
        debug_assert!(released.is_ok(), "the epoch changes only under the mutex that is held here");
    }

    /// What a view that begins at `start` doesn't get. What it gets is published: the writer notes barriers under
    /// this mutex.
    pub(super) fn lost_barriers(&self, record: &BindRecord, start: Position) -> LostBarriers {
        let Some((first, last)) = self.ring.barriers_between(start, self.ring.written()) else {
            return LostBarriers { before: record.barrier, behind: None };
        };
        let behind = record.barrier.filter(|newest| *newest > last).map(|newest| (last, newest));
        LostBarriers { before: first.checked_sub(1), behind }
    }

    /// Writer: publishes a barrier. A bind comes before that, and gets it, or after, and knows of it.
    pub(super) fn publish_barrier(&self, id: u64, publish: impl FnOnce()) {
        let mut record = lock(&self.record);
        publish();
        record.barrier = record.barrier.max(Some(id));
    }

    /// Writer: a barrier is to be dropped for want of a reader. False, with nothing done, if there was a
    /// transition since `word`: it decides anew.
    pub(super) fn drop_barrier(&self, id: u64, word: Word) -> bool {
        let mut record = lock(&self.record);
        // Transitions publish the word under the mutex.
        let stands = self.state.load().epoch() == word.epoch();
        if stands {
            record.barrier = record.barrier.max(Some(id));
        }
        stands
    }

    /// Losses, in doubt and dropped events so far, with the writer's own counts.
    pub(super) fn totals(&self, record: &BindRecord, by_writer: &Losses) -> (Losses, Amount, DroppedEvents) {
        let Losses { discarded, overflowed, aborted, .. } = *by_writer;
        let lost = Losses { discarded, overflowed, aborted: record.lost.aborted + aborted, ..record.lost };
        let mut events = record.dropped_events;
        events += self.counts.dropped_events();
        (lost, record.in_doubt, events)
    }
}

impl BindRecord {
    /// Whether the attempt may bind.
    pub(super) fn admit(&self, request: BindRequest) -> Result<(), Refusal> {
        if self.released.is_some() {
            return Err(Refusal::Released);
        }
        let Some((current, incarnation)) = self.newest else { return Ok(()) };
        let is_newest = rule!(NEWEST_ATTEMPT, request.attempt >= current);
        if !is_newest {
            return Err(Refusal::Stale { presented: request.attempt, current });
        }
        if request.attempt == current && request.incarnation != incarnation {
            return Err(Refusal::DuplicateAttempt { attempt: current });
        }
        Ok(())
    }

    /// Everything published that is not queued any more, when no view is bound.
    pub(super) fn settled(&self) -> Amount {
        let lost = self.lost;
        self.delivered
            + self.in_doubt
            + lost.drained
            + lost.dropped_oldest
            + lost.skipped
            + lost.unread
            + lost.aborted
    }
}

/// What a transition leaves to be done once the mutex is free.
#[derive(Debug)]
#[must_use]
pub(super) struct Severed {
    pub(super) at: Position,
    pub(super) skip: bool,
    pub(super) node: Option<Arc<ReadyNode>>,
    pub(super) held: Vec<SegmentName>,
}

impl Severed {
    /// Moves what the old view holds to the orphans' quota, drops what was let go, tells the old view that
    /// it is fenced and the writer that something changed.
    pub(super) fn finish(self, sub: &Subpartition, later: Deferred<'_>) {
        drop(later);
        for name in self.held {
            let orphan = sub.pool().orphan(sub.pool().class_of(name));
            // Full, or let go meanwhile: then it stays charged to the subpartition.
            let _ = sub.pool().recharge(name, &sub.charge, orphan);
        }
        if let Some(node) = self.node {
            node.ring();
        }
        sub.writer.notify();
    }
}
