//! One core over a network in memory, with the test as everybody else: the peers, the gates, the dialler, the clock.

use crate::clock::{Clock, Moment};
use crate::doorbell::{Doorbell, ReadyNode};
use crate::id::{Attempt, BindSecret, DataSetId, Incarnation, JobId, PartitionId, RemoteAddress, WorkerId};
use crate::inbox::{self, RemoteEnd};
use crate::memory::{MemoryConfig, ReceivePool, SegmentClass, SegmentPool};
use crate::net::core::NetCore;
use crate::net::{Adopted, Command, Dial, Endpoint, Endpoints, Share, ShareLimits};
use crate::partition::{
    ChannelDescriptor, Location, Manager, Network, OpenChannel, PartitionConfig, WaitLimits, WriterParts,
};
use crate::protocol::{Agreed, Incoming};
use crate::record::RecordLayout;
use crate::subpartition::BindRequest;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use crate::transport::fake::{FakeNetwork, FakeTransport, Plan};
use crate::transport::{Batch, Close, Completion, ConnectionId, Part, Transport};
use crate::wire::{
    Bind, Features, Frame, HEADER_BYTES, Limits, PAYLOAD_BYTES_MAX, Purpose, decode, frame_bytes,
};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

const LIMITS: Limits = Limits::Session { payload_bytes_max: PAYLOAD_BYTES_MAX };
/// Of every channel.
pub(super) const WINDOW: u64 = 64 * 1024;

/// Stands still until it is told.
#[derive(Debug, Default)]
struct Still(AtomicU64);

impl Clock for Still {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.0.load(Ordering::Relaxed))
    }
    fn wake_at(&self, _: Moment, _: &Waker) {}
}

/// Whom the core wanted to be dialled.
#[derive(Debug, Default)]
pub(super) struct Dials(Mutex<Vec<RemoteAddress>>);

impl Dial for Dials {
    fn dial(&self, peer: RemoteAddress, _: u16) -> bool {
        lock(&self.0).push(peer);
        true
    }
}

impl Dials {
    pub(super) fn take(&self) -> Vec<RemoteAddress> {
        std::mem::take(&mut *lock(&self.0))
    }
}

/// See the module's text.
pub(super) struct Rig {
    pub(super) core: NetCore,
    pub(super) transport: FakeTransport,
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) endpoints: Endpoints,
    pub(super) manager: Arc<Manager>,
    pub(super) dials: Arc<Dials>,
    /// Of all peers.
    pub(super) share: Arc<Share>,
    network: FakeNetwork,
    clock: Arc<Still>,
    peers: FakeTransport,
    heard: HashMap<ConnectionId, Heard>,
    pub(super) bell: Arc<Doorbell>,
}

/// What a peer got.
#[derive(Debug, Default)]
struct Heard {
    bytes: Vec<u8>,
    over: Option<&'static str>,
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.bell.close();
    }
}

pub(super) fn peer() -> RemoteAddress {
    RemoteAddress { socket: "10.0.0.7:4433".parse().unwrap(), endpoint: 2 }
}

pub(super) fn id(index: u32) -> PartitionId {
    PartitionId { job: JobId(1), data_set: DataSetId(1), index }
}

pub(super) fn secret() -> BindSecret {
    BindSecret::new(7)
}

pub(super) fn bind(stream: u32, partition: u32, count: u32) -> Bind {
    let limit = Incoming::initial_limit(WINDOW);
    Bind { count, limit, ..Bind::of_first_attempts(stream, id(partition), secret()) }
}

/// So many bytes fit between a sender and its receiver.
pub(super) fn narrow(bytes: u64) -> Plan {
    Plan { capacity: bytes..bytes + 1, ..Plan::calm() }
}

impl Rig {
    pub(super) fn new(plan: Plan) -> Self {
        let memory = MemoryConfig::new().segments(SegmentClass::K32, 0).segments(SegmentClass::K4, 1024);
        let pool = SegmentPool::new(&memory).unwrap();
        let clock = Arc::new(Still::default());
        let manager = Manager::new(pool, clock.clone(), WaitLimits::default());
        let network = FakeNetwork::new(1, plan);
        let buffers = ReceivePool::new(8).unwrap();
        let (endpoint, dials) = (Endpoint::new(), Arc::new(Dials::default()));
        let endpoints = Endpoints::default();
        endpoints.add(&endpoint);
        let core = NetCore::new(endpoint.clone(), manager.clone(), dials.clone(), buffers.clone());
        Self {
            core,
            transport: network.transport(&buffers),
            endpoint,
            endpoints,
            manager,
            dials,
            share: Share::new(ShareLimits { binds_waiting: 20, ..ShareLimits::default() }),
            peers: network.transport(&ReceivePool::new(8).unwrap()),
            network,
            clock,
            heard: HashMap::new(),
            bell: Doorbell::new(),
        }
    }

    pub(super) fn create(&self, index: u32, subpartitions: u32) -> WriterParts {
        let config = PartitionConfig::new(subpartitions).segment_class(SegmentClass::K4);
        self.manager.create(id(index), Attempt(1), config, secret()).unwrap()
    }

    /// A connection to the core, and the peer's end of it.
    pub(super) fn connect(&mut self, dialled: Option<RemoteAddress>) -> ConnectionId {
        let pair = self.network.pair().unwrap();
        let agreed = Agreed {
            version: 1,
            features: Features::NONE,
            payload_bytes_max: PAYLOAD_BYTES_MAX,
            peer_worker: WorkerId(7),
            peer_address: String::new(),
            purpose: Purpose::Data,
            endpoint: 0,
        };
        let from = peer().socket;
        let seat = self.share.seat().unwrap();
        let adopted = Adopted { socket: pair.sockets.0, agreed, dialled, from, seat };
        self.endpoint.send(Command::Adopt(Box::new(adopted))).unwrap();
        let id = self.peers.attach(pair.sockets.1).unwrap();
        self.heard.insert(id, Heard::default());
        self.turn();
        id
    }

    /// A gate asks for a subpartition of [`peer`].
    pub(super) fn open(&mut self, partition: u32) -> RemoteEnd {
        let node = ReadyNode::new(&self.bell, partition);
        let (feeder, end) = inbox::channel(node, self.endpoints.node(&peer()), WINDOW);
        let descriptor = ChannelDescriptor {
            partition: id(partition),
            producer_attempt: Attempt(1),
            subpartition: 0,
            location: Location::Remote(peer()),
            secret: secret(),
            layout: RecordLayout::Lengths,
        };
        let request = BindRequest::new(Attempt(1), Incarnation(1));
        let channel =
            OpenChannel { descriptor, peer: peer(), request, window: WINDOW, feeder, gate: Weak::new() };
        self.endpoints.open(channel).unwrap();
        end
    }

    pub(super) fn now(&self) -> Moment {
        self.network.now()
    }

    pub(super) fn sleep(&mut self, time: Duration) {
        self.network.advance_to(self.network.now().plus(time));
        self.clock.0.store(self.network.now().as_nanos(), Ordering::Relaxed);
    }

    /// One turn of the core, which doesn't wait. False at its end.
    pub(super) fn turn(&mut self) -> bool {
        self.core.turn(&mut self.transport, Some(Duration::ZERO)).unwrap()
    }

    /// A turn that leaves nothing unsaid.
    pub(super) fn turn_through(&mut self) {
        assert!(self.core.turn_through(&mut self.transport, Some(Duration::ZERO)).unwrap());
    }

    pub(super) fn set_plan(&mut self, plan: Plan) {
        self.network.set_plan(plan);
    }

    /// The peers send, and receive what has come.
    pub(super) fn peers_turn(&mut self) {
        let mut done = Vec::new();
        self.peers.turn(Some(Duration::ZERO), &mut done).unwrap();
        for completion in done {
            let (connection, over) = match completion {
                Completion::Received { connection, bytes } => {
                    self.heard.get_mut(&connection).unwrap().bytes.extend_from_slice(&bytes);
                    continue;
                }
                Completion::Eof { connection } => (connection, "end"),
                Completion::Failed { connection, .. } => (connection, "reset"),
                _ => continue,
            };
            self.heard.get_mut(&connection).unwrap().over = Some(over);
            self.peers.close(connection, Close::Orderly);
        }
    }

    /// Everybody turns for so long. False if the core came to its end.
    pub(super) fn run(&mut self, time: Duration) -> bool {
        let end = self.network.now().plus(time);
        let mut goes_on = true;
        while self.network.now() < end {
            goes_on &= self.turn();
            self.peers_turn();
            self.sleep(Duration::from_micros(10));
        }
        goes_on
    }

    /// A peer says something. What it said before has to be on its way.
    pub(super) fn say(&mut self, connection: ConnectionId, frames: &[Frame<'_>]) {
        let mut staging = Vec::new();
        frames.iter().for_each(|frame| frame.encode(&mut staging, Features::NONE));
        self.say_bytes(connection, staging);
    }

    pub(super) fn say_bytes(&mut self, connection: ConnectionId, staging: Vec<u8>) {
        let bytes = staging.len();
        let batch = Batch { parts: vec![Part::Staged(0..bytes)], bytes, staging, returns: Vec::new() };
        self.peers.send(connection, Box::new(batch));
    }

    /// The frames that a peer has heard since the last question, by kind and stream where that matters; what it
    /// has heard at last is how the connection ended.
    pub(super) fn heard(&mut self, connection: ConnectionId) -> Vec<String> {
        let heard = self.heard.get_mut(&connection).unwrap();
        let mut said = Vec::new();
        while let Some(header) = heard.bytes.first_chunk::<HEADER_BYTES>() {
            let bytes = frame_bytes(header, LIMITS).unwrap();
            if heard.bytes.len() < bytes {
                break;
            }
            let frame: Vec<u8> = heard.bytes.drain(..bytes).collect();
            let frame = decode(&frame, Features::NONE).unwrap();
            said.push(match &frame {
                Frame::Bind(bind) => format!("BIND {}", bind.stream.0),
                Frame::Close(close) => format!("CLOSE {}", close.stream.0),
                Frame::Refused(refused) => format!("REFUSED {} {:?}", refused.stream.0, refused.error),
                Frame::Gone(gone) => format!("GONE {}", gone.stream.0),
                Frame::Error(error) => format!("ERROR {}", error.rule),
                _ => frame.kind().name().to_owned(),
            });
        }
        if !heard.bytes.is_empty() && heard.over.is_some() {
            said.push("a part of a frame".to_owned());
        }
        said.extend(heard.over.map(str::to_owned));
        said
    }
}
