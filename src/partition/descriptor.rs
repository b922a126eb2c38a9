//! What a consumer needs to find and bind its part of a partition.

use crate::id::{Attempt, BindSecret, PartitionId, RemoteAddress};
use crate::record::RecordLayout;
use crate::wire::{Descriptor, decode_descriptor, encode_descriptor};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::net::SocketAddr;
use thiserror::Error;

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
    /// Where a partition is served: by the endpoint given, else always by the same thread.
    pub(crate) fn of(&self, partition: PartitionId, endpoint: Option<u16>) -> Location {
        let hasher: BuildHasherDefault<DefaultHasher> = BuildHasherDefault::new();
        // Less than the number of endpoints, which has 16 bits.
        let chosen = (hasher.hash_one(partition) % u64::from(self.endpoints.max(1))) as u16;
        Location::Remote(RemoteAddress { socket: self.socket, endpoint: endpoint.unwrap_or(chosen) })
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

impl ChannelDescriptor {
    /// The descriptor as bytes, at most 128, for whatever carries it to the consumer's worker. Whoever reads them
    /// can bind: they hold the secret.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        encode_descriptor(&Descriptor {
            partition: self.partition,
            producer_attempt: self.producer_attempt,
            subpartition: self.subpartition,
            address: match self.location {
                Location::Local => None,
                Location::Remote(address) => Some(address),
            },
            secret: self.secret,
            layout: self.layout,
        })
    }

    /// The descriptor that [`ChannelDescriptor::to_bytes`] made these bytes of.
    ///
    /// # Errors
    /// They are no descriptor, or one of a version that this one doesn't know.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DescriptorError> {
        let descriptor =
            decode_descriptor(bytes).map_err(|error| DescriptorError { reason: error.to_string() })?;
        Ok(Self {
            partition: descriptor.partition,
            producer_attempt: descriptor.producer_attempt,
            subpartition: descriptor.subpartition,
            location: descriptor.address.map_or(Location::Local, Location::Remote),
            secret: descriptor.secret,
            layout: descriptor.layout,
        })
    }
}

/// Bytes that are no [`ChannelDescriptor`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "no channel descriptor: {reason}; take the bytes that `to_bytes` gave, of the same version of this library"
)]
pub struct DescriptorError {
    reason: String,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::id::{DataSetId, JobId};

    #[test]
    fn bytes_come_back_as_what_they_were_and_no_others_do() {
        let remote = RemoteAddress { socket: "[::1]:7000".parse().unwrap(), endpoint: 3 };
        for location in [Location::Local, Location::Remote(remote)] {
            let descriptor = ChannelDescriptor {
                partition: PartitionId { job: JobId(u128::MAX), data_set: DataSetId(1), index: 2 },
                producer_attempt: Attempt(4),
                subpartition: 5,
                location,
                secret: BindSecret::new(6 << 100),
                layout: RecordLayout::Lengths,
            };
            let bytes = descriptor.to_bytes();
            assert!(bytes.len() <= 128);
            assert_eq!(ChannelDescriptor::from_bytes(&bytes), Ok(descriptor));
            for end in 0..bytes.len() {
                assert!(ChannelDescriptor::from_bytes(&bytes[..end]).is_err(), "cut at {end}");
            }
            let longer = [&*bytes, &[0]].concat();
            assert!(ChannelDescriptor::from_bytes(&longer).is_err());
        }
    }
}
