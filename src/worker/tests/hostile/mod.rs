//! Peers that shake hands as they should, and then do what no worker does: each time one answer that names the
//! rule, one count, and the end of one stream or of one connection. Nobody else notices.

#![allow(clippy::disallowed_methods, reason = "tests over sockets measure real time")]

#[cfg(feature = "tracing")]
mod alone;
mod binders;
mod endings;
mod peer;
mod servers;
mod turning;
mod unread;

use crate::gate::{GateConfig, InputGate, Item, TryNext};
use crate::id::{Attempt, BindSecret, DataSetId, Incarnation, JobId, PartitionId};
use crate::memory::{MemoryConfig, SegmentClass};
use crate::net::NetSnapshot;
use crate::partition::PartitionConfig;
use crate::subpartition::{Flush, Policies, WhenFull};
use crate::transport::Io;
use crate::worker::{Driver, Worker};
use crate::writer::RecordWriter;
use peer::TOKEN;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use turning::Turning;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// How the attacked worker moves its bytes, and who turns its sockets.
type Way = (Io, Driver);

/// Every test over all of them.
const WAYS: [Way; 4] = [
    (Io::Epoll, Driver::Threads(1)),
    (Io::Auto, Driver::Threads(1)),
    (Io::Epoll, Driver::Caller),
    (Io::Auto, Driver::Caller),
];

/// Where the back-end makes no difference.
const DRIVERS: [Way; 2] = [WAYS[1], WAYS[3]];

fn id(index: u32) -> PartitionId {
    PartitionId { job: JobId(1), data_set: DataSetId(2), index }
}

fn secret() -> BindSecret {
    BindSecret::new(7)
}

fn worker((io, driver): Way) -> Worker {
    let memory = MemoryConfig::new().segments(SegmentClass::K32, 0).segments(SegmentClass::K4, 1024);
    let builder = Worker::builder().memory(memory).io(io).driver(driver).receive_buffers(4);
    // The peers of these tests have no control thread, and are no less alive for it.
    let builder = builder.dead_after(Duration::from_secs(600)).bind_wait(Duration::from_secs(600));
    builder.listen((Ipv4Addr::LOCALHOST, 0).into()).cluster_token(TOKEN.0).start().unwrap()
}

fn partition(worker: &Worker, index: u32) -> RecordWriter {
    // A reader that doesn't take what there is loses records, not the writer's time.
    let when_full = WhenFull::Discard { after: Duration::ZERO };
    let policies = Policies { flush: Flush::EveryRecord, when_full, ..Policies::default() };
    let config = PartitionConfig::new(2).segment_class(SegmentClass::K4).quota_segments(16).secret(secret());
    worker.create_partition(id(index), Attempt(1), config.policies(policies)).unwrap()
}

fn until(what: &str, mut wanted: impl FnMut() -> bool) {
    let start = Instant::now();
    while !wanted() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        turning::wait();
    }
}

/// The worker that is attacked, and a healthy pair beside the peer that attacks.
struct Victim {
    worker: Worker,
    healthy: Worker,
    writer: RecordWriter,
    gate: InputGate,
    number: u64,
    turning: Option<Turning>,
}

impl Victim {
    fn new(way: Way) -> Self {
        let (worker, healthy) = (worker(way), worker((way.0, Driver::Threads(1))));
        let turning = (way.1 == Driver::Caller).then(|| Turning::begin(&worker));
        let writer = partition(&worker, 99);
        let config = GateConfig::new(Attempt(1), Incarnation(1)).channel(writer.descriptor(0));
        let gate = healthy.input_gate(config);
        let mut victim = Self { worker, healthy, writer, gate, number: 0, turning };
        assert!(matches!(victim.next(), Item::Available { .. }));
        victim.assert_flows();
        victim
    }

    fn address(&self) -> SocketAddr {
        self.worker.address().unwrap()
    }

    fn net(&self) -> NetSnapshot {
        self.worker.snapshot().net
    }

    fn next(&mut self) -> Item<'_> {
        next(&mut self.gate)
    }

    /// The healthy pair's next records come.
    fn assert_flows(&mut self) {
        for _ in 0..5 {
            let number = self.number.to_le_bytes();
            self.writer.write_blocking(0, &number).unwrap();
            match self.next() {
                Item::Record(record) => assert_eq!(record.as_bytes(), number),
                other => panic!("{other:?}"),
            }
            self.number += 1;
        }
    }

    /// So many rules have been broken, and connections live.
    fn until_counted(&self, violations: u64, live: u64) {
        until("counted", || {
            let net = self.net();
            (net.violations, net.connections - net.connections_lost) == (violations, live)
        });
    }

    /// All is as it was, but for what is counted.
    fn end(mut self, violations: u64) {
        self.assert_flows();
        let Self { worker, healthy, writer, gate, turning, .. } = self;
        drop((gate, writer));
        drop(turning);
        let start = Instant::now();
        assert_eq!(healthy.shutdown(Duration::ZERO).net.violations, 0, "the healthy one breaks nothing");
        let last = worker.shutdown(Duration::ZERO);
        assert_eq!((last.lost_wakeups, last.net.violations), (0, violations));
        assert!(start.elapsed() < Duration::from_secs(5), "ended after {:?}", start.elapsed());
        let census = worker.census();
        assert!(census.is_whole() && census.held() == 0, "{census:?}");
    }
}

fn next(gate: &mut InputGate) -> Item<'_> {
    match gate.next_blocking_timeout(PATIENCE) {
        Ok(TryNext::Item(item)) => item,
        other => panic!("{other:?}"),
    }
}
