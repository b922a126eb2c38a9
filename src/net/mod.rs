//! Between sockets and tasks: one network thread's whole logic, over any transport.
//!
//! [`NetCore`] is turned by a thread of its own, by the task's thread, or by a simulator. It owns its
//! connections and their streams; tasks and the control thread talk to it by its [`Endpoint`]: a bell, and a
//! bounded queue of commands.
//!
//! # Guarantees
//! - It never waits for a task. A slow channel is bounded by its credit, and nobody else notices it.
//! - What is taken from a subpartition is sent in the order of its ring; what comes for a channel is handed over
//!   in the order of its stream.
//! - Whatever a peer sends ends at worst its own connection: errors of one stream end that stream.
//!
//! # Where what stands
//! ```text
//!   core       one turn: bell, timers, sends, wait, completions
//!   send       batches: control frames, then streams in turn      serving    one stream that is served
//!   receive    frames, each to what it is about                   receiving  channels that are read
//!   serve      BIND, ACK, CLOSE                                   peers      who is dialled when
//!   leaving    how connections end                                share      what one other worker may hold
//!   ending     ends that aren't known to be known
//! ```
#![forbid(unsafe_code)]

mod batch;
mod connection;
mod core;
mod counts;
mod driver;
mod ending;
mod endpoint;
mod framer;
mod leaving;
mod peers;
mod reactor;
mod receive;
mod receiving;
mod send;
mod serve;
mod serving;
mod share;
#[cfg(all(test, not(loom)))]
mod tests;
mod timers;

pub(crate) use core::NetCore;
pub use counts::NetSnapshot;
pub(crate) use driver::drive;
pub(crate) use endpoint::{Adopted, Command, Dial, Endpoint, Endpoints};
pub(crate) use reactor::Turned;
pub(crate) use share::{Seat, Share, ShareLimits};
