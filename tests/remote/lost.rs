//! Ends of partitions that a task has consumed while the network lost its acknowledgement.
//!
//! The proxy hands on what the producer's worker says and swallows what it is told, from before the end on; then it
//! cuts the connection. Nothing but a word over the next one can end the producer's wait.

use crate::proxy::Proxy;
use crate::stage::{
    Got, RETAIN, STUCK, assert_silent, assert_whole, builder, config, expect_records, finish, id, next, write,
};
use pirn::{
    Account, Attempt, Driver, GateConfig, Incarnation, InputGate, Io, Reactor, RecordWriter, WhenAbsent,
    Worker,
};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const REPLAY: WhenAbsent = WhenAbsent::Replay { quota: 16 };

/// By then the end is known, in a second connection after a pause.
const SOON: Duration = Duration::from_secs(2);

/// How a case is played.
#[derive(Clone, Copy, Debug)]
struct Case {
    io: Io,
    driver: Driver,
    when_absent: WhenAbsent,
    /// The task acknowledges for itself.
    explicit: bool,
    /// It is through with the end when the connection is cut, or has yet to read what had come.
    through: bool,
}

/// A producer's worker behind a proxy, and a consumer's.
struct Scene {
    proxy: Proxy,
    producer: Worker,
    consumer: Worker,
    reactor: Option<Reactor>,
}

impl Scene {
    fn new(io: Io, driver: Driver) -> Self {
        let proxy = Proxy::new();
        let producer = builder(io).advertise(proxy.address).start().unwrap();
        proxy.lead_to(producer.snapshot().network.unwrap().listening);
        let consumer = builder(io).driver(driver).start().unwrap();
        let reactor = (driver == Driver::Caller).then(|| consumer.reactor().unwrap());
        Self { proxy, producer, consumer, reactor }
    }

    /// Waits a moment; a task with a reactor turns it.
    fn wait(&self) {
        let moment = Duration::from_millis(1);
        match &self.reactor {
            Some(reactor) => reactor.turn(Some(moment)).unwrap(),
            None => thread::park_timeout(moment),
        }
    }

    fn until(&self, what: &str, patience: Duration, mut wanted: impl FnMut() -> bool) {
        let start = Instant::now();
        while !wanted() {
            assert!(start.elapsed() < patience, "never: {what}");
            self.wait();
        }
    }

    /// The account of the first subpartition of partition 0.
    fn account(&self) -> Account {
        self.producer.snapshot().partitions[0].subpartitions[0].account
    }

    /// The kernel has handed over all that was said before; nothing tells of that.
    fn cut(&self) {
        assert!(self.proxy.cut() > 0);
        self.until("the cut is seen", STUCK, || {
            self.consumer.snapshot().net.connections_lost >= 1
                && self.producer.snapshot().net.connections_lost >= 1
        });
    }

    fn end(self) {
        let Self { proxy, producer, consumer, reactor } = self;
        drop(reactor);
        assert_whole(consumer);
        assert_whole(producer);
        drop(proxy);
    }
}

fn gate_of(worker: &Worker, config: GateConfig, explicit: bool) -> InputGate {
    worker.input_gate(config.explicit_acknowledge(explicit))
}

fn finishing(mut writer: RecordWriter) -> (JoinHandle<()>, Receiver<()>) {
    let (say, done) = channel();
    let thread = thread::spawn(move || {
        finish(&mut writer);
        say.send(()).unwrap();
    });
    (thread, done)
}

fn read_end(gate: &mut InputGate) {
    assert_eq!(next(gate), Got::EndOfData(0));
    assert_eq!(next(gate), Got::EndOfPartition(0));
    assert_eq!(next(gate), Got::End);
}

/// Fifty records, of which the first twenty are acknowledged while the network is well. A second subpartition is read
/// within the producer's worker, so that the partition is there until the account was looked at.
fn lost_end(case: Case) {
    let Case { io, driver, when_absent, explicit, through } = case;
    let scene = Scene::new(io, driver);
    let mut writer = scene.producer.create_partition(id(0), Attempt(1), config(2, when_absent)).unwrap();
    let channels = writer.descriptors();
    let first = GateConfig::new(Attempt(1), Incarnation(1)).channel(channels[0].clone());
    let mut gate = gate_of(&scene.consumer, first, explicit);
    let second = GateConfig::new(Attempt(1), Incarnation(2)).channel(channels[1].clone());
    let mut second = scene.producer.input_gate(second);
    assert_eq!(next(&mut gate), Got::Available(0, Attempt(1)));
    write(&mut writer, 0..20);
    expect_records(&mut gate, 0..20);
    if explicit {
        gate.acknowledge_all();
    }
    // Else what was read counts as consumed when more is asked for.
    assert_silent(&mut gate);
    scene.until("what was read is known", STUCK, || scene.account().delivered.records == 20);
    scene.proxy.set_mute(true);
    let received = scene.consumer.snapshot().net.bytes_received;
    write(&mut writer, 20..50);
    let (thread, done) = finishing(writer);
    if through {
        expect_records(&mut gate, 20..50);
        read_end(&mut gate);
        if explicit {
            gate.acknowledge_all();
        }
        scene.wait();
    } else {
        expect_records(&mut gate, 20..25);
        scene.until("all records have come", STUCK, || {
            scene.consumer.snapshot().net.bytes_received >= received + 30 * 104
        });
        // The two events behind them come within this, or the case is another one: a connection cut before the end.
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(50) {
            scene.wait();
        }
    }
    assert_eq!(done.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout), "{case:?}");
    scene.proxy.set_mute(false);
    scene.cut();
    if !through {
        // No notice comes between: the network has nothing to add to what came.
        expect_records(&mut gate, 25..50);
        read_end(&mut gate);
        if explicit {
            gate.acknowledge_all();
        }
    }
    scene.until("the producer knows of the end", SOON, || scene.account().delivered.records == 50);
    let account = scene.account();
    assert!(account.is_balanced(), "{case:?}: {account:?}");
    assert_eq!(account.written, account.delivered, "{case:?}: {account:?}");
    assert_eq!(
        done.recv_timeout(Duration::ZERO),
        Err(RecvTimeoutError::Timeout),
        "the other one has yet to end"
    );
    // Nothing is delivered twice: the gate has come to its end, and asks for nothing.
    assert_eq!(next(&mut gate), Got::End);
    assert_eq!(next(&mut second), Got::Available(0, Attempt(1)));
    read_end(&mut second);
    done.recv_timeout(SOON).unwrap();
    thread.join().unwrap();
    scene.until("nothing is left to say", SOON, || scene.consumer.snapshot().net.ends_unsaid == 0);
    drop((gate, second));
    scene.end();
}

fn everything(io: Io, driver: Driver) {
    for when_absent in [WhenAbsent::Discard, RETAIN, REPLAY] {
        for explicit in [false, true] {
            for through in [true, false] {
                lost_end(Case { io, driver, when_absent, explicit, through });
            }
        }
    }
}

#[test]
fn a_lost_end_is_told_again_over_epoll() {
    everything(Io::Epoll, Driver::Threads(1));
}

#[test]
fn a_lost_end_is_told_again_over_whatever_the_kernel_has() {
    everything(Io::Auto, Driver::Threads(1));
}

#[test]
fn a_lost_end_is_told_again_by_a_task_that_turns_its_sockets() {
    everything(Io::Epoll, Driver::Caller);
    everything(Io::Auto, Driver::Caller);
}
