//! What a gate yields.

use super::reader::Reader;
use crate::error::{BindError, Cause};
use crate::event::{Event, PriorityEvent};
use crate::id::{Attempt, BindEpoch};
use crate::subpartition::{Amount, Losses, Mark};
use bytes::Bytes;
use std::fmt;
use std::ops::Deref;

/// What an [`InputGate`](super::InputGate) yields; records by borrow, valid until its next call.
pub type Item<'a> = ItemOf<Record<'a>>;

/// What a [`GateStream`](super::GateStream) yields.
pub type OwnedItem = ItemOf<OwnedRecord>;

/// An item with its record as `R`: see [`Item`] and [`OwnedItem`].
///
/// For each channel the order is: all whole records of a bind, `Unavailable`, `Available` of the next bind,
/// its first record. Priority events overtake records and events of their channel, never these notices or
/// the end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ItemOf<R> {
    /// A record.
    Record(R),
    /// An event that travels in order among the records.
    Event {
        /// The channel.
        channel: u32,
        /// The event.
        event: Event,
    },
    /// An event that overtook the records before it. It may come between any two items of the channel,
    /// also while the channel is paused.
    Priority {
        /// The channel.
        channel: u32,
        /// The event.
        event: PriorityEvent,
    },
    /// The channel is bound: records follow.
    Available {
        /// The channel.
        channel: u32,
        /// The attempt of the producer that is read.
        producer: Attempt,
        /// Counts the binds and outages of the subpartition of that attempt.
        epoch: BindEpoch,
        /// What this consumer didn't get of what was written before.
        loss: Box<LossReport>,
    },
    /// Everything that was there is yielded and nothing more comes of this bind. The channel waits for a
    /// newer producer attempt ([`InputGate::update_channel`](super::InputGate::update_channel)), unless the
    /// cause is [`Cause::Fenced`].
    Unavailable {
        /// The channel.
        channel: u32,
        /// The epoch that ended; [`BindEpoch::NEVER`] if the channel was never bound.
        epoch: BindEpoch,
        /// Why.
        cause: Cause,
        /// Parts of records that came in this epoch and are dropped: the rest of a record that an older
        /// reader had begun, and the begin of one whose rest doesn't come (its bytes; no record was whole).
        skipped: Amount,
    },
    /// The writer dropped so much by its policy since the last report on the channel.
    Loss {
        /// The channel.
        channel: u32,
        /// The bind that it belongs to.
        epoch: BindEpoch,
        /// Records and stream bytes dropped.
        lost: Amount,
    },
    /// Another channel has yielded this barrier, and this one can't be counted on for it: it was dropped while
    /// nobody read the channel, went to an older attempt of the consumer or with its producer, or the channel is
    /// unavailable. Told once for each channel that lacks the barrier, behind the item that shows it: a later
    /// barrier, `Available`, `Unavailable`, `BindFailed`, or the other channel's barrier.
    ///
    /// A task that aligns gives the barrier up, or goes on without the channel. If the barrier comes later after
    /// all, it is yielded like any other. The gate counts on barriers with growing ids in each channel, and
    /// watches the newest 64 that have not come from everywhere.
    AlignmentBroken {
        /// The barrier's id.
        barrier: u64,
        /// The channel that lacks it.
        channel: u32,
    },
    /// All data of the channel was yielded; events may follow.
    EndOfData {
        /// The channel.
        channel: u32,
    },
    /// The channel has ended: nothing follows.
    EndOfPartition {
        /// The channel.
        channel: u32,
    },
    /// The channel could not be bound. After [`BindError::Stale`], [`BindError::DuplicateAttempt`] and
    /// [`BindError::Superseded`] this run of the task must stop; else
    /// [`InputGate::retry_bind`](super::InputGate::retry_bind) or
    /// [`InputGate::update_channel`](super::InputGate::update_channel) go on.
    BindFailed {
        /// The channel.
        channel: u32,
        /// Why.
        error: BindError,
    },
}

impl<R> ItemOf<R> {
    /// The same item with another form of its record.
    pub fn map_record<S>(self, map: impl FnOnce(R) -> S) -> ItemOf<S> {
        match self {
            Self::Record(record) => ItemOf::Record(map(record)),
            Self::Event { channel, event } => ItemOf::Event { channel, event },
            Self::Priority { channel, event } => ItemOf::Priority { channel, event },
            Self::Available { channel, producer, epoch, loss } => {
                ItemOf::Available { channel, producer, epoch, loss }
            }
            Self::Unavailable { channel, epoch, cause, skipped } => {
                ItemOf::Unavailable { channel, epoch, cause, skipped }
            }
            Self::Loss { channel, epoch, lost } => ItemOf::Loss { channel, epoch, lost },
            Self::AlignmentBroken { barrier, channel } => ItemOf::AlignmentBroken { barrier, channel },
            Self::EndOfData { channel } => ItemOf::EndOfData { channel },
            Self::EndOfPartition { channel } => ItemOf::EndOfPartition { channel },
            Self::BindFailed { channel, error } => ItemOf::BindFailed { channel, error },
        }
    }
}

impl Item<'_> {
    /// The item with its record as [`Bytes`], lent or copied as [`Record::into_bytes`] says.
    #[must_use]
    pub fn into_owned(self) -> OwnedItem {
        self.map_record(|record| OwnedRecord {
            channel: record.channel(),
            receipt: record.receipt(),
            bytes: record.into_bytes(),
        })
    }
}

/// What a consumer did not get of what was written for it, told when a channel becomes available.
///
/// It covers what happened since the bind before, by whichever attempt of the consumer; the parts never
/// overlap, and no [`ItemOf::Loss`] of this bind tells what is told here. Those of the bind before are a part of it: who
/// adds up takes the reports, and besides them the `Loss` items since the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LossReport {
    /// Certainly never handed to a reader, by cause.
    pub lost: Losses,
    /// Handed to an older attempt of the consumer that may have used it or not.
    pub in_doubt: Amount,
    /// What an older attempt of the producer had written for this channel and this gate had not come to
    /// when that attempt's partition was closed.
    pub left_behind: Amount,
    /// Whether that is all that an older attempt of the producer had left.
    pub producer_tail: ProducerTail,
}

/// What is known of the records that an older attempt of the producer wrote last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ProducerTail {
    /// The report accounts for all of them.
    #[default]
    Known,
    /// That attempt was another worker's, and its last bind was cut off: what it wrote besides is in no report.
    Unknown {
        /// What had come in that bind: whole records, and stream bytes with those of a record cut off.
        received: Amount,
    },
}

/// A record where it lies: in the segment that its writer filled, or put together from several.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    pub(super) channel: u32,
    pub(super) stamp: u64,
    pub(super) bytes: &'a [u8],
    pub(super) reader: &'a Reader,
}

impl<'a> Record<'a> {
    /// The channel.
    #[must_use]
    pub fn channel(&self) -> u32 {
        self.channel
    }

    /// The payload.
    #[must_use]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What acknowledges this record and everything of the channel before it.
    #[must_use]
    pub fn receipt(&self) -> Receipt {
        Receipt { channel: self.channel, stamp: self.stamp, mark: self.reader.mark() }
    }

    /// The payload as an owned value. Its segment is lent, without a copy, if the payload fills at least half
    /// of it, the channel lends fewer than two segments, and the subpartition's quota is more than half
    /// free; otherwise it is copied. A lent segment counts against the subpartition's quota until the value
    /// is dropped.
    ///
    /// Of a remote channel the receive buffer is lent, if the payload has at least 4 KiB and fills half of what
    /// came in one piece, the channel lends fewer than two, and what it pins stays within half of its window.
    /// The producer's worker sends so much less until the value is dropped.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.reader.current_owned()
    }
}

impl Deref for Record<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl AsRef<[u8]> for Record<'_> {
    fn as_ref(&self) -> &[u8] {
        self.bytes
    }
}

impl fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record").field("channel", &self.channel).field("bytes", &self.bytes.len()).finish()
    }
}

/// A record that owns its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnedRecord {
    /// The channel.
    pub channel: u32,
    /// What acknowledges it.
    pub receipt: Receipt,
    /// The payload.
    pub bytes: Bytes,
}

/// Stands for a place in what a channel yielded: acknowledging it makes everything before it consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub(super) channel: u32,
    /// Which bind of which gate. Epochs won't do: every producer attempt counts its own. Each gate begins at a
    /// random number: a receipt of another gate must not release what this one still reads.
    pub(super) stamp: u64,
    pub(super) mark: Mark,
}

impl Receipt {
    /// The channel.
    #[must_use]
    pub fn channel(&self) -> u32 {
        self.channel
    }
}

/// What [`InputGate::try_next`](super::InputGate::try_next) and
/// [`InputGate::next_blocking_timeout`](super::InputGate::next_blocking_timeout) found.
#[derive(Debug)]
pub enum TryNext<'a> {
    /// The next item.
    Item(Item<'a>),
    /// Nothing now, or nothing in time.
    Empty,
    /// All channels have ended.
    End,
}

/// What became of an update of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Update {
    /// The channel will be bound to the new producer attempt at the next call.
    Accepted,
    /// What the present attempt left is read to its end first; then the new one is bound.
    Deferred,
    /// The channel has, or waits for, an attempt that is at least as new.
    Ignored {
        /// That attempt.
        current: Attempt,
    },
    /// The channel has ended, or another attempt of this consumer reads it: no update counts any more.
    Over,
}
