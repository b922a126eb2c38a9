//! The producer's handle: records, events and the end of a partition, in poll, async and blocking forms.
//!
//! # Guarantees
//! - A record is queued whole, dropped by its target's policy (and counted), or refused with an error. It is
//!   never torn: what a caller gives up in the middle is broken off and counted, and no reader sees it.
//! - A record that fits where the one before went takes no lock, allocates nothing and waits for nobody.
//! - Whoever waits is woken by a reader that makes room, by a bind, an outage, or the partition's end.
//! - Nothing that waits in a `poll_*` blocks the thread; the blocking forms say so in their names.
//!
//! # One thing at a time
//! A writer has at most one record, broadcast or end under way. A `poll_*` that returned `Pending` is
//! finished by the same call again; another call meanwhile is refused ([`WriteError::RecordInProgress`],
//! [`WriteError::BroadcastInProgress`]) and changes nothing. [`RecordWriter::abort_record`] and
//! [`RecordWriter::abort_broadcast`] give up what is under way. Futures do that when they are dropped.
#![forbid(unsafe_code)]

mod batch;
mod blocking;
mod broadcast;
mod end;
mod error;
mod event;
mod future;
mod lane;
mod observe;
mod partitioner;
mod record;
mod shared;
mod sink;
mod waits;

#[cfg(all(test, not(loom)))]
mod tests;

pub use batch::{BatchWritten, WriteBatch};
pub use broadcast::Reach;
pub use error::{TryWriteError, WaitError};
pub use event::Target;
pub use future::{Broadcast, Finish, SendEvent, Write};
pub use observe::WriterBlocked;
pub use partitioner::{Forward, Hash, Partitioner, RoundRobin};
pub use sink::RecordSink;

use crate::clock::Clock;
use crate::error::WriteError;
use crate::memory::SegmentCache;
use crate::partition::{Partition, WriterParts};
use crate::subpartition::Flush;
use crate::sync::turn_now;
use bytes::Buf;
use lane::Lane;
use std::sync::Arc;
use std::task::{Context, Poll};

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Written {
    /// It is in the subpartition's queue.
    Queued,
    /// The subpartition's policy dropped it, and its account says so.
    Dropped,
}

/// What is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Nothing,
    /// A record of which `left` bytes are still with the caller.
    Record {
        target: u32,
        left: usize,
    },
    /// A record or event on its way to many.
    Broadcast,
    /// The ends are appended: nothing follows.
    Ended,
}

/// The one writer of one attempt's partition: see the module's text for what holds.
///
/// Dropping it without [`finish`](Self::finish), [`fail`](Self::fail) or [`abandon`](Self::abandon) tells the
/// consumers, once they have read what is queued, that the producer is gone.
#[derive(Debug)]
pub struct RecordWriter {
    lanes: Vec<Lane>,
    doing: Doing,
    /// Subpartitions with something published that nobody was told of; each at most once.
    unrung: Vec<u32>,
    cache: SegmentCache,
    record_bytes_max: usize,
    /// `Flush::EveryRecord`: calls that may block also send, where the thread does that itself.
    flushes_each: bool,
    /// `Flush::WhenFull`: readers learn of what is published in a segment that isn't full when they are told.
    flushes_when_full: bool,
    broadcast: broadcast::State,
    /// A priority event on its way to all.
    priority: broadcast::Todo<crate::event::PriorityEvent>,
    waits: waits::Waits,
    partition: Arc<Partition>,
}

impl RecordWriter {
    pub(crate) fn new(parts: WriterParts, clock: Arc<dyn Clock>) -> Self {
        let WriterParts { partition, halves, cache, broadcast, pool } = parts;
        let count = halves.len();
        Self {
            lanes: halves.into_iter().map(Lane::new).collect(),
            doing: Doing::Nothing,
            unrung: Vec::with_capacity(count),
            cache,
            record_bytes_max: partition.config.record_limit(),
            flushes_each: partition.config.policy().flush == Flush::EveryRecord,
            flushes_when_full: partition.config.policy().flush == Flush::WhenFull,
            broadcast: broadcast::State::new(count, shared::SharedFill::new(pool, broadcast)),
            priority: broadcast::Todo::new(count),
            waits: waits::Waits::new(partition.waiter().clone(), clock),
            partition,
        }
    }

    /// Writes a record to subpartition `target`: takes from `record` what finds room.
    ///
    /// `Pending`: the record is under way, and its length is known. Poll again with the same `target` and the
    /// same buffer, as this call left it, until it is `Ready`; then all of the buffer is taken. The task is
    /// woken when that is worth it.
    ///
    /// # Errors
    /// Before anything is taken: [`WriteError::TooLong`], [`WriteError::Width`],
    /// [`WriteError::NoSuchSubpartition`]; [`WriteError::RecordInProgress`] if another record, or a buffer
    /// with another number of bytes than is left, comes while one is under way (which stays as it is);
    /// [`WriteError::BroadcastInProgress`], [`WriteError::Finished`]. [`WriteError::Closed`] ends the record.
    ///
    /// # Cancel safety
    /// Not to poll again leaves the record under way. [`RecordWriter::abort_record`] gives it up.
    #[inline]
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        target: u32,
        record: &mut impl Buf,
    ) -> Poll<Result<Written, WriteError>> {
        let chunk = record.chunk();
        let bytes = chunk.len();
        if bytes == record.remaining()
            && let Some(written) = self.write_short(target, chunk)
        {
            record.advance(bytes);
            return Poll::Ready(Ok(written));
        }
        self.poll_write_long(cx, target, record)
    }

    /// Tells the readers of everything that was written and not told yet. Wakes nobody twice for the same
    /// bytes. Needed under `Flush::WhenFull` only, where a writer does it by itself before it waits for room; under
    /// the others it spares what is left of the interval.
    ///
    /// On a thread that turns a [`Reactor`](crate::Reactor) it turns it once, without waiting: what was written for
    /// other workers is handed to their sockets.
    pub fn flush(&mut self) {
        self.tell_all();
        turn_now();
    }

    fn tell_all(&mut self) {
        for target in self.unrung.drain(..) {
            if let Some(lane) = self.lanes.get_mut(target as usize) {
                lane.ring();
            }
        }
    }

    /// The writer is held up, for room that readers make. One that has a record but for its end, which nobody tells it
    /// of, makes none: it keeps all of that record, for a replay, or in its gate's bound for half records. So whoever
    /// waits has told everybody; its task can't flush meanwhile. Under the other policies readers look by themselves.
    #[cold]
    fn tell_before_waiting(&mut self) {
        if self.flushes_when_full {
            self.tell_all();
        }
    }

    /// The hot path: a short record to where the last one went, or to nobody as the last one, when nothing else is under
    /// way.
    #[inline(always)]
    fn write_short(&mut self, target: u32, record: &[u8]) -> Option<Written> {
        if !matches!(self.doing, Doing::Nothing) {
            return None;
        }
        let lane = self.lanes.get_mut(target as usize)?;
        if !lane.half.append_short(record) {
            return lane.half.discard_short(record.len()).then_some(Written::Dropped);
        }
        if lane.is_unlisted() {
            self.note_dirty(target);
        }
        Some(Written::Queued)
    }
}
