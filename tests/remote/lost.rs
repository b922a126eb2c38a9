//! Ends of partitions that a task has consumed while the network lost its acknowledgement.
//!
//! The proxy hands on what the producer's worker says and swallows what it is told, from before the end on; then it
//! cuts the connection. Nothing but a word over the next one can end the producer's wait.

use crate::proxy::Proxy;
use crate::stage::{
    Got, RETAIN, STUCK, assert_silent, assert_whole, builder, config, expect_records, finish, id, next,
    next_with_loss, secret, write,
};
use pirn::{
    Account, Attempt, ChannelDescriptor, Driver, GateConfig, Incarnation, InputGate, Io, Location, Reactor,
    RecordLayout, RecordWriter, RemoteAddress, WhenAbsent, Worker,
};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const REPLAY: WhenAbsent = WhenAbsent::Replay { quota: 16 };

/// By then the end is known, in a second connection after a pause.
const SOON: Duration = Duration::from_secs(2);

/// No worker is found dead within it, whatever is cut.
const LONG: Duration = Duration::from_secs(600);

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
        Self::with(io, driver, LONG)
    }

    fn with(io: Io, driver: Driver, dead_after: Duration) -> Self {
        let proxy = Proxy::new();
        let builder = |io| builder(io).dead_after(dead_after);
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

    /// Ends that the producer's worker hasn't confirmed.
    fn unsaid(&self) -> u64 {
        self.consumer.snapshot().net.ends_unsaid
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
    scene.proxy.mute();
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
    scene.until("nothing is left to say", SOON, || scene.unsaid() == 0);
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

/// A producer that waits for one consumer, whose gate has consumed the end while nothing it says gets through.
fn unheard(io: Io, dead_after: Duration) -> (Scene, InputGate, JoinHandle<()>, Receiver<()>) {
    let scene = Scene::with(io, Driver::Threads(1), dead_after);
    let mut writer = scene.producer.create_partition(id(0), Attempt(1), config(1, RETAIN)).unwrap();
    let first = GateConfig::new(Attempt(1), Incarnation(1)).channel(writer.descriptor(0));
    let mut gate = scene.consumer.input_gate(first);
    assert_eq!(next(&mut gate), Got::Available(0, Attempt(1)));
    write(&mut writer, 0..5);
    expect_records(&mut gate, 0..5);
    scene.proxy.mute();
    let (thread, done) = finishing(writer);
    read_end(&mut gate);
    scene.until("it was said", STUCK, || scene.unsaid() == 1);
    (scene, gate, thread, done)
}

/// Nobody listens there.
fn nowhere() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

const BOTH: [Io; 2] = [Io::Epoll, Io::Auto];

/// What was acknowledged stays so.
#[test]
fn an_end_is_told_though_its_gate_was_dropped() {
    for io in BOTH {
        let (scene, gate, thread, done) = unheard(io, LONG);
        drop(gate);
        scene.cut();
        done.recv_timeout(SOON).unwrap();
        thread.join().unwrap();
        scene.until("nothing is left to say", SOON, || scene.unsaid() == 0);
        let net = scene.consumer.snapshot().net;
        assert_eq!((net.ends_told_again, net.ends_given_up), (1, 0));
        scene.end();
    }
}

/// The producer's worker is gone, and another one is in its place, which knows of nothing.
#[test]
fn a_worker_that_knows_of_no_partition_is_told_nothing_more() {
    for io in BOTH {
        let (scene, gate, thread, done) = unheard(io, LONG);
        let another = builder(io).advertise(scene.proxy.address).start().unwrap();
        scene.proxy.lead_to(another.snapshot().network.unwrap().listening);
        scene.cut();
        scene.until("nothing is left to say", SOON, || scene.unsaid() == 0);
        let dials = scene.proxy.accepted();
        assert_eq!(done.recv_timeout(Duration::from_millis(300)), Err(RecvTimeoutError::Timeout));
        assert_eq!(scene.proxy.accepted(), dials, "nobody is looked for any more");
        // Its producer is ended by who runs the job.
        assert!(scene.producer.release_partition(id(0), Attempt(1)));
        assert!(thread.join().is_err(), "it was closed under its writer");
        drop(gate);
        assert_whole(another);
        scene.end();
    }
}

/// A newer attempt reads what the older one is believed not to have read, and speaks for itself.
#[test]
fn a_newer_attempt_takes_the_word_from_the_older_one() {
    for io in BOTH {
        let (scene, gate, thread, done) = unheard(io, LONG);
        scene.proxy.lead_to(nowhere());
        scene.cut();
        let newer = GateConfig::new(Attempt(2), Incarnation(2)).channel(descriptor(&scene.producer));
        let mut newer = scene.producer.input_gate(newer);
        let (got, loss) = next_with_loss(&mut newer);
        assert_eq!((got, loss.lost.total().records), (Got::Available(0, Attempt(1)), 0));
        assert!(loss.in_doubt.records <= 5, "{loss:?}");
        read_end(&mut newer);
        done.recv_timeout(SOON).unwrap();
        thread.join().unwrap();
        assert_eq!(scene.unsaid(), 1);
        // The older one is told that there is nothing to tell.
        scene.proxy.lead_to(scene.producer.snapshot().network.unwrap().listening);
        scene.until("nothing is left to say", SOON, || scene.unsaid() == 0);
        assert_eq!(scene.consumer.snapshot().net.ends_given_up, 0);
        drop((gate, newer));
        scene.end();
    }
}

fn descriptor(producer: &Worker) -> ChannelDescriptor {
    let socket = producer.address().unwrap();
    ChannelDescriptor {
        partition: id(0),
        producer_attempt: Attempt(1),
        subpartition: 0,
        location: Location::Remote(RemoteAddress { socket, endpoint: 0 }),
        secret: secret(),
        layout: RecordLayout::Lengths,
    }
}

/// While its gate is there an end is told as long as it takes, or until the worker is found dead: here only data can't
/// be sent there for a while, which says nothing of it.
#[test]
fn an_end_is_told_as_long_as_somebody_lives_there() {
    for io in BOTH {
        for is_found_again in [true, false] {
            let (scene, gate, thread, done) = unheard(io, Duration::from_secs(1));
            scene.proxy.lead_to(nowhere());
            scene.cut();
            let dials = scene.proxy.accepted();
            assert_eq!(done.recv_timeout(Duration::from_secs(2)), Err(RecvTimeoutError::Timeout));
            assert!(scene.proxy.accepted() > dials + 2, "it is tried again");
            assert_eq!(scene.unsaid(), 1);
            if is_found_again {
                scene.proxy.lead_to(scene.producer.snapshot().network.unwrap().listening);
                done.recv_timeout(SOON).unwrap();
                thread.join().unwrap();
            } else {
                scene.producer.shutdown(Duration::ZERO);
                assert!(thread.join().is_err(), "it was closed under its writer");
            }
            scene.until("nothing is left to say", SOON, || scene.unsaid() == 0);
            let given_up = scene.consumer.snapshot().net.ends_given_up;
            assert_eq!(given_up, u64::from(!is_found_again));
            drop(gate);
            scene.end();
        }
    }
}

/// Ten seconds after its gate was dropped nobody is looked for any more.
#[test]
fn an_end_without_a_gate_is_not_told_for_ever() {
    let (scene, gate, thread, _done) = unheard(Io::Auto, LONG);
    scene.proxy.lead_to(nowhere());
    scene.cut();
    drop(gate);
    let start = Instant::now();
    scene.until("it is given up", STUCK, || scene.unsaid() == 0);
    let took = start.elapsed();
    assert!((9..13).contains(&took.as_secs()), "given up after {took:?}");
    assert_eq!(scene.consumer.snapshot().net.ends_given_up, 1);
    let dials = scene.proxy.accepted();
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(scene.proxy.accepted(), dials, "nobody is looked for any more");
    scene.producer.release_partition(id(0), Attempt(1));
    assert!(thread.join().is_err(), "it was closed under its writer");
    scene.end();
}

/// A shutdown lets what is here come to its end, and that is an end which isn't said.
#[test]
fn a_shutdown_waits_for_what_is_not_said() {
    for io in BOTH {
        let (scene, gate, thread, done) = unheard(io, LONG);
        drop(gate);
        scene.proxy.cut();
        let start = Instant::now();
        let last = scene.consumer.shutdown(STUCK);
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
        assert_eq!((last.net.ends_unsaid, last.net.ends_given_up), (0, 0));
        done.recv_timeout(SOON).unwrap();
        thread.join().unwrap();
        scene.end();
    }
}

/// The same where the producer's task turns the sockets: while it waits for its end.
#[test]
fn a_producer_that_turns_its_sockets_hears_of_a_lost_end() {
    for io in BOTH {
        let scene = Scene::new(io, Driver::Threads(1));
        let (give, given) = channel();
        let (go, gone) = channel();
        let worker = scene.producer.clone();
        let task = thread::spawn(move || {
            let reactor = worker.reactor().unwrap();
            let mut writer = worker.create_partition(id(0), Attempt(1), config(1, RETAIN)).unwrap();
            give.send(writer.descriptor(0)).unwrap();
            write(&mut writer, 0..5);
            while gone.try_recv() == Err(TryRecvError::Empty) {
                reactor.turn(Some(Duration::from_millis(1))).unwrap();
            }
            finish(&mut writer);
            Instant::now()
        });
        let first = GateConfig::new(Attempt(1), Incarnation(1)).channel(given.recv().unwrap());
        let mut gate = scene.consumer.input_gate(first);
        assert_eq!(next(&mut gate), Got::Available(0, Attempt(1)));
        expect_records(&mut gate, 0..5);
        scene.proxy.mute();
        go.send(()).unwrap();
        read_end(&mut gate);
        scene.until("it was said", STUCK, || scene.unsaid() == 1);
        let cut = Instant::now();
        scene.cut();
        assert!(task.join().unwrap().duration_since(cut) < SOON);
        scene.until("nothing is left to say", SOON, || scene.unsaid() == 0);
        drop(gate);
        scene.end();
    }
}
