//! The registry of a worker's partitions, and the binds that wait for them.
//!
//! One mutex guards the registry; it is never held while a subpartition is bound or released, an answer is
//! given, or a waker woken. What a transition needs is taken out under the lock and acted on after it.

use super::descriptor::{ChannelDescriptor, Home, Location};
use super::waiting::{BindAnswer, Key, Ticket, Waiting, WaitingList};
use super::{CreateError, Partition, PartitionConfig, PartitionSnapshot, WriterParts};
use crate::clock::Clock;
use crate::doorbell::{Doorbell, ReadyNode};
use crate::error::{BindError, Cause};
use crate::id::{Attempt, BindSecret, JobId, PartitionId, RemoteAddress};
use crate::inbox::Inbox;
use crate::memory::SegmentPool;
use crate::metrics::{Lines, WorkerCounts, cold_event};
use crate::subpartition::{BindRequest, Grant, View};
use crate::sync::{Mutex, lock};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How many ended partitions and jobs are remembered, so that late binds get a true answer.
const REMEMBERED: usize = 4096;

/// Limits of waiting binds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitLimits {
    /// How long a bind waits for its partition.
    pub(crate) longest: Duration,
    /// How many may wait at a time.
    pub(crate) most: usize,
}

impl Default for WaitLimits {
    fn default() -> Self {
        Self { longest: Duration::from_secs(10), most: 10_000 }
    }
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Manager {
    pool: Arc<SegmentPool>,
    clock: Arc<dyn Clock>,
    limits: WaitLimits,
    pub(crate) counts: WorkerCounts,
    registry: Mutex<Registry>,
    lines: Mutex<BindLines>,
    /// Where other workers reach this one, if they do.
    home: Mutex<Option<Home>>,
    me: Weak<Self>,
}

/// What may be logged of binds, which other workers ask for as they like: no refusals hide what was granted.
#[derive(Debug)]
struct BindLines {
    granted: Lines,
    refused: Lines,
}

#[derive(Debug, Default)]
struct Registry {
    /// Ordered, so that what ends together ends in the same order in every run.
    here: BTreeMap<PartitionId, Arc<Partition>>,
    waiting: WaitingList,
    ended: HashMap<PartitionId, Ended>,
    ended_order: VecDeque<PartitionId>,
    ended_jobs: HashSet<JobId>,
    ended_jobs_order: VecDeque<JobId>,
    bells: Vec<Weak<Doorbell>>,
    closed: Option<Cause>,
}

/// What is remembered of a partition that is gone.
#[derive(Debug)]
struct Ended {
    attempt: Attempt,
    secret: BindSecret,
    cause: Cause,
}

/// What a successful bind gives to a channel.
#[derive(Debug)]
pub(crate) struct BoundView {
    pub(crate) view: View,
    pub(crate) grant: Grant,
    pub(crate) partition: Arc<Partition>,
}

/// The answer to a bind.
#[derive(Debug)]
pub(crate) enum BindOutcome {
    Bound(BoundView),
    /// The partition isn't here yet; the answer comes through the inbox.
    Waiting(Ticket),
}

/// Where a descriptor leads.
enum Found {
    Here(Arc<Partition>),
    NotYet,
}

impl Manager {
    pub(crate) fn new(pool: Arc<SegmentPool>, clock: Arc<dyn Clock>, limits: WaitLimits) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            pool,
            clock,
            limits,
            counts: WorkerCounts::default(),
            registry: Mutex::new(Registry::default()),
            lines: Mutex::new(BindLines { granted: Lines::of_all(), refused: Lines::of_all() }),
            home: Mutex::new(None),
            me: me.clone(),
        })
    }

    pub(crate) fn pool(&self) -> &Arc<SegmentPool> {
        &self.pool
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Other workers reach this one from now on.
    pub(crate) fn set_home(&self, home: Home) {
        *lock(&self.home) = Some(home);
    }

    /// Whether this worker is reached there: what is said to be there is here.
    pub(crate) fn is_home(&self, peer: &RemoteAddress) -> bool {
        lock(&self.home).is_some_and(|home| home.socket == peer.socket)
    }

    /// Creates attempt `attempt` of a partition, takes the place of an older one, and binds who waits.
    #[allow(dead_code, reason = "for tests and models")]
    pub(crate) fn create(
        &self,
        id: PartitionId,
        attempt: Attempt,
        config: PartitionConfig,
        secret: BindSecret,
    ) -> Result<WriterParts, CreateError> {
        self.create_at(id, attempt, config, secret, None)
    }

    /// As [`Manager::create`], to be served by this endpoint.
    pub(crate) fn create_at(
        &self,
        id: PartitionId,
        attempt: Attempt,
        config: PartitionConfig,
        secret: BindSecret,
        endpoint: Option<u16>,
    ) -> Result<WriterParts, CreateError> {
        lock(&self.registry).may_create(id, attempt)?;
        let parts = {
            let home = *lock(&self.home);
            let location = home.map_or(Location::Local, |home| home.of(id, endpoint));
            Partition::create(&self.pool, self.me.clone(), id, attempt, config, secret, location)?
        };
        let mut registry = lock(&self.registry);
        if let Err(refused) = registry.may_create(id, attempt) {
            drop(registry);
            return Err(refused);
        }
        let older = registry.here.insert(id, parts.partition.clone());
        let former = older.as_ref().map(|older| older.secret);
        let former = former.or_else(|| registry.ended.get(&id).map(|ended| ended.secret));
        *lock(&parts.partition.former_secret) = former;
        let waiting = registry.waiting.take_where(|waiting| {
            waiting.descriptor.partition == id && waiting.descriptor.producer_attempt <= attempt
        });
        drop(registry);
        cold_event!(info, partition = %id, %attempt, waiting = waiting.len(), "partition created");
        if let Some(older) = older {
            older.close(&Cause::Superseded { newer: attempt });
        }
        for waiting in waiting {
            let answer = self.bind_at(&parts.partition, &waiting.descriptor, waiting.request, &waiting.node);
            waiting.answer(answer);
        }
        Ok(parts)
    }

    /// Binds the subpartition that `descriptor` names for `request`, or waits for it: then the answer comes
    /// through `answer`.
    pub(crate) fn bind(
        &self,
        descriptor: &ChannelDescriptor,
        request: BindRequest,
        node: &Arc<ReadyNode>,
        answer: &Arc<Inbox<BindAnswer>>,
    ) -> Result<BindOutcome, BindError> {
        self.bind_within(descriptor, request, node, answer, Ok(()))
    }

    /// As [`Manager::bind`]; `may_wait` says how many of the same worker wait already, if it may not wait.
    pub(crate) fn bind_within(
        &self,
        descriptor: &ChannelDescriptor,
        request: BindRequest,
        node: &Arc<ReadyNode>,
        answer: &Arc<Inbox<BindAnswer>>,
        may_wait: Result<(), u64>,
    ) -> Result<BindOutcome, BindError> {
        // The clock may be somebody else's: it isn't asked under the lock.
        let since = self.clock.now();
        let mut registry = lock(&self.registry);
        match registry.find(descriptor)? {
            Found::Here(partition) => {
                drop(registry);
                self.bind_at(&partition, descriptor, request, node).map(BindOutcome::Bound)
            }
            Found::NotYet => {
                may_wait.map_err(|waiting| BindError::TooManyWaiting {
                    waiting: usize::try_from(waiting).unwrap_or(usize::MAX),
                })?;
                let waiting = Waiting {
                    descriptor: descriptor.clone(),
                    request,
                    node: node.clone(),
                    answer: answer.clone(),
                    since,
                    number: 0,
                };
                let (ticket, replaced) = registry.waiting.add(&self.me, waiting, self.limits.most)?;
                drop(registry);
                if let Some(replaced) = replaced {
                    replaced.answer(Err(BindError::Superseded { newer: request.attempt }));
                }
                Ok(BindOutcome::Waiting(ticket))
            }
        }
    }

    /// Who knows what became of the partition that a bind was granted at. Also while the worker refuses new binds: what
    /// is here is brought to its end.
    pub(super) fn bound_at(&self, descriptor: &ChannelDescriptor) -> Result<Arc<Partition>, BindError> {
        let registry = lock(&self.registry);
        let here = registry.here.get(&descriptor.partition);
        if let Some(here) = here.filter(|here| here.attempt == descriptor.producer_attempt) {
            return Ok(here.clone());
        }
        match registry.find(descriptor)? {
            Found::Here(partition) => Ok(partition),
            // There was one before this worker, or it is forgotten.
            Found::NotYet => Err(BindError::NotFound { partition: descriptor.partition }),
        }
    }

    fn bind_at(
        &self,
        partition: &Arc<Partition>,
        descriptor: &ChannelDescriptor,
        request: BindRequest,
        node: &Arc<ReadyNode>,
    ) -> BindAnswer {
        partition.admit(descriptor)?;
        let not_found = || BindError::NotFound { partition: partition.id };
        let sub = partition.subpartition(descriptor.subpartition).ok_or_else(not_found)?;
        let granted = sub.bind(request, node).map_err(|refusal| partition.refusal(refusal));
        let (id, index, attempt) = (partition.id, descriptor.subpartition, request.attempt);
        let now = self.clock.now();
        let line = {
            let mut lines = lock(&self.lines);
            if granted.is_ok() { lines.granted.admit(now) } else { lines.refused.admit(now) }
        };
        match (&granted, line) {
            (Ok(grant), Some(left_out)) => {
                let (epoch, lost) = (grant.epoch, grant.lost.total().records);
                cold_event!(
                    info,
                    partition = %id,
                    subpartition = index,
                    consumer = %attempt,
                    %epoch,
                    lost,
                    left_out,
                    "bound"
                );
            }
            (Err(refused), Some(left_out)) => {
                cold_event!(
                    warn,
                    partition = %id,
                    subpartition = index,
                    consumer = %attempt,
                    %refused,
                    left_out,
                    "bind refused"
                );
            }
            (_, None) => {}
        }
        let grant = granted?;
        let view = View::new(sub.clone(), node.clone(), &grant);
        Ok(BoundView { view, grant, partition: partition.clone() })
    }

    /// The partition has ended: a bind that names it is told how from now on.
    pub(super) fn forget(&self, partition: &Partition, cause: &Cause) {
        let mut registry = lock(&self.registry);
        let is_here = registry.here.get(&partition.id).is_some_and(|here| here.attempt == partition.attempt);
        let gone = if is_here {
            let (attempt, secret) = (partition.attempt, partition.secret);
            registry.remember(partition.id, Ended { attempt, secret, cause: cause.clone() });
            registry.here.remove(&partition.id)
        } else {
            None
        };
        drop(registry);
        drop(gone);
    }

    /// Ends an attempt of a partition. False if it isn't here.
    pub(crate) fn release(&self, id: PartitionId, attempt: Attempt, cause: Cause) -> bool {
        let here = lock(&self.registry).here.get(&id).filter(|here| here.attempt == attempt).cloned();
        here.map(|partition| partition.release(cause)).is_some()
    }

    /// Ends everything of a job: its partitions, and the binds that wait for more of them.
    pub(crate) fn release_job(&self, job: JobId) -> usize {
        let mut registry = lock(&self.registry);
        registry.remember_job(job);
        let here = std::mem::take(&mut registry.here);
        let (gone, here): (BTreeMap<_, _>, _) = here.into_iter().partition(|(id, _)| id.job == job);
        registry.here = here;
        registry.ended.retain(|id, _| id.job != job);
        registry.ended_order.retain(|id| id.job != job);
        let waiting = registry.waiting.take_where(|waiting| waiting.descriptor.partition.job == job);
        drop(registry);
        for waiting in waiting {
            waiting.answer(Err(BindError::Released { cause: Cause::JobReleased }));
        }
        for partition in gone.values() {
            partition.close(&Cause::JobReleased);
        }
        gone.len()
    }

    /// Ends everything, and refuses everything from now on.
    pub(crate) fn shutdown(&self) {
        let mut registry = lock(&self.registry);
        registry.closed = Some(Cause::Shutdown);
        let gone = std::mem::take(&mut registry.here);
        let waiting = registry.waiting.take_where(|_| true);
        drop(registry);
        for waiting in waiting {
            waiting.answer(Err(BindError::Released { cause: Cause::Shutdown }));
        }
        for partition in gone.values() {
            partition.close(&Cause::Shutdown);
        }
    }

    /// Refuses new partitions and binds from now on; what is here goes on.
    pub(crate) fn close_door(&self) {
        lock(&self.registry).closed = Some(Cause::Shutdown);
    }

    /// Whether a partition is left that isn't finished and acknowledged.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.registry).here.is_empty()
    }

    pub(super) fn cancel(&self, key: &Key, number: u64) -> Option<Waiting> {
        lock(&self.registry).waiting.cancel(key, number)
    }

    /// The bell of a gate or of a network thread is looked after from now on, until it is dropped.
    pub(crate) fn watch(&self, bell: &Arc<Doorbell>) {
        let mut registry = lock(&self.registry);
        registry.bells.retain(|bell| bell.strong_count() > 0);
        registry.bells.push(Arc::downgrade(bell));
    }

    /// Once a second: ends waits that took too long, and looks for wake-ups that got lost.
    pub(crate) fn housekeeping(&self) {
        let now = self.clock.now();
        let mut registry = lock(&self.registry);
        let expired = registry.waiting.take_expired(now, self.limits.longest);
        let bells: Vec<_> = registry.bells.iter().filter_map(Weak::upgrade).collect();
        let partitions: Vec<_> = registry.here.values().cloned().collect();
        drop(registry);
        for waiting in expired {
            let waited = now.since(waiting.since);
            let line = lock(&self.lines).refused.admit(now);
            if let Some(left_out) = line {
                let partition = waiting.descriptor.partition;
                cold_event!(warn, %partition, left_out, "a bind waited in vain");
            }
            let error = BindError::TimedOut {
                partition: waiting.descriptor.partition,
                waited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
            };
            waiting.answer(Err(error));
        }
        let lost = bells.iter().map(|bell| u64::from(bell.rescan())).sum::<u64>()
            + partitions.iter().map(|partition| partition.rescan()).sum::<u64>();
        if lost > 0 {
            cold_event!(error, lost, "wake-ups were missing, which is a defect of this library");
        }
        self.counts.add_lost_wakeups(lost);
    }

    pub(crate) fn waiting(&self) -> usize {
        lock(&self.registry).waiting.len()
    }

    pub(crate) fn snapshot(&self) -> Vec<PartitionSnapshot> {
        let here: Vec<_> = lock(&self.registry).here.values().cloned().collect();
        here.iter().map(|partition| partition.snapshot()).collect()
    }
}

impl Registry {
    fn may_create(&self, id: PartitionId, attempt: Attempt) -> Result<(), CreateError> {
        let closed =
            self.closed.clone().or_else(|| self.ended_jobs.contains(&id.job).then_some(Cause::JobReleased));
        if let Some(cause) = closed {
            return Err(CreateError::Closed { partition: id, cause });
        }
        let here = self.here.get(&id).map(|partition| partition.attempt);
        let ended = self.ended.get(&id).map(|ended| ended.attempt);
        match here.max(ended) {
            Some(current) if current >= attempt => {
                Err(CreateError::Stale { partition: id, presented: attempt, current })
            }
            _ => Ok(()),
        }
    }

    fn find(&self, descriptor: &ChannelDescriptor) -> Result<Found, BindError> {
        let wanted = descriptor.producer_attempt;
        if let Some(cause) = &self.closed {
            return Err(BindError::Released { cause: cause.clone() });
        }
        if self.ended_jobs.contains(&descriptor.partition.job) {
            return Err(BindError::Released { cause: Cause::JobReleased });
        }
        if let Some(here) = self.here.get(&descriptor.partition)
            && here.attempt >= wanted
        {
            return Ok(Found::Here(here.clone()));
        }
        match self.ended.get(&descriptor.partition) {
            Some(ended) if ended.attempt >= wanted && !ended.secret.matches(descriptor.secret) => {
                Err(BindError::NotFound { partition: descriptor.partition })
            }
            Some(ended) if ended.attempt == wanted => Err(BindError::Released { cause: ended.cause.clone() }),
            Some(ended) if ended.attempt > wanted => {
                Err(BindError::StaleProducer { presented: wanted, current: ended.attempt })
            }
            _ => Ok(Found::NotYet),
        }
    }

    fn remember(&mut self, id: PartitionId, ended: Ended) {
        if self.ended.insert(id, ended).is_some() {
            self.ended_order.retain(|older| *older != id);
        }
        self.ended_order.push_back(id);
        if self.ended_order.len() > REMEMBERED
            && let Some(oldest) = self.ended_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
    }

    fn remember_job(&mut self, job: JobId) {
        if self.ended_jobs.insert(job) {
            self.ended_jobs_order.push_back(job);
        }
        if self.ended_jobs_order.len() > REMEMBERED
            && let Some(oldest) = self.ended_jobs_order.pop_front()
        {
            self.ended_jobs.remove(&oldest);
        }
    }
}
