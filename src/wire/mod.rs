//! Frames between two workers: their layout as constants, encoding beside decoding. Pure: no I/O, no clock.
//!
//! `docs/PROTOCOL.md` has the byte pictures and the rules that go with them.
//!
//! # Guarantees
//! - Every length is compared with its limit before anything is read or allocated by it.
//! - Decoding borrows from the frame's bytes and allocates nothing; no input makes it panic.
//! - What one version of this code encodes, the same version decodes to equal values.
//!
//! # Layout
//! All numbers are little-endian.
//! ```text
//!   frame    length u32 (bytes behind these 8) | kind u8 | flags u8 | count u16 | body
//!   DATA     body = count runs of 32 bytes, then the payloads of the runs in the same order
//!   ACK      body = count acknowledgements of 64 bytes
//!   others   one message each; count = 0
//! ```
#![forbid(unsafe_code)]

/// Bytes before the body of every frame.
pub(crate) const HEADER_BYTES: usize = 8;
/// Bytes of one run's description in a DATA frame.
pub(crate) const RUN_BYTES: usize = 32;
/// Bytes of one acknowledgement in an ACK frame.
pub(crate) const ACK_BYTES: usize = 64;
/// The most payload bytes of one DATA frame, all runs together, before negotiation.
pub(crate) const PAYLOAD_BYTES_MAX: u32 = 64 * 1024;

/// Names a stream on one connection: chosen by the binder, counted from 0, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StreamId(pub(crate) u32);

/// A place in a stream: stream bytes since the bind, and entries without bytes (events, marks, ends) since
/// then. The second is needed since several of those may stand at one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct StreamPosition {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}
