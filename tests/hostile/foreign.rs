//! Foreign code inside of a call: buffers and wakers that panic or call back.

use crate::common::*;
use bytes::Buf;
use pirn::{Event, InputGate, Item, Target, TryNext, WhenAbsent, WhenFull, WriteError, Written};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// A record whose source panics once `left` bytes of it were taken.
#[derive(Debug)]
struct Broken {
    bytes: usize,
    left: usize,
}

impl Buf for Broken {
    fn remaining(&self) -> usize {
        self.bytes
    }
    fn chunk(&self) -> &[u8] {
        assert!(self.left > 0, "the source of a record panics");
        &[0xEE; 64][..self.left.min(64).min(self.bytes)]
    }
    fn advance(&mut self, count: usize) {
        self.bytes -= count;
        self.left = self.left.saturating_sub(count);
    }
}

/// All numbers of records until there are none left.
fn drain(gate: &mut InputGate) -> Vec<u64> {
    let mut got = Vec::new();
    loop {
        match gate.next_blocking_timeout(Duration::from_millis(100)).unwrap() {
            TryNext::Item(Item::Record(record)) => got.push(number(&record)),
            TryNext::Item(_) => {}
            TryNext::Empty | TryNext::End => return got,
        }
    }
}

/// The source of a record panics after none, some and many of its bytes were taken: the next record is whole,
/// whatever form wrote the broken one.
#[test]
fn a_record_whose_source_panics_is_given_up() {
    for taken in [1, 100, SEGMENT - 4, SEGMENT, 2 * SEGMENT + 17, 5 * SEGMENT] {
        for broadcast in [false, true] {
            let worker = worker(256);
            let wide = || {
                config(1, WhenAbsent::Discard).quota_segments(64).floating_segments(64).broadcast_segments(16)
            };
            let mut writer = worker.create_partition(id(0), pirn::Attempt(1), wide()).unwrap();
            let mut gate = worker.input_gate(reads(1, &writer, 0));
            assert!(drain(&mut gate).is_empty());
            writer.write_blocking(0, &record(1, 50)).unwrap();
            let mut source = Broken { bytes: 6 * SEGMENT, left: taken };
            let mut cx = Context::from_waker(Waker::noop());
            let caught = catch_unwind(AssertUnwindSafe(|| {
                if broadcast {
                    drop(writer.poll_broadcast(&mut cx, &mut source));
                } else {
                    drop(writer.poll_write(&mut cx, 0, &mut source));
                }
            }));
            assert!(caught.is_err(), "{taken}");
            // Another of the same length, what a confused writer would take for the rest, and short ones.
            for (number, bytes) in [(2, 6 * SEGMENT), (3, 30), (4, source.bytes), (5, 100)] {
                assert_eq!(writer.write_blocking(0, &record(number, bytes)).unwrap(), Written::Queued);
            }
            let _ = writer.event_blocking(Target::All, &Event::Barrier(1)).unwrap();
            writer.flush();
            assert_eq!(drain(&mut gate), [1, 2, 3, 4, 5], "{taken}");
            let account = writer.snapshot().subpartitions[0].account;
            assert!(account.is_balanced(), "{taken}: {account:?}");
            writer.abandon();
            drop(gate);
            end(&worker);
        }
    }
}

/// A task's waker panics on the threads that wake it: theirs go on, and so do all others.
#[test]
fn a_waker_that_panics_harms_nobody_else() {
    let worker = worker(256);
    let four = config(4, WhenAbsent::Discard).floating_segments(64);
    let mut writer = worker.create_partition(id(0), pirn::Attempt(1), four).unwrap();
    let (count, waker) = panicking();
    let mut cx = Context::from_waker(&waker);
    let mut gates: Vec<_> = (0..4).map(|target| worker.input_gate(reads(1, &writer, target))).collect();
    for gate in &mut gates {
        while gate.poll_next(&mut cx).is_ready() {}
    }
    // From the writer's thread, in the middle of a record.
    for target in 0..4 {
        assert_eq!(writer.write_blocking(target, &record(1, 3 * SEGMENT)).unwrap(), Written::Queued);
        assert_eq!(writer.write_blocking(target, &record(2, 100)).unwrap(), Written::Queued);
    }
    assert!(count.0.load(Ordering::SeqCst) >= 4);
    for gate in &mut gates {
        assert_eq!(drain(gate), [1, 2]);
        while gate.poll_next(&mut cx).is_ready() {}
    }
    // From the thread that releases: everybody is told, not only those before the first who panics.
    assert!(worker.release_partition(id(0), pirn::Attempt(1)));
    for gate in &mut gates {
        let told = gate.next_blocking_timeout(Duration::from_millis(500)).unwrap();
        assert!(matches!(told, TryNext::Item(Item::Unavailable { .. })), "{told:?}");
    }
    drop(gates);
    drop(writer);
    end(&worker);
}

/// A waker panics on the control thread: time goes on for everybody else.
#[test]
fn a_waker_that_panics_does_not_stop_the_clock() {
    let worker = worker(128);
    let when_full = WhenFull::Discard { after: Duration::from_millis(5) };
    let policies = pirn::Policies { when_full, ..Default::default() };
    let full = config(1, WhenAbsent::Discard).policies(policies);
    let mut writer = worker.create_partition(id(0), pirn::Attempt(1), full).unwrap();
    let mut gate = worker.input_gate(reads(1, &writer, 0));
    drain(&mut gate);
    let (count, waker) = panicking();
    let mut cx = Context::from_waker(&waker);
    let long = record(1, 2000);
    loop {
        let mut source = &long[..];
        if writer.poll_write(&mut cx, 0, &mut source).is_pending() {
            break;
        }
    }
    until(|| count.0.load(Ordering::SeqCst) > 0);
    writer.abort_record();
    let start = Instant::now();
    let mut other = worker.create_partition(id(1), pirn::Attempt(1), config(1, WhenAbsent::Discard)).unwrap();
    let result = loop {
        let result = other.write_blocking_timeout(0, &long, Duration::from_millis(20));
        if result.is_err() {
            break result;
        }
        assert!(start.elapsed() < STUCK);
    };
    assert!(matches!(result, Err(pirn::WaitError::TimedOut { .. })));
    drop((gate, writer));
    drop(other);
    end(&worker);
}

/// Calls back into the gate's handle and the worker from inside of `wake`.
struct Reentrant {
    handle: pirn::GateHandle,
    worker: pirn::Worker,
    count: Counting,
}

impl Wake for Reentrant {
    fn wake(self: Arc<Self>) {
        self.count.0.fetch_add(1, Ordering::SeqCst);
        drop(self.handle.pause(0));
        drop(self.handle.resume(0));
        let _ = self.handle.why_blocked(0);
        let _ = self.worker.snapshot();
        assert!(!self.worker.release_partition(id(99), pirn::Attempt(1)));
    }
}

#[test]
fn a_waker_may_call_back() {
    let worker = worker(128);
    let mut writer =
        worker.create_partition(id(0), pirn::Attempt(1), config(1, WhenAbsent::Discard)).unwrap();
    let mut gate = worker.input_gate(reads(1, &writer, 0));
    let handle = gate.handle();
    let reentrant = Arc::new(Reentrant { handle, worker: worker.clone(), count: Counting::default() });
    let waker = Waker::from(reentrant.clone());
    let mut cx = Context::from_waker(&waker);
    let mut next = 0;
    for round in 0..50 {
        writer.write_blocking(0, &record(round, 100)).unwrap();
        writer.flush();
        while let Poll::Ready(item) = gate.poll_next(&mut cx) {
            if let Some(Item::Record(record)) = item.unwrap() {
                assert_eq!(number(&record), next);
                next += 1;
            }
        }
    }
    until(|| {
        while let Poll::Ready(item) = gate.poll_next(&mut cx) {
            if let Some(Item::Record(record)) = item.unwrap() {
                assert_eq!(number(&record), next);
                next += 1;
            }
        }
        next == 50
    });
    assert!(reentrant.count.get() > 0);
    writer.abandon();
    let told = reentrant.count.get();
    drop(gate);
    drop(reentrant);
    assert!(told > 0);
    end(&worker);
}

/// The last worker is dropped by a waker, on the control thread.
#[test]
fn the_last_worker_may_end_on_its_own_control_thread() {
    struct Last(std::sync::Mutex<Option<pirn::Worker>>, Counting);
    impl Wake for Last {
        fn wake(self: Arc<Self>) {
            let worker = self.0.lock().unwrap().take();
            drop(worker);
            self.1.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let worker = worker(128);
    let when_full = WhenFull::Discard { after: Duration::from_millis(5) };
    let policies = pirn::Policies { when_full, ..Default::default() };
    let full = config(1, WhenAbsent::Discard).policies(policies);
    let mut writer = worker.create_partition(id(0), pirn::Attempt(1), full).unwrap();
    let mut gate = worker.input_gate(reads(1, &writer, 0));
    drain(&mut gate);
    let last = Arc::new(Last(std::sync::Mutex::new(Some(worker)), Counting::default()));
    let waker = Waker::from(last.clone());
    let mut cx = Context::from_waker(&waker);
    let long = record(1, 2000);
    let mut source = &long[..];
    while writer.poll_write(&mut cx, 0, &mut source).is_ready() {
        source = &long[..];
    }
    until(|| last.1.get() > 0);
    until(|| {
        matches!(writer.poll_write(&mut cx, 0, &mut source), Poll::Ready(Err(WriteError::Closed { .. })))
    });
}
