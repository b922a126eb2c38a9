//! A channel's descriptor as bytes, which the engine carries from producer to consumer by its own means.

use super::WireError;
use super::bind::{get_layout, get_partition, put_layout, put_partition};
use super::body::Body;
use super::cause::{get_address, put_address};
use crate::id::{Attempt, BindSecret, PartitionId, RemoteAddress};
use crate::record::RecordLayout;
use bytes::BufMut;

/// The form of these bytes; grows when the form changes.
const VERSION: u8 = 1;

/// What [`encode_descriptor`] takes; `partition::ChannelDescriptor` has the same fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) partition: PartitionId,
    pub(crate) producer_attempt: Attempt,
    pub(crate) subpartition: u32,
    /// None: in the worker that reads the descriptor.
    pub(crate) address: Option<RemoteAddress>,
    pub(crate) secret: BindSecret,
    pub(crate) layout: RecordLayout,
}

/// ```text
/// version u8 = 1 | job u128 | data set u128 | index u32 | producer attempt u32 | subpartition u32
/// secret u128 | layout u32 (0: lengths, else the width) | remote u8, then the address if 1
/// ```
pub(crate) fn encode_descriptor(descriptor: &Descriptor) -> Vec<u8> {
    let mut out = Vec::with_capacity(96);
    out.put_u8(VERSION);
    put_partition(&mut out, descriptor.partition);
    out.put_u32_le(descriptor.producer_attempt.0);
    out.put_u32_le(descriptor.subpartition);
    out.put_u128_le(descriptor.secret.bits());
    put_layout(&mut out, descriptor.layout);
    out.put_u8(u8::from(descriptor.address.is_some()));
    if let Some(address) = descriptor.address {
        put_address(&mut out, address);
    }
    out
}

/// # Errors
/// The bytes aren't those of a descriptor of this version.
pub(crate) fn decode_descriptor(bytes: &[u8]) -> Result<Descriptor, WireError> {
    let mut body = Body::new("a descriptor", bytes);
    let version = body.u8()?;
    if version != VERSION {
        return Err(WireError::Value { field: "the version of a descriptor", value: u64::from(version) });
    }
    let descriptor = Descriptor {
        partition: get_partition(&mut body)?,
        producer_attempt: Attempt(body.u32()?),
        subpartition: body.u32()?,
        secret: BindSecret::new(body.u128()?),
        layout: get_layout(&mut body)?,
        address: if body.bool("whether it is remote")? { Some(get_address(&mut body)?) } else { None },
    };
    body.end()?;
    Ok(descriptor)
}
