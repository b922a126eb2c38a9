//! A stream that this worker serves: from a subpartition to a socket.

use super::batch::{COPY_BYTES_MAX, Gather};
use super::share::WaitingSeat;
use crate::doorbell::ReadyNode;
use crate::error::Cause;
use crate::id::Attempt;
use crate::inbox::Inbox;
use crate::partition::{BindAnswer, Partition, Ticket};
use crate::protocol::Outgoing;
use crate::subpartition::{Amount, Consumed, Fenced, Offer, Source, SourceEvent};
use crate::transport::Batch;
use crate::wire::{
    self, EventFrame, Features, Frame, PriorityFrame, Run, StreamEvent, StreamId, StreamPosition, encode_data,
};
use std::sync::Arc;
use std::time::Duration;

/// What this side keeps with a stream that it serves.
#[derive(Debug)]
pub(super) struct Serving {
    /// Whose stream it is.
    pub(super) connection: usize,
    pub(super) stream: StreamId,
    /// Of the consumer.
    pub(super) attempt: Attempt,
    pub(super) node: Arc<ReadyNode>,
    /// It stands in its connection's list of those that may have something.
    pub(super) is_listed: bool,
    /// Something is there, and waits for an acknowledgement or for the socket: whatever comes is a reason to look.
    /// Else the next look is the writer's to ask for, or the clock's.
    pub(super) is_parked: bool,
    pub(super) state: State,
}

#[derive(Debug)]
pub(super) enum State {
    /// It was asked for just now.
    Asked,
    /// The partition isn't here yet; the answer comes through the inbox.
    Waiting {
        _ticket: Ticket,
        _seat: WaitingSeat,
        inbox: Arc<Inbox<BindAnswer>>,
        limit: StreamPosition,
    },
    Bound(Box<Served>),
}

/// What a bound stream works with.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) source: Source,
    pub(super) outgoing: Outgoing,
    pub(super) partition: Arc<Partition>,
    /// When it is to look again by itself, under `Flush::Interval`.
    look_after: Option<Duration>,
    /// A timed look is under way.
    is_timed: bool,
    /// The writer knows that nobody looks by itself.
    is_quiet: bool,
    /// What had been sent when a timed look was asked for last.
    looked: StreamPosition,
}

/// How a visit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visit {
    /// There is more; others come first.
    More,
    /// Nothing is there.
    Empty,
    /// Something is there, and waits for an acknowledgement or for the socket.
    Parked,
    /// Another view reads, or none.
    Fenced,
}

/// What a visit writes to, and how.
pub(super) struct Page<'a> {
    pub(super) batch: &'a mut Batch,
    pub(super) features: Features,
    /// The most payload bytes of a frame.
    pub(super) payload_max: usize,
}

impl Serving {
    pub(super) fn is_bound(&self) -> bool {
        matches!(self.state, State::Bound(_))
    }

    pub(super) fn served(&mut self) -> Option<&mut Served> {
        match &mut self.state {
            State::Bound(served) => Some(served),
            State::Asked | State::Waiting { .. } => None,
        }
    }
}

impl Served {
    pub(super) fn new(source: Source, outgoing: Outgoing, partition: Arc<Partition>) -> Self {
        let look_after = partition.config.policy().flush.look_after();
        Self {
            source,
            outgoing,
            partition,
            look_after,
            is_timed: false,
            is_quiet: false,
            looked: StreamPosition::default(),
        }
    }

    /// Puts what there is onto `page`, about `share` bytes of payload at most.
    pub(super) fn fill(&mut self, stream: StreamId, page: &mut Page<'_>, share: usize) -> Visit {
        self.try_fill(stream, page, share).unwrap_or(Visit::Fenced)
    }

    fn try_fill(&mut self, stream: StreamId, page: &mut Page<'_>, share: usize) -> Result<Visit, Fenced> {
        self.stir();
        let mut left = share;
        loop {
            while self.outgoing.may_send_priority() {
                let Some(event) = self.source.take_priority()? else { break };
                let (epoch, sequence) = (self.outgoing.epoch(), self.outgoing.send_priority());
                let frame = Frame::Priority(PriorityFrame { stream, epoch, sequence, event });
                page.batch.stage(|out| frame.encode(out, page.features));
            }
            if left == 0 || page.batch.is_full() {
                return Ok(if self.source.has_more() { Visit::More } else { Visit::Empty });
            }
            match self.source.offer()? {
                Offer::Empty => return Ok(Visit::Empty),
                Offer::Busy => return Ok(Visit::Parked),
                Offer::Event if !self.outgoing.may_send_event() => return Ok(Visit::Parked),
                Offer::Event => self.event(stream, page),
                Offer::Data { bytes, uniform } => {
                    let room = usize::try_from(self.outgoing.room()).unwrap_or(usize::MAX);
                    let part = bytes.min(room).min(page.payload_max);
                    // A few bytes that happen to fit aren't worth a frame while more credit is on its way.
                    let is_scrap = part < bytes.min(COPY_BYTES_MAX) && self.outgoing.is_unacknowledged();
                    if part == 0 || is_scrap {
                        return Ok(Visit::Parked);
                    }
                    self.data(stream, page, part, uniform);
                    left = left.saturating_sub(part);
                }
            }
        }
    }

    fn data(&mut self, stream: StreamId, page: &mut Page<'_>, bytes: usize, uniform: u32) {
        let lent = if bytes >= COPY_BYTES_MAX { self.source.lend(bytes) } else { None };
        let position = self.outgoing.send(bytes as u64);
        // At most `payload_max`, which has 32 bits on the wire.
        let run = Run { stream, epoch: self.outgoing.epoch(), position, bytes: bytes as u32, uniform };
        let checked = page.features.has(Features::CRC);
        if let Some(lent) = lent {
            page.batch.stage(|out| {
                let payload: &mut dyn Iterator<Item = &[u8]> = &mut std::iter::once(&*lent);
                encode_data(out, &[run], checked.then_some(payload));
            });
            page.batch.refer(lent);
        } else if checked {
            let mut copy = Vec::with_capacity(bytes);
            self.source.copy(bytes, &mut copy);
            page.batch.stage(|out| {
                encode_data(out, &[run], Some(&mut std::iter::once(&*copy)));
                out.extend_from_slice(&copy);
            });
        } else {
            page.batch.stage(|out| {
                encode_data(out, &[run], None);
                self.source.copy(bytes, out);
            });
        }
    }

    fn event(&mut self, stream: StreamId, page: &mut Page<'_>) {
        let mut bytes = Vec::new();
        let Some(event) = self.source.event(&mut bytes) else { return };
        let event = match event {
            SourceEvent::Barrier(id) => StreamEvent::Barrier(id),
            SourceEvent::Watermark(time) => StreamEvent::Watermark(time),
            SourceEvent::Application => StreamEvent::Application(&bytes),
            SourceEvent::Abort => StreamEvent::Abort,
            SourceEvent::Loss(amount) => StreamEvent::Loss(to_wire(amount)),
            SourceEvent::EndOfData => StreamEvent::EndOfData,
            SourceEvent::EndOfPartition => StreamEvent::EndOfPartition,
            SourceEvent::Failed => StreamEvent::Failed(self.partition.failure().unwrap_or(Cause::Dropped)),
        };
        let (epoch, position) = (self.outgoing.epoch(), self.outgoing.send_entry(event.application_bytes()));
        let frame = Frame::Event(EventFrame { stream, epoch, position, event });
        page.batch.stage(|out| frame.encode(out, page.features));
    }

    /// The consumer has told how far it is. True when it is through with the partition's end, and that is news.
    pub(super) fn acknowledged(&mut self) -> Result<bool, Fenced> {
        let (received, consumed) = (self.outgoing.received(), self.outgoing.consumed());
        self.source.received(received.bytes, received.entries)?;
        self.source.consumed(Consumed {
            amount: Amount { records: consumed.records, bytes: consumed.bytes },
            aborted: consumed.aborted,
            entries: consumed.entries,
        })
    }

    /// Whether the consumer has said that it is through with the partition's end.
    pub(super) fn is_through(&self) -> bool {
        self.source.end().is_some_and(|end| self.outgoing.consumed().entries >= end)
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

    /// Nothing is there: who looks next, and when? A writer under `Flush::Interval` rings for the first
    /// publication after silence and relies for those that follow on a look within the interval: `Some(pause)`.
    /// Only when that look finds nothing the node falls quiet, and the ring is looked at a last time: `Some(ZERO)`
    /// when that finds something.
    pub(super) fn found_empty(&mut self) -> Option<Duration> {
        let pause = self.look_after.filter(|_| !self.is_timed)?;
        let sent = self.outgoing.position();
        if self.looked != sent {
            self.looked = sent;
            self.is_timed = true;
            return Some(pause);
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

pub(super) fn to_wire(amount: Amount) -> wire::Amount {
    wire::Amount { records: amount.records, bytes: amount.bytes }
}

pub(super) fn from_wire(amount: wire::Amount) -> Amount {
    Amount { records: amount.records, bytes: amount.bytes }
}
