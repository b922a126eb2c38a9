//! What two workers say to each other and when: the rules over the frames of `wire`, without I/O or a clock.
//!
//! Moments, bytes and progress come in as arguments; frames, verdicts and news go out. `docs/PROTOCOL.md`
//! numbers the rules (P-n) and names the test of each.
//!
//! # Guarantees
//! - What a peer sends can't make this side hold more than it granted: windows of bytes, a number of events,
//!   a number of priority events, a number of streams.
//! - An error is about one stream unless frames can't be told apart any more, or both sides would count
//!   streams differently ever after: [`Violation`].
//! - A frame of another epoch or of a stream that is over is dropped and counted, and harms nobody.
//!
//! # Parts
//! [`Client`] and [`Host`] begin a connection. [`Session`] knows its streams and who may send what. The two
//! ends of one stream are [`Incoming`] and [`Outgoing`]. [`Heartbeat`] is one end of a control connection.
#![forbid(unsafe_code)]

mod handshake;
mod heartbeat;
mod incoming;
mod outgoing;
mod session;
mod violation;

#[cfg(all(test, not(loom)))]
mod tests;

#[allow(unused_imports, reason = "on its way to `net`")]
pub(crate) use {
    handshake::{Agreed, Client, Host, Offer, Rejection},
    heartbeat::Heartbeat,
    incoming::{Accept, Incoming, Progress, withdrawal},
    outgoing::{Acked, News, Outgoing},
    session::{Counts, Role, Session},
    violation::{Scope, Violation},
};

use std::time::Duration;

/// Entries without bytes that may wait in the queue of one channel.
pub(crate) const EVENTS_MAX: u64 = 64;
/// Bytes of application events that may wait in the queue of one channel.
pub(crate) const EVENT_BYTES_MAX: usize = 64 * 1024;
/// How long what was received, consumed or taken may stay without being told.
pub(crate) const ACK_DELAY: Duration = Duration::from_millis(1);
/// Streams of one connection that may be open at a time.
pub(crate) const STREAMS_MAX: usize = 64 * 1024;
/// Subpartitions that one BIND may name.
pub(crate) const BIND_COUNT_MAX: u32 = 4 * 1024;
/// Errors about single streams after which a connection is given up: each is answered, and a peer that only
/// makes errors would have us queue answers for ever.
pub(crate) const VIOLATIONS_MAX: u64 = 1024;
