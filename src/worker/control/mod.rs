//! The control thread of a worker that listens.
//!
//! One thread with one poll: it takes connections, does the handshakes of both directions, hands finished sockets
//! over to endpoints, exchanges heartbeats with the other workers, decides who of them is dead, and rings the alarms
//! of the worker's clock. It never touches a data connection after the hand-over, and no task and no network thread
//! waits for it.
//!
//! # Bounds
//! - One turn takes at most 64 events, 64 connections and 64 timers before alarms are rung again: an alarm is as
//!   late as such a turn is long, and as the kernel's poll is coarse (a millisecond, and another one in the
//!   runtime of tokio-uring).
//! - Inbound handshakes: `handshakes_max` at a time. While there are so many, nothing is accepted; the others wait
//!   in the kernel's queue. Dials: as many again at a time, of a bounded queue.
//! - A handshake, and a dial from its start, ends within `handshake_timeout`, one way or the other. It holds at
//!   most one frame of 1 KiB of what the peer sent.
//! - Peers: `peers_max`. Waiting to be sent on one control connection: 4 KiB.
//!
//! # Rooms
//! `turn` is the loop, `sleep` what it waits in · `listener` takes connections · `handshake` does one, by `session`,
//! over `frames` · `meet` is what follows a handshake · `peers` knows the other workers, `link` talks to one,
//! `health` looks after all · `port` is the other threads' side, `tell` what they are told · `journal` counts and
//! logs refusals.

mod frames;
mod handshake;
mod health;
mod journal;
mod link;
mod listener;
mod meet;
mod peers;
mod port;
mod session;
mod sleep;
mod tell;
#[cfg(all(test, not(loom)))]
mod tests;
mod turn;

pub(crate) use port::{Adopted, DialError, DialQueue, EndpointPort, Endpoints, News};

use crate::clock::{Clock, Moment};
use crate::id::WorkerId;
use crate::metrics::{Lines, cold_event};
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use crate::transport::Io;
use crate::worker::clock::WorkerClock;
use crate::worker::network::Network;
use crate::worker::snapshot::{NetworkSnapshot, PeerSnapshot};
use crate::worker::{StartError, liveness::Observer};
use handshake::Handshake;
use journal::Journal;
use link::Link;
use listener::Listener;
use mio::{Events, Interest, Poll, Token as PollToken};
use peers::Peers;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::JoinHandle;
use tell::Untold;

/// Events of one turn.
const EVENTS: usize = 64;

/// Names a socket of the control thread; never used twice, so that a late event of a closed one finds nothing.
type Token = usize;

const LISTENER: Token = 0;
const WAKER: Token = 1;
const FIRST: Token = 2;

/// What the control thread looks at by itself at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The end of a handshake's patience.
    Handshake(Token),
    /// A peer is to be judged and sent a heartbeat.
    Peer(WorkerId),
    /// A control connection is to be dialled again.
    Redial(WorkerId),
    /// An endpoint is offered again what it had no room for.
    Tell(u16),
}

/// What the other threads may look at.
#[derive(Debug, Default)]
struct Shared {
    journal: Journal,
    accepted: AtomicU64,
    dialled: AtomicU64,
    handed_over: AtomicU64,
    handshakes: AtomicU64,
    observer_stalls: AtomicU64,
    peers_gone: AtomicU64,
    peers: Mutex<BTreeMap<WorkerId, PeerSnapshot>>,
}

/// The network of a worker, as the worker sees it.
#[derive(Debug)]
pub(crate) struct ControlHandle {
    worker: WorkerId,
    listening: SocketAddr,
    address: SocketAddr,
    shared: Arc<Shared>,
    endpoints: Arc<Endpoints>,
    dials: DialQueue,
}

/// The state of the control thread.
struct Control {
    poll: Poll,
    /// Kept until the end: a waker whose last holder drops it right behind a wake-up takes that along.
    _waker: Waker,
    events: Events,
    clock: Arc<WorkerClock>,
    network: Network,
    identity: session::Identity,
    listener: Listener,
    observer: Observer,
    handshakes: BTreeMap<Token, Handshake>,
    /// How many of the handshakes the other side began, and how many this one.
    inbound: usize,
    outbound: usize,
    links: BTreeMap<Token, Link>,
    /// Links that have more to be read than one turn reads.
    unread: Vec<Token>,
    peers: Peers,
    timers: BTreeSet<(Moment, Timer)>,
    next: Token,
    shared: Arc<Shared>,
    endpoints: Arc<Endpoints>,
    untold: Untold,
    /// What may be logged of what other workers do.
    lines: Lines,
    dials: DialQueue,
}

/// Ends the poll's sleep.
struct Rouse(mio::Waker);

impl Wake for Rouse {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // It fails when the kernel's counter is full, which ends the sleep as well, and then nothing is lost.
        if let Err(error) = self.0.wake() {
            cold_event!(error, error = %error, "the control thread can't be woken");
        }
    }
}

/// Binds the listener and starts the control thread, which calls `look_after` about once a second. `io` is what
/// it may sleep in.
///
/// # Errors
/// The address can't be had, or the operating system refuses a thread, a descriptor or a random number.
pub(super) fn start(
    network: Network,
    io: Io,
    clock: &Arc<WorkerClock>,
    look_after: impl FnMut() + Send + 'static,
) -> Result<(ControlHandle, JoinHandle<()>), StartError> {
    let worker = WorkerId(getrandom::u64().map_err(|error| StartError::Poll(error.into()))?);
    let address = network.listen;
    let mut socket =
        mio::net::TcpListener::bind(address).map_err(|error| StartError::Listen { address, error })?;
    let listening = socket.local_addr().map_err(StartError::Poll)?;
    let mut advertised = network.advertise;
    if advertised.port() == 0 {
        advertised.set_port(listening.port());
    }
    let poll = Poll::new().map_err(StartError::Poll)?;
    let waker = mio::Waker::new(poll.registry(), PollToken(WAKER)).map_err(StartError::Poll)?;
    poll.registry()
        .register(&mut socket, PollToken(LISTENER), Interest::READABLE)
        .map_err(StartError::Poll)?;
    let waker = Waker::from(Arc::new(Rouse(waker)));
    clock.rouse_by(waker.clone());
    if network.token.is_none() {
        cold_event!(warn, address = %listening, "listens without a cluster token: whoever can connect is let in");
    }
    let shared = Arc::new(Shared::default());
    let endpoints = Arc::new(Endpoints::default());
    let dials = DialQueue::new(clock.clone());
    let control = Control {
        poll,
        _waker: waker,
        events: Events::with_capacity(EVENTS),
        clock: clock.clone(),
        identity: session::Identity::new(worker, network.token, advertised),
        listener: Listener::new(socket),
        observer: Observer::new(network.periods, clock.now()),
        handshakes: BTreeMap::new(),
        inbound: 0,
        outbound: 0,
        links: BTreeMap::new(),
        unread: Vec::new(),
        peers: Peers::new(network.peers_max, network.share),
        timers: BTreeSet::new(),
        next: FIRST,
        shared: shared.clone(),
        endpoints: endpoints.clone(),
        untold: Untold::new(),
        lines: Lines::of_all(),
        dials: dials.clone(),
        network,
    };
    let builder = std::thread::Builder::new().name("pirn-control".into());
    let thread = builder.spawn(move || control.run(io, look_after)).map_err(StartError::Thread)?;
    Ok((ControlHandle { worker, listening, address: advertised, shared, endpoints, dials }, thread))
}

impl ControlHandle {
    #[cfg(test)]
    pub(crate) fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Where other workers reach this one.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn endpoints(&self) -> &Arc<Endpoints> {
        &self.endpoints
    }

    pub(crate) fn dials(&self) -> &DialQueue {
        &self.dials
    }

    pub(super) fn snapshot(&self) -> NetworkSnapshot {
        let shared = &self.shared;
        // Relaxed: statistics, each by itself.
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        NetworkSnapshot {
            worker: self.worker,
            listening: self.listening,
            address: self.address,
            accepted: count(&shared.accepted),
            dialled: count(&shared.dialled),
            handed_over: count(&shared.handed_over),
            handshakes: count(&shared.handshakes),
            observer_stalls: count(&shared.observer_stalls),
            peers_gone: count(&shared.peers_gone),
            refused: shared.journal.counts(),
            peers: lock(&shared.peers).values().cloned().collect(),
        }
    }
}
