//! What a consumer needs to find and bind its part of a partition.

use crate::id::{Attempt, BindSecret, PartitionId, RemoteAddress};
use crate::record::RecordLayout;

/// Where a partition is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Location {
    /// In the same worker: read from memory, without a socket or a copy.
    Local,
    /// In another worker: read over a connection that its channels to the same network thread share.
    Remote(RemoteAddress),
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
