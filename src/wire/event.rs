//! EVENT and PRIORITY: what travels in a stream without being stream bytes.

use super::bind::Amount;
use super::body::{Body, put_counted, put_position};
use super::cause::{get_cause, put_cause};
use super::{StreamId, StreamPosition, WireError};
use crate::error::Cause;
use crate::event::{Event, PriorityEvent};
use crate::id::BindEpoch;
use bytes::BufMut;

/// An entry without stream bytes. It takes one entry of the stream's position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventFrame<'a> {
    pub(crate) stream: StreamId,
    pub(crate) epoch: BindEpoch,
    /// Where it stands: behind so many bytes and entries.
    pub(crate) position: StreamPosition,
    pub(crate) event: StreamEvent<'a>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StreamEvent<'a> {
    Barrier(u64),
    Watermark(i64),
    /// At most [`Event::APPLICATION_BYTES_MAX`].
    Application(&'a [u8]),
    /// The record that the bytes before began is broken off.
    Abort,
    /// What the writer has dropped in all.
    Loss(Amount),
    EndOfData,
    /// The last of the stream.
    EndOfPartition,
    /// The last of the stream.
    Failed(Cause),
}

impl StreamEvent<'_> {
    /// Whether nothing follows.
    pub(crate) const fn is_last(&self) -> bool {
        matches!(self, Self::EndOfPartition | Self::Failed(_))
    }

    /// Bytes of an application event; 0 for all others.
    pub(crate) const fn application_bytes(&self) -> usize {
        match self {
            Self::Application(bytes) => bytes.len(),
            _ => 0,
        }
    }
}

const BARRIER: u8 = 0;
const WATERMARK: u8 = 1;
const APPLICATION: u8 = 2;
const ABORT: u8 = 3;
const LOSS: u8 = 4;
const END_OF_DATA: u8 = 5;
const END_OF_PARTITION: u8 = 6;
const FAILED: u8 = 7;

impl<'a> EventFrame<'a> {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.put_u32_le(self.stream.0);
        out.put_u32_le(self.epoch.0);
        put_position(out, self.position);
        match &self.event {
            StreamEvent::Barrier(id) => {
                out.put_u8(BARRIER);
                out.put_u64_le(*id);
            }
            StreamEvent::Watermark(time) => {
                out.put_u8(WATERMARK);
                out.put_i64_le(*time);
            }
            StreamEvent::Application(bytes) => {
                debug_assert!(bytes.len() <= Event::APPLICATION_BYTES_MAX, "an event of {}", bytes.len());
                out.put_u8(APPLICATION);
                put_counted(out, bytes, Event::APPLICATION_BYTES_MAX);
            }
            StreamEvent::Abort => out.put_u8(ABORT),
            StreamEvent::Loss(amount) => {
                out.put_u8(LOSS);
                amount.put(out);
            }
            StreamEvent::EndOfData => out.put_u8(END_OF_DATA),
            StreamEvent::EndOfPartition => out.put_u8(END_OF_PARTITION),
            StreamEvent::Failed(cause) => {
                out.put_u8(FAILED);
                put_cause(out, cause);
            }
        }
    }

    pub(super) fn get(body: &mut Body<'a>) -> Result<Self, WireError> {
        let (stream, epoch, position) = (body.stream()?, body.epoch()?, body.position()?);
        let event = match body.u8()? {
            BARRIER => StreamEvent::Barrier(body.u64()?),
            WATERMARK => StreamEvent::Watermark(body.u64()? as i64),
            APPLICATION => {
                StreamEvent::Application(body.counted("an event's length", Event::APPLICATION_BYTES_MAX)?)
            }
            ABORT => StreamEvent::Abort,
            LOSS => StreamEvent::Loss(Amount::get(body)?),
            END_OF_DATA => StreamEvent::EndOfData,
            END_OF_PARTITION => StreamEvent::EndOfPartition,
            FAILED => StreamEvent::Failed(get_cause(body)?),
            value => return Err(WireError::Value { field: "the kind of an event", value: u64::from(value) }),
        };
        Ok(Self { stream, epoch, position, event })
    }
}

/// An event that overtakes data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PriorityFrame {
    pub(crate) stream: StreamId,
    pub(crate) epoch: BindEpoch,
    /// Priority events of the stream before this one; wraps around.
    pub(crate) sequence: u32,
    pub(crate) event: PriorityEvent,
}

impl PriorityFrame {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.put_u32_le(self.stream.0);
        out.put_u32_le(self.epoch.0);
        out.put_u32_le(self.sequence);
        put_counted(out, self.event.as_bytes(), PriorityEvent::BYTES_MAX);
    }

    pub(super) fn get(body: &mut Body<'_>) -> Result<Self, WireError> {
        let (stream, epoch, sequence) = (body.stream()?, body.epoch()?, body.u32()?);
        let field = "a priority event's length";
        let bytes = body.counted(field, PriorityEvent::BYTES_MAX)?;
        let value = bytes.len() as u64;
        let event = PriorityEvent::new(bytes).ok_or(WireError::Value { field, value })?;
        Ok(Self { stream, epoch, sequence, event })
    }
}
