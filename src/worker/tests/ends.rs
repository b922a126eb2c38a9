//! Network threads that die, and reactors that are dropped where it is least convenient.

use crate::error::{BindError, Cause};
use crate::gate::{GateConfig, InputGate, Item, TryNext};
use crate::id::{Attempt, Incarnation, JobId, PartitionId, RemoteAddress};
use crate::net::Command;
use crate::partition::{ChannelDescriptor, Location, PartitionConfig};
use crate::subpartition::{Flush, Policies, WhenAbsent};
use crate::worker::{Driver, Reactor, Worker};
use crate::writer::RecordWriter;
use std::cell::RefCell;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

const STUCK: Duration = Duration::from_secs(30);

fn worker(driver: Driver) -> Worker {
    let builder = Worker::builder().listen("127.0.0.1:0".parse().unwrap()).cluster_token([7; 32]);
    builder.driver(driver).receive_buffers(4).start().unwrap()
}

pub(super) fn writer(worker: &Worker, index: u32) -> RecordWriter {
    let policies =
        Policies { flush: Flush::EveryRecord, when_absent: WhenAbsent::Discard, ..Policies::default() };
    let id = PartitionId { job: JobId(1), index, ..PartitionId::default() };
    worker.create_partition(id, Attempt(1), PartitionConfig::new(1).policies(policies)).unwrap()
}

pub(super) fn gate(worker: &Worker, writer: &RecordWriter) -> InputGate {
    worker.input_gate(GateConfig::new(Attempt(1), Incarnation(1)).channel(writer.descriptor(0)))
}

pub(super) fn place(writer: &RecordWriter) -> RemoteAddress {
    let Location::Remote(place) = writer.descriptor(0).location else { panic!("it is at no worker") };
    place
}

/// What a gate says of its channel, records aside.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    Available,
    Unavailable(Cause),
    BindFailed(BindError),
}

pub(super) fn next(gate: &mut InputGate) -> Said {
    loop {
        match gate.next_blocking_timeout(STUCK).unwrap() {
            TryNext::Item(Item::Record(_)) => {}
            TryNext::Item(Item::Available { .. }) => return Said::Available,
            TryNext::Item(Item::Unavailable { cause, .. }) => return Said::Unavailable(cause),
            TryNext::Item(Item::BindFailed { error, .. }) => return Said::BindFailed(error),
            other => panic!("{other:?}"),
        }
    }
}

pub(super) fn expect_record(writer: &mut RecordWriter, gate: &mut InputGate) {
    let _ = writer.write_blocking_timeout(0, &[7; 100][..], STUCK).unwrap();
    match gate.next_blocking_timeout(STUCK).unwrap() {
        TryNext::Item(Item::Record(record)) => assert_eq!(*record, [7; 100]),
        other => panic!("{other:?}"),
    }
}

/// The network thread of `worker` that reads from there dies.
fn kill_reader(worker: &Worker, peer: &RemoteAddress) {
    let endpoints = worker.0.threads.as_ref().unwrap().network();
    assert!(endpoints.of(peer).unwrap().send(Command::Panic).is_ok());
}

#[test]
fn channels_of_a_network_thread_that_died_go_on_by_another() {
    let (producer, consumer) = (worker(Driver::Threads(1)), worker(Driver::Threads(2)));
    let mut writer = writer(&producer, 0);
    let mut gate = gate(&consumer, &writer);
    assert_eq!(next(&mut gate), Said::Available);
    expect_record(&mut writer, &mut gate);
    let received = consumer.snapshot().net.bytes_received;
    kill_reader(&consumer, &place(&writer));
    let Said::Unavailable(Cause::ConnectionLost { .. }) = next(&mut gate) else { panic!() };
    assert_eq!(next(&mut gate), Said::Available);
    expect_record(&mut writer, &mut gate);
    // With the last one it is told that there is none.
    kill_reader(&consumer, &place(&writer));
    let Said::Unavailable(Cause::ConnectionLost { .. }) = next(&mut gate) else { panic!() };
    let Said::BindFailed(BindError::NoNetwork { peer }) = next(&mut gate) else { panic!() };
    assert_eq!(peer, place(&writer));
    let net = consumer.snapshot().net;
    assert!(net.bytes_received > received, "what they had counted stays: {net:?}");
    drop((gate, writer));
    consumer.shutdown(Duration::ZERO);
    producer.shutdown(Duration::ZERO);
}

#[test]
fn what_a_network_thread_that_died_had_served_is_served_by_another() {
    let (producer, consumer) = (worker(Driver::Threads(3)), worker(Driver::Threads(1)));
    let mut writer = writer(&producer, 0);
    let mut gate = gate(&consumer, &writer);
    assert_eq!(next(&mut gate), Said::Available);
    let endpoints = producer.0.threads.as_ref().unwrap().network();
    let named = place(&writer).endpoint;
    // The one that its descriptor names, and whoever takes over from it.
    for round in 0..2 {
        expect_record(&mut writer, &mut gate);
        let server = if round == 0 { endpoints.numbered(named) } else { endpoints.any() };
        assert!(server.unwrap().send(Command::Panic).is_ok());
        let Said::Unavailable(Cause::ConnectionLost { .. }) = next(&mut gate) else { panic!() };
        assert_eq!(next(&mut gate), Said::Available);
    }
    expect_record(&mut writer, &mut gate);
    drop((gate, writer));
    consumer.shutdown(Duration::ZERO);
    producer.shutdown(Duration::ZERO);
}

thread_local! {
    static REACTOR: RefCell<Option<Reactor>> = const { RefCell::new(None) };
}

struct DropsReactor;

impl Wake for DropsReactor {
    fn wake(self: Arc<Self>) {
        drop(REACTOR.take());
    }
}

#[test]
fn a_reactor_that_is_dropped_in_its_own_turn_ends_behind_it() {
    let (producer, consumer) = (worker(Driver::Threads(1)), worker(Driver::Caller));
    for round in 0..3 {
        REACTOR.set(Some(consumer.reactor().unwrap()));
        let own = Arc::downgrade(&consumer.0.threads.as_ref().unwrap().network().own().unwrap());
        let mut writer = writer(&producer, round);
        let elsewhere = ChannelDescriptor {
            partition: PartitionId { job: JobId(9), ..PartitionId::default() },
            location: Location::Local,
            ..writer.descriptor(0)
        };
        let mut gate = gate(&consumer, &writer);
        assert_eq!(next(&mut gate), Said::Available);
        expect_record(&mut writer, &mut gate);
        let waker = Waker::from(Arc::new(DropsReactor));
        assert!(gate.poll_next(&mut Context::from_waker(&waker)).is_pending());
        let writing = std::thread::spawn(move || {
            drop(writer.write_blocking_timeout(0, &[7; 100][..], STUCK));
            writer
        });
        // It turns the reactor while it waits, for a gate that nothing comes to.
        let config = GateConfig::new(Attempt(1), Incarnation(1)).channel(elsewhere);
        let mut other = consumer.input_gate(config);
        let parks = crate::sync::parks();
        assert!(matches!(other.next_blocking_timeout(Duration::from_millis(300)), Ok(TryNext::Empty)));
        assert!(crate::sync::parks() > parks, "without its reactor the thread sleeps");
        assert!(REACTOR.with_borrow(Option::is_none), "it was dropped by its turn");
        drop((gate, other, writing.join().unwrap()));
        assert_eq!(own.strong_count(), 0, "nothing of it is left");
    }
    let net = consumer.snapshot().net;
    assert_eq!((net.connections, net.connections_lost), (3, 3));
    consumer.shutdown(Duration::ZERO);
    producer.shutdown(Duration::ZERO);
}

/// A thread that turns a reactor of one worker writes and reads for another one, too.
#[test]
fn a_reactor_is_for_its_own_worker_alone() {
    let (producer, consumer) = (worker(Driver::Threads(1)), worker(Driver::Caller));
    let _first = std::thread::scope(|scope| scope.spawn(|| drop(consumer.reactor().unwrap())).join());
    // Its number is none of the producer's.
    let reactor = consumer.reactor().unwrap();
    assert_eq!(reactor.endpoint(), 1);
    let mut writer = writer(&producer, 0);
    assert_eq!(place(&writer).endpoint, 0);
    let mut gate = gate(&consumer, &writer);
    assert_eq!(next(&mut gate), Said::Available);
    expect_record(&mut writer, &mut gate);
    drop((gate, writer, reactor));
    consumer.shutdown(Duration::ZERO);
    producer.shutdown(Duration::ZERO);
}
