//! How the channels stand, for other threads: put up at every transition, never on the way of a record.

use super::InputGate;
use super::channel::{Channel, State};
use super::reader::Reader;
use super::snapshot::ChannelState;
use super::why::WhyBlocked;
use crate::id::{Attempt, PartitionId, RemoteAddress};
use crate::inbox::RemoteWatch;
use crate::partition::Location;
use crate::subpartition::{Phase, Subpartition, WhenAbsent};
use crate::sync::{Mutex, lock};
use std::sync::Arc;

/// The notices of all channels. A gate that is gone leaves it empty.
#[derive(Debug)]
pub(super) struct Board(Mutex<Vec<Notice>>);

/// How one channel stands.
#[derive(Clone, Debug)]
struct Notice {
    state: ChannelState,
    partition: PartitionId,
    producer: Attempt,
    is_paused: bool,
    starved: Option<usize>,
    /// The end was yielded in explicit mode.
    is_unacknowledged: bool,
    explicit: bool,
    sub: Option<Arc<Subpartition>>,
    remote: Option<(RemoteAddress, RemoteWatch)>,
}

impl Notice {
    fn of(channel: &Channel, explicit: bool) -> Self {
        let reader = channel.reader.as_ref();
        let remote = match (reader, &channel.descriptor.location) {
            (Some(Reader::Remote(reader)), Location::Remote(peer)) => Some((*peer, reader.watch())),
            _ => None,
        };
        Self {
            state: channel.state(),
            partition: channel.descriptor.partition,
            producer: channel.descriptor.producer_attempt,
            is_paused: channel.is_paused,
            starved: channel.starved,
            is_unacknowledged: matches!(channel.state, State::Ended) && reader.is_some(),
            explicit,
            sub: reader.and_then(Reader::local).map(|reader| reader.view().subpartition().clone()),
            remote,
        }
    }

    fn why(self) -> WhyBlocked {
        match self.state {
            ChannelState::Unbound => WhyBlocked::Unbound,
            ChannelState::Waiting => {
                WhyBlocked::WaitingForPartition { partition: self.partition, producer: self.producer }
            }
            ChannelState::Connecting { peer } => WhyBlocked::Connecting { peer },
            ChannelState::Unavailable(cause) => WhyBlocked::Unavailable { cause },
            ChannelState::BindFailed(error) => WhyBlocked::BindFailed { error },
            ChannelState::RecordTooLong { bytes, max } => WhyBlocked::RecordTooLong { bytes, max },
            ChannelState::Fenced(newer) => WhyBlocked::Fenced { newer },
            ChannelState::Ended if self.is_unacknowledged => WhyBlocked::WaitingForAcknowledge,
            ChannelState::Ended => WhyBlocked::Ended,
            ChannelState::Active => self.why_active(),
        }
    }

    fn why_active(self) -> WhyBlocked {
        if self.is_paused {
            return WhyBlocked::Paused;
        }
        if let Some(bytes) = self.starved {
            return WhyBlocked::HalfRecordNotAdmitted { bytes };
        }
        if let Some((peer, watch)) = self.remote {
            if watch.has_more() {
                return WhyBlocked::Ready;
            }
            return WhyBlocked::WaitingForPeer { peer, credit: watch.credit() };
        }
        let Some(sub) = self.sub else { return WhyBlocked::Ready };
        if sub.phase() == Phase::Suspended {
            return WhyBlocked::Suspended;
        }
        if sub.has_untaken() {
            return WhyBlocked::Ready;
        }
        let (segments, segments_max) = sub.segments();
        if segments < segments_max {
            return WhyBlocked::NoData;
        }
        if self.explicit && matches!(sub.policies().when_absent, WhenAbsent::Replay { .. }) {
            return WhyBlocked::WaitingForAcknowledge;
        }
        WhyBlocked::WriterBlocked { segments, segments_max }
    }
}

impl Board {
    pub(super) fn new(channels: &[Channel], explicit: bool) -> Arc<Self> {
        let notices = channels.iter().map(|channel| Notice::of(channel, explicit)).collect();
        Arc::new(Self(Mutex::new(notices)))
    }

    /// Why a channel yields nothing; `None` when there is no such channel, or no gate any more.
    pub(super) fn why(&self, channel: u32) -> Option<WhyBlocked> {
        let notice = lock(&self.0).get(channel as usize).cloned();
        notice.map(Notice::why)
    }

    /// The gate goes away: nothing of its partitions is kept alive from here.
    pub(super) fn clear(&self) {
        let gone = std::mem::take(&mut *lock(&self.0));
        drop(gone);
    }
}

impl InputGate {
    /// Puts up how a channel stands.
    pub(super) fn post(&self, index: usize) {
        let notice = Notice::of(&self.channels[index], self.explicit);
        let mut notices = lock(&self.board.0);
        let old = notices.get_mut(index).map(|place| std::mem::replace(place, notice));
        drop(notices);
        drop(old);
    }
}
