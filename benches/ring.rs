//! Hand-over of filled segments between two threads: Pirn's ring against queues that pass a pointer, with
//! the same memory filled and touched. And the doorbell: what a wake-up costs.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used, reason = "a bench")]

mod common;

use common::{Channel, SEGMENT_RECORD, Shape, read_records, through_a_channel, touch};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use crossbeam_queue::ArrayQueue;
use disruptor::{BusySpin, Producer, build_single_producer};
use pirn::{Flush, Item};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Buffers under way at a time, in every form.
const BUFFERS: usize = 32;

fn hand_over(c: &mut Criterion) {
    let mut group = c.benchmark_group("hand-over of 32 KiB");
    group.throughput(Throughput::Bytes(SEGMENT_RECORD as u64)).sample_size(20);
    group.bench_function("pirn", |b| b.iter_custom(pirn_segments));
    group.bench_function("rtrb", |b| b.iter_custom(rtrb_buffers));
    group.bench_function("ArrayQueue", |b| b.iter_custom(array_queue_buffers));
    group.bench_function("disruptor", |b| b.iter_custom(disruptor_buffers));
    group.finish();
}

fn pirn_segments(count: u64) -> Duration {
    through_a_channel(SEGMENT_RECORD, count, BUFFERS)
}

fn rtrb_buffers(count: u64) -> Duration {
    let (mut full, mut to_read) = rtrb::RingBuffer::<Box<[u8]>>::new(BUFFERS);
    let (mut to_return, mut free) = rtrb::RingBuffer::<Box<[u8]>>::new(BUFFERS);
    for _ in 0..BUFFERS {
        to_return.push(vec![0; SEGMENT_RECORD].into()).unwrap();
    }
    let record = vec![3_u8; SEGMENT_RECORD];
    let start = Instant::now();
    let reader = thread::spawn(move || {
        let mut sum = 0;
        for _ in 0..count {
            let buffer = wait(|| to_read.pop().ok());
            sum += touch(&buffer);
            let _ = to_return.push(buffer);
        }
        sum
    });
    for _ in 0..count {
        let mut buffer = wait(|| free.pop().ok());
        buffer.copy_from_slice(black_box(&record));
        full.push(buffer).unwrap();
    }
    black_box(reader.join().unwrap());
    start.elapsed()
}

fn array_queue_buffers(count: u64) -> Duration {
    let full = Arc::new(ArrayQueue::<Box<[u8]>>::new(BUFFERS));
    let free = Arc::new(ArrayQueue::<Box<[u8]>>::new(BUFFERS));
    for _ in 0..BUFFERS {
        free.push(vec![0; SEGMENT_RECORD].into()).unwrap();
    }
    let record = vec![3_u8; SEGMENT_RECORD];
    let start = Instant::now();
    let reader = thread::spawn({
        let (full, free) = (full.clone(), free.clone());
        move || {
            let mut sum = 0;
            for _ in 0..count {
                let buffer = wait(|| full.pop());
                sum += touch(&buffer);
                let _ = free.push(buffer);
            }
            sum
        }
    });
    for _ in 0..count {
        let mut buffer = wait(|| free.pop());
        buffer.copy_from_slice(black_box(&record));
        full.push(buffer).unwrap();
    }
    black_box(reader.join().unwrap());
    start.elapsed()
}

fn disruptor_buffers(count: u64) -> Duration {
    let sum = Arc::new(AtomicU64::new(0));
    let summed = sum.clone();
    let record = vec![3_u8; SEGMENT_RECORD];
    let start = Instant::now();
    let mut producer = build_single_producer(BUFFERS, || vec![0_u8; SEGMENT_RECORD], BusySpin)
        .handle_events_with(move |buffer: &Vec<u8>, _, _| {
            summed.fetch_add(touch(buffer), Ordering::Relaxed);
        })
        .build();
    for _ in 0..count {
        producer.publish(|buffer| buffer.copy_from_slice(black_box(&record)));
    }
    // Waits for the handler.
    drop(producer);
    black_box(sum.load(Ordering::Relaxed));
    start.elapsed()
}

/// Looks until there is something; on few cores a loop that never yields would measure the scheduler.
fn wait<T>(mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = look() {
            return found;
        }
        thread::yield_now();
    }
}

fn doorbell(c: &mut Criterion) {
    let mut group = c.benchmark_group("doorbell");
    group.sample_size(20);
    for (name, flush) in [
        ("a record nobody rings for", Flush::WhenFull),
        ("a record that rings an awake reader", Flush::EveryRecord),
        ("a record within the interval", Flush::Interval(Duration::from_millis(1))),
    ] {
        let mut channel = Channel::new(&Shape { flush, ..Shape::default() });
        let mut sum = 0;
        group.bench_function(name, |b| b.iter(|| channel.write(0, black_box(&[1; 100]), &mut sum)));
    }
    group.bench_function("there and back, both asleep", |b| b.iter_custom(ping_pong));
    group.finish();
}

/// Two partitions, two threads: each record is answered by one.
fn ping_pong(count: u64) -> Duration {
    let shape = Shape { flush: Flush::EveryRecord, ..Shape::default() };
    let (mut there, mut back) = (Channel::new(&shape), Channel::new(&shape));
    let (mut here, mut far) = (back.gates.pop().unwrap(), there.gates.pop().unwrap());
    let echo = thread::spawn(move || {
        let mut answered = 0;
        while answered < count {
            if let Some(Item::Record(_)) = far.next_blocking().unwrap() {
                back.writer.write_blocking(0, &[2; 8]).unwrap();
                answered += 1;
            }
        }
        back
    });
    let start = Instant::now();
    for _ in 0..count {
        there.writer.write_blocking(0, &[1; 8]).unwrap();
        read_records(&mut here, 1);
    }
    let elapsed = start.elapsed();
    drop(echo.join().unwrap());
    elapsed
}

criterion_group!(benches, hand_over, doorbell);
criterion_main!(benches);
