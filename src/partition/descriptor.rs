//! What a consumer needs to find and bind its part of a partition.

use crate::id::{Attempt, BindSecret, PartitionId, RemoteAddress};
use crate::record::RecordLayout;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::net::SocketAddr;

/// Where a partition is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Location {
    /// In the same worker: read from memory, without a socket or a copy.
    Local,
    /// In another worker: read over a connection that its channels to the same network thread share.
    Remote(RemoteAddress),
}

/// Where the partitions of this worker are, for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    pub(crate) socket: SocketAddr,
    /// Network threads, numbered from 0.
    pub(crate) endpoints: u16,
}

impl Home {
    /// Where a partition is served: always by the same thread.
    pub(crate) fn of(&self, partition: PartitionId) -> Location {
        let hasher: BuildHasherDefault<DefaultHasher> = BuildHasherDefault::new();
        let endpoint = hasher.hash_one(partition) % u64::from(self.endpoints.max(1));
        // Less than the number of endpoints, which has 16 bits.
        Location::Remote(RemoteAddress { socket: self.socket, endpoint: endpoint as u16 })
    }
}

/// Says all that a consumer needs: which partition and attempt, which part of it, where, and the secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChannelDescriptor {
    /// The producer task's partition.
    pub partition: PartitionId,
    /// The attempt of the producer that is meant. An older one here is waited past, a newer one is an error.
    pub producer_attempt: Attempt,
    /// Which subpartition.
    pub subpartition: u32,
    /// Where it is.
    pub location: Location,
    /// What the bind has to show.
    pub secret: BindSecret,
    /// How the consumer expects the records to lie.
    pub layout: RecordLayout,
}
