//! A subpartition on real threads: what holds on one thread holds while others are in the middle of
//! something. (All interleavings of a few steps are the models' part; this is many steps in some.)

mod fencing;
mod soak;
mod stuck;

use super::*;
use crate::sync::{AtomicBool, Ordering, thread};
use std::task::{Wake, Waker};
use std::time::Duration;

/// Nobody sleeps longer than this over something to do.
const PATIENCE: Duration = Duration::from_secs(5);

/// The wake-up of one thread, remembered.
struct Unpark {
    woken: AtomicBool,
    thread: thread::Thread,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Where a thread sleeps.
struct Bed(Arc<Unpark>);

impl Bed {
    /// Of the calling thread.
    fn new() -> Self {
        Self(Arc::new(Unpark { woken: AtomicBool::new(false), thread: thread::current() }))
    }

    fn waker(&self) -> Waker {
        Waker::from(self.0.clone())
    }

    /// Until somebody wakes this thread.
    fn sleep(&self, over: &str) {
        let clock = crate::clock::Monotonic::start();
        let start = clock.now();
        while !self.0.woken.swap(false, Ordering::Acquire) {
            let slept = clock.now().since(start);
            assert!(slept < PATIENCE, "nobody woke the {over}");
            thread::park_timeout(PATIENCE - slept);
        }
    }
}

/// Numbers that look random: the same from the same seed.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

/// Record `seq` of at least 8 bytes: its number, then bytes that follow from it and from their place.
fn numbered(seq: u64, bytes: usize) -> Vec<u8> {
    let mut record = seq.to_le_bytes().to_vec();
    record.extend((8..bytes).map(|at| byte_at(seq, at)));
    record
}

fn byte_at(seq: u64, at: usize) -> u8 {
    (seq.wrapping_mul(31).wrapping_add(at as u64 * 7 + (at as u64 >> 8)) & 0xff) as u8
}

/// The number of a record that is whole.
fn number_of(record: &[u8]) -> u64 {
    let seq = u64::from_le_bytes(record[..8].try_into().unwrap());
    let torn = record.iter().enumerate().skip(8).find(|(at, byte)| **byte != byte_at(seq, *at));
    assert!(torn.is_none(), "record {seq} of {} bytes is torn at {torn:?}", record.len());
    seq
}

/// Writes records until one has no room; then sleeps until there is some.
struct Writer {
    half: WriteHalf,
    cache: SegmentCache,
    bed: Bed,
}

impl Writer {
    /// On the thread that writes.
    fn new(half: WriteHalf, cache: SegmentCache) -> Self {
        Self { half, cache, bed: Bed::new() }
    }

    /// Writes one record, or drops it where the policy does.
    fn write(&mut self, record: &[u8]) -> Append {
        if self.half.append_short(record) {
            return Append::Done;
        }
        let mut source = record;
        loop {
            match self.half.append(&mut source, &mut self.cache) {
                Append::Blocked(_) => {}
                append => return append,
            }
            let sub = self.half.subpartition().clone();
            sub.writer.announce(&self.bed.waker());
            match self.half.append(&mut source, &mut self.cache) {
                Append::Blocked(_) => self.bed.sleep("writer"),
                append => {
                    sub.writer.retract();
                    return append;
                }
            }
        }
    }
}
