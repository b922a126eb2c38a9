//! The record loop: what a record costs, with the question whether somebody is there, and without a shuffle
//! at all; discarded; over many subpartitions; with lengths and without.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used, reason = "a bench")]

mod common;

use common::{Channel, Shape, touch};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pirn::{RecordLayout, SegmentClass};
use std::hint::black_box;
use std::num::NonZeroU32;

const RECORD: [u8; 100] = [7; 100];

/// Appends records with their length to N buffers, and reads a buffer when it is full: the least that any
/// shuffle has to do.
struct PlainLoop {
    buffers: Vec<Vec<u8>>,
    capacity: usize,
}

impl PlainLoop {
    fn new(buffers: usize, capacity: usize) -> Self {
        Self { buffers: (0..buffers).map(|_| Vec::with_capacity(capacity)).collect(), capacity }
    }

    #[inline]
    fn write(&mut self, target: usize, record: &[u8], sum: &mut u64) {
        let buffer = &mut self.buffers[target];
        if buffer.len() + 4 + record.len() > self.capacity {
            *sum += read(buffer);
            buffer.clear();
        }
        buffer.extend_from_slice(&(record.len() as u32).to_le_bytes());
        buffer.extend_from_slice(record);
    }
}

fn read(buffer: &[u8]) -> u64 {
    let (mut sum, mut rest) = (0, buffer);
    while let Some((length, body)) = rest.split_first_chunk::<4>() {
        let (record, behind) = body.split_at(u32::from_le_bytes(*length) as usize);
        sum += touch(record);
        rest = behind;
    }
    sum
}

fn one_record(c: &mut Criterion) {
    let mut group = c.benchmark_group("a record of 100 B, written and read");
    group.throughput(Throughput::Elements(1));
    let mut sum = 0;
    let mut plain = PlainLoop::new(1, 32 * 1024);
    group.bench_function("plain loop, no check", |b| b.iter(|| plain.write(0, black_box(&RECORD), &mut sum)));
    let mut channel = Channel::new(&Shape::default());
    group.bench_function("pirn", |b| b.iter(|| channel.write(0, black_box(&RECORD), &mut sum)));
    let mut gone = Channel::new(&Shape::default());
    gone.gates.clear();
    group.bench_function("pirn, discarded", |b| b.iter(|| gone.write(0, black_box(&RECORD), &mut sum)));
    group.finish();
    black_box(sum);
}

fn many_subpartitions(c: &mut Criterion) {
    let mut group = c.benchmark_group("round robin, records of 100 B");
    group.throughput(Throughput::Elements(1)).sample_size(30);
    let mut sum = 0;
    for count in [1_u32, 100, 10_000] {
        let mut plain = PlainLoop::new(count as usize, 4096);
        let mut next = 0;
        group.bench_with_input(BenchmarkId::new("plain loop", count), &count, |b, count| {
            b.iter(|| {
                plain.write(next as usize, black_box(&RECORD), &mut sum);
                next = if next + 1 == *count { 0 } else { next + 1 };
            });
        });
        let shape = Shape { subpartitions: count, class: SegmentClass::K4, ..Shape::default() };
        let mut channel = Channel::new(&shape);
        let mut next = 0;
        group.bench_with_input(BenchmarkId::new("pirn", count), &count, |b, count| {
            b.iter(|| {
                channel.write(next, black_box(&RECORD), &mut sum);
                next = if next + 1 == *count { 0 } else { next + 1 };
            });
        });
    }
    group.finish();
    black_box(sum);
}

fn framing(c: &mut Criterion) {
    let mut group = c.benchmark_group("framing, written and read");
    group.throughput(Throughput::Elements(1));
    let mut sum = 0;
    let fixed = |bytes| RecordLayout::Fixed(NonZeroU32::new(bytes).unwrap());
    for (name, layout, sizes) in [
        ("8 B fixed", fixed(8), [8, 8]),
        ("8 B with equal lengths", RecordLayout::Lengths, [8, 8]),
        ("8 B and 9 B with lengths", RecordLayout::Lengths, [8, 9]),
        ("100 B fixed", fixed(100), [100, 100]),
        ("100 B with equal lengths", RecordLayout::Lengths, [100, 100]),
        ("100 B and 99 B with lengths", RecordLayout::Lengths, [100, 99]),
    ] {
        let mut channel = Channel::new(&Shape { layout, ..Shape::default() });
        let records = sizes.map(|size| vec![1_u8; size]);
        let mut turn = 0;
        group.bench_function(name, |b| {
            b.iter(|| {
                turn ^= 1;
                channel.write(0, black_box(&records[turn]), &mut sum);
            });
        });
    }
    group.finish();
    black_box(sum);
}

criterion_group!(benches, one_record, many_subpartitions, framing);
criterion_main!(benches);
