//! The settings of an input gate, each with its cost in memory.

use super::remote::window;
use crate::id::{Attempt, Incarnation};
use crate::partition::{ChannelDescriptor, Location};
use crate::subpartition::BindRequest;

/// The most bytes that a channel may yield before the next ready one has its turn.
pub(super) const TURN_BYTES_MAX: u64 = 32 * 1024;
/// The most records and events that a channel may yield before the next ready one has its turn.
pub(super) const TURN_RECORDS_MAX: u32 = 256;

/// Who reads what: one attempt of a consumer task, and its input channels.
///
/// **Memory**: a channel costs about 700 bytes, of which its place in the queues is a part; a remote one about 9 KiB
/// more, most of it the queue of what has come for it. A record that
/// isn't in one segment is put together on the heap, at most one of each channel: all of them together take
/// at most `half_record_bytes_max`, or one longer record, and their buffers, at most 64 KiB a channel, are
/// kept for the next ones, at most `half_record_bytes_max` again in all. What a paused channel holds of a
/// record comes on top, at most `record_bytes_max` each.
#[derive(Clone, Debug)]
pub struct GateConfig {
    pub(super) attempt: Attempt,
    pub(super) incarnation: Incarnation,
    pub(super) channels: Vec<ChannelDescriptor>,
    pub(super) record_bytes_max: usize,
    pub(super) half_record_bytes_max: u64,
    pub(super) explicit: bool,
    receive_bytes_max: u64,
}

impl GateConfig {
    /// A gate without channels for this run of the consumer task, with defaults for everything else.
    #[must_use]
    pub fn new(attempt: Attempt, incarnation: Incarnation) -> Self {
        Self {
            attempt,
            incarnation,
            channels: Vec::new(),
            record_bytes_max: 128 << 20,
            half_record_bytes_max: 64 << 20,
            explicit: false,
            receive_bytes_max: 32 << 20,
        }
    }

    /// One channel more; channels are numbered from 0 in the order in which they are given.
    #[must_use]
    pub fn channel(mut self, channel: ChannelDescriptor) -> Self {
        self.channels.push(channel);
        self
    }

    /// More channels, in order.
    #[must_use]
    pub fn channels(mut self, channels: impl IntoIterator<Item = ChannelDescriptor>) -> Self {
        self.channels.extend(channels);
        self
    }

    /// The longest record that is accepted, in bytes of payload. Default: 128 MiB, as for partitions. A
    /// longer one closes its channel with [`GateError::RecordTooLong`](super::GateError::RecordTooLong)
    /// before any memory is taken for it.
    #[must_use]
    pub fn record_bytes_max(mut self, bytes: usize) -> Self {
        self.record_bytes_max = bytes;
        self
    }

    /// The most bytes of half records of all channels together. Default: 64 MiB. One record is always
    /// admitted, however long; while the bound is used up other channels with long records wait.
    #[must_use]
    pub fn half_record_bytes_max(mut self, bytes: usize) -> Self {
        self.half_record_bytes_max = bytes as u64;
        self
    }

    /// Whether only [`InputGate::acknowledge`](super::InputGate::acknowledge) makes what was yielded count as
    /// consumed. Default: false, an item is consumed when the next one is asked for.
    #[must_use]
    pub fn explicit_acknowledge(mut self, explicit: bool) -> Self {
        self.explicit = explicit;
        self
    }

    /// The most stream bytes of all remote channels together that are under way to this gate or wait in it.
    /// Default: 32 MiB. Each channel has an equal part of it as its window, at least 4 KiB and at most 4 MiB: a
    /// producer far away sends so much before it has to hear of the consumer. Local channels take nothing of it. The
    /// channels are counted when the gate is made.
    #[must_use]
    pub fn receive_bytes_max(mut self, bytes: usize) -> Self {
        self.receive_bytes_max = bytes as u64;
        self
    }

    /// The window of each remote channel, in stream bytes.
    pub(super) fn window(&self) -> u64 {
        let is_remote = |channel: &&ChannelDescriptor| matches!(channel.location, Location::Remote(_));
        window(self.receive_bytes_max, self.channels.iter().filter(is_remote).count())
    }

    pub(super) fn request(&self) -> BindRequest {
        BindRequest::new(self.attempt, self.incarnation)
    }
}
