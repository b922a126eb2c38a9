//! What the control thread and the endpoints of a worker say to each other.
//!
//! An endpoint is one network thread or one reactor that a task turns. It asks for connections through the
//! [`DialQueue`], and gets what came of it, and whatever other workers connect, through its [`EndpointPort`].

use crate::id::{RemoteAddress, WorkerId};
use crate::net::Seat;
use crate::protocol::Agreed;
use crate::sync::{Mutex, Queue, lock};
use crate::worker::clock::WorkerClock;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// How many dials may wait to be begun. An endpoint has one for each worker that it reads from, at most.
const DIALS_WAITING_MAX: usize = 4096;

/// How the control thread reaches an endpoint.
pub(crate) trait EndpointPort: Send + Sync + fmt::Debug {
    /// Puts news into the endpoint's queue, rings its bell, and waits for nothing: called on the control thread.
    /// Gives them back when the queue is full, and they come again soon, in the same order; but a connection that
    /// came in is closed then. An endpoint that has ended takes them and drops them.
    fn tell(&self, news: News) -> Result<(), News>;
}

/// What an endpoint is told.
#[derive(Debug)]
pub(crate) enum News {
    /// A connection with a finished handshake is this endpoint's from now on.
    Adopt(Box<Adopted>),
    /// A dial that this endpoint asked for came to nothing.
    DialFailed { peer: RemoteAddress, error: DialError },
    /// The last control connection with this worker ended without a goodbye. It isn't dead yet; whatever is held
    /// back for a data connection that was lost at the same time need not be held any longer.
    ControlLost(#[allow(dead_code, reason = "tests ask who")] WorkerId),
    /// The worker is dead, for this reason: its connections are to be ended at once.
    PeerDead(WorkerId, &'static str),
}

/// A connected socket: handshake done, nothing in flight, not a byte read beyond the handshake; non-blocking, with
/// `TCP_NODELAY`.
#[derive(Debug)]
pub(crate) struct Adopted {
    pub(crate) socket: OwnedFd,
    pub(crate) agreed: Agreed,
    /// The other end of the socket.
    pub(crate) peer: SocketAddr,
    /// What was dialled; none of a connection that the other worker made.
    pub(crate) dialled: Option<RemoteAddress>,
    /// Its place among what the other worker may have.
    pub(crate) seat: Seat,
}

/// Why a dial came to nothing. Nobody tries again by himself.
#[derive(Debug, Error)]
pub(crate) enum DialError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("no connection and handshake within {0:?}")]
    TimedOut(Duration),
    /// The other worker's own words.
    #[error("rejected: {0}")]
    Rejected(String),
    #[error("what answered is no worker of this cluster: {0}")]
    Protocol(String),
    #[error("the worker stops")]
    Stopped,
}

/// Why a dial isn't even queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum DialRefused {
    #[error("{DIALS_WAITING_MAX} dials wait already")]
    Full,
    #[error("the worker stops")]
    Stopped,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct DialRequest {
    pub(super) peer: RemoteAddress,
    pub(super) from: u16,
}

/// Asks the control thread for connections. Clones share the queue.
#[derive(Clone, Debug)]
pub(crate) struct DialQueue {
    waiting: Arc<Queue<DialRequest>>,
    clock: Arc<WorkerClock>,
}

impl DialQueue {
    pub(super) fn new(clock: Arc<WorkerClock>) -> Self {
        Self { waiting: Arc::new(Queue::new(DIALS_WAITING_MAX)), clock }
    }

    /// Asks for a connection to `peer`. The endpoint `from` gets exactly one answer: `adopt` or `dial_failed`,
    /// within the handshake's time-out of when the dial is begun. Waits for nothing. There is nothing to cancel:
    /// who doesn't want the connection any more closes it.
    pub(crate) fn dial(&self, peer: RemoteAddress, from: u16) -> Result<(), DialRefused> {
        let queued = self.clock.rouse(|| self.waiting.push(DialRequest { peer, from }));
        queued.ok_or(DialRefused::Stopped)?.map_err(|_| DialRefused::Full)
    }

    pub(super) fn next(&self) -> Option<DialRequest> {
        self.waiting.pop()
    }
}

/// The endpoints of a worker by number.
#[derive(Debug, Default)]
pub(crate) struct Endpoints(Mutex<Numbered>);

#[derive(Debug, Default)]
struct Numbered {
    ports: BTreeMap<u16, Arc<dyn EndpointPort>>,
    next: u16,
}

impl Endpoints {
    /// Takes an endpoint in, and tells its number. Numbers of endpoints that were removed come again as late as
    /// can be, since descriptors name them. `None` if there are as many as there are numbers.
    pub(crate) fn add(&self, port: Arc<dyn EndpointPort>) -> Option<u16> {
        let mut numbered = lock(&self.0);
        let start = numbered.next;
        let number = (0..=u16::MAX)
            .map(|step| start.wrapping_add(step))
            .find(|number| !numbered.ports.contains_key(number))?;
        numbered.next = number.wrapping_add(1);
        numbered.ports.insert(number, port);
        Some(number)
    }

    /// Forgets an endpoint: nothing is handed to it once this has returned, but for what was under way. Who names it
    /// gets another from now on.
    pub(crate) fn remove(&self, number: u16) {
        let removed = lock(&self.0).ports.remove(&number);
        drop(removed);
    }

    /// The endpoint of this number and no other: who asked for something.
    pub(super) fn get(&self, number: u16) -> Option<Arc<dyn EndpointPort>> {
        lock(&self.0).ports.get(&number).cloned()
    }

    /// Who serves those that name this number: its endpoint, or one that stands in for it. Descriptors outlive
    /// threads and reactors, and each endpoint can serve every partition of the worker. `None` if there is none.
    pub(super) fn serving(&self, number: u16) -> Option<u16> {
        let numbered = lock(&self.0);
        let ports = &numbered.ports;
        if ports.contains_key(&number) {
            return Some(number);
        }
        let turn = usize::from(number).checked_rem(ports.len())?;
        ports.keys().nth(turn).copied()
    }

    pub(super) fn numbers(&self) -> Vec<u16> {
        lock(&self.0).ports.keys().copied().collect()
    }
}
