//! The server's end of one stream: how far it was sent, how far it may be, and what came back.

use super::{EVENT_BYTES_MAX, EVENTS_MAX, Violation};
use crate::event::PriorityEvent;
use crate::id::BindEpoch;
use crate::wire::{Ack, Close, Consumed, Resume, Rule, StreamEvent, StreamId, StreamPosition};
use std::collections::VecDeque;

/// What an acknowledgement was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acked {
    /// Of another epoch: nothing is changed.
    Stale,
    Fresh(News),
}

/// What an acknowledgement changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct News {
    /// More may be sent than before.
    pub(crate) credit: bool,
    /// [`Outgoing::received`] moved.
    pub(crate) received: bool,
    /// [`Outgoing::consumed`] moved.
    pub(crate) consumed: bool,
    /// So many more priority events were taken.
    pub(crate) priority: u32,
    /// The end of the partition is consumed, and wasn't before.
    pub(crate) end: bool,
}

/// How the stream was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    /// Entries up to and with the last one.
    entries: u64,
    /// It was the end of the partition, which is to be acknowledged, and not a failure.
    finished: bool,
}

/// See the module's text.
///
/// Invariants: `consumed.position() <= received <= sent`, and no [`Outgoing::send`] takes `sent` beyond
/// `limit`, each count for itself.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    epoch: BindEpoch,
    sent: StreamPosition,
    limit: StreamPosition,
    received: StreamPosition,
    consumed: Consumed,
    /// Application events that may be in the channel's queue yet: which entry each is, and its bytes.
    application: VecDeque<(u64, usize)>,
    application_bytes: usize,
    priority_sent: u32,
    priority_taken: u32,
    end: Option<End>,
}

impl Outgoing {
    /// A stream that starts anew, with the credit that its BIND says.
    pub(crate) fn new(epoch: BindEpoch, limit: StreamPosition) -> Self {
        Self {
            epoch,
            sent: StreamPosition::default(),
            limit,
            received: StreamPosition::default(),
            consumed: Consumed::default(),
            application: VecDeque::new(),
            application_bytes: 0,
            priority_sent: 0,
            priority_taken: 0,
            end: None,
        }
    }

    /// This stream as it goes on under a new epoch and over another connection, if what the binder asks for
    /// agrees with what was sent and acknowledged; everything from `resume.at` on is to be sent again. The
    /// incarnations and whether the ring still has it are the caller's to compare.
    pub(crate) fn resume(&self, epoch: BindEpoch, resume: &Resume) -> Option<Self> {
        let acknowledged = self.received.is_within(resume.at) && self.limit.is_within(resume.limit);
        let sent = resume.at.is_within(self.sent) && resume.at.is_within(resume.limit);
        let taken = resume.priority.wrapping_sub(self.priority_taken);
        let priority = taken <= self.priority_sent.wrapping_sub(self.priority_taken);
        if resume.epoch != self.epoch || !acknowledged || !sent || !priority {
            return None;
        }
        let mut resumed = self.clone();
        resumed.epoch = epoch;
        resumed.sent = resume.at;
        resumed.received = resume.at;
        resumed.priority_sent = resume.priority;
        resumed.end = self.end.filter(|end| end.entries <= resume.at.entries);
        resumed.application.retain(|(entry, _)| *entry < resume.at.entries);
        resumed.application_bytes = resumed.application.iter().map(|(_, bytes)| bytes).sum();
        resumed.grant(resume.limit);
        Some(resumed)
    }

    pub(crate) fn epoch(&self) -> BindEpoch {
        self.epoch
    }

    /// Where the next run or entry stands.
    pub(crate) fn sent(&self) -> StreamPosition {
        self.sent
    }

    /// Everything before lies in the binder's memory.
    pub(crate) fn received(&self) -> StreamPosition {
        self.received
    }

    /// What the task is done with, as last told.
    pub(crate) fn consumed(&self) -> Consumed {
        self.consumed
    }

    /// Priority events that were taken, as last told.
    pub(crate) fn priority_taken(&self) -> u32 {
        self.priority_taken
    }

    /// Whether the last entry of the stream was sent: nothing may follow.
    pub(crate) fn is_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Whether the task has consumed the end of the partition, as last told.
    pub(crate) fn is_end_consumed(&self) -> bool {
        self.end.is_some_and(|end| end.finished && self.consumed.entries >= end.entries)
    }

    /// Stream bytes that may be sent now.
    pub(crate) fn room(&self) -> u64 {
        if self.end.is_some() { 0 } else { self.limit.bytes.saturating_sub(self.sent.bytes) }
    }

    /// A run of `bytes`, at most [`Outgoing::room`], goes out. Returns its position.
    pub(crate) fn send(&mut self, bytes: u32) -> StreamPosition {
        debug_assert!(u64::from(bytes) <= self.room(), "{bytes} bytes with room for {}", self.room());
        let at = self.sent;
        self.sent.bytes += u64::from(bytes);
        at
    }

    /// Whether an entry with so many bytes of an application event (0 for all others) may be sent now. If
    /// not, an acknowledgement with [`News::credit`] may change it.
    pub(crate) fn may_send_entry(&self, application_bytes: usize) -> bool {
        self.end.is_none()
            && self.sent.entries < self.limit.entries
            && self.application_bytes + application_bytes <= EVENT_BYTES_MAX
    }

    /// An entry goes out that [`Outgoing::may_send_entry`]. Returns its position.
    pub(crate) fn send_entry(&mut self, event: &StreamEvent<'_>) -> StreamPosition {
        let bytes = event.application_bytes();
        debug_assert!(self.may_send_entry(bytes), "an entry at {} of {}", self.sent, self.limit);
        let at = self.sent;
        self.sent.entries += 1;
        if bytes > 0 {
            self.application.push_back((at.entries, bytes));
            self.application_bytes += bytes;
        }
        if event.is_last() {
            let finished = *event == StreamEvent::EndOfPartition;
            self.end = Some(End { entries: self.sent.entries, finished });
        }
        at
    }

    /// Whether a priority event may be sent now.
    pub(crate) fn may_send_priority(&self) -> bool {
        let waiting = self.priority_sent.wrapping_sub(self.priority_taken);
        self.end.is_none() && (waiting as usize) < PriorityEvent::QUEUED_MAX
    }

    /// A priority event goes out that [`Outgoing::may_send_priority`]. Returns its sequence number.
    pub(crate) fn send_priority(&mut self) -> u32 {
        debug_assert!(self.may_send_priority(), "priority event {}", self.priority_sent);
        let sequence = self.priority_sent;
        self.priority_sent = sequence.wrapping_add(1);
        sequence
    }

    /// # Errors
    /// It takes something back, or acknowledges what can't be. Nothing is changed then.
    pub(crate) fn on_ack(&mut self, ack: &Ack) -> Result<Acked, Violation> {
        if ack.epoch != self.epoch {
            return Ok(Acked::Stale);
        }
        self.check_received(ack.stream, ack.received, &ack.consumed)?;
        let refuse = |rule, text: std::fmt::Arguments<'_>| Err(Violation::stream(ack.stream, rule, text));
        if !self.limit.is_within(ack.limit) {
            let text = format_args!("credit up to {} after credit up to {}", ack.limit, self.limit);
            return refuse(Rule::MONOTONE, text);
        }
        let taken = ack.priority.wrapping_sub(self.priority_taken);
        let sent = self.priority_sent.wrapping_sub(self.priority_taken);
        if taken > sent {
            let text = format_args!("priority event {} is taken of {}", ack.priority, self.priority_sent);
            return refuse(Rule::SENT, text);
        }
        let mut news = self.note_received(ack.received, ack.consumed);
        news.priority = taken;
        news.credit = ack.limit != self.limit;
        self.priority_taken = ack.priority;
        self.grant(ack.limit);
        Ok(Acked::Fresh(news))
    }

    /// The binder leaves: its last word about this stream, which is over whatever this says.
    ///
    /// # Errors
    /// As for [`Outgoing::on_ack`].
    pub(crate) fn on_close(&mut self, close: &Close) -> Result<Acked, Violation> {
        if close.epoch != self.epoch {
            return Ok(Acked::Stale);
        }
        self.check_received(close.stream, close.received, &close.consumed)?;
        let Close { yielded, consumed, received, .. } = close;
        let bytes = consumed.bytes <= yielded.bytes && yielded.bytes <= received.bytes;
        if !bytes || yielded.records < consumed.records {
            let text = format_args!("closed with {yielded:?} yielded of {received}, and {consumed:?}");
            return Err(Violation::stream(close.stream, Rule::SENT, text));
        }
        Ok(Acked::Fresh(self.note_received(close.received, close.consumed)))
    }

    fn check_received(
        &self,
        stream: StreamId,
        received: StreamPosition,
        consumed: &Consumed,
    ) -> Result<(), Violation> {
        let refuse = |rule, text: std::fmt::Arguments<'_>| Err(Violation::stream(stream, rule, text));
        if !self.received.is_within(received) {
            return refuse(Rule::MONOTONE, format_args!("received {received} after {}", self.received));
        }
        let before = &self.consumed;
        let back = !before.position().is_within(consumed.position())
            || consumed.records < before.records
            || consumed.aborted < before.aborted;
        if back {
            return refuse(Rule::MONOTONE, format_args!("consumed {consumed:?} after {before:?}"));
        }
        if !received.is_within(self.sent) {
            return refuse(Rule::SENT, format_args!("received {received} of {} sent", self.sent));
        }
        if !consumed.position().is_within(received) || consumed.aborted > consumed.bytes {
            return refuse(Rule::SENT, format_args!("consumed {consumed:?} of {received} received"));
        }
        Ok(())
    }

    fn note_received(&mut self, received: StreamPosition, consumed: Consumed) -> News {
        let mut news = News {
            received: received != self.received,
            consumed: consumed != self.consumed,
            ..News::default()
        };
        let before = self.is_end_consumed();
        self.received = received;
        self.consumed = consumed;
        news.end = self.is_end_consumed() && !before;
        news
    }

    /// The credit for entries runs ahead of those that left the channel's queue by [`EVENTS_MAX`]: what is
    /// farther back than that has left it.
    fn grant(&mut self, limit: StreamPosition) {
        self.limit = limit;
        let left = limit.entries.saturating_sub(EVENTS_MAX);
        while let Some((_, bytes)) = self.application.front().filter(|(entry, _)| *entry < left) {
            self.application_bytes -= bytes;
            self.application.pop_front();
        }
    }
}
