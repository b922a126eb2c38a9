//! Both ends of remote channels in one thread: what was fed against what is read, and who is rung when.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod hand_over;
mod stream;

use super::*;
use crate::doorbell::Doorbell;
use crate::memory::{Hold, MemoryConfig, SegmentCache, SegmentClass, SegmentPool};
use crate::record::{Admission, RecordLayout, UNIFORM_NONE};
use crate::subpartition::{Acked, Mark, Next};
use crate::sync::Waiter;

/// One channel whose rings are looked at by hand.
struct Bench {
    task: Arc<Doorbell>,
    network: Arc<Doorbell>,
}

impl Bench {
    fn new() -> Self {
        Self { task: Doorbell::new(), network: Doorbell::new() }
    }

    fn channel(&self, window: u64) -> (Feeder, RemoteEnd) {
        channel(ReadyNode::new(&self.task, 1), ReadyNode::new(&self.network, 2), window)
    }

    fn reader(&self, window: u64, explicit: bool) -> (Feeder, RemoteReader) {
        let (feeder, end) = self.channel(window);
        (feeder, RemoteReader::new(end, RecordLayout::Lengths, 1 << 20, explicit))
    }

    /// Whether the task was rung since the last question.
    fn task_rung(&self) -> bool {
        rung(&self.task)
    }

    fn network_rung(&self) -> bool {
        rung(&self.network)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.task.close();
        self.network.close();
    }
}

fn rung(bell: &Doorbell) -> bool {
    let mut rung = false;
    bell.take_all(|node| {
        node.clear();
        rung = true;
    });
    rung
}

/// Segments to lend from, as a transport does.
struct Buffers {
    pool: Arc<SegmentPool>,
    charge: Arc<crate::memory::Charge>,
    cache: SegmentCache,
}

impl Buffers {
    fn new(segments: u32) -> Self {
        let memory = MemoryConfig::new().segments(SegmentClass::K32, segments).orphan_segments(0);
        let pool = SegmentPool::new(&memory).unwrap();
        let budget = pool.reserve(SegmentClass::K32, segments, 0, Arc::new(Waiter::new())).unwrap();
        let charge = budget.charge(segments, segments);
        let cache = SegmentCache::new(&pool, &budget);
        Self { pool, charge, cache }
    }

    fn lend(&mut self, bytes: &[u8]) -> Chunk {
        let mut segment = self.pool.allocate(&self.charge, &mut self.cache).unwrap();
        segment.spare(0..bytes.len()).copy_from_slice(bytes);
        segment.commit(bytes.len());
        let hold: Hold = segment.hold();
        // SAFETY: committed just above, by this thread.
        Chunk::Lent(unsafe { hold.lend(0..bytes.len()) })
    }

    /// Segments that nobody holds.
    fn free(&self) -> u32 {
        self.charge.limit() - self.charge.used()
    }
}

fn heap(bytes: &[u8]) -> Chunk {
    Chunk::Heap(Bytes::copy_from_slice(bytes))
}

fn data(bytes: &[u8]) -> Delivery {
    Delivery::Data { uniform: UNIFORM_NONE, bytes: heap(bytes) }
}

/// A record as it lies in the stream.
fn encoded(payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

/// What a reader yielded, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Got {
    Record(Vec<u8>),
    Event(RemoteEvent),
    Priority(u8),
    Over(Over),
    NotAdmitted,
    TooLong(usize),
    Empty,
}

/// As a gate asks: turn by turn, and first for what can be stepped over.
fn next(reader: &mut RemoteReader, admission: &mut Admission) -> Got {
    if !reader.has_turn() {
        reader.settle(admission);
        reader.begin_turn(5, 300);
    }
    if reader.next_whole() {
        return Got::Record(reader.current().to_vec());
    }
    match reader.next(admission) {
        Next::Record => Got::Record(reader.current().to_vec()),
        Next::Barrier(id) => Got::Event(RemoteEvent::Barrier(id)),
        Next::Watermark(time) => Got::Event(RemoteEvent::Watermark(time)),
        Next::Application(bytes) => Got::Event(RemoteEvent::Application(bytes)),
        Next::Loss(total) => Got::Event(RemoteEvent::Loss(total)),
        Next::EndOfData => Got::Event(RemoteEvent::EndOfData),
        Next::EndOfPartition { .. } => Got::Event(RemoteEvent::EndOfPartition),
        Next::Failed => Got::Event(RemoteEvent::Failed(reader.failure().unwrap().clone())),
        Next::Priority(event) => Got::Priority(event.as_bytes()[0]),
        Next::Fenced => Got::Over(reader.over().unwrap().clone()),
        Next::Refused(crate::record::Refused::NotAdmitted { .. }) => Got::NotAdmitted,
        Next::Refused(crate::record::Refused::TooLong { bytes, .. }) => Got::TooLong(bytes),
        Next::Empty => Got::Empty,
    }
}
