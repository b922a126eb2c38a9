//! The wire: frames and the protocol's share of a turn by themselves, and one record there and back between two
//! workers over loopback.
//!
//! Frames and protocol are no part of the library's face. They are pure, and import nothing that does I/O, so that
//! their sources are compiled into this bench as they are.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used, reason = "a bench")]
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    missing_docs,
    missing_debug_implementations,
    reason = "of the library's sources it uses a part, and exports nothing"
)]

#[path = "../src/clock.rs"]
mod clock;
#[path = "../src/error.rs"]
mod error;
#[path = "../src/event.rs"]
mod event;
#[path = "../src/id.rs"]
mod id;
#[path = "../src/protocol/mod.rs"]
mod protocol;
#[path = "../src/record/mod.rs"]
mod record;
#[path = "../src/rules.rs"]
mod rules;
#[path = "common/stream.rs"]
mod stream;
#[path = "../src/test_size.rs"]
mod test_size;
#[path = "../src/wire/mod.rs"]
mod wire;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pirn::{
    Attempt, Driver, Flush, InputGate, Io, Item, PartitionConfig, PartitionId, Policies, RecordWriter, Worker,
};
use std::hint::black_box;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use stream::{Ends, acks, runs};
use wire::{Features, Frame, decode, encode_acks, encode_data};

/// Longer than the end of a ping-pong takes.
const PATIENCE: Duration = Duration::from_secs(20);

fn frames(c: &mut Criterion) {
    let mut group = c.benchmark_group("frame");
    group.sample_size(20);
    for (name, count, bytes) in [("DATA of 1 x 32 KiB", 1, 32 * 1024), ("DATA of 64 x 200 B", 64, 200)] {
        let runs = runs(count, bytes);
        let payload = vec![3_u8; (count * bytes) as usize];
        group.throughput(Throughput::Elements(u64::from(count)));
        for (features, with) in [(Features::NONE, ""), (Features::CRC, ", CRC")] {
            // The payload is sent from where it lies: encoding is of header and runs, and reads it for a CRC alone.
            let encode = |out: &mut Vec<u8>| {
                let mut pieces = payload.chunks(bytes as usize);
                encode_data(out, &runs, features.has(Features::CRC).then_some(&mut pieces as _));
            };
            let mut frame = Vec::new();
            encode(&mut frame);
            frame.extend_from_slice(&payload);
            let mut out = Vec::with_capacity(frame.len());
            group.bench_function(BenchmarkId::new("encode", format!("{name}{with}")), |b| {
                b.iter(|| {
                    out.clear();
                    encode(black_box(&mut out));
                })
            });
            group.bench_function(BenchmarkId::new("decode", format!("{name}{with}")), |b| {
                b.iter(|| {
                    let Ok(Frame::Data(runs)) = decode(black_box(&frame), features) else {
                        panic!("no DATA")
                    };
                    runs.iter().map(|(run, range)| u64::from(run.bytes) + range.start as u64).sum::<u64>()
                })
            });
        }
    }
    let acks = acks(128);
    let mut frame = Vec::new();
    encode_acks(&mut frame, Features::NONE, &acks);
    let mut out = Vec::with_capacity(frame.len());
    group.throughput(Throughput::Elements(128));
    group.bench_function(BenchmarkId::new("encode", "ACK of 128"), |b| {
        b.iter(|| {
            out.clear();
            encode_acks(black_box(&mut out), Features::NONE, &acks);
        })
    });
    group.bench_function(BenchmarkId::new("decode", "ACK of 128"), |b| {
        b.iter(|| {
            let Ok(Frame::Acks(acks)) = decode(black_box(&frame), Features::NONE) else { panic!("no ACK") };
            acks.iter().map(|ack| ack.limit.bytes + ack.consumed.records).sum::<u64>()
        })
    });
    group.finish();
}

/// What the two ends of a stream decide about 16 runs of 4 KiB and the acknowledgement of them: half a window.
fn turn(c: &mut Criterion) {
    let mut ends = Ends::new();
    let mut group = c.benchmark_group("protocol turn");
    group.throughput(Throughput::Elements(Ends::RUNS)).sample_size(20);
    group.bench_function("16 runs and their acknowledgement", |b| b.iter(|| ends.turn()));
    group.finish();
}

/// A worker's half of a ping-pong: what it writes, and what it reads.
struct Half {
    writer: RecordWriter,
    gate: InputGate,
    /// Turned by every call that blocks, under [`Driver::Caller`].
    reactor: Option<pirn::Reactor>,
}

impl Half {
    /// Tells the other side where its partition is, and is told where that one's is.
    fn new(
        worker: &Worker,
        driver: Driver,
        tell: &mpsc::Sender<Vec<u8>>,
        told: &mpsc::Receiver<Vec<u8>>,
    ) -> Self {
        let reactor = (driver == Driver::Caller).then(|| worker.reactor().unwrap());
        let policies = Policies { flush: Flush::EveryRecord, ..Policies::default() };
        let config = PartitionConfig::new(1).policies(policies);
        let writer = worker.create_partition(PartitionId::default(), Attempt(1), config).unwrap();
        tell.send(writer.descriptor(0).to_bytes()).unwrap();
        let descriptor = pirn::ChannelDescriptor::from_bytes(&told.recv().unwrap()).unwrap();
        let config = pirn::GateConfig::new(Attempt(1), pirn::Incarnation::random().unwrap());
        Self { writer, gate: worker.input_gate(config.channel(descriptor)), reactor }
    }

    fn write(&mut self, number: u64) {
        self.writer.write_blocking(0, &number.to_le_bytes()).unwrap();
    }

    /// The next record; none at the end.
    fn read(&mut self) -> Option<u64> {
        loop {
            if let Item::Record(record) = self.gate.next_blocking().unwrap()? {
                return Some(u64::from_le_bytes(record.as_bytes().try_into().unwrap()));
            }
        }
    }
}

fn worker(io: Io, driver: Driver) -> Worker {
    let builder = Worker::builder().listen(([127, 0, 0, 1], 0).into()).insecure_without_token();
    builder.io(io).driver(driver).start().unwrap()
}

fn round_trip(c: &mut Criterion) {
    let mut group = c.benchmark_group("round trip of a record");
    group.sample_size(10);
    for (driver, by) in [(Driver::Threads(1), "threads"), (Driver::Caller, "caller")] {
        for (io, over) in [(Io::Uring, "io_uring"), (Io::Epoll, "epoll")] {
            let Ok(here) =
                Worker::builder().listen(([127, 0, 0, 1], 0).into()).insecure_without_token().io(io).start()
            else {
                println!("skipped: the kernel refuses {over}");
                continue;
            };
            drop(here);
            group.bench_function(BenchmarkId::new(by, over), |b| ping_pong(b, io, driver));
        }
    }
    group.finish();
}

fn ping_pong(b: &mut criterion::Bencher<'_>, io: Io, driver: Driver) {
    let (tell_there, told_there) = mpsc::channel();
    let (tell_here, told_here) = mpsc::channel();
    let there = thread::spawn(move || {
        let worker = worker(io, driver);
        let mut half = Half::new(&worker, driver, &tell_here, &told_there);
        while let Some(number) = half.read() {
            half.write(number + 1);
        }
        half.writer.finish_blocking_timeout(PATIENCE).unwrap();
    });
    let worker = worker(io, driver);
    let mut half = Half::new(&worker, driver, &tell_there, &told_here);
    // The first has to wait for connections and binds.
    half.write(0);
    assert_eq!(half.read(), Some(1));
    let mut number = 0;
    b.iter_custom(|count| {
        let start = Instant::now();
        for _ in 0..count {
            half.write(number);
            assert_eq!(half.read(), Some(number + 1));
            number += 1;
        }
        start.elapsed()
    });
    half.writer.finish_blocking_timeout(PATIENCE).unwrap();
    assert_eq!(half.read(), None);
    // The other side waits for the acknowledgement of that end, which goes out with a turn.
    if let Some(reactor) = &half.reactor {
        reactor.turn(Some(Duration::ZERO)).unwrap();
    }
    drop(half);
    there.join().unwrap();
}

criterion_group!(benches, frames, turn, round_trip);
criterion_main!(benches);
