//! A picture of a worker.

use crate::clock::Moment;
use crate::id::WorkerId;
use crate::memory::Census;
use crate::net::NetSnapshot;
use crate::partition::PartitionSnapshot;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// A picture of a worker.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkerSnapshot {
    /// The partitions that are here, by id.
    pub partitions: Vec<PartitionSnapshot>,
    /// Where the arena's segments are.
    pub census: Census,
    /// Binds that wait for a partition.
    pub binds_waiting: usize,
    /// Wake-ups that the once-a-second look found missing. Anything but 0 is a defect of this library.
    pub lost_wakeups: u64,
    /// How often blocking calls of this process have put their thread to sleep. Each costs a system call, and
    /// another one of who wakes it.
    pub parks: u64,
    /// The control thread's part of the network. None of a worker that doesn't listen.
    pub network: Option<NetworkSnapshot>,
    /// The network threads' part, all of them together.
    pub net: NetSnapshot,
}

/// A picture of a worker's network, as its control thread sees it. Counters count from the start.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NetworkSnapshot {
    /// This worker's name for this run.
    pub worker: WorkerId,
    /// The address listened at.
    pub listening: SocketAddr,
    /// The address advertised.
    pub address: SocketAddr,
    /// Connections accepted, whatever became of them.
    pub accepted: u64,
    /// Connections dialled, whatever became of them.
    pub dialled: u64,
    /// Data connections handed over to a network thread or a reactor.
    pub handed_over: u64,
    /// Handshakes going on, of both directions.
    pub handshakes: u64,
    /// How often the control thread was late, and accused nobody for it.
    pub observer_stalls: u64,
    /// Workers that were found dead or said goodbye.
    pub peers_gone: u64,
    /// What was refused or came to nothing, by rule.
    pub refused: BTreeMap<&'static str, u64>,
    /// The other workers that are known, by id.
    pub peers: Vec<PeerSnapshot>,
}

/// A picture of another worker, taken at its last heartbeat.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PeerSnapshot {
    /// Who.
    pub worker: WorkerId,
    /// Where it is dialled. Of one that has only dialled this worker: where it says it listens, if that is on the
    /// host that it connects from.
    pub address: Option<SocketAddr>,
    /// How it stands.
    pub state: PeerState,
    /// When it was last heard, by this worker's clock.
    pub last_heard: Moment,
    /// The newest round trip between the two control threads.
    pub round_trip: Option<Duration>,
}

/// How another worker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerState {
    /// Heard as usual.
    Alive,
    /// Silent for longer than usual, without consequences so far.
    Suspect,
    /// There is no control connection at the moment.
    Unconnected,
}
