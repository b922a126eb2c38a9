//! One network thread or reactor as others see it: where its bell is, and what it is asked to do.
//!
//! # Guarantees
//! A command that was taken is obeyed, or let go when the thread ends, which answers it. Nobody waits for the thread
//! in here: a full queue is said so.

use super::counts::{NetCounts, NetSnapshot};
use super::share::Seat;
use crate::doorbell::{Doorbell, ReadyNode};
use crate::id::{RemoteAddress, WorkerId};
use crate::inbox::Inbox;
use crate::partition::{Network, OpenChannel, OpenError};
use crate::protocol::Agreed;
use crate::sync::{AtomicBool, AtomicU32, Mutex, Ordering, lock, thread};
use arc_swap::ArcSwap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// How many commands wait for one network thread.
const COMMANDS: usize = 16 * 1024;
/// The token of the node that stands for commands.
pub(super) const COMMAND_TOKEN: u32 = u32::MAX;
/// Tokens from here on are of channels that are read; those before are slots of streams that are served.
pub(super) const CHANNEL_TOKEN: u32 = 1 << 31;

/// A socket whose handshake is done, with nothing in flight.
#[derive(Debug)]
pub(crate) struct Adopted {
    pub(crate) socket: OwnedFd,
    pub(crate) agreed: Agreed,
    /// Whom this worker dialled; `None` for a connection that came in.
    pub(crate) dialled: Option<RemoteAddress>,
    /// The other end, as the socket has it.
    pub(crate) from: SocketAddr,
    /// Its place among what the other worker may have.
    pub(crate) seat: Seat,
}

/// What a network thread is asked to do.
#[derive(Debug)]
pub(crate) enum Command {
    /// A gate wants a channel.
    Open(Box<OpenChannel>),
    /// The control thread has a connection.
    Adopt(Box<Adopted>),
    /// The control thread could not reach a peer.
    DialFailed { peer: RemoteAddress, reason: Arc<str> },
    /// A worker is dead, for this reason: its connections end now.
    PeerDead(WorkerId, &'static str),
    /// End everything in order, and at the latest after so long.
    Stop(Duration),
    /// Die, as by a defect.
    #[cfg(test)]
    Panic,
}

/// Whoever makes connections: the control thread.
pub(crate) trait Dial: Send + Sync + std::fmt::Debug {
    /// Begins to connect to `peer` for an endpoint of this worker; never waits. False when too many dials wait.
    /// The answer is [`Command::Adopt`] or [`Command::DialFailed`].
    fn dial(&self, peer: RemoteAddress, endpoint: u16) -> bool;
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Endpoint {
    number: AtomicU32,
    bell: Arc<Doorbell>,
    commands: Inbox<Command>,
    command_node: Arc<ReadyNode>,
    next_token: AtomicU32,
    pub(crate) counts: NetCounts,
}

impl Endpoint {
    pub(crate) fn new() -> Arc<Self> {
        let bell = Doorbell::new();
        let command_node = ReadyNode::new(&bell, COMMAND_TOKEN);
        Arc::new(Self {
            number: AtomicU32::new(0),
            commands: Inbox::new(COMMANDS, command_node.clone()),
            command_node,
            bell,
            next_token: AtomicU32::new(0),
            counts: NetCounts::default(),
        })
    }

    /// The number that other workers call it by.
    pub(crate) fn number(&self) -> u16 {
        self.number.load(Ordering::Relaxed) as u16 // Relaxed: set before the thread starts
    }

    /// Before its thread starts.
    pub(crate) fn set_number(&self, number: u16) {
        self.number.store(u32::from(number), Ordering::Relaxed); // Relaxed: as above
    }

    /// Nothing is taken any more: what waits is let go, and who waits for it learns that.
    pub(super) fn close(&self) {
        self.commands.end();
        self.bell.close();
    }

    pub(crate) fn bell(&self) -> &Arc<Doorbell> {
        &self.bell
    }

    pub(super) fn commands(&self) -> &Inbox<Command> {
        &self.commands
    }

    pub(super) fn command_node(&self) -> &Arc<ReadyNode> {
        &self.command_node
    }

    /// Hands a command over; gives it back when too many wait or the thread has ended.
    pub(crate) fn send(&self, command: Command) -> Result<(), Command> {
        if self.is_closed() {
            return Err(command);
        }
        self.commands.hand(command)
    }

    /// Whether its thread has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.commands.is_closed()
    }

    /// A node for a channel that this thread will feed.
    fn channel_node(&self) -> Arc<ReadyNode> {
        // Relaxed: a name, and two that live at once differ: 2^31 of them never do.
        let token = self.next_token.fetch_add(1, Ordering::Relaxed);
        // The token of commands is nobody else's.
        let token = (CHANNEL_TOKEN | token).min(COMMAND_TOKEN - 1);
        ReadyNode::new(&self.bell, token)
    }
}

/// The network threads of a worker, as gates see them: all channels of one peer's endpoint are fed by one thread,
/// over one connection.
#[derive(Debug, Default)]
pub(crate) struct Endpoints {
    threads: ArcSwap<Vec<Arc<Endpoint>>>,
    /// Reactors that tasks turn: gates of other threads are not read by them.
    reactors: ArcSwap<Vec<Arc<Endpoint>>>,
    /// What threads and reactors that are gone had counted.
    retired: Mutex<NetSnapshot>,
    /// Nothing is opened any more.
    is_stopped: AtomicBool,
}

fn add(all: &ArcSwap<Vec<Arc<Endpoint>>>, endpoint: &Arc<Endpoint>) {
    all.rcu(|all| {
        let mut more = Vec::clone(all);
        more.push(endpoint.clone());
        more
    });
}

impl Endpoints {
    /// A network thread.
    pub(crate) fn add(&self, endpoint: &Arc<Endpoint>) {
        add(&self.threads, endpoint);
    }

    /// A reactor.
    pub(crate) fn count(&self, endpoint: &Arc<Endpoint>) {
        add(&self.reactors, endpoint);
    }

    /// A network thread or reactor is gone: nothing goes to it any more. What it has counted stays.
    pub(crate) fn forget(&self, endpoint: &Arc<Endpoint>) {
        let mut retired = lock(&self.retired);
        let is_known =
            |all: &ArcSwap<Vec<Arc<Endpoint>>>| all.load().iter().any(|other| Arc::ptr_eq(other, endpoint));
        if is_known(&self.threads) || is_known(&self.reactors) {
            endpoint.counts.add_to(&mut retired);
            // This one says what is there.
            retired.ends_unsaid = 0;
        }
        for all in [&self.threads, &self.reactors] {
            all.rcu(|all| {
                let others = all.iter().filter(|other| !Arc::ptr_eq(other, endpoint));
                others.cloned().collect::<Vec<_>>()
            });
        }
    }

    /// A network thread that takes commands.
    pub(crate) fn any(&self) -> Option<Arc<Endpoint>> {
        self.threads.load().iter().find(|endpoint| !endpoint.is_closed()).cloned()
    }

    /// The network thread of this number.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn numbered(&self, number: u16) -> Option<Arc<Endpoint>> {
        self.threads.load().iter().find(|endpoint| endpoint.number() == number).cloned()
    }

    /// The reactor that the thread that asks turns, if it is one of this worker.
    pub(crate) fn own(&self) -> Option<Arc<Endpoint>> {
        let own = super::reactor::own_endpoint()?;
        self.reactors.load().iter().any(|reactor| Arc::ptr_eq(reactor, &own)).then_some(own)
    }

    /// Who reads from there.
    pub(crate) fn of(&self, peer: &RemoteAddress) -> Option<Arc<Endpoint>> {
        // A thread that turns a reactor reads by it.
        if let Some(own) = self.own().filter(|own| !own.is_closed()) {
            return Some(own);
        }
        let hasher: BuildHasherDefault<DefaultHasher> = BuildHasherDefault::new();
        let hash = hasher.hash_one(peer) as usize;
        let all = self.threads.load();
        let chosen = all.get(hash.checked_rem(all.len())?)?;
        // One that has just ended is about to be forgotten: its peers are the others' from now on.
        if chosen.is_closed() { self.any() } else { Some(chosen.clone()) }
    }

    /// What all of them have counted together.
    pub(crate) fn snapshot(&self) -> NetSnapshot {
        // Held until all are added: a reactor that goes meanwhile is counted once.
        let retired = lock(&self.retired);
        let mut snapshot = *retired;
        for endpoint in self.threads.load().iter().chain(self.reactors.load().iter()) {
            endpoint.counts.add_to(&mut snapshot);
        }
        snapshot
    }

    /// Asks all of them to end their streams in order within `patience`.
    pub(crate) fn stop(&self, patience: Duration) {
        self.is_stopped.store(true, Ordering::Relaxed); // Relaxed: a reason to be told, of two
        for endpoint in self.threads.load().iter() {
            // Closed: it has ended already. A full queue can't last: its thread obeys as long as it lives.
            let mut command = Command::Stop(patience);
            while let Err(back) = endpoint.send(command) {
                if endpoint.is_closed() {
                    break;
                }
                command = back;
                thread::yield_now();
            }
        }
    }
}

impl Network for Endpoints {
    fn node(&self, peer: &RemoteAddress) -> Arc<ReadyNode> {
        match self.of(peer) {
            Some(endpoint) => endpoint.channel_node(),
            None => {
                // Nobody will ever be rung, and nobody would take from a list what a ring puts there.
                let deaf = Doorbell::new();
                deaf.close();
                ReadyNode::new(&deaf, CHANNEL_TOKEN)
            }
        }
    }

    fn open(&self, channel: OpenChannel) -> Result<(), OpenError> {
        let gone = || {
            // Relaxed: see `stop`.
            if self.is_stopped.load(Ordering::Relaxed) { OpenError::Shutdown } else { OpenError::NoEndpoint }
        };
        let Some(endpoint) = self.of(&channel.peer) else { return Err(gone()) };
        // Between the two questions the thread that its node belongs to may have ended.
        if !channel.feeder.node().is_of(&endpoint.bell) {
            return Err(OpenError::Moved);
        }
        endpoint.send(Command::Open(Box::new(channel))).map_err(|_| {
            if endpoint.commands.is_closed() { gone() } else { OpenError::Full { waiting: COMMANDS } }
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const PEER: RemoteAddress = RemoteAddress {
        socket: SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1),
        endpoint: 0,
    };

    #[test]
    fn a_ring_for_nobody_keeps_nothing() {
        let node = Endpoints::default().node(&PEER);
        node.ring();
        assert_eq!(Arc::strong_count(&node), 1, "a list that nobody takes has it");
    }

    /// The endpoint stays while others know it, long after its thread: what lay in it then would lie there as long,
    /// and who waits for it would wait as long.
    #[test]
    fn a_command_that_meets_the_end_is_let_go_or_given_back() {
        for round in 0..500 {
            let (endpoint, reason) = (Endpoint::new(), Arc::<str>::from("refused"));
            let (sender, told) = (endpoint.clone(), reason.clone());
            let thread = thread::spawn(move || {
                while sender.send(Command::DialFailed { peer: PEER, reason: told.clone() }).is_ok() {}
            });
            while endpoint.commands.is_empty() {
                std::hint::spin_loop();
            }
            endpoint.close();
            assert!(thread.join().is_ok());
            assert_eq!(Arc::strong_count(&reason), 1, "round {round}: a command was left behind");
        }
    }
}
