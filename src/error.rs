//! What can go wrong, by who has to do something about it.
#![forbid(unsafe_code)]

use crate::id::{Attempt, PartitionId, RemoteAddress};
use std::sync::Arc;
use thiserror::Error;

/// Why a partition, or a consumer's channel to it, came to an end before its time.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Cause {
    /// The producer task said that it failed.
    #[error("the producer failed: {0}")]
    Failed(Arc<str>),
    /// The producer's writer was dropped without `finish`, `fail` or `abandon`.
    #[error("the producer's writer was dropped before it finished")]
    Dropped,
    /// The producer's writer was dropped while its thread panicked.
    #[error("the producer's task panicked")]
    Panicked,
    /// The engine released the partition.
    #[error("the partition was released")]
    Released,
    /// The engine released the whole job.
    #[error("the job was released")]
    JobReleased,
    /// Every consumer acknowledged the end: the natural end of a partition.
    #[error("all consumers acknowledged the end of the partition")]
    Consumed,
    /// A newer attempt of the producer took the partition's place.
    #[error("{newer} of the producer took the partition's place")]
    Superseded {
        /// The newer attempt.
        newer: Attempt,
    },
    /// The worker is shutting down.
    #[error("the worker is shutting down")]
    Shutdown,
    /// The connection to the producer's worker was lost, or that worker is gone.
    #[error("the connection to {peer} was lost: {reason}")]
    ConnectionLost {
        /// The producer's worker.
        peer: RemoteAddress,
        /// What was seen of it.
        reason: Arc<str>,
    },
    /// The two workers don't understand each other; what the peer sent is named.
    #[error("the peer broke the protocol: {0}")]
    Protocol(Arc<str>),
    /// A newer attempt of the consumer has bound the subpartition.
    #[error("{newer} of the consumer has bound the subpartition; this one reads no more")]
    Fenced {
        /// The attempt that reads now.
        newer: Attempt,
    },
}

/// Why a consumer can't bind a subpartition.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BindError {
    /// A newer attempt of the consumer has bound before: this one is out of date, for good.
    #[error("{presented} of the consumer is out of date, {current} has bound; stop this attempt")]
    Stale {
        /// The attempt that wanted to bind.
        presented: Attempt,
        /// The newest attempt that bound.
        current: Attempt,
    },
    /// The consumer names a producer attempt that is older than the one here.
    #[error("{presented} of the producer is out of date, {current} is here; ask for a new descriptor")]
    StaleProducer {
        /// The producer attempt that the descriptor names.
        presented: Attempt,
        /// The producer attempt that is here.
        current: Attempt,
    },
    /// Another run of the same consumer attempt has bound before.
    #[error(
        "another incarnation of {attempt} of the consumer has bound; give every redeployment a new attempt"
    )]
    DuplicateAttempt {
        /// The attempt.
        attempt: Attempt,
    },
    /// There is no such partition for who shows this secret.
    #[error("partition {partition} not found, or the bind secret is not its own")]
    NotFound {
        /// The partition.
        partition: PartitionId,
    },
    /// The partition did not come within the time that a bind waits for it.
    #[error("partition {partition} did not appear within {waited_ms} ms; is its producer deployed?")]
    TimedOut {
        /// The partition.
        partition: PartitionId,
        /// How long the bind waited, in milliseconds.
        waited_ms: u64,
    },
    /// Too many binds wait already.
    #[error("{waiting} binds wait for partitions already, the most allowed; deploy producers first")]
    TooManyWaiting {
        /// How many wait.
        waiting: usize,
    },
    /// A newer attempt of the same consumer waits now in this one's place.
    #[error("{newer} of the consumer waits for the partition in place of this attempt")]
    Superseded {
        /// The newer attempt.
        newer: Attempt,
    },
    /// The partition has come to its end.
    #[error("the partition is released: {cause}")]
    Released {
        /// How it ended.
        cause: Cause,
    },
    /// The partition is another worker's, and nothing here can read from there: the worker doesn't listen, or its
    /// tasks turn reactors and this one's thread has none.
    #[error(
        "the partition is at {peer}, and no network thread or reactor is here to read it; give the worker's \
         builder a listening address and network threads, this thread a reactor, or the channel a local descriptor"
    )]
    NoNetwork {
        /// Where the partition is.
        peer: RemoteAddress,
    },
    /// The consumer expects other records than the partition has.
    #[error("the partition's {what} is {partition}, the descriptor says {descriptor}; redeploy one of them")]
    Layout {
        /// What differs.
        what: &'static str,
        /// As the partition has it.
        partition: String,
        /// As the descriptor says.
        descriptor: String,
    },
}

impl BindError {
    /// Whether the same bind may succeed later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::TimedOut { .. } | Self::TooManyWaiting { .. })
    }
}

/// Why a record or event can't be written. The writer stays usable unless it is `Closed`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The record has more bytes than the partition allows, or than could ever be kept.
    #[error(
        "a record of {bytes} bytes is longer than {max}; raise `record_bytes_max` or the quota, or split it"
    )]
    TooLong {
        /// Bytes of the payload.
        bytes: u64,
        /// The most allowed.
        max: u64,
    },
    /// The partition has records of one length, and this one has another.
    #[error("a record of {bytes} bytes in a partition of records of {fixed} bytes")]
    Width {
        /// Bytes of the payload.
        bytes: u64,
        /// The partition's width in bytes.
        fixed: u32,
    },
    /// There is no such subpartition.
    #[error("subpartition {target} of {count}: the partition function returned an index out of range")]
    NoSuchSubpartition {
        /// The index asked for.
        target: u32,
        /// How many there are.
        count: u32,
    },
    /// Another record is half written.
    #[error(
        "a record for subpartition {target} is half written; finish it with the same buffer, or abort it"
    )]
    RecordInProgress {
        /// Where the half record goes.
        target: u32,
    },
    /// A broadcast has not reached all of its targets yet.
    #[error("a broadcast is on its way; finish it by the same call again, or abort it")]
    BroadcastInProgress,
    /// The event has more bytes than an event may have.
    #[error("an event of {bytes} bytes is longer than {max}")]
    EventTooLong {
        /// Bytes of the event.
        bytes: usize,
        /// The most allowed.
        max: usize,
    },
    /// `finish` was called before.
    #[error("the partition is finished; nothing can be written behind its end")]
    Finished,
    /// The partition was released under the writer.
    #[error("the partition is closed: {cause}")]
    Closed {
        /// Why.
        cause: Cause,
    },
}

impl WriteError {
    /// Whether writing another record may succeed.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        matches!(self, Self::Closed { .. } | Self::Finished)
    }
}
