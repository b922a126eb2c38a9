//! Pictures of a gate's channels.

use crate::error::{BindError, Cause};
use crate::id::{Attempt, BindEpoch, RemoteAddress};
use crate::subpartition::Amount;

/// How a channel stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChannelState {
    /// It will be bound at the next call.
    Unbound,
    /// Its partition is not here yet.
    Waiting,
    /// The producer's worker is being reached; after an outage as often as it takes.
    Connecting {
        /// The producer's worker.
        peer: RemoteAddress,
    },
    /// It is bound.
    Active,
    /// The producer attempt is gone; a newer one is waited for.
    Unavailable(Cause),
    /// The bind was refused.
    BindFailed(BindError),
    /// It was closed for a record that is too long: its bytes, and the most accepted.
    RecordTooLong {
        /// Bytes of the payload.
        bytes: usize,
        /// The most accepted.
        max: usize,
    },
    /// Another attempt of this consumer reads it.
    Fenced(Attempt),
    /// It has ended.
    Ended,
}

/// A picture of one channel of a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelSnapshot {
    /// The channel.
    pub channel: u32,
    /// How it stands.
    pub state: ChannelState,
    /// Whether it is paused.
    pub is_paused: bool,
    /// The producer attempt that it reads or means.
    pub producer: Attempt,
    /// A newer producer attempt that is bound when the present one is read to its end.
    pub pending: Option<Attempt>,
    /// The epoch of the last bind.
    pub epoch: BindEpoch,
    /// How often it was bound by this gate.
    pub binds: u32,
    /// Records and stream bytes yielded, over all binds.
    pub yielded: Amount,
    /// What of it counts as consumed.
    pub consumed: Amount,
    /// What [`Item::Loss`](super::Item) told, over all binds.
    pub lost: Amount,
    /// Receipts that came too late or twice.
    pub acks_ignored: u64,
    /// The last watermark of the bind.
    pub watermark: Option<i64>,
}
