//! What the benches share: a worker, a partition, its gates; and the rivals' hand-over of buffers.

#![allow(dead_code, reason = "each bench uses a part of it")]

use pirn::{
    Attempt, Flush, GateConfig, Incarnation, InputGate, Item, MemoryConfig, PartitionConfig, PartitionId,
    Policies, RecordLayout, RecordWriter, SegmentClass, TryNext, Worker,
};
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of a record that fills a segment of 32 KiB with its length.
pub(crate) const SEGMENT_RECORD: usize = 32 * 1024 - 4;

pub(crate) struct Channel {
    pub(crate) worker: Worker,
    pub(crate) writer: RecordWriter,
    pub(crate) gates: Vec<InputGate>,
}

pub(crate) struct Shape {
    pub(crate) subpartitions: u32,
    pub(crate) layout: RecordLayout,
    pub(crate) flush: Flush,
    pub(crate) class: SegmentClass,
    pub(crate) floating: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            subpartitions: 1,
            layout: RecordLayout::Lengths,
            flush: Flush::WhenFull,
            class: SegmentClass::K32,
            floating: 64,
        }
    }
}

impl Channel {
    /// One writer, and one gate for each subpartition, bound.
    pub(crate) fn new(shape: &Shape) -> Self {
        let segments = shape.subpartitions + shape.floating + 16;
        let memory = MemoryConfig::new()
            .segments(SegmentClass::K32, 0)
            .segments(shape.class, segments + 64)
            .orphan_segments(8);
        let worker = Worker::builder().memory(memory).start().expect("memory for the bench");
        let policies = Policies { flush: shape.flush, ..Policies::default() };
        let config = PartitionConfig::new(shape.subpartitions)
            .layout(shape.layout)
            .policies(policies)
            .segment_class(shape.class)
            .floating_segments(shape.floating);
        let writer = worker
            .create_partition(PartitionId::default(), Attempt(1), config)
            .expect("the arena is large enough");
        let mut gates: Vec<_> = (0..shape.subpartitions)
            .map(|index| {
                let config = GateConfig::new(Attempt(1), Incarnation(1)).channel(writer.descriptor(index));
                worker.input_gate(config)
            })
            .collect();
        for gate in &mut gates {
            // The bind, and its notice.
            assert!(matches!(gate.try_next(), Ok(TryNext::Item(Item::Available { .. }))));
        }
        Self { worker, writer, gates }
    }

    /// Writes one record, and reads everything there is when a ring is full.
    pub(crate) fn write(&mut self, target: u32, record: &[u8], sum: &mut u64) {
        while self.writer.try_write(target, record).is_err() {
            self.drain(sum);
        }
    }

    /// Reads everything there is.
    pub(crate) fn drain(&mut self, sum: &mut u64) {
        self.writer.flush();
        for gate in &mut self.gates {
            *sum += drain(gate);
        }
    }
}

/// Reads all that is there now, and touches it.
pub(crate) fn drain(gate: &mut InputGate) -> u64 {
    let mut sum = 0;
    while let Ok(TryNext::Item(item)) = gate.try_next() {
        if let Item::Record(record) = item {
            sum += touch(record.as_bytes());
        }
    }
    sum
}

/// Reads a word of every cache line.
#[inline]
pub(crate) fn touch(bytes: &[u8]) -> u64 {
    bytes.iter().step_by(64).map(|byte| u64::from(*byte)).sum()
}

/// Reads `records` records on the calling thread.
pub(crate) fn read_records(gate: &mut InputGate, records: u64) -> u64 {
    let (mut got, mut sum) = (0, 0);
    while got < records {
        match gate.next_blocking() {
            Ok(Some(Item::Record(record))) => {
                sum += touch(record.as_bytes());
                got += 1;
            }
            Ok(Some(_)) => {}
            other => panic!("the writer ended early: {other:?}"),
        }
    }
    sum
}

/// Time for `count` records of so many bytes from one thread to another.
pub(crate) fn through_a_channel(bytes: usize, count: u64, buffers: usize) -> Duration {
    let mut channel = Channel::new(&Shape { floating: buffers as u32, ..Shape::default() });
    let record = vec![3_u8; bytes];
    let mut gate = channel.gates.pop().expect("one subpartition, one gate");
    let start = Instant::now();
    let reader = thread::spawn(move || read_records(&mut gate, count));
    for _ in 0..count {
        channel.writer.write_blocking(0, black_box(&record)).expect("nobody closes the partition");
    }
    channel.writer.flush();
    black_box(reader.join().expect("the reader doesn't panic"));
    start.elapsed()
}
