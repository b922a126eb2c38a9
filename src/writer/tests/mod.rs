//! Tests of the writer against local readers, over partitions of a real manager and in virtual time.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod absent;
mod batch;
mod broadcast;
mod cancel;
mod ends;
mod events;
mod forms;
mod full;
mod partitioners;
mod pressure;
mod shared;
mod sink;
mod stress;

use super::*;
use crate::clock::Moment;
use crate::doorbell::{Doorbell, ReadyNode};
use crate::event::{Event, PriorityEvent};
use crate::id::{Attempt, BindSecret, Incarnation, PartitionId};
use crate::inbox::Inbox;
use crate::memory::{MemoryConfig, SegmentClass, SegmentPool};
use crate::partition::{BindOutcome, ChannelDescriptor, Manager, PartitionConfig, WaitLimits};
use crate::record::{Admission, RecordLayout};
use crate::subpartition::{
    Account, Amount, BeforeFirstBind, BindRequest, Flush, LocalReader, Next, Policies, WhenAbsent, WhenFull,
    WhenRetained,
};
use crate::sync::Parker;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, mpsc};
use std::task::{Wake, Waker};
use std::time::Duration;

/// Longer than any of these tests waits for something that does come.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Time that stands still until it is moved.
#[derive(Debug, Default)]
pub(super) struct VirtualClock(Mutex<(u64, Vec<(Moment, Waker)>)>);

impl VirtualClock {
    /// Moves the time and wakes whom it concerns. Tells how many.
    pub(super) fn advance(&self, by: Duration) -> usize {
        let mut inner = self.0.lock().unwrap();
        inner.0 += by.as_nanos() as u64;
        let now = Moment::from_nanos(inner.0);
        let due: Vec<_> = inner.1.extract_if(.., |(at, _)| *at <= now).collect();
        drop(inner);
        due.iter().for_each(|(_, waker)| waker.wake_by_ref());
        due.len()
    }

    pub(super) fn alarms(&self) -> usize {
        self.0.lock().unwrap().1.len()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.0.lock().unwrap().0)
    }

    fn wake_at(&self, at: Moment, waker: &Waker) {
        self.0.lock().unwrap().1.push((at, waker.clone()));
    }
}

/// A task that counts how often it is woken.
#[derive(Debug, Default)]
pub(super) struct Woken(AtomicU32);

impl Woken {
    pub(super) fn times(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A manager with an arena of small segments.
pub(super) struct Bench {
    pub(super) pool: Arc<SegmentPool>,
    pub(super) clock: Arc<VirtualClock>,
    pub(super) manager: Arc<Manager>,
}

pub(super) const SEGMENT: usize = 4096;

/// Small segments, a quota of `quota` each, enough floating for all of them, told only by `flush`.
pub(super) fn config(subpartitions: u32, quota: u32) -> PartitionConfig {
    PartitionConfig::new(subpartitions)
        .segment_class(SegmentClass::K4)
        .quota_segments(quota)
        .floating_segments(subpartitions * quota + 4)
        .policies(policies())
}

pub(super) fn policies() -> Policies {
    Policies { flush: Flush::WhenFull, ..Policies::default() }
}

impl Bench {
    pub(super) fn new() -> Self {
        let memory = MemoryConfig::new().segments(SegmentClass::K32, 0).segments(SegmentClass::K4, 256);
        let pool = SegmentPool::new(&memory.orphan_segments(8)).unwrap();
        let clock = Arc::new(VirtualClock::default());
        let manager = Manager::new(pool.clone(), clock.clone(), WaitLimits::default());
        Self { pool, clock, manager }
    }

    pub(super) fn writer(&self, config: PartitionConfig) -> RecordWriter {
        let secret = BindSecret::new(7);
        let parts = self.manager.create(PartitionId::default(), Attempt(1), config, secret).unwrap();
        RecordWriter::new(parts, self.clock.clone())
    }

    pub(super) fn reader(&self, writer: &RecordWriter, target: u32, attempt: u32) -> Reader {
        self.reader_at(&writer.descriptor(target), attempt)
    }

    pub(super) fn readers(&self, writer: &RecordWriter) -> Vec<Reader> {
        writer.descriptors().iter().map(|descriptor| self.reader_at(descriptor, 1)).collect()
    }

    pub(super) fn reader_at(&self, descriptor: &ChannelDescriptor, attempt: u32) -> Reader {
        let bell = Doorbell::new();
        let node = ReadyNode::new(&bell, 0);
        let inbox = Arc::new(Inbox::new(1, node.clone()));
        let request = BindRequest::new(Attempt(attempt), Incarnation(u64::from(attempt)));
        let Ok(BindOutcome::Bound(bound)) = self.manager.bind(descriptor, request, &node, &inbox) else {
            panic!("the partition is here")
        };
        Reader {
            reader: LocalReader::new(bound.view, 1 << 24, false),
            partition: bound.partition,
            admission: Admission::new(1 << 25),
            bell,
        }
    }

    /// Everything is given back: nothing of the arena is held or reserved.
    pub(super) fn assert_whole(self) {
        self.manager.shutdown();
        drop(self.manager);
        let census = self.pool.census();
        assert!(census.is_whole(), "{census:?}");
        assert_eq!(census.held(), 0, "{census:?}");
    }
}

/// A consumer of one subpartition.
pub(super) struct Reader {
    pub(super) reader: LocalReader,
    partition: Arc<Partition>,
    admission: Admission,
    bell: Arc<Doorbell>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.bell.close();
    }
}

/// What a reader yielded, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Got {
    Record(Vec<u8>),
    Event(Event),
    Priority(Vec<u8>),
    Loss(Amount),
    EndOfData,
    EndOfPartition,
    Failed,
    Empty,
    Fenced,
}

impl Reader {
    pub(super) fn next(&mut self) -> Got {
        match self.reader.next(&mut self.admission) {
            Next::Record => Got::Record(self.reader.current().bytes().to_vec()),
            Next::Barrier(id) => Got::Event(Event::Barrier(id)),
            Next::Watermark(time) => Got::Event(Event::Watermark(time)),
            Next::Application(bytes) => Got::Event(Event::Application(bytes)),
            Next::Priority(event) => Got::Priority(event.as_bytes().to_vec()),
            Next::Loss(amount) => Got::Loss(amount),
            Next::EndOfData => Got::EndOfData,
            Next::EndOfPartition { news } => {
                if news {
                    self.partition.acknowledge_end();
                }
                Got::EndOfPartition
            }
            Next::Failed => Got::Failed,
            Next::Empty => Got::Empty,
            Next::Fenced => Got::Fenced,
            Next::Refused(refused) => panic!("{refused:?}"),
        }
    }

    /// Everything that is there now.
    pub(super) fn drain(&mut self) -> Vec<Got> {
        let mut all = Vec::new();
        loop {
            match self.next() {
                Got::Empty | Got::Fenced => return all,
                got => all.push(got),
            }
        }
    }

    /// The next item, sleeping as a gate does: on the doorbell of the view's node.
    pub(super) fn wait_next(&mut self) -> Got {
        let node = self.reader.view().node().clone();
        let parker = Parker::current();
        loop {
            self.bell.take_all(|node| node.clear());
            match self.next() {
                Got::Empty => {}
                got => return got,
            }
            node.fall_quiet();
            let got = self.next();
            if got == Got::Empty && self.bell.may_sleep(parker.waker()) {
                parker.park(Some(PATIENCE));
            }
            node.stir();
            if got != Got::Empty {
                return got;
            }
        }
    }

    /// The numbers of the records that are there now; each is checked byte for byte.
    pub(super) fn numbers(&mut self) -> Vec<u32> {
        numbers(&self.drain())
    }
}

/// Numbers that are the same every time.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as u32 % bound
    }
}

pub(super) fn record(number: u32, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        (0..len).map(|at| (at as u32).wrapping_mul(31).wrapping_add(number) as u8).collect();
    bytes.iter_mut().zip(number.to_le_bytes()).for_each(|(to, from)| *to = from);
    bytes
}

/// The number of a record, which is checked byte for byte.
pub(super) fn number(bytes: &[u8]) -> u32 {
    let number = u32::from_le_bytes(bytes[..4].try_into().unwrap());
    assert!(bytes == record(number, bytes.len()), "record {number} of {} bytes is torn", bytes.len());
    number
}

pub(super) fn numbers(got: &[Got]) -> Vec<u32> {
    got.iter()
        .filter_map(|got| match got {
            Got::Record(bytes) => Some(number(bytes)),
            _ => None,
        })
        .collect()
}

pub(super) fn account(writer: &RecordWriter, target: usize) -> Account {
    let account = writer.snapshot().subpartitions[target].account;
    assert!(account.is_balanced(), "{account:?}");
    account
}

/// A buffer that panics when more than `good` bytes are copied out of it.
pub(super) struct Faulty {
    pub(super) bytes: Vec<u8>,
    pub(super) at: usize,
    pub(super) good: usize,
}

impl Buf for Faulty {
    fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn chunk(&self) -> &[u8] {
        // Never all of it at once, which would be the short way.
        assert!(self.at <= self.good, "the buffer's fault");
        &self.bytes[self.at..self.bytes.len().min(self.at + 100)]
    }

    fn advance(&mut self, count: usize) {
        self.at += count;
    }
}

/// A context that wakes nobody.
pub(super) fn idle_cx() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// One poll of a future that is ready at once.
pub(super) fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut idle_cx()) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("not ready at once"),
    }
}

/// Runs `body` on a thread and fails if it takes too long: a lost wake-up shows as that.
pub(super) fn in_time<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> R {
    let (send, receive) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let result = body();
        // Nobody listens any more if the time is over.
        let _ = send.send(());
        result
    });
    match receive.recv_timeout(PATIENCE) {
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {}
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("still waiting after {PATIENCE:?}"),
    }
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
