//! Two transports with connections between them, and an eye on everything they say.
//!
//! T1: a side's segments are written, committed and lent by the one thread of the test.

use super::super::fake::Random;
use super::super::{Batch, Close, Completion, ConnectionId, Part, Transport};
use super::backend::Backend;
use crate::memory::{
    Budget, Charge, Lent, MemoryConfig, ReceivePool, SegmentCache, SegmentClass, SegmentPool,
};
use crate::sync::Waiter;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// So often may nothing happen for a millisecond before a test gives up.
const IDLE_TURNS: u32 = 10_000;

/// Segments to send from, for each side.
const SEGMENTS: u32 = 64;

/// Two sides and the network between them.
pub(crate) struct Rig<B: Backend> {
    pub(crate) a: Side<B::Transport>,
    pub(crate) b: Side<B::Transport>,
    /// The kind of transport, with its network.
    pub(crate) backend: B,
}

/// A transport, and what it has said so far.
pub(crate) struct Side<T> {
    pub(crate) transport: T,
    pub(crate) pool: ReceivePool,
    pub(crate) ends: BTreeMap<(u32, u32), End>,
    pub(crate) random: Random,
    arena: Memory,
    /// Batches that weren't given back yet, by their addresses.
    out: BTreeSet<usize>,
    done: Vec<Completion>,
}

/// One end of a connection.
#[derive(Default)]
pub(crate) struct End {
    /// Which bytes it sends; the other end receives those of the neighbour.
    stream: u64,
    /// Bytes handed over and received, all of them right.
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Received ranges, if they are kept.
    pub(crate) held: Vec<Lent>,
    pub(crate) hold: bool,
    /// Whether a batch is under way.
    pub(crate) sending: bool,
    pub(crate) eof: bool,
    pub(crate) failed: Option<std::io::Error>,
    pub(crate) closing: bool,
    pub(crate) closed: bool,
}

/// The segments of one side, as a task's would be.
struct Memory {
    pool: Arc<SegmentPool>,
    budget: Arc<Budget>,
    charge: Arc<Charge>,
}

/// The byte of a stream at a position.
fn byte(stream: u64, at: u64) -> u8 {
    let mixed = (at + (stream << 40)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 56) as u8
}

impl Memory {
    fn new() -> Self {
        let config = MemoryConfig::new().segments(SegmentClass::K32, SEGMENTS).orphan_segments(0);
        let pool = SegmentPool::new(&config).unwrap();
        let budget = pool.reserve(SegmentClass::K32, SEGMENTS, 0, Arc::new(Waiter::new())).unwrap();
        let charge = budget.charge(SEGMENTS, SEGMENTS);
        Self { pool, budget, charge }
    }

    /// Bytes of `stream` from `at` on, in a segment; `None` if all are in use.
    fn lend(&self, stream: u64, at: u64, bytes: usize) -> Option<Lent> {
        let mut cache = SegmentCache::new(&self.pool, &self.budget);
        let mut segment = self.pool.allocate(&self.charge, &mut cache).ok()?;
        for (byte_at, place) in (at..).zip(segment.spare(0..bytes)) {
            *place = byte(stream, byte_at);
        }
        segment.commit(bytes);
        let hold = segment.hold();
        // SAFETY: T1: committed above, by this thread, inside of the segment.
        Some(unsafe { hold.lend(0..bytes) })
    }
}

impl<T: Transport> Side<T> {
    pub(crate) fn end(&mut self, id: ConnectionId) -> &mut End {
        self.ends.get_mut(&(id.generation, id.index)).unwrap()
    }

    /// Sends so many bytes of the connection's stream in a batch of parts of any sizes.
    pub(crate) fn send(&mut self, id: ConnectionId, bytes: usize) {
        let most = self.random.of(1..4) * 20_000;
        self.send_parts(id, bytes, most);
    }

    /// The same in parts of at most `most` bytes.
    pub(crate) fn send_parts(&mut self, id: ConnectionId, bytes: usize, most: u64) {
        let end = self.ends.get_mut(&(id.generation, id.index)).unwrap();
        assert!(!std::mem::replace(&mut end.sending, true), "one at a time");
        let mut batch = Box::new(Batch { bytes, ..Batch::default() });
        let mut left = bytes;
        while left > 0 {
            let part = (self.random.of(1..most + 1) as usize).min(left).min(SegmentClass::K32.bytes());
            let lend = part > 1000 && self.random.chance(700);
            let lent = if lend { self.arena.lend(end.stream, end.sent, part) } else { None };
            batch.parts.push(lent.map_or_else(
                || {
                    let from = batch.staging.len();
                    batch.staging.extend((end.sent..).take(part).map(|at| byte(end.stream, at)));
                    Part::Staged(from..from + part)
                },
                Part::Segment,
            ));
            end.sent += part as u64;
            left -= part;
        }
        self.hand_over(id, batch);
    }

    fn hand_over(&mut self, id: ConnectionId, batch: Box<Batch>) {
        assert!(self.out.insert(&raw const *batch as usize));
        self.transport.send(id, batch);
    }

    /// A batch for a connection that may not exist any more.
    pub(crate) fn send_in_vain(&mut self, id: ConnectionId) {
        let (staging, parts) = (vec![7; 100], vec![Part::Staged(0..100)]);
        let batch = Batch { staging, parts, bytes: 100, ..Batch::default() };
        self.hand_over(id, Box::new(batch));
    }

    pub(crate) fn close(&mut self, id: ConnectionId, how: Close) {
        self.end(id).closing = true;
        self.transport.close(id, how);
    }

    /// Whether every batch was given back.
    pub(crate) fn has_all_batches(&self) -> bool {
        self.out.is_empty()
    }

    /// One turn, and what the contract says of it. True if something happened.
    pub(crate) fn turn(&mut self, timeout: Option<Duration>) -> bool {
        self.transport.turn(timeout, &mut self.done).unwrap();
        let done = std::mem::take(&mut self.done);
        let some = !done.is_empty();
        for completion in done {
            self.take(completion);
        }
        some
    }

    fn take(&mut self, completion: Completion) {
        let id = match &completion {
            Completion::Received { connection, .. }
            | Completion::Eof { connection }
            | Completion::Sent { connection }
            | Completion::Failed { connection, .. }
            | Completion::Closed { connection } => *connection,
            Completion::Recycled { batch } => {
                assert!(self.out.remove(&(&raw const **batch as usize)), "given back twice");
                return;
            }
        };
        let end = self.end(id);
        assert!(!end.closed, "named after its end: {completion:?}");
        match completion {
            Completion::Received { bytes, .. } => {
                assert!(!end.eof && end.failed.is_none() && !end.closing, "received after an end");
                assert!(!bytes.is_empty());
                let stream = end.stream ^ 1;
                let right = (end.received..).zip(&*bytes).all(|(at, got)| *got == byte(stream, at));
                assert!(right, "wrong bytes behind {}", end.received);
                end.received += bytes.len() as u64;
                if end.hold {
                    end.held.push(bytes);
                }
            }
            Completion::Eof { .. } => {
                assert!(!end.eof && end.failed.is_none() && !end.closing, "an end after an end");
                end.eof = true;
            }
            Completion::Sent { .. } => {
                assert!(std::mem::replace(&mut end.sending, false), "sent without a batch");
                assert!(end.failed.is_none());
            }
            Completion::Failed { error, .. } => {
                assert!(end.failed.is_none());
                end.failed = Some(error);
            }
            Completion::Closed { .. } => {
                assert!(end.closing);
                end.closed = true;
            }
            Completion::Recycled { .. } => {}
        }
    }
}

impl<B: Backend> Rig<B> {
    /// `slots` are the receive buffers of the two sides.
    pub(crate) fn new(seed: u64, slots: [u32; 2]) -> Self {
        let mut backend = B::new(seed);
        let mut random = Random::new(seed);
        let [a, b] = slots.map(|slots| {
            let (pool, arena) = (ReceivePool::new(slots).unwrap(), Memory::new());
            Side {
                transport: backend.transport(&pool, &arena.pool),
                pool,
                ends: BTreeMap::new(),
                random: Random::new(random.next()),
                arena,
                out: BTreeSet::new(),
                done: Vec::new(),
            }
        });
        Self { a, b, backend }
    }

    pub(crate) fn connect(&mut self) -> (ConnectionId, ConnectionId) {
        let (a, b) = self.backend.pair();
        let (a, b) = (self.a.transport.attach(a).unwrap(), self.b.transport.attach(b).unwrap());
        let stream = 2 * self.a.ends.len() as u64;
        let end = |stream| End { stream, ..End::default() };
        assert!(self.a.ends.insert((a.generation, a.index), end(stream)).is_none(), "a name comes again");
        assert!(self.b.ends.insert((b.generation, b.index), end(stream + 1)).is_none(), "a name comes again");
        (a, b)
    }

    /// Turns both sides, and does `also`, until it says true.
    pub(crate) fn until(&mut self, mut also: impl FnMut(&mut Self) -> bool) {
        let mut idle = 0;
        while !also(self) {
            let wait = if idle == 0 { Duration::ZERO } else { Duration::from_millis(1) };
            let some = self.a.turn(Some(wait)) | self.b.turn(Some(wait));
            idle = if some { 0 } else { idle + 1 };
            assert!(idle < IDLE_TURNS, "nothing happens any more");
        }
    }

    /// Turns both sides so often without minding what happens.
    pub(crate) fn turns(&mut self, turns: u32) {
        for _ in 0..turns {
            self.a.turn(Some(Duration::from_millis(1)));
            self.b.turn(Some(Duration::from_millis(1)));
        }
    }

    /// Turns the first side alone.
    pub(crate) fn turns_of_a(&mut self, turns: u32) {
        for _ in 0..turns {
            self.a.turn(Some(Duration::from_millis(1)));
        }
    }

    /// Ends everything, and looks that nothing is left.
    pub(crate) fn finish(mut self) {
        for side in [&mut self.a, &mut self.b] {
            for ((generation, index), end) in &mut side.ends {
                end.held.clear();
                if !std::mem::replace(&mut end.closing, true) {
                    let id = ConnectionId { index: *index, generation: *generation };
                    side.transport.close(id, Close::Abortive);
                }
            }
        }
        self.until(|rig| rig.a.is_over() && rig.b.is_over());
        for side in [self.a, self.b] {
            drop(side.transport);
            for census in [side.pool.census(), side.arena.pool.census()] {
                assert!(census.is_whole() && census.held() == 0, "{census:?}");
            }
            assert_eq!(side.pool.free(), side.pool.slots());
        }
    }
}

impl<T: Transport> Side<T> {
    fn is_over(&self) -> bool {
        self.has_all_batches() && self.ends.values().all(|end| end.closed)
    }
}
