//! One network thread or reactor as others see it: where its bell is, and what it is asked to do.
//!
//! # Guarantees
//! A command that was taken is obeyed, or answered when the thread ends. Nobody waits in here: a full queue is
//! said so.

use super::counts::NetCounts;
use crate::doorbell::{Doorbell, ReadyNode};
use crate::id::{RemoteAddress, WorkerId};
use crate::inbox::Inbox;
use crate::partition::{Network, OpenChannel, OpenError};
use crate::protocol::Agreed;
use crate::sync::{AtomicU32, Ordering};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// How many commands wait for one network thread.
const COMMANDS: usize = 4096;
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
    /// What came behind the handshake.
    pub(crate) early: Vec<u8>,
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
    /// A worker is dead: its connections end now.
    PeerDead(WorkerId),
    /// End everything in order, and at the latest after so long.
    Stop(Duration),
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
    number: u16,
    bell: Arc<Doorbell>,
    commands: Inbox<Command>,
    command_node: Arc<ReadyNode>,
    next_token: AtomicU32,
    pub(crate) counts: NetCounts,
}

impl Endpoint {
    pub(crate) fn new(number: u16) -> Arc<Self> {
        let bell = Doorbell::new();
        let command_node = ReadyNode::new(&bell, COMMAND_TOKEN);
        Arc::new(Self {
            number,
            commands: Inbox::new(COMMANDS, command_node.clone()),
            command_node,
            bell,
            next_token: AtomicU32::new(0),
            counts: NetCounts::default(),
        })
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
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
        self.commands.push(command)
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
#[derive(Debug)]
pub(crate) struct Endpoints(pub(crate) Vec<Arc<Endpoint>>);

impl Endpoints {
    fn of(&self, peer: &RemoteAddress) -> Option<&Arc<Endpoint>> {
        let hasher: BuildHasherDefault<DefaultHasher> = BuildHasherDefault::new();
        let hash = hasher.hash_one(peer) as usize;
        self.0.get(hash.checked_rem(self.0.len())?)
    }
}

impl Network for Endpoints {
    fn node(&self, peer: &RemoteAddress) -> Arc<ReadyNode> {
        match self.of(peer) {
            Some(endpoint) => endpoint.channel_node(),
            // Nobody will ever be rung.
            None => ReadyNode::new(&Doorbell::new(), CHANNEL_TOKEN),
        }
    }

    fn open(&self, channel: OpenChannel) -> Result<(), OpenError> {
        let Some(endpoint) = self.of(&channel.peer) else { return Err(OpenError::Shutdown) };
        endpoint.send(Command::Open(Box::new(channel))).map_err(|_| {
            if endpoint.commands.is_closed() {
                OpenError::Shutdown
            } else {
                OpenError::Full { waiting: COMMANDS }
            }
        })
    }
}
