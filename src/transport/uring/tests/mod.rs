//! The ring of the kernel, and a scripted one.
#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod play;
mod real;
mod refused;
mod rules;
mod script;
mod scripts;
