//! A producer's worker and a consumer's, and a bystander between them whom nothing may disturb.

use pirn::{
    Attempt, BindError, BindSecret, Cause, ChannelDescriptor, DataSetId, Driver, Event, Flush, GateConfig,
    GateError, Incarnation, InputGate, Io, Item, JobId, Location, LossReport, MemoryConfig, PartitionConfig,
    PartitionId, PartitionSnapshot, Phase, Policies, RecordLayout, RecordWriter, RemoteAddress, SegmentClass,
    TryNext, WhenAbsent, Worker, WorkerBuilder,
};
use std::time::{Duration, Instant};

/// Longer than anything here takes: whoever waits that long is stuck.
pub(crate) const STUCK: Duration = Duration::from_secs(30);
/// So long nothing has to come.
const SILENCE: Duration = Duration::from_millis(60);

pub(crate) fn id(index: u32) -> PartitionId {
    PartitionId { job: JobId(1), data_set: DataSetId(1), index }
}

/// The partition of the bystander, of a job of its own.
fn bystander_id() -> PartitionId {
    PartitionId { job: JobId(2), data_set: DataSetId(1), index: 0 }
}

pub(crate) fn secret() -> BindSecret {
    BindSecret::new(7)
}

pub(crate) fn builder(io: Io) -> WorkerBuilder {
    let memory = MemoryConfig::new().segments(SegmentClass::K32, 0).segments(SegmentClass::K4, 1024);
    let builder = Worker::builder().memory(memory).bind_wait(Duration::from_millis(300));
    let builder = builder.listen("127.0.0.1:0".parse().unwrap()).cluster_token([7; 32]);
    builder.io(io).driver(Driver::Threads(1)).receive_buffers(4)
}

/// A partition whose records are told of at once.
pub(crate) fn config(subpartitions: u32, when_absent: WhenAbsent) -> PartitionConfig {
    let policies = Policies { flush: Flush::EveryRecord, when_absent, ..Policies::default() };
    PartitionConfig::new(subpartitions)
        .segment_class(SegmentClass::K4)
        .quota_segments(16)
        .policies(policies)
        .secret(secret())
}

pub(crate) const RETAIN: WhenAbsent = WhenAbsent::Retain { quota: 16, then: pirn::WhenRetained::Block };

/// What a gate yields, owned.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Got {
    Record(u32, Vec<u8>),
    Event(u32, Event),
    Priority(u32, Vec<u8>),
    Available(u32, Attempt),
    Unavailable(u32, Cause),
    Loss(u32),
    AlignmentBroken(u64, u32),
    EndOfData(u32),
    EndOfPartition(u32),
    BindFailed(u32, BindError),
    Failed(GateError),
    End,
}

/// The next thing that a gate yields, and what a notice of it said was lost.
pub(crate) fn next_with_loss(gate: &mut InputGate) -> (Got, LossReport) {
    let mut report = LossReport::default();
    let got = match gate.next_blocking_timeout(STUCK) {
        Err(error) => Got::Failed(error),
        Ok(TryNext::End) => Got::End,
        Ok(TryNext::Empty) => panic!("stuck: {:?}", gate.why_blocked(0)),
        Ok(TryNext::Item(item)) => match item {
            Item::Record(record) => Got::Record(record.channel(), record.as_bytes().to_vec()),
            Item::Event { channel, event } => Got::Event(channel, event),
            Item::Priority { channel, event } => Got::Priority(channel, event.as_bytes().to_vec()),
            Item::Available { channel, producer, loss, .. } => {
                report = *loss;
                Got::Available(channel, producer)
            }
            Item::Unavailable { channel, cause, .. } => Got::Unavailable(channel, cause),
            Item::Loss { channel, .. } => Got::Loss(channel),
            Item::AlignmentBroken { barrier, channel } => Got::AlignmentBroken(barrier, channel),
            Item::EndOfData { channel } => Got::EndOfData(channel),
            Item::EndOfPartition { channel } => Got::EndOfPartition(channel),
            Item::BindFailed { channel, error } => Got::BindFailed(channel, error),
            other => panic!("unknown: {other:?}"),
        },
    };
    (got, report)
}

pub(crate) fn next(gate: &mut InputGate) -> Got {
    next_with_loss(gate).0
}

/// Nothing comes of the gate now.
pub(crate) fn assert_silent(gate: &mut InputGate) {
    match gate.next_blocking_timeout(SILENCE).unwrap() {
        TryNext::Empty => {}
        other => panic!("not silent: {other:?}"),
    }
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut wanted: impl FnMut() -> bool) {
    let start = Instant::now();
    while !wanted() {
        assert!(start.elapsed() < STUCK, "never: {what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

pub(crate) fn record(number: u64, bytes: usize) -> Vec<u8> {
    let mut record = vec![number as u8; bytes.max(8)];
    record[..8].copy_from_slice(&number.to_le_bytes());
    record
}

pub(crate) fn number(record: &[u8]) -> u64 {
    u64::from_le_bytes(*record.first_chunk().unwrap())
}

pub(crate) fn write(writer: &mut RecordWriter, numbers: std::ops::Range<u64>) {
    for number in numbers {
        writer.write_blocking_timeout(0, &record(number, 100), STUCK).unwrap();
    }
}

/// The next so many items are these records of channel 0.
pub(crate) fn expect_records(gate: &mut InputGate, numbers: std::ops::Range<u64>) {
    for number in numbers {
        assert_eq!(next(gate), Got::Record(0, record(number, 100)));
    }
}

pub(crate) fn finish(writer: &mut RecordWriter) {
    writer.finish_blocking_timeout(STUCK).unwrap();
}

/// See the module's text. Without a network both workers are the same one.
pub(crate) struct Stage {
    pub(crate) producer: Worker,
    pub(crate) consumer: Worker,
    pub(crate) io: Option<Io>,
    bystander: Option<(RecordWriter, InputGate)>,
}

impl Stage {
    pub(crate) fn local() -> Self {
        let worker = builder(Io::Epoll).start().unwrap();
        Self::with(worker.clone(), worker, None)
    }

    pub(crate) fn remote(io: Io) -> Self {
        Self::with(builder(io).start().unwrap(), builder(io).start().unwrap(), Some(io))
    }

    fn with(producer: Worker, consumer: Worker, io: Option<Io>) -> Self {
        let writer = producer.create_partition(bystander_id(), Attempt(1), config(1, WhenAbsent::Discard));
        let mut writer = writer.unwrap();
        let gate_config = GateConfig::new(Attempt(1), Incarnation(1)).channel(writer.descriptor(0));
        let mut gate = consumer.input_gate(gate_config);
        assert_eq!(next(&mut gate), Got::Available(0, Attempt(1)));
        write(&mut writer, 0..10);
        expect_records(&mut gate, 0..10);
        Self { producer, consumer, io, bystander: Some((writer, gate)) }
    }

    /// A worker more; with a network, one of its own.
    pub(crate) fn another(&self) -> Worker {
        self.io.map_or_else(|| self.producer.clone(), |io| builder(io).start().unwrap())
    }

    pub(crate) fn create(&self, index: u32, attempt: u32, config: PartitionConfig) -> RecordWriter {
        self.producer.create_partition(id(index), Attempt(attempt), config).unwrap()
    }

    /// As an engine would make it before the partition is there.
    pub(crate) fn descriptor(&self, index: u32, attempt: u32) -> ChannelDescriptor {
        let socket = self.producer.address().unwrap();
        ChannelDescriptor {
            partition: id(index),
            producer_attempt: Attempt(attempt),
            subpartition: 0,
            location: Location::Remote(RemoteAddress { socket, endpoint: 0 }),
            secret: secret(),
            layout: RecordLayout::Lengths,
        }
    }

    pub(crate) fn config(&self, attempt: u32) -> GateConfig {
        GateConfig::new(Attempt(attempt), Incarnation(u64::from(attempt)))
    }

    /// A gate of an attempt of the consumer over partition `index`.
    pub(crate) fn gate(&self, attempt: u32, index: u32, producer: u32) -> InputGate {
        self.consumer.input_gate(self.config(attempt).channel(self.descriptor(index, producer)))
    }

    /// The same, bound.
    pub(crate) fn bound(&self, attempt: u32, index: u32, producer: u32) -> InputGate {
        let mut gate = self.gate(attempt, index, producer);
        assert_eq!(next(&mut gate), Got::Available(0, Attempt(producer)));
        gate
    }

    pub(crate) fn partition(&self, index: u32) -> Option<PartitionSnapshot> {
        let snapshot = self.producer.snapshot();
        snapshot.partitions.into_iter().find(|partition| partition.partition == id(index))
    }

    /// Until the consumer of the partition has gone.
    pub(crate) fn until_absent(&self, index: u32) {
        until("the consumer is absent", || {
            self.partition(index).unwrap().subpartitions[0].phase == Phase::Unavailable
        });
    }

    /// Until so many binds wait at the producer's worker.
    pub(crate) fn until_waiting(&self, binds: usize) {
        until("binds wait", || self.producer.snapshot().binds_waiting == binds);
    }

    /// The bystander goes on as if nothing had been, and nothing is left behind.
    pub(crate) fn end(mut self) {
        let (mut writer, mut gate) = self.bystander.take().unwrap();
        write(&mut writer, 10..200);
        let thread = std::thread::spawn(move || finish(&mut writer));
        expect_records(&mut gate, 10..200);
        assert_eq!(next(&mut gate), Got::EndOfData(0));
        assert_eq!(next(&mut gate), Got::EndOfPartition(0));
        assert_eq!(next(&mut gate), Got::End);
        thread.join().unwrap();
        drop(gate);
        assert_whole(self.consumer);
        assert_whole(self.producer);
    }
}

/// Shuts a worker down that has nothing to do any more.
pub(crate) fn assert_whole(worker: Worker) {
    let last = worker.shutdown(Duration::ZERO);
    assert_eq!((last.lost_wakeups, last.net.violations), (0, 0));
    until("the census is whole", || {
        let census = worker.census();
        census.is_whole() && census.held() == 0
    });
}
