//! Hostile use of the public interface: wrong input, foreign code that panics, ends at every moment. Nothing
//! may be torn, lost without a count, or held for ever.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a panic is how a test fails, and tests read clocks"
)]

#[path = "hostile/alarms.rs"]
mod alarms;
#[path = "hostile/common.rs"]
mod common;
#[path = "hostile/foreign.rs"]
mod foreign;
#[path = "hostile/gates.rs"]
mod gates;
#[path = "hostile/input.rs"]
mod input;
#[path = "hostile/life.rs"]
mod life;
#[path = "hostile/mesh.rs"]
mod mesh;
