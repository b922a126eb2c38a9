//! ACK: how far the binder has come, and how far it may be sent.

use super::body::{Body, put_position};
use super::header::{Kind, put_frame};
use super::{ACK_BYTES, Features, StreamId, StreamPosition, WireError};
use crate::id::BindEpoch;
use bytes::BufMut;

/// What the task is done with, counted since the bind (and on across resumed ones).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Consumed {
    /// Records whose last byte is consumed.
    pub(crate) records: u64,
    /// Stream bytes, those of broken records included: a place between two records.
    pub(crate) bytes: u64,
    /// Entries without bytes.
    pub(crate) entries: u64,
    /// Bytes of `bytes` that are of records which an Abort broke off.
    pub(crate) aborted: u64,
}

impl Consumed {
    pub(crate) const fn position(self) -> StreamPosition {
        StreamPosition { bytes: self.bytes, entries: self.entries }
    }

    pub(super) fn put(self, out: &mut Vec<u8>) {
        for count in [self.records, self.bytes, self.entries, self.aborted] {
            out.put_u64_le(count);
        }
    }

    pub(super) fn get(body: &mut Body<'_>) -> Result<Self, WireError> {
        Ok(Self { records: body.u64()?, bytes: body.u64()?, entries: body.u64()?, aborted: body.u64()? })
    }
}

/// All counts are absolute since the bind (and go on across resumed ones), and never go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ack {
    pub(crate) stream: StreamId,
    pub(crate) epoch: BindEpoch,
    /// Credit: up to this position it may be sent, both counts for themselves.
    pub(crate) limit: StreamPosition,
    /// Everything before lies in the binder's memory.
    pub(crate) received: StreamPosition,
    pub(crate) consumed: Consumed,
    /// Priority events that the task has taken; wraps around.
    pub(crate) priority: u32,
}

impl Ack {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u32_le(self.stream.0);
        out.put_u32_le(self.epoch.0);
        // The entries of the limit are a small number more than those received, whatever their count: as a
        // difference they leave room for the rest in 72 bytes.
        out.put_u64_le(self.limit.bytes);
        put_position(out, self.received);
        self.consumed.put(out);
        out.put_u32_le(self.priority);
        let ahead = self.limit.entries.saturating_sub(self.received.entries);
        out.put_u32_le(u32::try_from(ahead).unwrap_or(u32::MAX));
    }

    fn get(body: &mut Body<'_>) -> Result<Self, WireError> {
        let (stream, epoch, limit_bytes) = (body.stream()?, body.epoch()?, body.u64()?);
        let (received, consumed, priority) = (body.position()?, Consumed::get(body)?, body.u32()?);
        let entries = received.entries.saturating_add(u64::from(body.u32()?));
        Ok(Self {
            stream,
            epoch,
            limit: StreamPosition::new(limit_bytes, entries),
            received,
            consumed,
            priority,
        })
    }
}

/// The acknowledgements of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Acks<'a> {
    bytes: &'a [u8],
}

impl<'a> Acks<'a> {
    pub(super) fn get(body: &mut Body<'a>, count: u16) -> Result<Self, WireError> {
        Ok(Self { bytes: body.bytes(usize::from(count) * ACK_BYTES)? })
    }

    pub(super) fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn count(self) -> u16 {
        (self.bytes.len() / ACK_BYTES) as u16
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Ack> + 'a {
        // The fields fill their bytes, and every value of them is one: nothing is left out here.
        self.bytes.chunks_exact(ACK_BYTES).filter_map(|bytes| Ack::get(&mut Body::new("ACK", bytes)).ok())
    }
}

/// Appends a frame with these acknowledgements, of which there are 1 to [`ACKS_MAX`](super::ACKS_MAX).
pub(crate) fn encode_acks(out: &mut Vec<u8>, features: Features, acks: &[Ack]) {
    debug_assert!((1..=super::ACKS_MAX).contains(&acks.len()), "{} acknowledgements in a frame", acks.len());
    put_frame(out, features, Kind::Ack, acks.len() as u16, |out| acks.iter().for_each(|ack| ack.put(out)));
}
