//! The network threads of a worker: started, told by the control thread, ended.

use super::StartError;
use super::control::{Adopted, ControlHandle, DialError, DialQueue, EndpointPort, Endpoints as Ports, News};
use crate::id::RemoteAddress;
use crate::memory::ReceivePool;
use crate::metrics::cold_event;
use crate::net::{self, Command, Dial, Endpoint, Endpoints, NetCore, NetSnapshot, Turned, drive};
use crate::partition::Manager;
use crate::sync::{Mutex, Queue, lock, thread};
use crate::transport::{self, ArenaShare, Io, Opened, UringOptions, ZeroCopy};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Who turns the sockets of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Driver {
    /// So many network threads; 0 for one for every four cores, at least one. The channels between one of them
    /// here and one there share a connection. Each costs a thread, a ring or a poll, and its receive buffers.
    Threads(u16),
    /// None: tasks turn reactors of their own ([`Worker::reactor`](crate::Worker::reactor)). A hop less each way,
    /// for few cores; a task that stays away from its reactor keeps its peers waiting. A thread without one reads no
    /// remote channels; what it writes for other workers is served by the worker's first reactor.
    Caller,
}

impl Default for Driver {
    fn default() -> Self {
        Self::Threads(0)
    }
}

/// How the network threads work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drive {
    pub(super) io: Io,
    pub(super) zero_copy: ZeroCopy,
    pub(super) driver: Driver,
    /// Receive buffers of each.
    pub(super) receive_buffers: u32,
}

/// How long the starter sleeps between two looks at a thread that may have died.
const START_LOOK: Duration = Duration::from_millis(100);

/// The fewest receive buffers of a network thread: one being filled, one being read.
pub(super) const RECEIVE_BUFFERS_LEAST: u32 = 4;

impl Default for Drive {
    fn default() -> Self {
        Self { io: Io::Auto, zero_copy: ZeroCopy::Auto, driver: Driver::default(), receive_buffers: 16 }
    }
}

impl Drive {
    /// How many threads that makes.
    pub(super) fn threads(&self) -> u16 {
        match self.driver {
            Driver::Caller => return 0,
            Driver::Threads(0) => {}
            Driver::Threads(threads) => return threads,
        }
        let cores = thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        u16::try_from(cores / 4).unwrap_or(u16::MAX).max(1)
    }
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Threads {
    endpoints: Arc<Endpoints>,
    running: Mutex<Vec<JoinHandle<()>>>,
    settings: Drive,
    share: Arc<ArenaShare>,
}

impl Threads {
    /// Starts them all, or none stays.
    pub(super) fn start(
        manager: &Arc<Manager>,
        control: &ControlHandle,
        settings: Drive,
    ) -> Result<Self, StartError> {
        let (endpoints, running) = (Arc::default(), Mutex::default());
        let threads = Self { endpoints, running, settings, share: Arc::default() };
        for _ in 0..settings.threads() {
            if let Err(error) = threads.add(manager, control) {
                threads.stop(Duration::ZERO);
                return Err(error);
            }
        }
        Ok(threads)
    }

    /// A core for a new endpoint, and what its transport is made with.
    fn core(
        &self,
        manager: &Arc<Manager>,
        control: &ControlHandle,
    ) -> Result<(NetCore, UringOptions, Arc<Endpoint>), StartError> {
        // First: an endpoint that was numbered has to be taken back by who fails after it.
        let receive = ReceivePool::new(self.settings.receive_buffers)?;
        let endpoint = Endpoint::new();
        // A wake-up that got lost is noticed within two seconds, as with gates.
        manager.watch(endpoint.bell());
        let number = control.endpoints().add(Arc::new(Port(endpoint.clone())));
        let Some(number) = number else {
            return Err(StartError::Network { what: "there are as many endpoints as there can be" });
        };
        endpoint.set_number(number);
        let dialer = Arc::new(Dialler(control.dials().clone()));
        let core = NetCore::new(endpoint.clone(), manager.clone(), dialer, receive.clone());
        let arena = manager.pool().clone();
        let (share, zero_copy) = (self.share.clone(), self.settings.zero_copy);
        Ok((core, UringOptions { receive, arena, share, zero_copy, lazy: true }, endpoint))
    }

    /// A reactor for the thread that calls.
    pub(super) fn reactor(
        &self,
        manager: &Arc<Manager>,
        control: &ControlHandle,
    ) -> Result<Turned, StartError> {
        let (core, options, endpoint) = self.core(manager, control)?;
        let number = endpoint.number();
        let made = transport::open(self.settings.io, options).map_err(StartError::from);
        let turned = made.and_then(|(transport, opened)| {
            endpoint.counts.set_io(matches!(opened, Opened::Uring(_)));
            let (endpoints, ports, gone) =
                (self.endpoints.clone(), control.endpoints().clone(), endpoint.clone());
            let gone = Box::new(move || {
                ports.remove(gone.number());
                endpoints.forget(&gone);
            });
            Turned::new(core, transport, endpoint.clone(), gone).ok_or(StartError::HasReactor)
        });
        match turned {
            Ok(turned) => {
                self.endpoints.count(&endpoint);
                Ok(turned)
            }
            Err(error) => {
                control.endpoints().remove(number);
                Err(error)
            }
        }
    }

    fn add(&self, manager: &Arc<Manager>, control: &ControlHandle) -> Result<(), StartError> {
        let (core, options, endpoint) = self.core(manager, control)?;
        let (number, io) = (endpoint.number(), self.settings.io);
        let opened = Arc::new(Queue::new(1));
        let (ready, starter) = (opened.clone(), thread::current());
        let builder = thread::Builder::new().name(format!("pirn-net-{number}"));
        let post = Post {
            endpoint: endpoint.clone(),
            endpoints: self.endpoints.clone(),
            ports: control.endpoints().clone(),
        };
        let thread = builder.spawn(move || run(core, io, options, &ready, &starter, &post));
        let thread = match thread {
            Ok(thread) => thread,
            Err(error) => {
                control.endpoints().remove(number);
                return Err(StartError::Thread(error));
            }
        };
        let answer = loop {
            if let Some(answer) = opened.pop() {
                break answer.map_err(StartError::from);
            }
            if thread.is_finished() {
                // It may have answered before it ended.
                let gone = || StartError::Thread(std::io::Error::other("it ended before it began"));
                break opened.pop().map_or_else(|| Err(gone()), |answer| answer.map_err(StartError::from));
            }
            thread::park_timeout(START_LOOK);
        };
        if let Err(error) = answer {
            control.endpoints().remove(number);
            drop(thread.join());
            return Err(error);
        }
        lock(&self.running).push(thread);
        self.endpoints.add(&endpoint);
        Ok(())
    }

    /// As gates see them.
    pub(super) fn network(&self) -> Arc<Endpoints> {
        self.endpoints.clone()
    }

    pub(super) fn snapshot(&self) -> NetSnapshot {
        self.endpoints.snapshot()
    }

    /// Ends all streams in order, for at most `patience`, and the threads.
    pub(super) fn stop(&self, patience: Duration) {
        self.endpoints.stop(patience);
        let running = std::mem::take(&mut *lock(&self.running));
        for thread in running {
            let is_own = thread.thread().id() == thread::current().id();
            if !is_own && thread.join().is_err() {
                cold_event!(error, "a network thread panicked");
            }
        }
    }
}

/// A network thread's place among the others, left when the thread ends, however it does.
#[derive(Debug)]
struct Post {
    endpoint: Arc<Endpoint>,
    endpoints: Arc<Endpoints>,
    ports: Arc<Ports>,
}

impl Drop for Post {
    fn drop(&mut self) {
        self.endpoints.forget(&self.endpoint);
        let endpoint = self.endpoint.number();
        self.ports.remove(endpoint);
        if thread::panicking() {
            cold_event!(error, endpoint, "a network thread panicked: others go on for it");
        }
    }
}

/// The transport is made by the thread that uses it: a ring belongs to its maker.
fn run(
    core: NetCore,
    io: Io,
    options: UringOptions,
    opened: &Queue<Result<(), transport::TransportError>>,
    starter: &thread::Thread,
    _post: &Post,
) {
    let (transport, answer) = match transport::open(io, options) {
        Ok((transport, opened)) => {
            core.endpoint().counts.set_io(matches!(opened, Opened::Uring(_)));
            (Some(transport), Ok(()))
        }
        Err(error) => (None, Err(error)),
    };
    // There is room for the one answer.
    drop(opened.push(answer));
    starter.unpark();
    if let Some(transport) = transport {
        drive(core, transport);
    }
}

/// How the control thread reaches a network thread.
#[derive(Debug)]
struct Port(Arc<Endpoint>);

impl EndpointPort for Port {
    fn tell(&self, news: News) -> Result<(), News> {
        let command = match news {
            News::Adopt(adopted) => {
                let Adopted { socket, agreed, peer, dialled, seat } = *adopted;
                Command::Adopt(Box::new(net::Adopted { socket, agreed, dialled, from: peer, seat }))
            }
            News::DialFailed { peer, error } => {
                Command::DialFailed { peer, reason: error.to_string().into() }
            }
            // Nothing is held back for a data connection that was lost: its channels have been told.
            News::ControlLost(_) => return Ok(()),
            News::PeerDead(worker, reason) => Command::PeerDead(worker, reason),
        };
        match self.0.send(command) {
            Ok(()) => Ok(()),
            // It has ended.
            Err(_) if self.0.is_closed() => Ok(()),
            Err(Command::Adopt(adopted)) => {
                let net::Adopted { socket, agreed, dialled, from, seat } = *adopted;
                Err(News::Adopt(Box::new(Adopted { socket, agreed, peer: from, dialled, seat })))
            }
            Err(Command::DialFailed { peer, reason }) => {
                let error = DialError::Io(std::io::Error::other(String::from(&*reason)));
                Err(News::DialFailed { peer, error })
            }
            Err(Command::PeerDead(worker, reason)) => Err(News::PeerDead(worker, reason)),
            // Those aren't sent here.
            Err(_) => Ok(()),
        }
    }
}

/// How a network thread reaches the control thread.
#[derive(Debug)]
struct Dialler(DialQueue);

impl Dial for Dialler {
    fn dial(&self, peer: RemoteAddress, endpoint: u16) -> bool {
        self.0.dial(peer, endpoint).is_ok()
    }
}
