//! A network between two workers that can be cut, and is at times.

use crate::stage::{
    Got, RETAIN, STUCK, assert_whole, builder, config, finish, id, next_with_loss, number, record, secret,
    until,
};
use pirn::{
    Attempt, Cause, GateConfig, Incarnation, Io, PartitionConfig, Policies, SegmentClass, WhenAbsent,
};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Forwards connections to a worker, and cuts all of them when it is told to, or swallows what goes to that worker by
/// those there are.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    target: Mutex<Option<SocketAddr>>,
    streams: Mutex<Vec<TcpStream>>,
    accepted: AtomicU64,
    /// Connections with lower numbers are heard no more.
    mute_below: AtomicU64,
    /// Nothing goes through, either way, and nobody is told.
    swallows: AtomicBool,
    is_over: AtomicBool,
}

impl Proxy {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let all = shared.clone();
        let listener = thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if all.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let number = all.accepted.fetch_add(1, Ordering::Relaxed);
                // A worker that is gone is a connection that is closed.
                let target = all.target.lock().unwrap().unwrap();
                let Ok(onward) = TcpStream::connect(target) else { continue };
                for (from, to, is_inward) in [(&stream, &onward, true), (&onward, &stream, false)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let all = all.clone();
                    thread::spawn(move || {
                        let is_mute = || {
                            let is_muted = number < all.mute_below.load(Ordering::Relaxed);
                            is_inward && is_muted || all.swallows.load(Ordering::Relaxed)
                        };
                        forward(from, to, is_mute);
                    });
                }
                all.streams.lock().unwrap().extend([stream, onward]);
            }
        });
        Self { address, shared, listener: Some(listener) }
    }

    pub(crate) fn lead_to(&self, target: SocketAddr) {
        *self.shared.target.lock().unwrap() = Some(target);
    }

    /// From now on nothing that goes to the worker by the connections there are gets there, though they stay.
    pub(crate) fn mute(&self) {
        self.shared.mute_below.store(self.accepted(), Ordering::Relaxed);
    }

    /// From now on everything is swallowed, also by connections that are new, or nothing.
    pub(crate) fn swallow(&self, everything: bool) {
        self.shared.swallows.store(everything, Ordering::Relaxed);
    }

    /// Ends every connection where it stands, in the middle of whatever is under way.
    pub(crate) fn cut(&self) -> usize {
        let streams = std::mem::take(&mut *self.shared.streams.lock().unwrap());
        for stream in &streams {
            // One that is closed already needs no end.
            let _ = stream.shutdown(Shutdown::Both);
        }
        streams.len() / 2
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.cut();
        drop(TcpStream::connect(self.address));
        if let Some(listener) = self.listener.take() {
            listener.join().unwrap();
        }
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, is_mute: impl Fn() -> bool) {
    // Of an odd size, so that frames are cut anywhere.
    let mut buffer = [0; 7919];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if is_mute() {
            continue;
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// Under load through twenty cuts: what comes is whole, in order and once, what doesn't is accounted for, and
/// nobody has to help.
fn cuts(io: Io, when_absent: WhenAbsent, sizes: &'static [usize]) {
    let proxy = Proxy::new();
    let producer = builder(io).advertise(proxy.address).start().unwrap();
    proxy.lead_to(producer.snapshot().network.unwrap().listening);
    let consumer = builder(io).start().unwrap();
    let policies = Policies { when_absent, ..Policies::default() };
    let config = PartitionConfig::new(1)
        .segment_class(SegmentClass::K4)
        .quota_segments(16)
        .policies(policies)
        .secret(secret());
    let mut writer = producer.create_partition(id(0), Attempt(1), config).unwrap();
    let gate_config = GateConfig::new(Attempt(1), Incarnation(1)).channel(writer.descriptor(0));
    let mut gate = consumer.input_gate(gate_config);
    let stop = Arc::new(AtomicBool::new(false));
    let is_over = stop.clone();
    let task = thread::spawn(move || {
        let mut numbers = 0;
        while !is_over.load(Ordering::Relaxed) {
            let bytes = record(numbers, sizes[numbers as usize % sizes.len()]);
            // Queued, or dropped by the policy.
            let _ = writer.write_blocking_timeout(0, &bytes, STUCK).unwrap();
            numbers += 1;
            if numbers % 64 == 0 {
                thread::yield_now();
            }
        }
        finish(&mut writer);
        numbers
    });
    let got = Arc::new(AtomicU64::new(0));
    let (count, bytes_of) =
        (got.clone(), move |number: u64| record(number, sizes[number as usize % sizes.len()]));
    let reader = thread::spawn(move || {
        let (mut came, mut missed, mut doubted, mut outages) = (0_u64, 0, 0, 0);
        let mut after = 0;
        loop {
            match next_with_loss(&mut gate) {
                (Got::Record(0, bytes), _) => {
                    let number = number(&bytes);
                    assert!(number >= after, "{number} after {after}: twice, or out of order");
                    assert!(bytes == bytes_of(number), "record {number} is torn");
                    after = number + 1;
                    came += 1;
                    count.fetch_add(1, Ordering::Relaxed);
                }
                (Got::Available(0, Attempt(1)), loss) => {
                    missed += loss.lost.total().records;
                    doubted += loss.in_doubt.records;
                }
                (Got::Unavailable(0, Cause::ConnectionLost { .. }), _) => outages += 1,
                // Dropped while nobody noticed the cut, and told in the stream.
                (Got::Loss(0) | Got::EndOfData(0) | Got::EndOfPartition(0), _) => {}
                (Got::End, _) => return (came, missed, doubted, outages),
                (other, _) => panic!("{other:?}"),
            }
        }
    });
    let mut cut = 0;
    for round in 0..20 {
        let before = got.load(Ordering::Relaxed);
        until("it flows again", || got.load(Ordering::Relaxed) > before + 200);
        thread::park_timeout(Duration::from_millis(round % 5));
        cut += u64::from(proxy.cut() > 0);
    }
    let before = got.load(Ordering::Relaxed);
    until("it flows again", || got.load(Ordering::Relaxed) > before + 200);
    stop.store(true, Ordering::Relaxed);
    let written = task.join().unwrap();
    let (came, missed, doubted, outages) = reader.join().unwrap();
    assert!(cut == 20 && (1..=20).contains(&outages), "{cut} cuts, {outages} outages");
    let missing = written - came;
    // In doubt is what may have come or not.
    assert!(
        missed <= missing && missing <= missed + doubted,
        "{missing} missing: {missed} lost, {doubted} in doubt"
    );
    let connections = consumer.snapshot().net;
    assert!(connections.connections >= 20, "{connections:?}");
    assert_whole(consumer);
    assert_whole(producer);
}

const SIZES: &[usize] = &[8, 100, 5000, 60, 12_000];

#[test]
fn cuts_tear_nothing_over_epoll() {
    cuts(Io::Epoll, WhenAbsent::Discard, SIZES);
    cuts(Io::Epoll, RETAIN, SIZES);
}

#[test]
fn cuts_tear_nothing_over_whatever_the_kernel_has() {
    cuts(Io::Auto, WhenAbsent::Discard, SIZES);
    cuts(Io::Auto, RETAIN, SIZES);
}

/// A worker that can't be reached is tried again with pauses, and found when it is there again.
#[test]
fn a_network_that_is_down_is_tried_again_without_haste() {
    let proxy = Proxy::new();
    let producer = builder(Io::Auto).advertise(proxy.address).start().unwrap();
    // Until it leads to the worker, every connection ends at once.
    let nowhere = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    proxy.lead_to(nowhere);
    let consumer = builder(Io::Auto).start().unwrap();
    let mut writer = producer.create_partition(id(0), Attempt(1), config(1, RETAIN)).unwrap();
    let gate_config = GateConfig::new(Attempt(1), Incarnation(1)).channel(writer.descriptor(0));
    let mut gate = consumer.input_gate(gate_config);
    assert!(matches!(gate.next_blocking_timeout(Duration::from_secs(1)).unwrap(), pirn::TryNext::Empty));
    let tried = proxy.accepted();
    assert!((2..40).contains(&tried), "{tried} dials in a second");
    drop(gate);
    writer.flush();
    drop(writer);
    assert_whole(consumer);
    assert_whole(producer);
}

/// Nothing goes through and no connection ends, as when a machine loses its power: both sides notice by the silence of
/// the control connection, in time, though nothing is sent that could fail. Then it comes back.
#[test]
fn a_peer_that_has_vanished_is_an_outage_in_time() {
    let dead_after = Duration::from_millis(400);
    for io in [Io::Epoll, Io::Auto] {
        let proxy = Proxy::new();
        let builder = |io| builder(io).dead_after(dead_after);
        let producer = builder(io).advertise(proxy.address).start().unwrap();
        proxy.lead_to(producer.snapshot().network.unwrap().listening);
        let consumer = builder(io).start().unwrap();
        let mut writer = producer.create_partition(id(0), Attempt(1), config(1, RETAIN)).unwrap();
        let gate_config = GateConfig::new(Attempt(1), Incarnation(1)).channel(writer.descriptor(0));
        let mut gate = consumer.input_gate(gate_config);
        assert_eq!(next_with_loss(&mut gate).0, Got::Available(0, Attempt(1)));
        writer.write_blocking_timeout(0, &record(0, 100), STUCK).unwrap();
        assert_eq!(next_with_loss(&mut gate).0, Got::Record(0, record(0, 100)));
        proxy.swallow(true);
        let start = std::time::Instant::now();
        let (lost, _) = next_with_loss(&mut gate);
        let took = start.elapsed();
        assert!(matches!(lost, Got::Unavailable(0, Cause::ConnectionLost { .. })), "{lost:?}");
        // A heartbeat may have been heard just before; what is more is the machine's.
        assert!(took > dead_after / 2 && took < dead_after * 8, "{took:?}");
        let absent = || {
            let partition = &producer.snapshot().partitions[0];
            partition.subpartitions[0].phase == pirn::Phase::Unavailable
        };
        until("the producer's side has noticed", absent);
        assert!(start.elapsed() < dead_after * 8);
        writer.write_blocking_timeout(0, &record(1, 100), STUCK).unwrap();
        proxy.swallow(false);
        proxy.cut();
        assert_eq!(next_with_loss(&mut gate).0, Got::Available(0, Attempt(1)));
        assert_eq!(next_with_loss(&mut gate).0, Got::Record(0, record(1, 100)));
        drop((gate, writer));
        assert_whole(consumer);
        assert_whole(producer);
    }
}

/// A reader that is behind when its connection is cut gets all that had come, then the notice, and goes on.
#[test]
fn what_had_come_is_read_after_the_cut() {
    for io in [Io::Epoll, Io::Auto] {
        let proxy = Proxy::new();
        let producer = builder(io).advertise(proxy.address).start().unwrap();
        proxy.lead_to(producer.snapshot().network.unwrap().listening);
        let consumer = builder(io).start().unwrap();
        let mut writer = producer.create_partition(id(0), Attempt(1), config(1, RETAIN)).unwrap();
        let gate_config = GateConfig::new(Attempt(1), Incarnation(1)).channel(writer.descriptor(0));
        let mut gate = consumer.input_gate(gate_config);
        assert_eq!(next_with_loss(&mut gate).0, Got::Available(0, Attempt(1)));
        // Each comes by itself: far more deliveries than the channel's queue takes.
        for number in 0..200 {
            let before = consumer.snapshot().net.bytes_received;
            writer.write_blocking_timeout(0, &record(number, 100), STUCK).unwrap();
            until("it has come", || consumer.snapshot().net.bytes_received > before + 100);
        }
        assert_eq!(proxy.cut(), 2, "data and control");
        until("the cut is seen", || consumer.snapshot().net.connections_lost == 1);
        for number in 0..200 {
            assert_eq!(next_with_loss(&mut gate).0, Got::Record(0, record(number, 100)));
        }
        let (lost, _) = next_with_loss(&mut gate);
        assert!(matches!(lost, Got::Unavailable(0, Cause::ConnectionLost { .. })), "{lost:?}");
        assert_eq!(next_with_loss(&mut gate).0, Got::Available(0, Attempt(1)));
        writer.write_blocking_timeout(0, &record(200, 100), STUCK).unwrap();
        assert_eq!(next_with_loss(&mut gate).0, Got::Record(0, record(200, 100)));
        drop((gate, writer));
        assert_whole(consumer);
        assert_whole(producer);
    }
}
