//! A local channel between two threads, against a pair of threads that copy and sum 32 KiB buffers over rtrb.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used, reason = "a bench")]

mod common;

use common::{through_a_channel, touch};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

const BUFFER_BYTES: usize = 32 * 1024;
const BUFFERS: usize = 32;

fn local_channel(c: &mut Criterion) {
    let mut group = c.benchmark_group("local channel");
    group.sample_size(20);
    for bytes in [8_usize, 100, 1_000, 32_000] {
        group.throughput(Throughput::Bytes(bytes as u64));
        let id = |name: &str| BenchmarkId::new(name, bytes);
        group.bench_function(id("pirn"), |b| b.iter_custom(|count| through_a_channel(bytes, count, BUFFERS)));
        group.bench_function(id("buffers over rtrb"), |b| b.iter_custom(|count| rtrb(bytes, count)));
    }
    group.finish();
}

/// Copies records into buffers without lengths, passes full buffers, sums them.
fn rtrb(bytes: usize, count: u64) -> Duration {
    let (mut full, mut to_read) = rtrb::RingBuffer::<Vec<u8>>::new(BUFFERS);
    let (mut to_return, mut free) = rtrb::RingBuffer::<Vec<u8>>::new(BUFFERS);
    for _ in 0..BUFFERS {
        to_return.push(Vec::with_capacity(BUFFER_BYTES)).unwrap();
    }
    let record = vec![3_u8; bytes];
    let start = Instant::now();
    let reader = thread::spawn(move || {
        let (mut left, mut sum) = (count * bytes as u64, 0);
        while left > 0 {
            let Ok(mut buffer) = to_read.pop() else {
                thread::yield_now();
                continue;
            };
            sum += buffer.chunks_exact(bytes).map(touch).sum::<u64>();
            left -= buffer.len() as u64;
            buffer.clear();
            let _ = to_return.push(buffer);
        }
        sum
    });
    let mut open: Option<Vec<u8>> = None;
    for _ in 0..count {
        let mut buffer = loop {
            match open.take().or_else(|| free.pop().ok()) {
                Some(buffer) => break buffer,
                None => thread::yield_now(),
            }
        };
        buffer.extend_from_slice(black_box(&record));
        if buffer.len() + bytes > BUFFER_BYTES {
            full.push(buffer).unwrap();
        } else {
            open = Some(buffer);
        }
    }
    if let Some(buffer) = open {
        full.push(buffer).unwrap();
    }
    black_box(reader.join().unwrap());
    start.elapsed()
}

criterion_group!(benches, local_channel);
criterion_main!(benches);
