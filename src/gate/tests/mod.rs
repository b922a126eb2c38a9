//! Gates over partitions in one worker's parts: manager, pool, a clock whose time the test moves.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod acks;
mod alignment;
mod binds;
mod consumers;
mod flow;
mod forms;
mod half;
mod handles;
mod producers;
mod quiet;
mod records;
mod remote;
mod watermarks;

use super::*;
use crate::clock::{Clock, Moment};
use crate::error::{BindError, Cause};
use crate::event::{Event, LostBarriers, PriorityEvent};
use crate::id::{Attempt, BindEpoch, BindSecret, DataSetId, Incarnation, JobId, PartitionId};
use crate::memory::{MemoryConfig, SegmentClass, SegmentPool};
use crate::partition::{ChannelDescriptor, PartitionConfig, WaitLimits, WriterParts};
use crate::subpartition::{Amount, Append, EndKind, Flush, Policies, WhenAbsent, WhenRetained};
use crate::sync::{Mutex, lock};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

pub(super) const MS: Duration = Duration::from_millis(1);

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
pub(super) struct TestClock(Mutex<(Moment, Vec<(Moment, Waker)>)>);

impl Clock for TestClock {
    fn now(&self) -> Moment {
        lock(&self.0).0
    }

    fn wake_at(&self, at: Moment, waker: &Waker) {
        lock(&self.0).1.push((at, waker.clone()));
    }
}

impl TestClock {
    pub(super) fn advance(&self, by: Duration) {
        let mut state = lock(&self.0);
        state.0 = state.0.plus(by);
        let now = state.0;
        let due: Vec<_> = state.1.extract_if(.., |(at, _)| *at <= now).collect();
        drop(state);
        due.into_iter().for_each(|(_, waker)| waker.wake());
    }

    pub(super) fn alarms(&self) -> usize {
        lock(&self.0).1.len()
    }
}

/// Counts how often it was woken.
#[derive(Debug, Default)]
pub(super) struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Woken {
    pub(super) fn take(&self) -> usize {
        self.0.swap(0, Ordering::SeqCst)
    }
}

/// What a worker is made of.
pub(super) struct Bench {
    pub(super) manager: Arc<Manager>,
    pub(super) clock: Arc<TestClock>,
    pub(super) woken: Arc<Woken>,
    waker: Waker,
}

/// One producer attempt.
pub(super) struct Producer {
    pub(super) parts: WriterParts,
}

/// What a gate yielded, owned and without what a test doesn't look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Got {
    Record(u32, Vec<u8>),
    Event(u32, Event),
    Priority(u32, Vec<u8>),
    Available(u32, u32),
    Unavailable(u32, Cause),
    Loss(u32, Amount),
    AlignmentBroken(u64, u32),
    EndOfData(u32),
    EndOfPartition(u32),
    BindFailed(u32, BindError),
    Failed(GateError),
    End,
    Pending,
}

impl Got {
    fn of(item: Item<'_>) -> Self {
        match item {
            Item::Record(record) => Self::Record(record.channel(), record.to_vec()),
            Item::Event { channel, event } => Self::Event(channel, event),
            Item::Priority { channel, event } => Self::Priority(channel, event.as_bytes().to_vec()),
            Item::Available { channel, producer, .. } => Self::Available(channel, producer.0),
            Item::Unavailable { channel, cause, .. } => Self::Unavailable(channel, cause),
            Item::Loss { channel, lost, .. } => Self::Loss(channel, lost),
            Item::AlignmentBroken { barrier, channel } => Self::AlignmentBroken(barrier, channel),
            Item::EndOfData { channel } => Self::EndOfData(channel),
            Item::EndOfPartition { channel } => Self::EndOfPartition(channel),
            Item::BindFailed { channel, error } => Self::BindFailed(channel, error),
        }
    }
}

pub(super) fn partition_id(index: u32) -> PartitionId {
    PartitionId { job: JobId(1), data_set: DataSetId(2), index }
}

pub(super) fn policies(when_absent: WhenAbsent, flush: Flush) -> Policies {
    Policies { when_absent, flush, ..Policies::default() }
}

pub(super) fn discard() -> Policies {
    policies(WhenAbsent::Discard, Flush::EveryRecord)
}

pub(super) fn replay() -> Policies {
    policies(WhenAbsent::Replay { quota: 20 }, Flush::EveryRecord)
}

pub(super) fn retain() -> Policies {
    policies(WhenAbsent::Retain { quota: 20, then: WhenRetained::Block }, Flush::EveryRecord)
}

pub(super) fn config(policies: Policies) -> PartitionConfig {
    PartitionConfig::new(1)
        .segment_class(SegmentClass::K4)
        .quota_segments(30)
        .floating_segments(40)
        .broadcast_segments(0)
        .policies(policies)
}

/// `count` bytes that say which record it is.
pub(super) fn payload(number: u32, count: usize) -> Vec<u8> {
    let mut bytes = vec![number as u8; count];
    bytes.iter_mut().zip(number.to_le_bytes()).for_each(|(to, from)| *to = from);
    bytes
}

/// The numbers of the records of one channel.
pub(super) fn numbers(got: &[Got], channel: u32) -> Vec<u32> {
    let record = |got: &Got| match got {
        Got::Record(from, bytes) if *from == channel => {
            Some(u32::from_le_bytes(bytes[..4].try_into().unwrap()))
        }
        _ => None,
    };
    got.iter().filter_map(record).collect()
}

impl Bench {
    pub(super) fn new() -> Self {
        let memory = MemoryConfig::new().segments(SegmentClass::K32, 0).segments(SegmentClass::K4, 400);
        let pool = SegmentPool::new(&memory.orphan_segments(8)).unwrap();
        let clock = Arc::new(TestClock::default());
        let limits = WaitLimits { longest: Duration::from_secs(10), most: 3 };
        let woken = Arc::new(Woken::default());
        Self { manager: Manager::new(pool, clock.clone(), limits), clock, waker: woken.clone().into(), woken }
    }

    pub(super) fn create(&self, index: u32, attempt: u32, config: PartitionConfig) -> Producer {
        let secret = BindSecret::new(7);
        let parts = self.manager.create(partition_id(index), Attempt(attempt), config, secret).unwrap();
        Producer { parts }
    }

    /// As [`Bench::create`], for a partition that need not be there.
    pub(super) fn descriptor(&self, index: u32, attempt: u32) -> ChannelDescriptor {
        ChannelDescriptor {
            partition: partition_id(index),
            producer_attempt: Attempt(attempt),
            subpartition: 0,
            location: crate::partition::Location::Local,
            secret: BindSecret::new(7),
            layout: crate::record::RecordLayout::Lengths,
        }
    }

    pub(super) fn config(&self, consumer: u32, channels: &[(u32, u32)]) -> GateConfig {
        GateConfig::new(Attempt(consumer), Incarnation(u64::from(consumer)))
            .channels(channels.iter().map(|(index, attempt)| self.descriptor(*index, *attempt)))
    }

    /// A gate of this consumer attempt over `(partition, producer attempt)`.
    pub(super) fn gate(&self, consumer: u32, channels: &[(u32, u32)]) -> InputGate {
        InputGate::new(self.manager.clone(), self.config(consumer, channels))
    }

    pub(super) fn poll(&self, gate: &mut InputGate) -> Got {
        let mut cx = Context::from_waker(&self.waker);
        match gate.poll_next(&mut cx) {
            Poll::Pending => Got::Pending,
            Poll::Ready(Ok(Some(item))) => Got::of(item),
            Poll::Ready(Ok(None)) => Got::End,
            Poll::Ready(Err(error)) => Got::Failed(error),
        }
    }

    /// Everything that is there, up to the end, an error that is final, or nothing.
    pub(super) fn drain(&self, gate: &mut InputGate) -> Vec<Got> {
        let mut all = Vec::new();
        loop {
            match self.poll(gate) {
                Got::Pending => return all,
                Got::End => {
                    all.push(Got::End);
                    return all;
                }
                Got::Failed(error) if error.is_final() => {
                    all.push(Got::Failed(error));
                    return all;
                }
                got => all.push(got),
            }
        }
    }

    /// Whatever is forgotten would be found by the looks of a minute.
    pub(super) fn assert_nothing_lost(&self) {
        for _ in 0..3 {
            self.manager.housekeeping();
        }
        assert_eq!(self.manager.counts.lost_wakeups(), 0);
    }

    /// Everything is given back.
    pub(super) fn assert_whole(self) {
        self.assert_nothing_lost();
        self.manager.shutdown();
        assert_eq!(self.manager.waiting(), 0);
        let census = self.manager.pool().census();
        assert!(census.is_whole(), "{census:?}");
        assert_eq!(census.held(), 0, "{census:?}");
        assert_eq!(Arc::strong_count(&self.manager), 1, "somebody keeps the manager");
    }
}

impl Producer {
    pub(super) fn write(&mut self, record: &[u8]) -> Append {
        let WriterParts { halves, .. } = &mut self.parts;
        if halves[0].append_short(record) {
            return Append::Done;
        }
        let mut source = record;
        self.append(&mut source)
    }

    /// Begins or goes on with a record that may block.
    pub(super) fn append(&mut self, source: &mut &[u8]) -> Append {
        let WriterParts { halves, cache, .. } = &mut self.parts;
        halves[0].append(source, cache)
    }

    pub(super) fn write_all(&mut self, numbers: std::ops::Range<u32>, count: usize) {
        for number in numbers {
            assert_eq!(self.write(&payload(number, count)), Append::Done, "record {number}");
        }
    }

    pub(super) fn event(&mut self, event: Event) -> Append {
        let WriterParts { halves, cache, .. } = &mut self.parts;
        halves[0].append_event(&event, cache)
    }

    pub(super) fn priority(&mut self, bytes: &[u8]) -> Append {
        self.parts.halves[0].append_priority(PriorityEvent::new(bytes).unwrap())
    }

    pub(super) fn flush(&mut self) {
        self.parts.halves[0].ring();
    }

    pub(super) fn finish(&mut self) {
        self.parts.halves[0].append_end(EndKind::Finished);
    }

    pub(super) fn fail(&mut self, why: &str) {
        self.parts.partition.set_failure(Cause::Failed(why.into()));
        self.parts.halves[0].append_end(EndKind::Failed);
    }

    pub(super) fn account(&self) -> crate::subpartition::Account {
        let account = self.parts.halves[0].subpartition().account();
        assert!(account.is_balanced(), "{account:?}");
        account
    }

    pub(super) fn closed(&self) -> Option<Cause> {
        self.parts.partition.closed()
    }
}
