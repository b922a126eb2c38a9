//! One network thread's logic against peers played by the test, over a network in memory.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod leaving;
#[cfg(feature = "tracing")]
mod lines;
mod rig;
mod share;
mod turns;
