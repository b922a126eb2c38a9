//! Gates over remote channels, with the test as the network.

use super::*;
use crate::id::RemoteAddress;
use crate::inbox::{Chunk, Delivery, Feeder, Over, RemoteEvent, RemoteGrant};
use crate::partition::{Location, OpenChannel, OpenError};
use crate::record::{RecordLayout, UNIFORM_NONE};
use crate::subpartition::Losses;

/// A network that does nothing by itself.
#[derive(Debug)]
struct FakeNetwork {
    bell: Arc<Doorbell>,
    opened: Mutex<Vec<OpenChannel>>,
    refusal: Mutex<Option<OpenError>>,
}

impl Network for FakeNetwork {
    fn node(&self, _: &RemoteAddress) -> Arc<ReadyNode> {
        ReadyNode::new(&self.bell, 9)
    }

    fn open(&self, channel: OpenChannel) -> Result<(), OpenError> {
        if let Some(refusal) = *lock(&self.refusal) {
            return Err(refusal);
        }
        lock(&self.opened).push(channel);
        Ok(())
    }
}

impl FakeNetwork {
    fn new() -> Arc<Self> {
        Arc::new(Self { bell: Doorbell::new(), opened: Mutex::default(), refusal: Mutex::default() })
    }

    /// The one channel that was opened since the last question.
    fn opened(&self) -> OpenChannel {
        let mut opened = std::mem::take(&mut *lock(&self.opened));
        assert_eq!(opened.len(), 1);
        opened.remove(0)
    }

    fn is_idle(&self) -> bool {
        lock(&self.opened).is_empty()
    }

    fn rung(&self) -> bool {
        let mut rung = false;
        self.bell.take_all(|node| {
            node.clear();
            rung = true;
        });
        rung
    }
}

impl Drop for FakeNetwork {
    fn drop(&mut self) {
        self.bell.close();
    }
}

fn peer() -> RemoteAddress {
    RemoteAddress { socket: "10.0.0.7:4433".parse().unwrap(), endpoint: 2 }
}

fn remote(index: u32, attempt: u32) -> ChannelDescriptor {
    ChannelDescriptor {
        partition: partition_id(index),
        producer_attempt: Attempt(attempt),
        subpartition: 0,
        location: Location::Remote(peer()),
        secret: BindSecret::new(7),
        layout: RecordLayout::Lengths,
    }
}

fn lost() -> Cause {
    Cause::ConnectionLost { peer: peer(), reason: "reset".into() }
}

fn grant(epoch: u32) -> RemoteGrant {
    RemoteGrant {
        epoch: BindEpoch(epoch),
        lost: Losses::default(),
        in_doubt: Amount::ZERO,
        writer_lost: Amount::ZERO,
        ended: false,
        resumed: false,
    }
}

fn bound(feeder: &mut Feeder, epoch: u32) {
    feeder.push(Delivery::Bound(Box::new(grant(epoch))));
}

fn feed(feeder: &mut Feeder, bytes: &[u8]) {
    let bytes = Chunk::Heap(bytes::Bytes::copy_from_slice(bytes));
    feeder.push(Delivery::Data { uniform: UNIFORM_NONE, bytes });
}

fn encoded(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_le_bytes()[..], payload].concat()
}

fn records(feeder: &mut Feeder, numbers: std::ops::Range<u32>, count: usize) {
    for number in numbers {
        feed(feeder, &encoded(&payload(number, count)));
    }
}

/// What a gate over one remote channel has, and what happens to it.
struct Remote {
    bench: Bench,
    network: Arc<FakeNetwork>,
    gate: InputGate,
}

impl Remote {
    fn new(config: impl FnOnce(GateConfig) -> GateConfig) -> Self {
        let (bench, network) = (Bench::new(), FakeNetwork::new());
        let gate_config = config(GateConfig::new(Attempt(1), Incarnation(1)).channel(remote(0, 1)));
        let dynamic: Arc<dyn Network> = network.clone();
        let gate = InputGate::with_network(bench.manager.clone(), Some(dynamic), gate_config);
        Self { bench, network, gate }
    }

    /// Bound in epoch 1.
    fn bound() -> (Self, Feeder) {
        Self::bound_with(|config| config)
    }

    fn bound_with(config: impl FnOnce(GateConfig) -> GateConfig) -> (Self, Feeder) {
        let mut all = Self::new(config);
        assert_eq!(all.drain(), []);
        let mut feeder = all.network.opened().feeder;
        bound(&mut feeder, 1);
        assert_eq!(all.drain(), [Got::Available(0, 1)]);
        (all, feeder)
    }

    fn drain(&mut self) -> Vec<Got> {
        self.bench.drain(&mut self.gate)
    }

    fn state(&self) -> ChannelState {
        self.gate.channel_snapshot(0).unwrap().state
    }

    /// The next item's loss report.
    fn report(&mut self) -> LossReport {
        let mut cx = Context::from_waker(Waker::noop());
        match self.gate.poll_next(&mut cx) {
            Poll::Ready(Ok(Some(Item::Available { loss, .. }))) => *loss,
            other => panic!("{other:?}"),
        }
    }

    fn end(self) {
        let Self { bench, network, gate } = self;
        drop(gate);
        drop(network);
        bench.assert_whole();
    }
}

#[test]
fn a_channel_is_opened_bound_read_and_ended() {
    let mut all = Remote::new(|config| config);
    assert_eq!(all.gate.why_blocked(0), Some(WhyBlocked::Unbound));
    assert_eq!(all.drain(), []);
    let OpenChannel { descriptor, peer: to, request, window, mut feeder } = all.network.opened();
    assert_eq!((descriptor, to), (remote(0, 1), peer()));
    assert_eq!((request.attempt, request.incarnation), (Attempt(1), Incarnation(1)));
    assert_eq!((window, feeder.window()), (1 << 20, 1 << 20));
    assert_eq!(all.state(), ChannelState::Connecting { peer: peer() });
    assert_eq!(all.gate.why_blocked(0), Some(WhyBlocked::Connecting { peer: peer() }));
    feeder.push(Delivery::Waiting);
    assert_eq!(all.bench.woken.take(), 1);
    assert_eq!(all.drain(), []);
    assert!(matches!(all.gate.why_blocked(0), Some(WhyBlocked::WaitingForPartition { .. })));
    // All at once, and in the order of the notices.
    feeder.push_priority(PriorityEvent::new(b"fast").unwrap());
    let report = RemoteGrant { in_doubt: Amount::new(1, 9), writer_lost: Amount::new(2, 20), ..grant(5) };
    feeder.push(Delivery::Bound(Box::new(report)));
    records(&mut feeder, 0..3, 8);
    feeder.push(Delivery::Event(RemoteEvent::Barrier(7)));
    feeder.push(Delivery::Event(RemoteEvent::Loss(Amount::new(2, 20))));
    feeder.push(Delivery::Event(RemoteEvent::Loss(Amount::new(5, 50))));
    records(&mut feeder, 3..4, 8);
    assert_eq!(all.report().in_doubt, Amount::new(1, 9));
    assert_eq!(all.gate.channel_snapshot(0).unwrap().epoch, BindEpoch(5));
    assert_eq!(
        all.drain(),
        [
            Got::Priority(0, b"fast".to_vec()),
            Got::Record(0, payload(0, 8)),
            Got::Record(0, payload(1, 8)),
            Got::Record(0, payload(2, 8)),
            Got::Event(0, Event::Barrier(7)),
            Got::Loss(0, Amount::new(3, 30)),
            Got::Record(0, payload(3, 8)),
        ]
    );
    let waiting = WhyBlocked::WaitingForPeer { peer: peer(), credit: 1 << 20 };
    assert_eq!(all.gate.why_blocked(0), Some(waiting.clone()));
    assert_eq!(all.gate.handle().why_blocked(0), Ok(waiting));
    feeder.push(Delivery::Event(RemoteEvent::EndOfData));
    assert_eq!(all.gate.why_blocked(0), Some(WhyBlocked::Ready));
    feeder.push(Delivery::Event(RemoteEvent::EndOfPartition));
    assert_eq!(all.drain(), [Got::EndOfData(0), Got::EndOfPartition(0), Got::End]);
    let snapshot = all.gate.channel_snapshot(0).unwrap();
    assert_eq!((snapshot.yielded, snapshot.consumed), (Amount::new(4, 48), Amount::new(4, 48)));
    assert_eq!(snapshot.lost, Amount::new(3, 30));
    // The end is consumed when it is yielded, and the reader is gone.
    assert!(all.network.rung() && feeder.is_closed());
    let last = feeder.progress().consumed;
    assert_eq!((last.amount, last.entries), (Amount::new(4, 48), 5));
    all.end();
}

#[test]
fn a_gate_without_a_network_says_so() {
    let bench = Bench::new();
    let config = GateConfig::new(Attempt(1), Incarnation(1)).channel(remote(0, 1));
    let mut gate = InputGate::new(bench.manager.clone(), config);
    let error = BindError::NoNetwork { peer: peer() };
    assert_eq!(bench.drain(&mut gate), [Got::BindFailed(0, error.clone())]);
    assert!(error.to_string().contains("10.0.0.7:4433#2"), "{error}");
    assert_eq!(gate.why_blocked(0), Some(WhyBlocked::BindFailed { error }));
    // The same partition turns out to be here.
    let mut producer = bench.create(0, 2, config_of_one());
    gate.update_channel(0, bench.descriptor(0, 2)).unwrap();
    producer.write_all(0..1, 8);
    assert_eq!(bench.drain(&mut gate), [Got::Available(0, 2), Got::Record(0, payload(0, 8))]);
    drop((gate, producer));
    bench.assert_whole();
}

fn config_of_one() -> PartitionConfig {
    config(discard())
}

#[test]
fn a_network_that_takes_no_channel_is_told_of() {
    let mut all = Remote::new(|config| config);
    *lock(&all.network.refusal) = Some(OpenError::Full { waiting: 64 });
    let full = BindError::TooManyWaiting { waiting: 64 };
    assert_eq!(all.drain(), [Got::BindFailed(0, full)]);
    *lock(&all.network.refusal) = None;
    assert!(all.gate.retry_bind(0).unwrap());
    assert_eq!(all.drain(), []);
    drop(all.network.opened().feeder);
    assert_eq!(all.drain(), [Got::Unavailable(0, Cause::Shutdown)], "the network is gone");
    *lock(&all.network.refusal) = Some(OpenError::Shutdown);
    all.gate.update_channel(0, remote(0, 2)).unwrap();
    assert_eq!(all.drain(), [Got::Unavailable(0, Cause::Shutdown)]);
    all.end();
}

#[test]
fn a_lost_connection_is_told_behind_what_came_and_heals_by_itself() {
    let (mut all, mut feeder) = Remote::bound();
    records(&mut feeder, 0..2, 100);
    feed(&mut feeder, &encoded(&payload(2, 100))[..60]);
    feeder.push(Delivery::Over(Over::Lost(lost())));
    let mut cx = Context::from_waker(Waker::noop());
    let mut items = Vec::new();
    let mut skipped = Vec::new();
    while let Poll::Ready(Ok(Some(item))) = all.gate.poll_next(&mut cx) {
        if let Item::Unavailable { skipped: torn, epoch, .. } = &item {
            skipped.push((*epoch, *torn));
        }
        items.push(Got::of(item));
    }
    assert_eq!(
        items,
        [Got::Record(0, payload(0, 100)), Got::Record(0, payload(1, 100)), Got::Unavailable(0, lost())]
    );
    assert_eq!(skipped, [(BindEpoch(1), Amount::new(0, 60))]);
    assert_eq!(all.gate.admission.admitted_bytes(), 0, "the half record is given up");
    assert!(feeder.is_closed());
    // Opened again without being asked, and again after another failure, which is no news.
    let mut feeder = all.network.opened().feeder;
    assert_eq!(all.state(), ChannelState::Connecting { peer: peer() });
    for _ in 0..3 {
        feeder.push(Delivery::Over(Over::Lost(lost())));
        assert_eq!(all.drain(), []);
        feeder = all.network.opened().feeder;
    }
    bound(&mut feeder, 3);
    let report = all.report();
    assert_eq!(report.producer_tail, ProducerTail::Known, "the same attempt reports itself");
    // Another cut is news again.
    feeder.push(Delivery::Over(Over::Lost(lost())));
    assert_eq!(all.drain(), [Got::Unavailable(0, lost())]);
    // The next attempt knows nothing of what was under way.
    let dropped = all.network.opened().feeder;
    all.gate.update_channel(0, remote(0, 2)).unwrap();
    assert_eq!(all.drain(), []);
    assert!(dropped.is_closed(), "nobody waits for the old attempt");
    let OpenChannel { descriptor, mut feeder, .. } = all.network.opened();
    assert_eq!(descriptor.producer_attempt, Attempt(2));
    bound(&mut feeder, 1);
    assert_eq!(all.report().producer_tail, ProducerTail::Unknown { received: Amount::ZERO });
    all.end();
}

#[test]
fn the_first_connection_that_fails_is_told_once() {
    let mut all = Remote::new(|config| config);
    assert_eq!(all.drain(), []);
    for told in [true, false, false] {
        all.network.opened().feeder.push(Delivery::Over(Over::Lost(lost())));
        let expected = if told { vec![Got::Unavailable(0, lost())] } else { vec![] };
        // The feeder is gone with the statement: what it pushed comes first.
        assert_eq!(all.drain(), expected);
    }
    all.network
        .opened()
        .feeder
        .push(Delivery::Over(Over::Refused(BindError::NotFound { partition: partition_id(0) })));
    let not_found = BindError::NotFound { partition: partition_id(0) };
    assert_eq!(all.drain(), [Got::BindFailed(0, not_found.clone())]);
    assert_eq!(all.state(), ChannelState::BindFailed(not_found));
    assert!(all.network.is_idle(), "a refusal is final until somebody asks again");
    all.end();
}

#[test]
fn refusals_mean_what_they_mean_for_local_channels() {
    let told = |error: BindError| {
        let mut all = Remote::new(|config| config);
        assert_eq!(all.drain(), []);
        let mut feeder = all.network.opened().feeder;
        feeder.push(Delivery::Over(Over::Refused(error)));
        let got = all.drain();
        assert!(feeder.is_closed());
        all.end();
        got
    };
    let newer = Attempt(2);
    let stale = BindError::Stale { presented: Attempt(1), current: newer };
    let fenced = Got::Failed(GateError::Fenced { channel: 0, newer });
    assert_eq!(told(stale.clone()), [Got::BindFailed(0, stale), fenced]);
    let consumed = BindError::Released { cause: Cause::Consumed };
    assert_eq!(told(consumed), [Got::EndOfPartition(0), Got::End]);
    let superseded = BindError::StaleProducer { presented: Attempt(1), current: newer };
    assert_eq!(told(superseded), [Got::Unavailable(0, Cause::Superseded { newer })]);
    let timed_out = BindError::TimedOut { partition: partition_id(0), waited_ms: 10_000 };
    assert_eq!(told(timed_out.clone()), [Got::BindFailed(0, timed_out)]);
}

#[test]
fn a_view_that_the_peer_ended_waits_for_the_next_attempt() {
    let (mut all, mut feeder) = Remote::bound();
    records(&mut feeder, 0..1, 8);
    feeder.push(Delivery::Over(Over::Gone(Cause::Superseded { newer: Attempt(2) })));
    let superseded = Got::Unavailable(0, Cause::Superseded { newer: Attempt(2) });
    assert_eq!(all.drain(), [Got::Record(0, payload(0, 8)), superseded]);
    assert!(all.network.is_idle());
    all.gate.update_channel(0, remote(0, 2)).unwrap();
    assert_eq!(all.drain(), []);
    let mut feeder = all.network.opened().feeder;
    bound(&mut feeder, 1);
    assert_eq!(all.report().producer_tail, ProducerTail::Unknown { received: Amount::new(1, 12) });
    // Everything that a failed producer left is read: nothing is unknown.
    records(&mut feeder, 1..2, 8);
    feeder.push(Delivery::Event(RemoteEvent::Failed(Cause::Panicked)));
    assert_eq!(all.drain(), [Got::Record(0, payload(1, 8)), Got::Unavailable(0, Cause::Panicked)]);
    all.gate.update_channel(0, remote(0, 3)).unwrap();
    assert_eq!(all.drain(), []);
    let mut feeder = all.network.opened().feeder;
    bound(&mut feeder, 1);
    assert_eq!(all.report(), LossReport::default());
    // A newer attempt of this consumer.
    feeder.push(Delivery::Over(Over::Gone(Cause::Fenced { newer: Attempt(9) })));
    let fenced = Got::Failed(GateError::Fenced { channel: 0, newer: Attempt(9) });
    assert_eq!(all.drain(), [Got::Unavailable(0, Cause::Fenced { newer: Attempt(9) }), fenced]);
    all.end();
}

#[test]
fn an_end_that_an_older_attempt_acknowledged_is_the_end() {
    let mut all = Remote::new(|config| config);
    assert_eq!(all.drain(), []);
    let mut feeder = all.network.opened().feeder;
    feeder.push(Delivery::Bound(Box::new(RemoteGrant { ended: true, ..grant(4) })));
    assert_eq!(all.drain(), [Got::Available(0, 1), Got::EndOfPartition(0), Got::End]);
    assert!(feeder.is_closed());
    all.end();

    let (mut all, mut feeder) = Remote::bound();
    feeder.push(Delivery::Over(Over::Gone(Cause::Consumed)));
    assert_eq!(all.drain(), [Got::EndOfPartition(0), Got::End]);
    all.end();
}

#[test]
fn an_update_moves_a_channel_that_is_still_being_opened() {
    let mut all = Remote::new(|config| config);
    assert_eq!(all.drain(), []);
    let old = all.network.opened().feeder;
    assert_eq!(all.gate.update_channel(0, remote(0, 2)).unwrap(), Update::Accepted);
    assert_eq!(all.drain(), []);
    assert!(old.is_closed());
    let OpenChannel { descriptor, mut feeder, .. } = all.network.opened();
    assert_eq!(descriptor.producer_attempt, Attempt(2));
    // An answer that is there already counts: it is read to its end first.
    bound(&mut feeder, 1);
    assert_eq!(all.gate.update_channel(0, remote(0, 3)).unwrap(), Update::Accepted);
    records(&mut feeder, 0..1, 8);
    assert_eq!(all.drain(), [Got::Available(0, 2), Got::Record(0, payload(0, 8))]);
    feeder.push(Delivery::Over(Over::Lost(lost())));
    assert_eq!(all.drain(), [Got::Unavailable(0, lost())]);
    assert_eq!(all.network.opened().descriptor.producer_attempt, Attempt(3));
    all.end();
}

#[test]
fn a_gate_that_goes_closes_its_channels_and_says_how_far_it_was() {
    let (mut all, mut feeder) = Remote::bound();
    records(&mut feeder, 0..3, 8);
    assert_eq!(all.bench.poll(&mut all.gate), Got::Record(0, payload(0, 8)));
    assert_eq!(all.bench.poll(&mut all.gate), Got::Record(0, payload(1, 8)));
    assert!(!feeder.is_closed());
    let network = all.network.clone();
    network.rung();
    all.end();
    assert!(network.rung() && feeder.is_closed());
    let last = feeder.progress();
    assert_eq!(last.yielded, Amount::new(2, 24));
    assert_eq!(last.consumed.amount, Amount::new(1, 12), "the last one may be in use");

    // Not bound yet.
    let mut all = Remote::new(|config| config);
    assert_eq!(all.drain(), []);
    let feeder = all.network.opened().feeder;
    all.end();
    assert!(feeder.is_closed());
}

#[test]
fn explicit_acknowledgements_reach_the_network() {
    let (mut all, mut feeder) = Remote::bound_with(|config| config.explicit_acknowledge(true));
    records(&mut feeder, 0..2, 8);
    feeder.push(Delivery::Event(RemoteEvent::Barrier(1)));
    assert_eq!(all.drain().len(), 3);
    assert_eq!(feeder.progress().consumed.amount, Amount::ZERO);
    let receipt = all.gate.receipt(0).unwrap();
    all.network.rung();
    assert!(all.gate.acknowledge(receipt));
    assert!(all.network.rung());
    let consumed = feeder.progress().consumed;
    assert_eq!((consumed.amount, consumed.entries), (Amount::new(2, 24), 1));
    assert!(!all.gate.acknowledge(receipt), "once");
    feeder.push(Delivery::Event(RemoteEvent::EndOfPartition));
    assert_eq!(all.drain(), [Got::EndOfPartition(0), Got::End]);
    assert!(!feeder.is_closed(), "the end isn't acknowledged");
    assert_eq!(all.gate.why_blocked(0), Some(WhyBlocked::WaitingForAcknowledge));
    all.gate.acknowledge_all();
    assert!(feeder.is_closed());
    assert_eq!(feeder.progress().consumed.entries, 2);
    assert_eq!(all.gate.why_blocked(0), Some(WhyBlocked::Ended));
    all.end();
}

#[test]
fn receipts_of_a_bind_before_are_ignored() {
    let (mut all, mut feeder) = Remote::bound_with(|config| config.explicit_acknowledge(true));
    records(&mut feeder, 0..2, 8);
    assert_eq!(all.drain().len(), 2);
    let old = all.gate.receipt(0).unwrap();
    feeder.push(Delivery::Over(Over::Lost(lost())));
    assert_eq!(all.drain(), [Got::Unavailable(0, lost())]);
    let mut feeder = all.network.opened().feeder;
    bound(&mut feeder, 2);
    records(&mut feeder, 0..2, 8);
    assert_eq!(all.drain().len(), 3);
    assert!(!all.gate.acknowledge(old));
    assert_eq!(feeder.progress().consumed.amount, Amount::ZERO);
    all.end();
}

#[test]
fn lent_records_take_credit_until_they_are_dropped() {
    let (mut all, mut feeder) = Remote::bound_with(|config| config.receive_bytes_max(64 << 10));
    assert_eq!(feeder.window(), 64 << 10);
    let mut owned = Vec::new();
    for number in 0..3 {
        records(&mut feeder, number..number + 1, 12 << 10);
        let mut cx = Context::from_waker(Waker::noop());
        match all.gate.poll_next(&mut cx) {
            Poll::Ready(Ok(Some(Item::Record(record)))) => owned.push(record.into_bytes()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(all.drain(), []);
    let pinned = 2 * ((12 << 10) + 4);
    assert_eq!(feeder.progress().pinned, pinned);
    let credit = (64 << 10) - pinned;
    assert_eq!(all.gate.why_blocked(0), Some(WhyBlocked::WaitingForPeer { peer: peer(), credit }));
    for (number, bytes) in owned.iter().enumerate() {
        assert_eq!(bytes[..], payload(number as u32, 12 << 10)[..]);
    }
    all.network.rung();
    owned.clear();
    assert!(all.network.rung());
    assert_eq!(feeder.progress().pinned, 0);
    all.end();
}

#[test]
fn windows_are_equal_parts_of_what_may_be_received() {
    let windows = |bytes: usize, channels: u32| {
        let config = GateConfig::new(Attempt(1), Incarnation(1)).receive_bytes_max(bytes);
        config.channels((0..channels).map(|index| remote(index, 1))).window()
    };
    assert_eq!(windows(32 << 20, 1), 1 << 20, "a mebibyte at most");
    assert_eq!(windows(32 << 20, 256), 128 << 10);
    assert_eq!(windows(32 << 20, 100_000), 4 << 10, "4 KiB at least");
}

#[test]
fn channels_take_turns_whatever_they_are() {
    let (bench, network) = (Bench::new(), FakeNetwork::new());
    let mut producer = bench.create(1, 1, config(discard()));
    let channels = [remote(0, 1), bench.descriptor(1, 1), remote(2, 1)];
    let gate_config = GateConfig::new(Attempt(1), Incarnation(1)).channels(channels);
    let dynamic: Arc<dyn Network> = network.clone();
    let mut gate = InputGate::with_network(bench.manager.clone(), Some(dynamic), gate_config);
    assert_eq!(bench.drain(&mut gate), [Got::Available(1, 1)]);
    let mut feeders: Vec<_> = std::mem::take(&mut *lock(&network.opened));
    for open in &mut feeders {
        bound(&mut open.feeder, 1);
    }
    assert_eq!(bench.drain(&mut gate), [Got::Available(0, 1), Got::Available(2, 1)]);
    // More than a turn of each.
    for open in &mut feeders {
        records(&mut open.feeder, 0..300, 8);
    }
    producer.write_all(0..300, 8);
    gate.pause(2).unwrap();
    assert!(feeders[1].feeder.push_priority(PriorityEvent::new(b"fast").unwrap()));
    let got = bench.drain(&mut gate);
    assert_eq!(got[0], Got::Priority(2, b"fast".to_vec()), "overtakes, and pauses don't hold it");
    // The rest of channel 0 waits with its feeder.
    for index in [0, 1] {
        let got = numbers(&got, index);
        let expected: Vec<u32> = (0..got.len() as u32).collect();
        assert_eq!(got, expected);
    }
    assert_eq!(numbers(&got, 1).len(), 300);
    assert_eq!(numbers(&got, 2).len(), 0);
    gate.resume(2).unwrap();
    let mut later = bench.drain(&mut gate);
    while network.rung() {
        for open in &mut feeders {
            open.feeder.flush();
        }
        later.extend(bench.drain(&mut gate));
    }
    assert_eq!(numbers(&got, 0).len() + numbers(&later, 0).len(), 300);
    assert_eq!(numbers(&later, 2), (0..300).collect::<Vec<u32>>());
    drop((gate, producer, feeders, network));
    bench.assert_whole();
}

#[test]
fn a_channel_in_an_outage_leaves_the_watermark_to_the_others() {
    let (bench, network) = (Bench::new(), FakeNetwork::new());
    let gate_config = GateConfig::new(Attempt(1), Incarnation(1)).channels([remote(0, 1), remote(1, 1)]);
    let dynamic: Arc<dyn Network> = network.clone();
    let mut gate = InputGate::with_network(bench.manager.clone(), Some(dynamic), gate_config);
    assert_eq!(bench.drain(&mut gate), []);
    let mut feeders: Vec<_> = std::mem::take(&mut *lock(&network.opened));
    for (open, time) in feeders.iter_mut().zip([5, 9]) {
        bound(&mut open.feeder, 1);
        open.feeder.push(Delivery::Event(RemoteEvent::Watermark(time)));
    }
    bench.drain(&mut gate);
    assert_eq!(gate.watermark(), Some(5));
    feeders[0].feeder.push(Delivery::Over(Over::Lost(lost())));
    assert_eq!(bench.drain(&mut gate), [Got::Unavailable(0, lost())]);
    assert_eq!(gate.watermark(), Some(9), "it is being opened again, and counts as unavailable");
    // Bound again it holds the rest until it reports.
    let mut open = network.opened();
    bound(&mut open.feeder, 2);
    feeders[1].feeder.push(Delivery::Event(RemoteEvent::Watermark(20)));
    bench.drain(&mut gate);
    assert_eq!(gate.watermark(), Some(9));
    open.feeder.push(Delivery::Event(RemoteEvent::Watermark(15)));
    bench.drain(&mut gate);
    assert_eq!(gate.watermark(), Some(15));
    drop((gate, feeders, open, network));
    bench.assert_whole();
}

#[test]
fn a_record_that_is_too_long_closes_its_channel_alone() {
    let (mut all, mut feeder) = Remote::bound_with(|config| config.record_bytes_max(100));
    records(&mut feeder, 0..1, 100);
    feed(&mut feeder, &encoded(&payload(1, 101))[..20]);
    let too_long = GateError::RecordTooLong { channel: 0, bytes: 101, max: 100 };
    assert_eq!(all.drain(), [Got::Record(0, payload(0, 100)), Got::Failed(too_long)]);
    assert!(feeder.is_closed() && all.network.is_idle());
    assert_eq!(all.gate.update_channel(0, remote(0, 2)).unwrap(), Update::Accepted);
    assert_eq!(all.drain(), []);
    assert_eq!(all.network.opened().descriptor.producer_attempt, Attempt(2));
    all.end();
}

#[test]
fn a_task_is_woken_for_everything_that_comes() {
    let (mut all, mut feeder) = Remote::bound();
    let mut expect = |all: &mut Remote, got: &[Got]| {
        assert_eq!(all.bench.woken.take(), 1, "{got:?}");
        assert_eq!(all.drain(), got);
    };
    all.bench.woken.take();
    records(&mut feeder, 0..1, 8);
    expect(&mut all, &[Got::Record(0, payload(0, 8))]);
    feeder.push_priority(PriorityEvent::new(b"fast").unwrap());
    expect(&mut all, &[Got::Priority(0, b"fast".to_vec())]);
    feeder.push(Delivery::Over(Over::Lost(lost())));
    expect(&mut all, &[Got::Unavailable(0, lost())]);
    let mut feeder = all.network.opened().feeder;
    bound(&mut feeder, 2);
    expect(&mut all, &[Got::Available(0, 1)]);
    drop(feeder);
    expect(&mut all, &[Got::Unavailable(0, Cause::Shutdown)]);
    all.end();
}
