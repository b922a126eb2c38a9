//! A network in memory, for tests: what it does is decided by a seed, time is virtual, and everything can go
//! wrong that goes wrong with sockets.
//!
//! # How it is used
//! [`FakeNetwork::new`] makes the network, [`FakeNetwork::transport`] one of its transports,
//! [`FakeNetwork::pair`] the two sockets of a connection, to be attached to two transports (or dropped). All
//! of them belong to one thread; wakers go anywhere.
//!
//! A turn that may not wait (`ZERO`) leaves time alone: a simulation turns everybody like that until nothing
//! moves, then goes on to [`FakeNetwork::next_event`] (or to its own next deadline) with
//! [`FakeNetwork::advance_to`]. A turn that may wait makes time go on by itself, and really sleeps only if
//! nothing in the whole network will ever happen, until its waker is woken.
//!
//! What there is: arbitrary sizes and delays of what arrives, stalls of single connections, completions of
//! different connections in any order, batches given back late (after the close of their connection, too),
//! scripted lack of receive buffers besides the real one, any error at any time ([`Plan`]); cuts at a moment
//! or behind a byte, with a reset or silently (half-open), and delays at will ([`FakeNetwork::cut`] and its
//! like). What was sent is read a second time when it is given back, as a kernel might that sends again: whoever
//! has changed it meanwhile is found out.

mod link;
mod network;
mod random;
mod transport;

#[allow(unused_imports, reason = "for simulations")]
pub(crate) use network::Pair;
pub(crate) use network::{Cut, FakeNetwork, LinkId, Plan};
pub(crate) use random::Random;
pub(crate) use transport::FakeTransport;

#[cfg(all(test, not(loom)))]
mod tests;
