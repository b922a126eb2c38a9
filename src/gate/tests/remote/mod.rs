//! Gates over remote channels, with the test as the network.

mod outages;
mod reading;

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

/// Whoever read it ended without a word.
fn left() -> Cause {
    let reason = "the network thread that read it has ended";
    Cause::ConnectionLost { peer: peer(), reason: reason.into() }
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
        barriers: LostBarriers::default(),
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
