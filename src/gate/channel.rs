//! One input channel: how it stands with its partition, and what it has told so far.

use super::alignment::Standing;
use super::bind::Beginning;
use super::item::LossReport;
use super::item::ProducerTail;
use super::reader::Reader;
use super::snapshot::{ChannelSnapshot, ChannelState};
use crate::doorbell::ReadyNode;
use crate::error::{BindError, Cause};
use crate::event::LostBarriers;
use crate::id::RemoteAddress;
use crate::id::{Attempt, BindEpoch};
use crate::inbox::Inbox;
use crate::inbox::RemoteEnd;
use crate::partition::{BindAnswer, ChannelDescriptor, Partition, Ticket};
use crate::subpartition::{Amount, Mark};
use std::sync::Arc;
use std::time::Duration;

/// How a channel stands.
///
/// ```text
///            bind                 read to its end        update
///   Unbound ──────> Active ─────────────────────> Unavailable ──> Unbound
///      │ ^            │
///      │ │ update,    ├─ end of partition ──> Ended
///      v │ retry      ├─ newer consumer ────> Fenced
///   Waiting, Told ──> ├─ record too long ───> TooLong ── update ──> Unbound
///   Connecting        └─ connection lost ───> Unbound (an outage until it is bound again)
///      └──> Refused
/// ```
#[derive(Debug)]
pub(super) enum State {
    /// The next turn binds.
    Unbound,
    /// The answer comes through the inbox.
    Waiting {
        ticket: Ticket,
        inbox: Arc<Inbox<BindAnswer>>,
    },
    /// Another worker is asked; the answer comes through `end`. `waits`: the partition isn't there yet.
    Connecting {
        peer: RemoteAddress,
        end: RemoteEnd,
        waits: bool,
    },
    /// The bind was refused; the next turn says so.
    Told(BindError),
    /// `reader` is there.
    Active,
    Unavailable(Cause),
    Refused(BindError),
    TooLong {
        bytes: usize,
        max: usize,
    },
    Fenced(Attempt),
    Ended,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Channel {
    /// Bound, or ended and not acknowledged yet.
    pub(super) reader: Option<Reader>,
    /// It is in the run queue.
    pub(super) is_queued: bool,
    /// It is in the queue of those that have priority events.
    pub(super) is_urgent: bool,
    /// It has an entry among the timed looks.
    pub(super) is_timed: bool,
    /// The writer knows that nobody looks by itself.
    pub(super) is_quiet: bool,
    pub(super) is_paused: bool,
    /// Bytes of the record that found no admission.
    pub(super) starved: Option<usize>,
    pub(super) state: State,
    /// The node of the newest bind; older ones mean nothing.
    pub(super) node: Option<Arc<ReadyNode>>,
    pub(super) partition: Option<Arc<Partition>>,
    pub(super) descriptor: ChannelDescriptor,
    /// A newer producer attempt, for when the present one is read to its end.
    pub(super) pending: Option<ChannelDescriptor>,
    pub(super) epoch: BindEpoch,
    pub(super) binds: u32,
    /// Names the present bind in receipts: see [`Receipt`](super::Receipt).
    pub(super) stamp: u64,
    /// When the gate is to look again by itself, under `Flush::Interval`.
    pub(super) look_after: Option<Duration>,
    /// What was yielded when a timed look was asked for last.
    pub(super) looked: Option<Mark>,
    /// The notice that comes before the first record.
    pub(super) announce: Option<Box<LossReport>>,
    /// Where the bind began.
    pub(super) begin: Amount,
    /// What the writer had dropped in all by the last report.
    pub(super) told: Amount,
    /// What the bind doesn't bring.
    pub(super) barriers: LostBarriers,
    /// Of the producer attempt before; for the next report.
    pub(super) left_behind: Amount,
    /// The producer attempt of a bind that was cut off, and what had come of it; for the next report.
    pub(super) cut: Option<(Attempt, Amount)>,
    /// Unavailable for want of a connection: told, and not bound since.
    pub(super) is_outage: bool,
    /// Of the binds before.
    yielded: Amount,
    consumed: Amount,
    pub(super) lost: Amount,
    pub(super) acks_ignored: u64,
    pub(super) watermark: Option<i64>,
    /// An outage keeps the channel's last watermark in the minimum.
    pub(super) holds_watermark: bool,
    pub(super) is_data_ended: bool,
    /// An older attempt acknowledged the end: nothing follows the notice of this bind but the end.
    pub(super) is_ended_before: bool,
}

impl Channel {
    /// `stamp`: where the names of its binds begin.
    pub(super) fn new(descriptor: ChannelDescriptor, stamp: u64) -> Self {
        Self {
            reader: None,
            is_queued: false,
            is_urgent: false,
            is_timed: false,
            is_quiet: false,
            is_paused: false,
            starved: None,
            state: State::Unbound,
            node: None,
            partition: None,
            descriptor,
            pending: None,
            epoch: BindEpoch::NEVER,
            binds: 0,
            stamp,
            look_after: None,
            looked: None,
            announce: None,
            begin: Amount::ZERO,
            told: Amount::ZERO,
            barriers: LostBarriers::default(),
            left_behind: Amount::ZERO,
            cut: None,
            is_outage: false,
            yielded: Amount::ZERO,
            consumed: Amount::ZERO,
            lost: Amount::ZERO,
            acks_ignored: 0,
            watermark: None,
            holds_watermark: false,
            is_data_ended: false,
            is_ended_before: false,
        }
    }

    /// A bind begins.
    pub(super) fn activate(&mut self, reader: Reader, beginning: Beginning) {
        let Beginning { epoch, begin, lost, in_doubt, writer_lost, barriers, ended } = beginning;
        self.binds = self.binds.wrapping_add(1);
        self.stamp = self.stamp.wrapping_add(1);
        self.epoch = epoch;
        self.begin = begin;
        self.told = writer_lost;
        self.barriers = barriers;
        self.look_after = None;
        self.is_paused = false;
        self.is_quiet = false;
        self.is_outage = false;
        self.watermark = None;
        self.is_data_ended = false;
        let left_behind = std::mem::take(&mut self.left_behind);
        let producer_tail = match self.cut.take() {
            // The attempt itself reports what became of it, unless it is another one that is bound now.
            Some((attempt, received)) if attempt != self.descriptor.producer_attempt => {
                ProducerTail::Unknown { received }
            }
            _ => ProducerTail::Known,
        };
        self.announce = Some(Box::new(LossReport { lost, in_doubt, left_behind, producer_tail }));
        self.looked = Some(reader.mark());
        self.reader = Some(reader);
        self.state = State::Active;
        self.is_ended_before = ended;
    }

    /// The gate looks by itself: at the channel's turn, or when it is resumed.
    pub(super) fn stir(&mut self) {
        if std::mem::take(&mut self.is_quiet)
            && let Some(node) = &self.node
        {
            node.stir();
        }
    }

    /// Takes the reader out, for good, and keeps its sums.
    pub(super) fn take_reader(&mut self) -> Option<Reader> {
        let reader = self.reader.take()?;
        self.yielded += reader.yielded();
        self.consumed += reader.consumed();
        Some(reader)
    }

    /// The newest producer attempt that the channel knows of.
    pub(super) fn newest_producer(&self) -> Attempt {
        let present = self.descriptor.producer_attempt;
        self.pending.as_ref().map_or(present, |pending| pending.producer_attempt.max(present))
    }

    /// Whether nothing comes any more, whatever is done.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Ended | State::Fenced(_))
    }

    /// Whether its watermark has a part in the minimum.
    pub(super) fn bounds_watermark(&self) -> bool {
        match self.state {
            State::Ended => false,
            State::Unavailable(_) | State::TooLong { .. } | State::Fenced(_) => {
                self.holds_watermark && !self.is_data_ended
            }
            // An outage that ends by itself, and an ordinary one, are the same to the others.
            _ if self.is_outage => self.holds_watermark && !self.is_data_ended,
            _ => !self.is_data_ended,
        }
    }

    /// Whether it may bring a barrier that it has not brought yet.
    pub(super) fn standing(&self) -> Standing {
        match self.state {
            State::Ended => Standing::Ended,
            State::Unavailable(_) | State::Refused(_) | State::TooLong { .. } | State::Fenced(_) => {
                Standing::Away
            }
            _ if self.is_outage => Standing::Away,
            _ => Standing::Awaited,
        }
    }

    pub(super) fn state(&self) -> ChannelState {
        match &self.state {
            State::Unbound => ChannelState::Unbound,
            State::Waiting { .. } | State::Connecting { waits: true, .. } => ChannelState::Waiting,
            State::Connecting { peer, .. } => ChannelState::Connecting { peer: *peer },
            State::Active => ChannelState::Active,
            State::Unavailable(cause) => ChannelState::Unavailable(cause.clone()),
            State::Told(error) | State::Refused(error) => ChannelState::BindFailed(error.clone()),
            State::TooLong { bytes, max } => ChannelState::RecordTooLong { bytes: *bytes, max: *max },
            State::Fenced(newer) => ChannelState::Fenced(*newer),
            State::Ended => ChannelState::Ended,
        }
    }

    pub(super) fn snapshot(&self, channel: u32) -> ChannelSnapshot {
        let now = |sum: Amount, part: fn(&Reader) -> Amount| match &self.reader {
            Some(reader) => sum + part(reader),
            None => sum,
        };
        ChannelSnapshot {
            channel,
            state: self.state(),
            is_paused: self.is_paused,
            producer: self.descriptor.producer_attempt,
            pending: self.pending.as_ref().map(|pending| pending.producer_attempt),
            epoch: self.epoch,
            binds: self.binds,
            yielded: now(self.yielded, Reader::yielded),
            consumed: now(self.consumed, Reader::consumed),
            lost: self.lost,
            acks_ignored: self.acks_ignored,
            watermark: self.watermark,
        }
    }
}
