//! How a gate reaches partitions of other workers.

use super::descriptor::ChannelDescriptor;
use crate::doorbell::ReadyNode;
use crate::id::RemoteAddress;
use crate::inbox::Feeder;
use crate::subpartition::BindRequest;
use std::fmt;
use std::sync::{Arc, Weak};
use thiserror::Error;

/// What a gate asks for: bind the subpartition that `descriptor` names, and feed what comes of it.
#[derive(Debug)]
pub(crate) struct OpenChannel {
    /// Its location is remote.
    pub(crate) descriptor: ChannelDescriptor,
    pub(crate) peer: RemoteAddress,
    pub(crate) request: BindRequest,
    /// Stream bytes that may be under way or wait: the initial credit.
    pub(crate) window: u64,
    /// Its node is the one that [`Network::node`] gave.
    pub(crate) feeder: Feeder,
    /// Whether the gate is there yet: what its task has acknowledged is told to the producer's worker as long as
    /// it takes.
    pub(crate) gate: Weak<GateLife>,
}

/// A gate has one as long as it is there.
#[derive(Debug)]
pub(crate) struct GateLife;

/// Why a channel can't be opened. The gate tells it as a bind that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum OpenError {
    /// So many commands wait for the network thread already.
    #[error("{waiting} commands wait for the network thread")]
    Full { waiting: usize },
    /// There is no network thread, and the thread that asks turns no reactor.
    #[error("there is no network thread, and this thread turns no reactor")]
    NoEndpoint,
    /// The network thread whose node the channel has is gone: with another node it may succeed.
    #[error("the network thread has just ended")]
    Moved,
    /// The network is shutting down.
    #[error("the network is shutting down")]
    Shutdown,
}

/// The network as gates see it: somebody who feeds channels. An opened channel is fed until an
/// [`Over`](crate::inbox::Over) or the end of its partition was pushed, or its task has closed it; behind the end
/// nothing comes, whatever becomes of the connection, and that it is consumed is told until it is known; a connection that can't be made is
/// tried again with a pause that the network keeps, whoever asks.
pub(crate) trait Network: Send + Sync + fmt::Debug {
    /// A new node of the thread that will feed a channel from `peer`.
    fn node(&self, peer: &RemoteAddress) -> Arc<ReadyNode>;

    /// Begins to open a channel; never waits. The answer comes through the feeder.
    fn open(&self, channel: OpenChannel) -> Result<(), OpenError>;
}
