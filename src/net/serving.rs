//! A stream that this worker serves: from a subpartition to a socket.

use super::batch::{COPY_BYTES_MAX, Gather};
use crate::clock::Moment;
use crate::doorbell::ReadyNode;
use crate::error::Cause;
use crate::id::{Attempt, BindEpoch};
use crate::inbox::Inbox;
use crate::partition::{BindAnswer, Partition, Ticket};
use crate::protocol::{Outgoing, Violation};
use crate::subpartition::{Amount, Consumed, Fenced, Offer, Source, SourceEvent};
use crate::transport::Batch;
use crate::wire::{
    self, Ack, EventFrame, Features, Frame, PriorityFrame, Run, StreamEvent, StreamId, encode_data,
};
use std::sync::Arc;
use std::time::Duration;

/// A stream of one connection, from its BIND until it is closed.
#[derive(Debug)]
pub(super) struct Serving {
    pub(super) connection: usize,
    pub(super) stream: StreamId,
    /// Tells it from others that had the same slot.
    pub(super) generation: u64,
    /// Of the consumer.
    pub(super) attempt: Attempt,
    pub(super) node: Arc<ReadyNode>,
    /// It stands in its connection's list of those that may have something.
    pub(super) is_listed: bool,
    pub(super) state: State,
}

#[derive(Debug)]
pub(super) enum State {
    /// The partition isn't here yet.
    Waiting { ticket: Ticket, inbox: Arc<Inbox<BindAnswer>>, limit: wire::StreamPosition },
    Bound(Box<BoundStream>),
}

/// What a bound stream works with.
#[derive(Debug)]
pub(super) struct BoundStream {
    pub(super) source: Source,
    pub(super) outgoing: Outgoing,
    pub(super) partition: Arc<Partition>,
    /// `Flush::Interval` of the partition.
    interval: Option<Duration>,
    /// A timed look is under way.
    is_timed: bool,
    /// The writer knows that nobody looks by itself.
    is_quiet: bool,
    /// What had been sent when a timed look was asked for last.
    looked: wire::StreamPosition,
    priority: u32,
}

/// How a visit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visit {
    /// There is more; others come first.
    More,
    /// Nothing is there.
    Empty,
    /// Something is there, and has to wait for an acknowledgement, or for the socket.
    Parked,
    /// Another view reads, or none.
    Fenced,
}

impl From<Fenced> for Visit {
    fn from(_: Fenced) -> Self {
        Self::Fenced
    }
}

impl BoundStream {
    pub(super) fn new(
        source: Source,
        outgoing: Outgoing,
        partition: Arc<Partition>,
        interval: Option<Duration>,
    ) -> Self {
        Self {
            source,
            outgoing,
            partition,
            interval,
            is_timed: false,
            is_quiet: false,
            looked: wire::StreamPosition::default(),
            priority: 0,
        }
    }

    pub(super) fn epoch(&self) -> BindEpoch {
        self.source.epoch()
    }

    /// Puts what there is into `batch`, at most `share` bytes of payload.
    pub(super) fn fill(
        &mut self,
        stream: StreamId,
        batch: &mut Batch,
        features: Features,
        payload_max: usize,
        share: usize,
    ) -> Visit {
        match self.try_fill(stream, batch, features, payload_max, share) {
            Ok(visit) => visit,
            Err(Fenced) => Visit::Fenced,
        }
    }

    fn try_fill(
        &mut self,
        stream: StreamId,
        batch: &mut Batch,
        features: Features,
        payload_max: usize,
        share: usize,
    ) -> Result<Visit, Fenced> {
        self.stir();
        let mut left = share;
        loop {
            while self.outgoing.may_send_priority() {
                let Some(event) = self.source.take_priority()? else { break };
                self.priority = self.priority.wrapping_add(1);
                let frame = PriorityFrame { stream, epoch: self.epoch(), sequence: self.outgoing.send_priority(), event };
                batch.stage(|out| Frame::Priority(frame).encode(out, features));
            }
            if left == 0 || batch.is_full() {
                return Ok(if self.source.has_more() { Visit::More } else { Visit::Empty });
            }
            match self.source.offer()? {
                Offer::Empty => return Ok(Visit::Empty),
                Offer::Busy => return Ok(Visit::Parked),
                Offer::Event if !self.outgoing.may_send_event() => return Ok(Visit::Parked),
                Offer::Event => self.event(stream, batch, features),
                Offer::Data { bytes, uniform } => {
                    let room = usize::try_from(self.outgoing.room()).unwrap_or(usize::MAX);
                    let part = bytes.min(room).min(payload_max).min(left.max(COPY_BYTES_MAX));
                    // A few bytes that happen to fit aren't worth a frame while more credit is on its way.
                    let is_scrap = part < bytes && part < COPY_BYTES_MAX && self.outgoing.is_unacknowledged();
                    if part == 0 || (is_scrap && room < bytes) {
                        return Ok(Visit::Parked);
                    }
                    self.data(stream, batch, features, part, uniform);
                    left = left.saturating_sub(part);
                }
            }
        }
    }

    fn data(&mut self, stream: StreamId, batch: &mut Batch, features: Features, bytes: usize, uniform: u32) {
        let epoch = self.epoch();
        let mut run = Run { stream, epoch, position: self.outgoing.position(), bytes: bytes as u32, uniform };
        let checked = features.has(Features::CRC);
        if bytes >= COPY_BYTES_MAX
            && let Some(lent) = self.source.lend(bytes)
        {
            run.position = self.outgoing.send(bytes as u64);
            batch.stage(|out| {
                let mut payload = std::iter::once(&*lent);
                encode_data(out, &[run], checked.then_some(&mut payload));
            });
            batch.refer(lent);
            return;
        }
        run.position = self.outgoing.send(bytes as u64);
        if checked {
            let mut payload = Vec::with_capacity(bytes);
            self.source.copy(bytes, &mut payload);
            batch.stage(|out| {
                encode_data(out, &[run], Some(&mut std::iter::once(&*payload)));
                out.extend_from_slice(&payload);
            });
        } else {
            batch.stage(|out| {
                encode_data(out, &[run], None);
                self.source.copy(bytes, out);
            });
        }
    }

    fn event(&mut self, stream: StreamId, batch: &mut Batch, features: Features) {
        let mut bytes = Vec::new();
        let Some(event) = self.source.event(&mut bytes) else { return };
        let failed;
        let event = match event {
            SourceEvent::Barrier(id) => StreamEvent::Barrier(id),
            SourceEvent::Watermark(time) => StreamEvent::Watermark(time),
            SourceEvent::Application => StreamEvent::Application(&bytes),
            SourceEvent::Abort => StreamEvent::Abort,
            SourceEvent::Loss(amount) => StreamEvent::Loss(wire_amount(amount)),
            SourceEvent::EndOfData => StreamEvent::EndOfData,
            SourceEvent::EndOfPartition => StreamEvent::EndOfPartition,
            SourceEvent::Failed => {
                failed = self.partition.failure().unwrap_or(Cause::Dropped);
                StreamEvent::Failed(failed)
            }
        };
        let position = self.outgoing.send_entry(event.application_bytes());
        let frame = EventFrame { stream, epoch: self.epoch(), position, event };
        batch.stage(|out| Frame::Event(frame).encode(out, features));
    }

    /// The consumer has told how far it is. True when it is through with the partition's end, for the first time.
    pub(super) fn acknowledged(&mut self, ack: &Ack) -> Result<Result<bool, Fenced>, Violation> {
        if !self.outgoing.on_ack(ack)? {
            return Ok(Ok(false));
        }
        Ok(self.apply(ack.received, ack.consumed))
    }

    pub(super) fn apply(
        &mut self,
        received: wire::StreamPosition,
        consumed: wire::Consumed,
    ) -> Result<bool, Fenced> {
        self.source.received(received.bytes, received.entries)?;
        self.source.consumed(Consumed {
            amount: Amount { records: consumed.records, bytes: consumed.bytes },
            aborted: consumed.aborted,
            entries: consumed.entries,
        })
    }

    /// This side looks by itself.
    fn stir(&mut self) {
        if std::mem::take(&mut self.is_quiet) {
            self.source.node().stir();
        }
    }

    /// The look that was asked for is due.
    pub(super) fn look_is_due(&mut self) {
        self.is_timed = false;
    }

    /// Nothing is there: who looks next, and when? `Some`: this side, then. A writer under `Flush::Interval`
    /// rings for the first publication after silence and relies for those that follow on a look within the
    /// interval; only when that look finds nothing the node falls quiet, and the ring is looked at a last time.
    /// `Some(ZERO)` says that something was found by that.
    pub(super) fn found_empty(&mut self) -> Option<Duration> {
        let interval = self.interval.filter(|_| !self.is_timed)?;
        let sent = self.outgoing.position();
        if self.looked != sent {
            self.looked = sent;
            self.is_timed = true;
            return Some(interval);
        }
        self.source.node().fall_quiet();
        self.is_quiet = true;
        self.source.has_more().then_some(Duration::ZERO)
    }

    /// Why another view reads, or none.
    pub(super) fn severed(&self, mine: Attempt) -> Cause {
        let newer = self.source.subpartition().newest().filter(|newest| *newest != mine);
        match (newer, self.partition.closed()) {
            (Some(newer), _) => Cause::Fenced { newer },
            (None, Some(cause)) => cause,
            // The same attempt has bound again, by another connection.
            (None, None) => Cause::Fenced { newer: mine },
        }
    }
}

impl Serving {
    pub(super) fn bound(&mut self) -> Option<&mut BoundStream> {
        match &mut self.state {
            State::Bound(bound) => Some(bound),
            State::Waiting { .. } => None,
        }
    }
}

pub(super) fn wire_amount(amount: Amount) -> wire::Amount {
    wire::Amount { records: amount.records, bytes: amount.bytes }
}

pub(super) fn amount(amount: wire::Amount) -> Amount {
    Amount { records: amount.records, bytes: amount.bytes }
}

/// When a look after `pause` is due.
pub(super) fn due(now: Moment, pause: Duration) -> Moment {
    now.plus(pause)
}
