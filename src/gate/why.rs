//! Why a channel yields nothing right now, for whoever looks at a task that doesn't move.

use crate::error::{BindError, Cause};
use crate::id::{Attempt, PartitionId, RemoteAddress};
use thiserror::Error;

/// Why a channel yields nothing right now. A moment's picture, in words.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WhyBlocked {
    /// Something is there: the task has to ask for it.
    #[error("not blocked: something is there to be taken; does the task ask the gate for it?")]
    Ready,
    /// Everything written was taken, and the writer has room for more.
    #[error("the producer has written nothing more")]
    NoData,
    /// The channel is paused.
    #[error("the channel is paused; `resume` it")]
    Paused,
    /// The gate was not polled yet, or not since the channel was updated.
    #[error("not bound yet: the gate was not polled since")]
    Unbound,
    /// The partition is not here yet.
    #[error("not bound: waiting for {producer} of partition {partition} to appear")]
    WaitingForPartition {
        /// The partition.
        partition: PartitionId,
        /// The producer attempt that is waited for.
        producer: Attempt,
    },
    /// The producer's worker hasn't answered yet.
    #[error("not bound: no answer of {peer} yet; the network tries again by itself")]
    Connecting {
        /// The producer's worker.
        peer: RemoteAddress,
    },
    /// Everything that came was taken.
    #[error("waiting for data of {peer}, which may send {credit} bytes at once")]
    WaitingForPeer {
        /// The producer's worker.
        peer: RemoteAddress,
        /// Stream bytes that it may send without hearing of this task: the window less what is pinned by records
        /// that were lent.
        credit: u64,
    },
    /// The bind was refused.
    #[error("not bound: {error}; `retry_bind` or `update_channel`")]
    BindFailed {
        /// Why.
        error: BindError,
    },
    /// The producer attempt is gone.
    #[error("unavailable: {cause}; waiting for `update_channel` with a newer producer attempt")]
    Unavailable {
        /// Why.
        cause: Cause,
    },
    /// The channel was closed for a record that is too long.
    #[error("closed: a record of {bytes} bytes is longer than {max}; `update_channel` opens it again")]
    RecordTooLong {
        /// Bytes of the payload.
        bytes: usize,
        /// The most accepted.
        max: usize,
    },
    /// Another attempt of this consumer reads the channel.
    #[error("fenced: {newer} of the consumer reads this channel")]
    Fenced {
        /// The attempt that reads now.
        newer: Attempt,
    },
    /// Nothing is there to be read, and yet the writer has used up its quota.
    #[error(
        "the writer has used {segments} of {segments_max} segments and nothing is there to read; drop `Bytes` that are lent"
    )]
    WriterBlocked {
        /// Segments charged to the subpartition.
        segments: u32,
        /// The most it may have.
        segments_max: u32,
    },
    /// A long record waits for the half records of other channels.
    #[error(
        "a record of {bytes} bytes doesn't fit beside the half records of other channels; \
         raise `half_record_bytes_max`"
    )]
    HalfRecordNotAdmitted {
        /// Bytes of the payload.
        bytes: usize,
    },
    /// Explicit mode: what was yielded has to be acknowledged before anything goes on.
    #[error("waiting for `acknowledge` of what was yielded")]
    WaitingForAcknowledge,
    /// The connection of the channel is lost and may come back.
    #[error("the connection is lost and may come back")]
    Suspended,
    /// The channel has ended.
    #[error("the channel has ended")]
    Ended,
}
