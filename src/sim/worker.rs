//! One worker: memory, partitions, and network cores over the scripted transport.

use super::clock::SimClock;
use super::frames::Forger;
use super::plan::Plan;
use crate::id::{RemoteAddress, WorkerId};
use crate::memory::{MemoryConfig, ReceivePool, SegmentClass, SegmentPool};
use crate::net::{Command, Dial, Endpoint, Endpoints, NetCore};
use crate::partition::{Home, Manager, WaitLimits};
use crate::sync::{Mutex, lock};
use crate::transport::fake::{FakeNetwork, FakeTransport};
use crate::transport::{Batch, Close, Completion, ConnectionId, Transport, TransportCounts};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// How long a task that turns its core stays away from it.
const TASK_COMES_BACK: Duration = Duration::from_micros(100);

/// Segments of each worker.
const SEGMENTS: u32 = 2048;
/// Every so many dials find no place in the queue.
const REFUSED_DIALS: u64 = 9;

/// The fake transport, which waits for nobody: how long it may wait is the simulation's to know.
#[derive(Debug)]
pub(super) struct SimTransport {
    inner: FakeTransport,
    forger: Forger,
    /// What the last turn would have waited.
    asked: Option<Duration>,
    done: usize,
}

impl Transport for SimTransport {
    fn attach(&mut self, socket: OwnedFd) -> io::Result<ConnectionId> {
        self.inner.attach(socket)
    }

    fn send(&mut self, connection: ConnectionId, batch: Box<Batch>) {
        let batch = self.forger.forge(batch);
        self.inner.send(connection, batch);
    }

    fn close(&mut self, connection: ConnectionId, how: Close) {
        self.inner.close(connection, how);
    }

    fn turn(&mut self, timeout: Option<Duration>, done: &mut Vec<Completion>) -> io::Result<()> {
        self.asked = timeout;
        self.inner.turn(Some(Duration::ZERO), done)?;
        self.done = done.len();
        Ok(())
    }

    fn waker(&self) -> &Waker {
        self.inner.waker()
    }

    fn counts(&self) -> TransportCounts {
        self.inner.counts()
    }

    fn untouched_buffers(&self) -> u32 {
        self.inner.untouched_buffers()
    }
}

/// The dials that a worker's cores have asked for.
#[derive(Debug, Default)]
pub(super) struct Dials(Mutex<(u64, VecDeque<(RemoteAddress, u16)>)>);

impl Dial for Dials {
    fn dial(&self, peer: RemoteAddress, endpoint: u16) -> bool {
        let (count, queue) = &mut *lock(&self.0);
        *count += 1;
        if count.is_multiple_of(REFUSED_DIALS) {
            return false;
        }
        queue.push_back((peer, endpoint));
        true
    }
}

impl Dials {
    pub(super) fn pop(&self) -> Option<(RemoteAddress, u16)> {
        lock(&self.0).1.pop_front()
    }
}

/// One endpoint's core, with what it turns.
#[derive(Debug)]
pub(super) struct Core {
    /// None once it has come to its end.
    running: Option<(NetCore, SimTransport)>,
    pub(super) endpoint: Arc<Endpoint>,
    receive: ReceivePool,
    turns_through: bool,
    /// When it wants to be turned though nothing has happened.
    pub(super) wake_after: Option<Duration>,
}

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turned {
    Moved,
    Idle,
    Ended,
}

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) serial: usize,
    pub(super) machine: usize,
    pub(super) id: WorkerId,
    pub(super) socket: SocketAddr,
    pub(super) manager: Arc<Manager>,
    pub(super) network: Arc<Endpoints>,
    pub(super) cores: Vec<Core>,
    pub(super) dials: Arc<Dials>,
    /// It was told to stop.
    pub(super) is_leaving: bool,
}

/// Where a machine's worker is reached.
pub(super) fn socket_of(machine: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, machine as u8 + 1], 7000))
}

impl Worker {
    pub(super) fn start(
        plan: &Plan,
        serial: usize,
        machine: usize,
        clock: &Arc<SimClock>,
        network: &FakeNetwork,
    ) -> Result<Self, String> {
        let memory = MemoryConfig::default()
            .segments(SegmentClass::K32, 0)
            .segments(SegmentClass::K4, SEGMENTS)
            .orphan_segments(8);
        let pool = SegmentPool::new(&memory).map_err(|error| error.to_string())?;
        let limits = WaitLimits { longest: plan.bind_wait, most: 100 };
        let manager = Manager::new(pool, clock.clone(), limits);
        let socket = socket_of(machine);
        let endpoints = plan.machines[machine];
        manager.set_home(Home { socket, endpoints });
        let gates: Arc<Endpoints> = Arc::default();
        let dials: Arc<Dials> = Arc::default();
        let mut cores = Vec::new();
        for number in 0..endpoints {
            let receive = ReceivePool::new(plan.receive_buffers).map_err(|error| error.to_string())?;
            let endpoint = Endpoint::new();
            endpoint.set_number(number);
            manager.watch(endpoint.bell());
            gates.add(&endpoint);
            let core = NetCore::new(endpoint.clone(), manager.clone(), dials.clone(), receive.clone());
            let seed = (serial as u64) << 8 | u64::from(number);
            let transport = SimTransport {
                inner: network.transport(&receive),
                forger: Forger::new(plan.frames, seed, plan.flood),
                asked: None,
                done: 0,
            };
            let (running, turns_through) = (Some((core, transport)), plan.turns_through);
            cores.push(Core { running, endpoint, receive, turns_through, wake_after: None });
        }
        let id = WorkerId(serial as u64 + 1);
        let is_leaving = false;
        Ok(Self { serial, machine, id, socket, manager, network: gates, cores, dials, is_leaving })
    }

    /// Ends all endpoints in order.
    pub(super) fn leave(&mut self, patience: Duration) {
        self.is_leaving = true;
        self.manager.shutdown();
        self.network.stop(patience);
    }

    /// Its process is gone, with all that it had: whoever was connected sees a reset, or nothing at all.
    pub(super) fn vanish(&mut self) {
        self.cores.iter_mut().for_each(Core::vanish);
    }

    pub(super) fn tell_all(&self, command: impl Fn() -> Command) {
        for core in &self.cores {
            // A core that has ended needs to know nothing more.
            drop(core.endpoint.send(command()));
        }
    }

    /// Whether all of its cores have come to their end.
    pub(super) fn is_over(&self) -> bool {
        self.cores.iter().all(|core| core.running.is_none())
    }

    /// What is missing of the memory when nobody uses it any more.
    pub(super) fn check_memory(&self) -> Result<(), String> {
        let census = self.manager.pool().census();
        if !census.is_whole() || census.held() > 0 {
            return Err(format!("segments of worker {} aren't back: {census:?}", self.serial));
        }
        for core in &self.cores {
            let (receive, census) = (&core.receive, core.receive.census());
            if receive.free() != receive.slots() || !census.is_whole() || census.held() > 0 {
                return Err(format!("receive buffers of worker {} aren't back: {census:?}", self.serial));
            }
        }
        match self.manager.counts.lost_wakeups() {
            0 => Ok(()),
            lost => Err(format!("{lost} wake-ups were missing in worker {}", self.serial)),
        }
    }
}

impl Core {
    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    pub(super) fn turn(&mut self) -> Result<Turned, String> {
        let Some((core, transport)) = &mut self.running else { return Ok(Turned::Idle) };
        let before = transport.counts();
        let turned =
            if self.turns_through { core.turn_through(transport, None) } else { core.turn(transport, None) };
        let goes_on = turned.map_err(|error| format!("a core can't go on: {error}"))?;
        let after = transport.counts();
        let moved = (before.sent, before.received) != (after.sent, after.received);
        let is_still = !moved && transport.done == 0;
        if self.turns_through && is_still && transport.asked == Some(Duration::ZERO) {
            // It has said what it could, and waits for nothing: its task comes back in a moment.
            transport.asked = Some(TASK_COMES_BACK);
        }
        self.wake_after = transport.asked;
        if !goes_on {
            // As its thread does: the core first, which lets its channels go.
            self.running = None;
            self.wake_after = None;
            return Ok(Turned::Ended);
        }
        let is_due = transport.asked == Some(Duration::ZERO);
        Ok(if !is_still || is_due { Turned::Moved } else { Turned::Idle })
    }

    fn vanish(&mut self) {
        if let Some((core, transport)) = self.running.take() {
            // First: nothing that the core has to say goes out any more.
            drop(transport);
            drop(core);
        }
        self.wake_after = None;
    }

    /// How often its frames were forged: stale ones, broken ones.
    pub(super) fn forged(&self) -> (u64, u64) {
        self.running
            .as_ref()
            .map_or((0, 0), |(_, transport)| (transport.forger.stale, transport.forger.broken))
    }
}
