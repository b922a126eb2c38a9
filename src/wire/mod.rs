//! Frames between two workers: their layout as constants, encoding beside decoding. Pure: no I/O, no clock.
//!
//! `docs/PROTOCOL.md` has the byte pictures and the rules that go with them.
//!
//! # Guarantees
//! - Every length is compared with its limit before anything is read or allocated by it: [`frame_bytes`].
//! - Decoding borrows from the frame's bytes. Only the texts of causes and refusals are copied, which are
//!   bounded by [`TEXT_BYTES_MAX`]. No input makes it panic.
//! - What one version of this code encodes, the same version decodes to equal values.
//!
//! # Layout
//! All numbers are little-endian.
//! ```text
//!   frame    length u32 (bytes behind these 8) | kind u8 | flags u8 | count u16 | body
//!   body     crc32c u32 if agreed on, then what follows
//!   DATA     count runs of 32 bytes, then the payloads of the runs in the same order
//!   ACK      count acknowledgements of 72 bytes
//!   others   one message each; count = 0
//! ```
#![forbid(unsafe_code)]

mod ack;
mod bind;
mod body;
mod cause;
mod data;
mod descriptor;
mod error;
mod event;
mod frame;
mod header;
mod hello;
mod rule;

#[cfg(all(test, not(loom)))]
mod tests;

#[allow(unused_imports, reason = "on its way to `net`")]
pub(crate) use {
    ack::{Ack, Acks, Consumed, encode_acks},
    bind::{Amount, Bind, Bound, Close, Ended, Gone, LOSSES, Refused, Resume, Waiting},
    data::{Run, Runs, encode_data},
    descriptor::{Descriptor, decode_descriptor, encode_descriptor},
    error::WireError,
    event::{EventFrame, PriorityFrame, StreamEvent},
    frame::{ErrorFrame, Frame, Ping, decode},
    header::{Kind, Limits, frame_bytes},
    hello::{Features, Hello, MAGIC, Purpose, Reject, Token, versions_of},
    rule::Rule,
};

/// Bytes before the body of every frame.
pub(crate) const HEADER_BYTES: usize = 8;
/// Bytes of the checksum at the begin of a body, where it is agreed on.
pub(crate) const CRC_BYTES: usize = 4;
/// Bytes of one run's description in a DATA frame.
pub(crate) const RUN_BYTES: usize = 32;
/// The most runs of one DATA frame.
pub(crate) const RUNS_MAX: usize = 128;
/// Bytes of one acknowledgement in an ACK frame.
pub(crate) const ACK_BYTES: usize = 72;
/// The most acknowledgements of one ACK frame.
pub(crate) const ACKS_MAX: usize = 128;
/// The most payload bytes of one DATA frame, all runs together, before negotiation.
pub(crate) const PAYLOAD_BYTES_MAX: u32 = 64 * 1024;
/// The least that a worker may ask the payload of a DATA frame to be held to.
pub(crate) const PAYLOAD_BYTES_MIN: u32 = 4 * 1024;
/// The most bytes of the body of every frame but DATA and ACK.
pub(crate) const MESSAGE_BYTES_MAX: u32 = 4 * 1024;
/// The most bytes of a text inside a cause or a refusal; what is longer is cut at a character.
pub(crate) const TEXT_BYTES_MAX: usize = 1024;
/// The most bytes of the text of an ERROR or REJECT frame, and of an address in a HELLO.
pub(crate) const NOTE_BYTES_MAX: usize = 512;
/// The versions of the protocol that this code speaks, the oldest and the newest.
pub(crate) const VERSIONS: (u16, u16) = (1, 1);

/// Names a stream on one connection: chosen by the binder, counted from 0, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StreamId(pub(crate) u32);

impl std::fmt::Display for StreamId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stream {}", self.0)
    }
}

/// A place in a stream: stream bytes since the bind, and entries without bytes (events, marks, ends) since
/// then. The second is needed since several of those may stand at one byte. Across a resumed bind both go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct StreamPosition {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

impl StreamPosition {
    pub(crate) const fn new(bytes: u64, entries: u64) -> Self {
        Self { bytes, entries }
    }

    /// Whether neither count is beyond `other`'s. Not the order of the derived comparison, which looks at
    /// bytes first.
    pub(crate) const fn is_within(self, other: Self) -> bool {
        self.bytes <= other.bytes && self.entries <= other.entries
    }
}

impl std::fmt::Display for StreamPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "byte {} entry {}", self.bytes, self.entries)
    }
}
