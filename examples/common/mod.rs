//! What examples of several processes share.

#![allow(dead_code, reason = "each example uses a part of it")]

pub(crate) mod child;
pub(crate) mod clock;
pub(crate) mod log;
pub(crate) mod network;

/// Any error, with its text.
pub(crate) type AnyError = Box<dyn std::error::Error + Send + Sync>;
