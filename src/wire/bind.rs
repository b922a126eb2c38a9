//! A stream's begin and its end: BIND and its answers, CLOSE and GONE.

use super::body::{Body, put_position};
use super::cause::{get_bind_error, get_cause, put_bind_error, put_cause};
use super::{Consumed, StreamId, StreamPosition, WireError};
use crate::error::{BindError, Cause};
use crate::event::LostBarriers;
use crate::id::{Attempt, BindEpoch, BindSecret, DataSetId, Incarnation, JobId, PartitionId};
use crate::record::RecordLayout;
use bytes::BufMut;
use std::num::NonZeroU32;

/// Causes of losses that BOUND carries, in this order: discarded, overflowed, aborted, drained, dropped
/// oldest, skipped, unread.
pub(crate) const LOSSES: usize = 7;

/// Records, and their stream bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Amount {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

impl Amount {
    pub(super) fn put(self, out: &mut Vec<u8>) {
        out.put_u64_le(self.records);
        out.put_u64_le(self.bytes);
    }

    pub(super) fn get(body: &mut Body<'_>) -> Result<Self, WireError> {
        Ok(Self { records: body.u64()?, bytes: body.u64()? })
    }
}

/// Asks for `count` subpartitions as `count` streams, both counted from the first on. Each is answered for
/// itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bind {
    pub(crate) stream: StreamId,
    pub(crate) subpartition: u32,
    /// At least 1; exactly 1 with `resume` or `ended`, which don't go together.
    pub(crate) count: u32,
    pub(crate) partition: PartitionId,
    pub(crate) producer_attempt: Attempt,
    pub(crate) secret: BindSecret,
    pub(crate) layout: RecordLayout,
    pub(crate) attempt: Attempt,
    pub(crate) incarnation: Incarnation,
    /// Credit of each stream that starts anew: up to this position it may be sent.
    pub(crate) limit: StreamPosition,
    pub(crate) resume: Option<Resume>,
    /// Asks for nothing: says that an older bind's reader came to its end.
    pub(crate) ended: Option<Ended>,
}

/// The reader of a bind has consumed the end of the partition, and its connection was lost before that was confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Of the producer, as BOUND told it.
    pub(crate) incarnation: Incarnation,
    /// Of the bind whose reader it was.
    pub(crate) epoch: BindEpoch,
    /// Final: everything that was sent in that bind.
    pub(crate) consumed: Consumed,
}

/// The binder has received a part of the stream over a connection that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resume {
    /// Of the producer, as BOUND told it.
    pub(crate) incarnation: Incarnation,
    /// Of the bind that is to go on.
    pub(crate) epoch: BindEpoch,
    /// Everything before is stored, nothing from here on is.
    pub(crate) at: StreamPosition,
    /// Credit of the stream if it is resumed: as granted so far, or more.
    pub(crate) limit: StreamPosition,
    /// Priority events that were received.
    pub(crate) priority: u32,
}

const LAYOUT_LENGTHS: u32 = 0;

pub(super) fn put_layout(out: &mut Vec<u8>, layout: RecordLayout) {
    out.put_u32_le(match layout {
        RecordLayout::Lengths => LAYOUT_LENGTHS,
        RecordLayout::Fixed(width) => width.get(),
    });
}

pub(super) fn get_layout(body: &mut Body<'_>) -> Result<RecordLayout, WireError> {
    Ok(NonZeroU32::new(body.u32()?).map_or(RecordLayout::Lengths, RecordLayout::Fixed))
}

pub(super) fn put_partition(out: &mut Vec<u8>, partition: PartitionId) {
    out.put_u128_le(partition.job.0);
    out.put_u128_le(partition.data_set.0);
    out.put_u32_le(partition.index);
}

pub(super) fn get_partition(body: &mut Body<'_>) -> Result<PartitionId, WireError> {
    Ok(PartitionId { job: JobId(body.u128()?), data_set: DataSetId(body.u128()?), index: body.u32()? })
}

impl Bind {
    /// What a test asks for: subpartition 0 of a first attempt, by a first attempt, without credit.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn of_first_attempts(stream: u32, partition: PartitionId, secret: BindSecret) -> Self {
        Self {
            stream: StreamId(stream),
            subpartition: 0,
            count: 1,
            partition,
            producer_attempt: Attempt(1),
            secret,
            layout: RecordLayout::Lengths,
            attempt: Attempt(1),
            incarnation: Incarnation(1),
            limit: StreamPosition::new(0, 0),
            resume: None,
            ended: None,
        }
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.put_u32_le(self.stream.0);
        out.put_u32_le(self.subpartition);
        out.put_u32_le(self.count);
        put_partition(out, self.partition);
        out.put_u32_le(self.producer_attempt.0);
        out.put_u128_le(self.secret.bits());
        put_layout(out, self.layout);
        out.put_u32_le(self.attempt.0);
        out.put_u64_le(self.incarnation.0);
        put_position(out, self.limit);
        out.put_u8(u8::from(self.resume.is_some()));
        if let Some(resume) = &self.resume {
            out.put_u64_le(resume.incarnation.0);
            out.put_u32_le(resume.epoch.0);
            put_position(out, resume.at);
            put_position(out, resume.limit);
            out.put_u32_le(resume.priority);
        }
        out.put_u8(u8::from(self.ended.is_some()));
        if let Some(ended) = &self.ended {
            out.put_u64_le(ended.incarnation.0);
            out.put_u32_le(ended.epoch.0);
            ended.consumed.put(out);
        }
    }

    pub(super) fn get(body: &mut Body<'_>) -> Result<Self, WireError> {
        Ok(Self {
            stream: body.stream()?,
            subpartition: body.u32()?,
            count: body.u32()?,
            partition: get_partition(body)?,
            producer_attempt: Attempt(body.u32()?),
            secret: BindSecret::new(body.u128()?),
            layout: get_layout(body)?,
            attempt: Attempt(body.u32()?),
            incarnation: Incarnation(body.u64()?),
            limit: body.position()?,
            resume: if body.bool("whether to resume")? { Some(Resume::get(body)?) } else { None },
            ended: if body.bool("whether it has ended")? { Some(Ended::get(body)?) } else { None },
        })
    }
}

impl Ended {
    fn get(body: &mut Body<'_>) -> Result<Self, WireError> {
        Ok(Self {
            incarnation: Incarnation(body.u64()?),
            epoch: body.epoch()?,
            consumed: Consumed::get(body)?,
        })
    }
}

impl Resume {
    fn get(body: &mut Body<'_>) -> Result<Self, WireError> {
        Ok(Self {
            incarnation: Incarnation(body.u64()?),
            epoch: body.epoch()?,
            at: body.position()?,
            limit: body.position()?,
            priority: body.u32()?,
        })
    }
}

/// The partition isn't there yet. BOUND or REFUSED follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) stream: StreamId,
}

impl Waiting {
    pub(super) fn put(self, out: &mut Vec<u8>) {
        out.put_u32_le(self.stream.0);
    }

    pub(super) fn get(body: &mut Body<'_>) -> Result<Self, WireError> {
        Ok(Self { stream: body.stream()? })
    }
}

/// The bind fails; the stream is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) stream: StreamId,
    pub(crate) error: BindError,
}

impl Refused {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.put_u32_le(self.stream.0);
        put_bind_error(out, &self.error);
    }

    pub(super) fn get(body: &mut Body<'_>) -> Result<Self, WireError> {
        Ok(Self { stream: body.stream()?, error: get_bind_error(body)? })
    }
}

/// The bind succeeds; the stream's frames carry `epoch` from here on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) stream: StreamId,
    pub(crate) epoch: BindEpoch,
    /// Of the producer: a bind that wants to resume names it.
    pub(crate) incarnation: Incarnation,
    /// The stream goes on at the position that the bind named. Else it starts anew at position 0.
    pub(crate) resumed: bool,
    /// An older attempt acknowledged the end: nothing comes but the end of the partition.
    pub(crate) ended: bool,
    /// Slots of the writer's ring: `received` is also due by the number of what came.
    pub(crate) ring_entries: u16,
    /// Lost since the bind before, in the order of [`LOSSES`].
    pub(crate) lost: [Amount; LOSSES],
    /// In doubt since the bind before.
    pub(crate) in_doubt: Amount,
    /// What the writer had dropped in all when `lost` was summed up; Loss events count on from it.
    pub(crate) writer_lost: Amount,
    /// What this bind doesn't bring.
    pub(crate) barriers: LostBarriers,
}

impl Bound {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.put_u32_le(self.stream.0);
        out.put_u32_le(self.epoch.0);
        out.put_u64_le(self.incarnation.0);
        out.put_u8(u8::from(self.resumed));
        out.put_u8(u8::from(self.ended));
        out.put_u16_le(self.ring_entries);
        for amount in self.lost.iter().chain([&self.in_doubt, &self.writer_lost]) {
            amount.put(out);
        }
        out.put_u8(u8::from(self.barriers.before.is_some()));
        if let Some(before) = self.barriers.before {
            out.put_u64_le(before);
        }
        out.put_u8(u8::from(self.barriers.behind.is_some()));
        if let Some((last, lost)) = self.barriers.behind {
            out.put_u64_le(last);
            out.put_u64_le(lost);
        }
    }

    pub(super) fn get(body: &mut Body<'_>) -> Result<Self, WireError> {
        let (stream, epoch, incarnation) = (body.stream()?, body.epoch()?, Incarnation(body.u64()?));
        let resumed = body.bool("whether it is resumed")?;
        let ended = body.bool("whether it has ended")?;
        let ring_entries = body.u16()?;
        let mut lost = [Amount::default(); LOSSES];
        for amount in &mut lost {
            *amount = Amount::get(body)?;
        }
        let (in_doubt, writer_lost) = (Amount::get(body)?, Amount::get(body)?);
        let before = if body.bool("whether barriers were before")? { Some(body.u64()?) } else { None };
        let is_behind = body.bool("whether barriers were lost behind those that come")?;
        let behind = if is_behind { Some((body.u64()?, body.u64()?)) } else { None };
        let barriers = LostBarriers { before, behind };
        Ok(Self {
            stream,
            epoch,
            incarnation,
            resumed,
            ended,
            ring_entries,
            lost,
            in_doubt,
            writer_lost,
            barriers,
        })
    }
}

/// The binder leaves in order; the stream is over. Before BOUND it takes the bind back, with epoch 0 and
/// nothing received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Close {
    pub(crate) stream: StreamId,
    pub(crate) epoch: BindEpoch,
    /// Final.
    pub(crate) received: StreamPosition,
    /// Final.
    pub(crate) consumed: Consumed,
    /// What the task was given, consumed or not.
    pub(crate) yielded: Amount,
}

impl Close {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.put_u32_le(self.stream.0);
        out.put_u32_le(self.epoch.0);
        put_position(out, self.received);
        self.consumed.put(out);
        self.yielded.put(out);
    }

    pub(super) fn get(body: &mut Body<'_>) -> Result<Self, WireError> {
        Ok(Self {
            stream: body.stream()?,
            epoch: body.epoch()?,
            received: body.position()?,
            consumed: Consumed::get(body)?,
            yielded: Amount::get(body)?,
        })
    }
}

/// The view has ended: released, superseded, fenced; or the binder's word is taken that its reader has consumed the
/// end of the partition. The stream is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    pub(crate) stream: StreamId,
    pub(crate) epoch: BindEpoch,
    pub(crate) cause: Cause,
}

impl Gone {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.put_u32_le(self.stream.0);
        out.put_u32_le(self.epoch.0);
        put_cause(out, &self.cause);
    }

    pub(super) fn get(body: &mut Body<'_>) -> Result<Self, WireError> {
        Ok(Self { stream: body.stream()?, epoch: body.epoch()?, cause: get_cause(body)? })
    }
}
