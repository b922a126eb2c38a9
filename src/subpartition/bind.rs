//! The shared half of a subpartition, and the transitions between views. See the module above.

use super::account::{Account, DroppedEvents, Losses, OWN_NOTES, ViewAccount, WriterCounts};
use super::policy::{Flush, Policies, WhenAbsent};
use super::position::{Amount, Position};
use super::priority::PriorityRing;
use super::ring::{Deferred, Ring};
use super::settle::{BindRecord, Bound};
use super::state::{Phase, State};
use super::write::Inherited;
use crate::doorbell::ReadyNode;
use crate::error::Cause;
use crate::event::LostBarriers;
use crate::id::{Attempt, BindEpoch, Incarnation};
use crate::memory::{Charge, SegmentPool};
use crate::record::RecordLayout;
use crate::sync::{Mutex, Waiter, lock};
use std::sync::Arc;

/// Who wants to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BindRequest {
    pub(crate) attempt: Attempt,
    pub(crate) incarnation: Incarnation,
    /// How many pieces with segments the view may hold at a time.
    pub(crate) holds: u16,
}

impl BindRequest {
    /// Of a task that reads by itself: one piece at a time.
    pub(crate) const fn new(attempt: Attempt, incarnation: Incarnation) -> Self {
        Self { attempt, incarnation, holds: OWN_NOTES }
    }

    /// Of who takes several pieces before it lets go of the first.
    pub(crate) const fn holding(mut self, pieces: u16) -> Self {
        self.holds = pieces;
        self
    }
}

/// Why a bind is refused. The subpartition is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A newer attempt has bound before.
    Stale { presented: Attempt, current: Attempt },
    /// Another run of the same attempt has bound before.
    DuplicateAttempt { attempt: Attempt },
    /// The partition is released.
    Released,
}

/// What a bind gives to its view.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) epoch: BindEpoch,
    pub(crate) start: Position,
    /// What lies before `start`, since the subpartition was made.
    pub(crate) begin: Amount,
    /// The record start isn't known yet: the next entry tells how much of it to skip.
    pub(crate) skip: bool,
    pub(crate) account: Arc<ViewAccount>,
    /// Lost since the bind before.
    pub(crate) lost: Losses,
    /// In doubt since the bind before.
    pub(crate) in_doubt: Amount,
    /// What the writer had dropped in all when `lost` was summed up; LOSS entries say what came later.
    pub(crate) writer_lost: Amount,
    pub(crate) barriers: LostBarriers,
    /// An older attempt acknowledged the end: there is nothing but the end of the partition.
    pub(crate) ended: bool,
}

/// How a view's time ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ending {
    /// It was fenced, or its process vanished: what it had taken and not consumed is in doubt.
    Fenced,
    /// It closed in order, after it had yielded so much since its begin.
    Closed { yielded: Amount },
    /// It had everything to the end of the partition, and its reader has consumed that: `aborted` bytes of it were
    /// of records broken off.
    Consumed { aborted: u64 },
}

/// See the module above.
#[derive(Debug)]
pub(crate) struct Subpartition {
    pub(super) ring: Ring,
    pub(super) state: State,
    pub(super) priority: PriorityRing,
    pub(super) counts: WriterCounts,
    pub(super) policies: Policies,
    pub(super) charge: Arc<Charge>,
    /// Segments a bound reader may let pile up.
    limit: u32,
    /// Where the writer of the partition sleeps.
    pub(super) writer: Arc<Waiter>,
    /// What the writer's half held of shared segments when it ended.
    pub(super) inherited: Inherited,
    pub(super) record: Mutex<BindRecord>,
}

impl Subpartition {
    pub(crate) fn new(
        pool: Arc<SegmentPool>,
        layout: RecordLayout,
        entries: u16,
        policies: Policies,
        charge: Arc<Charge>,
        writer: Arc<Waiter>,
    ) -> Arc<Self> {
        if let WhenAbsent::Replay { quota } = policies.when_absent {
            charge.set_limit(quota);
        }
        Arc::new(Self {
            ring: Ring::new(pool, layout, entries),
            state: State::new(),
            priority: PriorityRing::new(),
            counts: WriterCounts::default(),
            policies,
            limit: charge.limit(),
            charge,
            writer,
            inherited: Inherited::new(),
            record: Mutex::new(BindRecord {
                epoch: BindEpoch::NEVER,
                newest: None,
                view: None,
                last: None,
                delivered: Amount::ZERO,
                lost: Losses::default(),
                in_doubt: Amount::ZERO,
                given: Amount::ZERO,
                dropped_events: DroppedEvents::default(),
                told: (Losses::default(), Amount::ZERO),
                barrier: None,
                acknowledged: false,
                released: None,
                suspected: None,
            }),
        })
    }

    pub(super) fn pool(&self) -> &Arc<SegmentPool> {
        &self.ring.pool
    }

    pub(crate) fn layout(&self) -> RecordLayout {
        self.ring.layout()
    }

    /// Makes the caller the one reader, if its attempt is the newest.
    pub(crate) fn bind(&self, request: BindRequest, node: &Arc<ReadyNode>) -> Result<Grant, Refusal> {
        let mut later = Deferred::new(self.pool());
        let mut record = lock(&self.record);
        record.admit(request)?;
        let first = record.newest.is_none();
        let severed = self.sever(&mut record, Ending::Fenced, &mut later);
        let (start, skip) = (severed.at, severed.skip);
        let epoch = record.epoch;
        // The first view finds everything: the stream goes on, and with it a record that waits half written.
        if self.state.bind(epoch, first).is_err() {
            // Released between the two looks; `release` drains under the same mutex, after us.
            drop(record);
            severed.finish(self, later);
            return Err(Refusal::Released);
        }
        // The writer is told of it below, with everything else.
        self.charge.set_limit(self.limit);
        record.newest = Some((request.attempt, request.incarnation));
        let account = Arc::new(ViewAccount::new(start.entry, request.holds));
        let begin = self.ring.amount_at(start, &mut later);
        record.view = Some(Bound { node: node.clone(), account: account.clone(), start: begin });
        // One reading for both: what is in the report isn't in the LOSS entry's surplus over `writer_lost`.
        let by_writer = self.counts.losses();
        let (lost, in_doubt, _) = self.totals(&record, &by_writer);
        let (told_lost, told_doubt) = std::mem::replace(&mut record.told, (lost, in_doubt));
        let grant = Grant {
            epoch,
            start,
            begin,
            skip,
            account,
            lost: lost.since(&told_lost),
            in_doubt: in_doubt.since(told_doubt),
            writer_lost: by_writer.total(),
            barriers: self.lost_barriers(&record, start),
            ended: record.acknowledged,
        };
        drop(record);
        // The writer's notification first: its fence (WAKE_F1.notifier) stands between the word above and
        // whatever look follows on the ring below or on the grant, which is the binder's side of BIND_F1.
        severed.finish(self, later);
        node.ring();
        Ok(grant)
    }

    /// The view of `epoch` is gone: fences it and lets the policy rule until the next bind. Without effect
    /// if another epoch rules already.
    pub(crate) fn make_unavailable(&self, epoch: BindEpoch, ending: Ending) -> bool {
        let mut later = Deferred::new(self.pool());
        let mut record = lock(&self.record);
        if record.epoch != epoch || record.view.is_none() {
            return false;
        }
        let severed = self.sever(&mut record, ending, &mut later);
        if let WhenAbsent::Retain { quota, .. } = self.policies.when_absent {
            self.charge.set_limit(quota);
        }
        // A release that came between is final and says more than Unavailable.
        let unavailable = self.state.unavailable(record.epoch).is_ok();
        drop(record);
        severed.finish(self, later);
        unavailable
    }

    /// Final: drops everything, also the ends. The writer and the reader notice by themselves.
    pub(crate) fn release(&self, cause: &Cause) {
        let mut later = Deferred::new(self.pool());
        let mut record = lock(&self.record);
        if record.released.is_some() {
            return;
        }
        record.released = Some(cause.clone());
        self.state.release();
        let severed = self.sever(&mut record, Ending::Fenced, &mut later);
        self.drain(&mut record, severed.at, &mut later);
        drop(record);
        self.inherited.close();
        severed.finish(self, later);
    }

    /// The reader of `epoch` has consumed the end of the partition. Tells whether this is news.
    pub(crate) fn acknowledge_end(&self, epoch: BindEpoch) -> bool {
        let mut record = lock(&self.record);
        if record.epoch != epoch || record.acknowledged {
            return false;
        }
        record.acknowledged = true;
        drop(record);
        self.inherited.sweep(&self.ring);
        self.writer.notify();
        true
    }

    #[allow(dead_code, reason = "for tests and models")]
    pub(crate) fn is_end_acknowledged(&self) -> bool {
        lock(&self.record).acknowledged
    }

    /// Why the subpartition is released, if it is.
    #[allow(dead_code, reason = "for tests and models")]
    pub(crate) fn released(&self) -> Option<Cause> {
        lock(&self.record).released.clone()
    }

    /// The newest attempt that ever bound.
    pub(crate) fn newest(&self) -> Option<Attempt> {
        lock(&self.record).newest.map(|(attempt, _)| attempt)
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state.load().phase()
    }

    pub(crate) fn epoch(&self) -> BindEpoch {
        self.state.load().epoch()
    }

    /// Segments charged to the subpartition, and how many it may have.
    pub(crate) fn segments(&self) -> (u32, u32) {
        (self.charge.used(), self.charge.limit())
    }

    pub(crate) fn policies(&self) -> &Policies {
        &self.policies
    }

    /// Once a second: whether the view waits to be told of something that was published more than a look
    /// ago. If so it is told now.
    pub(crate) fn rescan(&self) -> bool {
        if !matches!(self.policies.flush, Flush::Interval(_)) {
            return false;
        }
        let mut record = lock(&self.record);
        let written = self.ring.written();
        let stands = (written, self.ring.taken_glance().position);
        let node = record.view.as_ref().map(|bound| bound.node.clone());
        let forgotten = node.filter(|node| stands.0 != stands.1 && node.awaits_ring());
        let before = std::mem::replace(&mut record.suspected, forgotten.is_some().then_some(stands));
        drop(record);
        match forgotten {
            Some(node) if before == Some(stands) => {
                node.ring();
                true
            }
            _ => false,
        }
    }

    /// The epoch that rules and the node of its view.
    pub(super) fn node(&self) -> (BindEpoch, Option<Arc<ReadyNode>>) {
        let record = lock(&self.record);
        (record.epoch, record.view.as_ref().map(|bound| bound.node.clone()))
    }

    /// Writer: makes room in a retained queue. False if nothing older than entry `keep_from` is queued, or
    /// the consumer is not absent any more.
    pub(super) fn drop_oldest(&self, keep_from: u16) -> bool {
        let mut later = Deferred::new(self.pool());
        let mut record = lock(&self.record);
        let word = self.state.load();
        if word.phase() != Phase::Unavailable || word.is_released() {
            return false;
        }
        let written = self.ring.written();
        let from = self.ring.taken_glance().position;
        let mut to = from;
        let oldest = self.ring.slot(from.entry).entry().segment;
        // To the first entry in another segment: only then is memory freed.
        while to.entry != written.entry && to.entry != keep_from {
            let slot = self.ring.slot(to.entry).entry();
            if slot.kind.is_end() || (slot.kind.is_data() && slot.segment != oldest) {
                break;
            }
            to = Position::at_entry(to.entry.wrapping_add(1));
        }
        if to.entry == from.entry {
            return false;
        }
        // Never past the begin of the record that the writer is at: it starts in `keep_from` or later.
        let (aligned, _) = self.ring.align(to, written, &mut later);
        self.drop_until(&mut record, from, aligned, |lost| &mut lost.dropped_oldest, &mut later);
        self.release_until(&record, aligned, &mut later);
        drop(record);
        true
    }

    /// The account now: exact at quiet points.
    pub(crate) fn account(&self) -> Account {
        let record = lock(&self.record);
        let published = self.counts.published();
        let by_writer = self.counts.losses();
        let (mut lost, in_doubt, dropped_events) = self.totals(&record, &by_writer);
        let mut delivered = record.delivered;
        let mut queued = published.since(record.settled());
        if let Some(bound) = &record.view {
            let (consumed, broken) = bound.account.consumed();
            let waiting = published.since(bound.start).beyond(consumed);
            let seen = published.since(bound.start).since(waiting);
            let (had, skipped, aborted) = bound.account.shares(seen, broken);
            delivered += had;
            lost.skipped += skipped;
            lost.aborted += aborted;
            queued = waiting;
        }
        let written = published + by_writer.total();
        Account { written, delivered, lost, in_doubt, queued, dropped_events }
    }
}
