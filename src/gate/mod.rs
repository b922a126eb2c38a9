//! Input gates: what a consumer task reads of all its input channels.
//!
//! # Guarantees
//! - Each channel's items come in order, records whole and by borrow; channels take turns of at most 32 KiB or
//!   256 records.
//! - What a failed producer left is read to its end; then `Unavailable`, and after an update `Available` with
//!   what was lost, before the first record of the new attempt. The other channels flow on meanwhile.
//! - Of a barrier that one channel has yielded, every channel either yields it, ends, or is told as broken
//!   (`AlignmentBroken`): a task that aligns barriers by `pause` waits for none that is lost.
//! - Whoever was replaced by a newer attempt of its consumer never sees an end of partition that isn't its own.
//! - A poll that returns `Pending` has a waker in place for everything that can happen: rings, answers to binds
//!   and commands by one doorbell, looks of `Flush::Interval` by one alarm of the clock.
//! - The next record of the channel whose turn it is takes no lock, allocates nothing, reads no clock and makes
//!   no syscall.
//!
//! # Files
//! `advance` is the core of all forms in `forms`: it finds the next thing, without a borrow, and lends it
//! afterwards. `turns` and `ready` say whose turn it is, `bind` has a channel's transitions, `alignment`
//! which barriers it may still bring, `remote` those of channels over
//! the network, `control` what the task does
//! besides, `handle` the same from other threads, `board` what other threads see.
//!
//! # Invariants
//! - I1 `Found::Record(index)` names a channel with a reader, whose last record is the one found; nothing is
//!   asked of that reader before the record is lent.
//! - I2 A channel that may have something is in the run queue, or has the turn, or is paused, or waits for
//!   admission (`starved`), for a timed look, or for a ring of its newest node.
#![forbid(unsafe_code)]

mod advance;
mod alignment;
mod bind;

mod board;
mod channel;
mod config;
mod control;
mod error;
mod forms;
mod handle;
mod item;
mod reader;
mod ready;
mod records;
mod remote;
mod snapshot;
#[cfg(all(test, not(loom)))]
mod tests;
mod turns;
mod watermark;
mod why;

pub use config::GateConfig;
pub use error::{GateError, HandleError};
pub use forms::{GateStream, Next};
pub use handle::GateHandle;
pub use item::{
    Item, ItemOf, LossReport, OwnedItem, OwnedRecord, ProducerTail, Receipt, Record, TryNext, Update,
};
pub use records::Records;
pub use snapshot::{ChannelSnapshot, ChannelState};
pub use why::WhyBlocked;

use crate::doorbell::{Doorbell, ReadyNode};
use crate::inbox::Inbox;
use crate::partition::{GateLife, Manager, Network};
use crate::record::Admission;
use crate::subpartition::BindRequest;
use crate::sync::Parker;
use alignment::Alignment;
use board::Board;
use channel::Channel;
use handle::{Command, commands_max};
use ready::{NOBODY, Ready};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// The token of the node that stands for commands: no channel has it.
const COMMANDS: u32 = u32::MAX;

/// The consumer task's end of its input channels: yields their records, events and notices in turn.
///
/// A gate belongs to one task, which may move between threads; [`InputGate::handle`] steers it from others.
/// Dropping it closes its channels in order: what was not consumed is told to the next attempt as the policies
/// of the partitions say.
#[derive(Debug)]
pub struct InputGate {
    /// The channel that yields now, or `NOBODY`.
    turn: usize,
    channels: Vec<Channel>,
    admission: Admission,
    bell: Arc<Doorbell>,
    ready: Ready,
    /// Channels whose record found no admission.
    starved: usize,
    /// `Admission::eased` when they were asked last.
    eased: u64,
    /// Channels that have ended.
    ended: usize,
    /// Channels that another attempt reads.
    fenced: usize,
    watermark: Option<i64>,
    alignment: Alignment,
    request: BindRequest,
    record_bytes_max: usize,
    explicit: bool,
    commands: Arc<Inbox<Command>>,
    command_node: Arc<ReadyNode>,
    board: Arc<Board>,
    manager: Arc<Manager>,
    network: Option<Arc<dyn Network>>,
    life: Arc<GateLife>,
    /// Of each remote channel that is opened from now on, in stream bytes.
    window: u64,
    parker: Option<Parker>,
}

impl InputGate {
    /// A gate of a worker without a network: its channels are local.
    #[allow(dead_code, reason = "for tests and models")]
    pub(crate) fn new(manager: Arc<Manager>, config: GateConfig) -> Self {
        Self::with_network(manager, None, config)
    }

    /// `network` opens its remote channels.
    pub(crate) fn with_network(
        manager: Arc<Manager>,
        network: Option<Arc<dyn Network>>,
        config: GateConfig,
    ) -> Self {
        let request = config.request();
        // Random without an error to handle; equality is all that is asked of it.
        let window = config.window();
        let stamp = RandomState::new().hash_one(request.attempt);
        let mut channels: Vec<_> =
            config.channels.into_iter().map(|channel| Channel::new(channel, stamp)).collect();
        let bell = Doorbell::new();
        manager.watch(&bell);
        let mut ready = Ready::new(channels.len());
        for (index, channel) in channels.iter_mut().enumerate() {
            ready.queue(index, channel);
        }
        let command_node = ReadyNode::new(&bell, COMMANDS);
        Self {
            turn: NOBODY,
            admission: Admission::new(config.half_record_bytes_max),
            ready,
            starved: 0,
            eased: 0,
            ended: 0,
            fenced: 0,
            watermark: None,
            alignment: Alignment::new(channels.len()),
            request,
            record_bytes_max: config.record_bytes_max,
            explicit: config.explicit,
            commands: Arc::new(Inbox::new(commands_max(channels.len()), command_node.clone())),
            command_node,
            board: Board::new(&channels, config.explicit),
            channels,
            bell,
            manager,
            network,
            life: Arc::new(GateLife),
            window,
            parker: None,
        }
    }
}

impl Drop for InputGate {
    fn drop(&mut self) {
        self.commands.close();
        self.board.clear();
        // Breaks the circle of a bell and the nodes in its list. Then the channels go: readers close in order,
        // what they were given and not consumed is in doubt, the rest was not read; waiting binds are
        // withdrawn, and an answer that comes too late binds nobody.
        self.bell.close();
    }
}
