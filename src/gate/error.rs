//! What concerns the consumer task as a whole, and what a handle can't do.

use crate::id::Attempt;
use thiserror::Error;

/// Why the gate can't go on as it was.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GateError {
    /// Every channel that has not ended is read by a newer attempt of this consumer, or by another run of
    /// the same attempt. Every later call says so again.
    #[error("channel {channel} is read by {newer} of the consumer; stop this run of the task")]
    Fenced {
        /// One of the channels.
        channel: u32,
        /// The attempt that reads now.
        newer: Attempt,
    },
    /// A record is longer than the gate accepts. The channel is closed; the others flow on, and
    /// [`InputGate::update_channel`](super::InputGate::update_channel) opens it to a newer producer attempt.
    #[error(
        "channel {channel}: a record of {bytes} bytes is longer than {max}; raise `record_bytes_max` of the gate, \
         or lower that of the partition"
    )]
    RecordTooLong {
        /// The channel.
        channel: u32,
        /// Bytes of the payload.
        bytes: usize,
        /// The most accepted.
        max: usize,
    },
    /// There is no such channel.
    #[error("channel {channel} of {channels}: channels are numbered from 0 in the order of `GateConfig`")]
    NoSuchChannel {
        /// The channel asked for.
        channel: u32,
        /// How many there are.
        channels: u32,
    },
}

impl GateError {
    /// Whether the gate is at its end: it yields nothing but this error from now on.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Fenced { .. })
    }
}

/// Why a [`GateHandle`](super::GateHandle) can't pass a command on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HandleError {
    /// So many commands wait already that the gate has not come to.
    #[error("{commands} commands wait for the gate already; its task doesn't poll it")]
    Full {
        /// The most that may wait.
        commands: usize,
    },
    /// The gate was dropped.
    #[error("the gate is gone")]
    Gone,
    /// There is no such channel.
    #[error("channel {channel} of {channels}: channels are numbered from 0 in the order of `GateConfig`")]
    NoSuchChannel {
        /// The channel asked for.
        channel: u32,
        /// How many there are.
        channels: u32,
    },
}
