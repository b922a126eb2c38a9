//! What the task does with its gate beside asking for the next item.

use super::InputGate;
use super::channel::State;
use super::error::GateError;
use super::item::{Receipt, Update};
use super::snapshot::ChannelSnapshot;
use super::why::WhyBlocked;
use crate::partition::ChannelDescriptor;
use crate::subpartition::Acked;

impl InputGate {
    /// Names a newer attempt of a channel's producer. It is bound when what the present attempt left is read to
    /// its end: after a failure, or when its partition is closed. Of several updates the newest counts. While
    /// the channel's bind stands refused, a descriptor of the same attempt counts as well.
    ///
    /// Takes effect at the next call that asks for an item.
    ///
    /// # Errors
    /// There is no such channel.
    pub fn update_channel(
        &mut self,
        channel: u32,
        descriptor: ChannelDescriptor,
    ) -> Result<Update, GateError> {
        let index = self.index(channel)?;
        Ok(self.update(index, descriptor))
    }

    /// Binds a channel again whose bind failed. False if it isn't in that state.
    ///
    /// # Errors
    /// There is no such channel.
    pub fn retry_bind(&mut self, channel: u32) -> Result<bool, GateError> {
        let index = self.index(channel)?;
        Ok(self.retry(index))
    }

    /// Yields no records and events of a channel until [`InputGate::resume`] or its next bind; priority events
    /// still come. Nothing else pauses a channel: alignment of barriers is the task's, which is told of those that
    /// are lost ([`Item::AlignmentBroken`](super::ItemOf::AlignmentBroken)). The begin of a record
    /// that came of it is kept, and gives its place among the half records to other channels. If the producer
    /// fails meanwhile, that is told after the resume, behind the records that were there before it.
    ///
    /// # Errors
    /// There is no such channel.
    pub fn pause(&mut self, channel: u32) -> Result<(), GateError> {
        let index = self.index(channel)?;
        self.set_paused(index, true);
        Ok(())
    }

    /// Ends a pause. Takes effect at the next call that asks for an item.
    ///
    /// # Errors
    /// There is no such channel.
    pub fn resume(&mut self, channel: u32) -> Result<(), GateError> {
        let index = self.index(channel)?;
        self.set_paused(index, false);
        Ok(())
    }

    /// What acknowledges everything that a channel has yielded since its bind, events and the end of the
    /// partition included. `None` when it isn't bound.
    #[must_use]
    pub fn receipt(&self, channel: u32) -> Option<Receipt> {
        let bound = self.channels.get(channel as usize)?;
        let mark = bound.reader.as_ref()?.mark();
        Some(Receipt { channel, stamp: bound.stamp, mark })
    }

    /// Explicit mode: everything of the receipt's channel up to its place is consumed. False if the receipt is
    /// of an older bind or of another gate, came twice, or the gate isn't in explicit mode; that is counted in
    /// the snapshot.
    pub fn acknowledge(&mut self, receipt: Receipt) -> bool {
        let Some(channel) = self.channels.get_mut(receipt.channel as usize) else { return false };
        let acked = match &mut channel.reader {
            Some(reader) if self.explicit && receipt.stamp == channel.stamp => {
                reader.acknowledge(receipt.mark)
            }
            _ => Acked::Ignored,
        };
        let Acked::Done { end } = acked else {
            channel.acks_ignored += 1;
            return false;
        };
        if end {
            self.end_acknowledged(receipt.channel as usize);
        }
        true
    }

    /// Explicit mode: everything yielded is consumed.
    pub fn acknowledge_all(&mut self) {
        if !self.explicit {
            return;
        }
        for index in 0..self.channels.len() {
            let Some(reader) = &mut self.channels[index].reader else { continue };
            if (reader.acknowledge(reader.mark()) == Acked::Done { end: true }) {
                self.end_acknowledged(index);
            }
        }
    }

    fn end_acknowledged(&mut self, index: usize) {
        let partition = self.channels[index].partition.take();
        self.retire(index);
        self.post(index);
        if let Some(partition) = partition {
            partition.acknowledge_end();
        }
    }

    /// The least watermark of all channels, in the engine's unit; it never goes back. Channels that are
    /// unavailable or have ended their data are left out. `None` until every channel that counts has
    /// reported.
    #[must_use]
    pub fn watermark(&self) -> Option<i64> {
        self.watermark
    }

    /// Whether a channel keeps its part in [`InputGate::watermark`] while it is unavailable, which then stands
    /// still at the channel's last one. Default: it doesn't, the others go on.
    ///
    /// # Errors
    /// There is no such channel.
    pub fn hold_watermark(&mut self, channel: u32, hold: bool) -> Result<(), GateError> {
        let index = self.index(channel)?;
        self.channels[index].holds_watermark = hold;
        self.lift_watermark();
        Ok(())
    }

    /// Why a channel yields nothing right now, in words; `None` if there is no such channel.
    #[must_use]
    pub fn why_blocked(&self, channel: u32) -> Option<WhyBlocked> {
        let why = self.board.why(channel)?;
        let reader = self.channels.get(channel as usize)?.reader.as_ref();
        let is_idle = matches!(
            why,
            WhyBlocked::NoData | WhyBlocked::WriterBlocked { .. } | WhyBlocked::WaitingForPeer { .. }
        );
        if is_idle && reader.is_some_and(|reader| reader.has_more()) {
            return Some(WhyBlocked::Ready);
        }
        Some(why)
    }

    /// A picture of one channel; `None` if there is no such channel.
    #[must_use]
    pub fn channel_snapshot(&self, channel: u32) -> Option<ChannelSnapshot> {
        self.channels.get(channel as usize).map(|state| state.snapshot(channel))
    }

    /// A picture of all channels, in order.
    #[must_use]
    pub fn snapshot(&self) -> Vec<ChannelSnapshot> {
        self.channels.iter().zip(0..).map(|(channel, number)| channel.snapshot(number)).collect()
    }

    /// How many channels there are.
    #[must_use]
    pub fn channels(&self) -> u32 {
        self.channels.len() as u32
    }

    fn index(&self, channel: u32) -> Result<usize, GateError> {
        if channel < self.channels() {
            return Ok(channel as usize);
        }
        Err(GateError::NoSuchChannel { channel, channels: self.channels() })
    }

    pub(super) fn update(&mut self, index: usize, descriptor: ChannelDescriptor) -> Update {
        let channel = &mut self.channels[index];
        if channel.is_over() {
            return Update::Over;
        }
        let current = channel.newest_producer();
        let corrects = matches!(channel.state, State::Refused(_)) && descriptor.producer_attempt == current;
        if descriptor.producer_attempt <= current && !corrects {
            return Update::Ignored { current };
        }
        channel.pending = Some(descriptor);
        let update = match channel.state {
            State::Unbound | State::Waiting { .. } | State::Connecting { .. } => Update::Accepted,
            State::Unavailable(_) | State::Refused(_) | State::TooLong { .. } => {
                channel.state = State::Unbound;
                Update::Accepted
            }
            _ => Update::Deferred,
        };
        if update == Update::Accepted {
            self.ready.queue(index, channel);
            self.post(index);
        }
        update
    }

    pub(super) fn retry(&mut self, index: usize) -> bool {
        let channel = &mut self.channels[index];
        let refused = matches!(channel.state, State::Refused(_));
        if refused {
            channel.state = State::Unbound;
            self.ready.queue(index, channel);
            self.post(index);
        }
        refused
    }

    pub(super) fn set_paused(&mut self, index: usize, paused: bool) {
        let channel = &mut self.channels[index];
        channel.is_paused = paused;
        if !paused {
            self.ready.queue(index, channel);
        } else if let Some(reader) = &mut channel.reader {
            reader.set_aside(&mut self.admission);
            // The next call ends the turn, and counts what was yielded as consumed.
            reader.end_turn();
        }
        self.post(index);
    }
}
