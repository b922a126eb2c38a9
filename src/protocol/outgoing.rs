//! The server's end of one stream: how far it was sent, how far it may be, and what came back.

use super::{EVENT_BYTES_MAX, EVENTS_MAX, Violation};
use crate::event::{Event, PriorityEvent};
use crate::id::BindEpoch;
use crate::wire::{Ack, Close, Consumed, Resume, Rule, StreamId, StreamPosition};
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
        }
    }

    /// This stream as it goes on under a new epoch and over another connection, if what the binder asks for
    /// agrees with what was sent and acknowledged; everything from `resume.at` on is to be sent again. The
    /// incarnations and whether the ring still has it are the caller's to compare.
    #[allow(
        dead_code,
        reason = "binds are resumed by the protocol's simulation; the rings begin anew for now"
    )]
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
        resumed.application.retain(|(entry, _)| *entry < resume.at.entries);
        resumed.application_bytes = resumed.application.iter().map(|(_, bytes)| bytes).sum();
        resumed.grant(resume.limit);
        Some(resumed)
    }

    pub(crate) fn epoch(&self) -> BindEpoch {
        self.epoch
    }

    /// Where the next run or entry stands.
    pub(crate) fn position(&self) -> StreamPosition {
        self.sent
    }

    /// Whether something that was sent isn't acknowledged as received: an acknowledgement will come.
    pub(crate) fn is_unacknowledged(&self) -> bool {
        self.sent != self.received
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
    #[allow(
        dead_code,
        reason = "binds are resumed by the protocol's simulation; the rings begin anew for now"
    )]
    pub(crate) fn priority_taken(&self) -> u32 {
        self.priority_taken
    }

    /// Stream bytes that may be sent now.
    pub(crate) fn room(&self) -> u64 {
        self.limit.bytes.saturating_sub(self.sent.bytes)
    }

    /// A run of `bytes`, at most [`Outgoing::room`], goes out. Returns its position.
    pub(crate) fn send(&mut self, bytes: u64) -> StreamPosition {
        debug_assert!(bytes <= self.room(), "{bytes} bytes with room for {}", self.room());
        let at = self.sent;
        self.sent.bytes += bytes;
        at
    }

    /// Whether an entry without stream bytes may be sent now, whatever it is. If not, an acknowledgement with
    /// [`News::credit`] may change it.
    pub(crate) fn may_send_event(&self) -> bool {
        self.sent.entries < self.limit.entries
            && self.application_bytes + Event::APPLICATION_BYTES_MAX <= EVENT_BYTES_MAX
    }

    /// An entry goes out, which [`Outgoing::may_send_event`] allows; with the bytes of an application event,
    /// 0 for all others. Returns its position.
    pub(crate) fn send_entry(&mut self, application_bytes: usize) -> StreamPosition {
        debug_assert!(self.may_send_event(), "an entry at {} of {}", self.sent, self.limit);
        let at = self.sent;
        self.sent.entries += 1;
        if application_bytes > 0 {
            self.application.push_back((at.entries, application_bytes));
            self.application_bytes += application_bytes;
        }
        at
    }

    /// Whether a priority event may be sent now.
    pub(crate) fn may_send_priority(&self) -> bool {
        let waiting = self.priority_sent.wrapping_sub(self.priority_taken);
        (waiting as usize) < PriorityEvent::QUEUED_MAX
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

    /// The binder leaves: its last word about this stream. Unless it is stale, the stream is over. With epoch 0
    /// it was sent before BOUND arrived, and nothing was received.
    ///
    /// # Errors
    /// As for [`Outgoing::on_ack`]; the stream is over.
    pub(crate) fn on_close(&mut self, close: &Close) -> Result<Acked, Violation> {
        if close.epoch == BindEpoch::NEVER {
            return Ok(Acked::Fresh(News::default()));
        }
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
        let news = News {
            received: received != self.received,
            consumed: consumed != self.consumed,
            ..News::default()
        };
        self.received = received;
        self.consumed = consumed;
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
