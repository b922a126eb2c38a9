//! One consumer of a hundred goes away, or stops: the others notice nothing.
//!
//! At half of the rate that this machine reaches, the 99 siblings get at least 95 % of what they got in the
//! control window of the same run; the median of five runs counts. Under `Retain` the absent one never takes
//! more than its quota.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "a test reads clocks, sleeps, and starts threads of its own"
)]

use pirn::{
    Attempt, Flush, GateConfig, Incarnation, Item, MemoryConfig, PartitionConfig, PartitionId, Policies,
    RecordWriter, SegmentClass, TryNext, WhenAbsent, WhenFull, WhenRetained, Worker,
};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const CONSUMERS: u32 = 100;
const RECORD: [u8; 100] = [5; 100];
const WINDOW: Duration = Duration::from_millis(300);

/// The tests of this file compare rates, and take turns.
static TURN: Mutex<()> = Mutex::new(());

const READ: u8 = 0;
const STOP: u8 = 1;
const GO: u8 = 2;

/// A consumer task on a thread of its own, which can be told to stop reading or to go away.
struct Consumer {
    got: Arc<AtomicU64>,
    order: Arc<AtomicU8>,
    thread: Option<JoinHandle<()>>,
}

struct Mesh {
    worker: Worker,
    writer: RecordWriter,
    consumers: Vec<Consumer>,
}

impl Mesh {
    fn new(policies: Policies) -> Self {
        let memory = MemoryConfig::new().segments(SegmentClass::K32, 0).segments(SegmentClass::K8, 4096);
        let worker = Worker::builder().memory(memory).start().unwrap();
        let config = PartitionConfig::new(CONSUMERS)
            .segment_class(SegmentClass::K8)
            .floating_segments(1000)
            .quota_segments(16)
            .policies(policies);
        let writer = worker.create_partition(PartitionId::default(), Attempt(1), config).unwrap();
        let consumers = (0..CONSUMERS)
            .map(|index| {
                let gate_config =
                    GateConfig::new(Attempt(1), Incarnation(7)).channel(writer.descriptor(index));
                let mut gate = worker.input_gate(gate_config);
                let got = Arc::new(AtomicU64::new(0));
                let order = Arc::new(AtomicU8::new(READ));
                let (count, orders) = (got.clone(), order.clone());
                let thread = thread::spawn(move || {
                    loop {
                        match orders.load(Ordering::Relaxed) {
                            GO => return,
                            STOP => thread::park(),
                            _ => match gate.next_blocking_timeout(Duration::from_millis(20)).unwrap() {
                                TryNext::Item(Item::Record(record)) => {
                                    assert_eq!(record.as_bytes(), RECORD);
                                    count.fetch_add(1, Ordering::Relaxed);
                                }
                                TryNext::Item(Item::Unavailable { .. }) | TryNext::End => return,
                                _ => {}
                            },
                        }
                    }
                });
                Consumer { got, order, thread: Some(thread) }
            })
            .collect();
        Self { worker, writer, consumers }
    }

    fn siblings(&self) -> u64 {
        self.consumers[1..].iter().map(|consumer| consumer.got.load(Ordering::Relaxed)).sum()
    }

    /// Writes round robin for one window, `per_second` records or as fast as it goes. Returns the rate.
    fn write(&mut self, per_second: Option<f64>) -> f64 {
        let start = Instant::now();
        let mut written = 0_u64;
        while start.elapsed() < WINDOW {
            let due = per_second.map_or(u64::MAX, |rate| (start.elapsed().as_secs_f64() * rate) as u64);
            let batch = due.saturating_sub(written).min(20_000);
            for index in written..written + batch {
                // Queued, or dropped by policy for the one that is away.
                let _ = self.writer.write_blocking((index % u64::from(CONSUMERS)) as u32, &RECORD).unwrap();
            }
            written += batch;
            if per_second.is_some() {
                self.writer.flush();
                thread::sleep(Duration::from_micros(500));
            }
        }
        written as f64 / start.elapsed().as_secs_f64()
    }

    /// What the siblings get in one window at `rate`.
    fn window(&mut self, rate: f64) -> u64 {
        let before = self.siblings();
        self.write(Some(rate));
        // What is under way arrives; the pause is the same in every window.
        thread::sleep(Duration::from_millis(50));
        self.siblings() - before
    }

    fn order(&mut self, order: u8) {
        self.consumers[0].order.store(order, Ordering::Relaxed);
        if order == GO {
            self.consumers[0].thread.take().unwrap().join().unwrap();
        } else {
            thread::sleep(Duration::from_millis(40));
        }
    }

    fn end(mut self) {
        for consumer in &self.consumers {
            consumer.order.store(GO, Ordering::Relaxed);
            if let Some(thread) = &consumer.thread {
                thread.thread().unpark();
            }
        }
        for consumer in &mut self.consumers {
            if let Some(thread) = consumer.thread.take() {
                thread.join().unwrap();
            }
        }
        self.writer.abandon();
        let census = self.worker.census();
        assert!(census.is_whole() && census.held() == 0, "{census:?}");
        assert_eq!(self.worker.shutdown(Duration::ZERO).lost_wakeups, 0);
    }
}

/// The share of the control window that the siblings get once consumer 0 follows `order`.
fn share(policies: Policies, order: u8) -> f64 {
    let mut mesh = Mesh::new(policies);
    mesh.write(None);
    let most = mesh.write(None);
    thread::sleep(Duration::from_millis(100));
    let control = mesh.window(most / 2.0);
    mesh.order(order);
    let after = mesh.window(most / 2.0);
    let quota = mesh.writer.snapshot().subpartitions[0].clone();
    assert!(quota.segments <= quota.segments_max, "{quota:?}");
    let balanced = mesh.writer.snapshot().subpartitions.iter().all(|sub| sub.account.is_balanced());
    assert!(balanced || order == STOP, "{:?}", mesh.writer.snapshot());
    println!("{order}: at most {most:.0} records/s; control {control}, after {after}");
    mesh.end();
    after as f64 / control as f64
}

fn median_of_five(policies: Policies, order: u8) -> f64 {
    let _turn = TURN.lock().unwrap_or_else(|failed| failed.into_inner());
    let mut shares: Vec<f64> = (0..5).map(|_| share(policies, order)).collect();
    shares.sort_by(f64::total_cmp);
    println!("shares {shares:.3?}");
    shares[2]
}

fn policies(when_absent: WhenAbsent, when_full: WhenFull) -> Policies {
    Policies { when_absent, when_full, flush: Flush::WhenFull, ..Policies::default() }
}

#[test]
fn siblings_of_a_gone_consumer_get_what_they_got() {
    let share = median_of_five(policies(WhenAbsent::Discard, WhenFull::Block), GO);
    assert!(share >= 0.95, "{share}");
}

#[test]
fn siblings_of_a_stopped_consumer_get_what_they_got() {
    let when_full = WhenFull::Discard { after: Duration::from_millis(10) };
    let share = median_of_five(policies(WhenAbsent::Discard, when_full), STOP);
    assert!(share >= 0.95, "{share}");
}

#[test]
fn an_absent_consumer_keeps_to_its_quota_under_retain() {
    let retain = WhenAbsent::Retain { quota: 4, then: WhenRetained::DropOldest };
    let share = median_of_five(policies(retain, WhenFull::Block), GO);
    assert!(share >= 0.95, "{share}");
}
