//! What a network thread hands to the task for one remote channel, and the way back.
//!
//! One [`Feeder`] (network thread) and one [`RemoteEnd`] (task, soon a [`RemoteReader`]) for each bind: a
//! channel that is bound anew gets a new pair, so nothing of an older bind is ever taken for the newer one's. A
//! bind that is resumed goes on with its pair.
//!
//! # Guarantees
//! - The feeder never waits and is never refused: what the queue doesn't take it keeps, and credit bounds it.
//! - The task gets everything in the order of [`Feeder::push`]; a record is yielded whole or not at all.
//! - The way back is one picture ([`Progress`]) whose numbers belong together, and a ring when it is worth a
//!   look: a quarter of the window has left, the end is consumed, the task is gone; and, unless the feeder's thread
//!   has said that it looks by itself (its node isn't quiet), when the queue has run dry or something was
//!   acknowledged.
//! - When the task is gone the picture that the feeder reads is the last one.
//!
//! # Layout
//! ```text
//!   network thread                                                      task
//!   Feeder ── held (its own) ──> inbox: queue of 64, task's node ─────> RemoteReader
//!          ─────────────────────> priority: queue of 8 ───────────────>
//!          <── progress (versioned words), pins, network's node ───────  Bytes that are lent
//! ```
//!
//! # Ownership
//! | field | writer | readers | protected by |
//! |---|---|---|---|
//! | `inbox` | feeder pushes, reader pops | both | the queue; its end `INBOX_E1` |
//! | `priority` | feeder pushes, reader pops | both | the queue |
//! | `announced`, `holds_back` | feeder | reader | hints; `DOOR_E1` of the ring that follows |
//! | `progress` | reader | feeder | `PROG_E1`, `PROG_E2` |
//! | `pins` | reader and whoever drops lent bytes | all | one word |
//! | `left` | reader, once | feeder | `FEED_E1` |
//!
//! # Edges
//! `FEED_E1` left (reader's end → feeder): the final progress. `PROG_E1`, `PROG_E2`: see `progress`.
//! Everything else is carried by the queue and by the doorbells of the two nodes (`DOOR_E1`): the task rings
//! after it took items and before it sleeps, so a feeder that found the queue full is served once more after
//! the items that filled it are gone.

mod feeder;
mod lend;
mod progress;
mod reader;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use feeder::Feeder;
pub(crate) use progress::{Consumed, Picture, Progress};
pub(crate) use reader::{RemoteReader, RemoteWatch};

use super::{Inbox, Popped};
use crate::doorbell::ReadyNode;
use crate::error::{BindError, Cause};
use crate::event::{LostBarriers, PriorityEvent};
use crate::id::BindEpoch;
use crate::memory::Lent;
use crate::subpartition::{Amount, Losses};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Queue, sync};
use bytes::Bytes;
use progress::ProgressCell;
use std::ops::Deref;
use std::sync::Arc;

/// How many deliveries wait in the queue; what comes on top waits with the feeder.
const QUEUE_LEN: usize = 64;

/// Stream bytes that came: in the receive buffer, or copied.
#[derive(Clone, Debug)]
pub(crate) enum Chunk {
    Lent(Lent),
    Heap(Bytes),
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Lent(lent) => lent,
            Self::Heap(bytes) => bytes,
        }
    }
}

/// One thing that the network thread hands over.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// The producer's worker has granted the bind: comes first, and again only with `resumed`.
    Bound(Box<RemoteGrant>),
    /// The producer's worker waits for the partition.
    Waiting,
    /// Stream bytes. `uniform` is the peer's word for the payload length of all records that start here, or
    /// `UNIFORM_NONE`: a hint.
    Data {
        uniform: u32,
        bytes: Chunk,
    },
    Event(RemoteEvent),
    /// Nothing comes after this.
    Over(Over),
}

/// What the producer's worker said when it granted the bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemoteGrant {
    pub(crate) epoch: BindEpoch,
    /// Lost since the bind before.
    pub(crate) lost: Losses,
    /// In doubt since the bind before.
    pub(crate) in_doubt: Amount,
    /// What the writer had dropped in all when `lost` was summed up.
    pub(crate) writer_lost: Amount,
    /// What this bind doesn't bring.
    pub(crate) barriers: LostBarriers,
    /// An older attempt acknowledged the end: there is nothing but the end of the partition.
    pub(crate) ended: bool,
    /// The bind before goes on where it was cut off: no notice, no loss.
    pub(crate) resumed: bool,
}

/// An entry of the stream that has no stream bytes. Each counts in the position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RemoteEvent {
    Barrier(u64),
    Watermark(i64),
    Application(Bytes),
    /// The record that has begun is broken off.
    Abort,
    /// So much was dropped by the writer, in all, counted from its begin.
    Loss(Amount),
    EndOfData,
    EndOfPartition,
    Failed(Cause),
}

/// How a channel came to its end before the partition did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The bind was not granted.
    Refused(BindError),
    /// The producer's worker ended the view: released, superseded, fenced.
    Gone(Cause),
    /// The connection is gone, or was never made.
    Lost(Cause),
    /// Whoever fed the channel has ended without a word.
    Left,
}

/// What the two sides share; see the module's text.
#[derive(Debug)]
struct Shared {
    inbox: Inbox<Delivery>,
    priority: Queue<PriorityEvent>,
    /// Priority events pushed, modulo 2^32.
    announced: AtomicU32,
    /// The feeder has more than the queue took.
    holds_back: AtomicBool,
    progress: ProgressCell,
    pins: AtomicU64,
    /// The task reads no more.
    left: AtomicBool,
    network_node: Arc<ReadyNode>,
    window: u64,
    /// Of the inbox.
    capacity: usize,
}

/// The task's end before the bind is answered. Dropping it, or the reader made of it, tells the feeder that
/// nobody reads.
#[derive(Debug)]
pub(crate) struct RemoteEnd {
    shared: Arc<Shared>,
}

impl RemoteEnd {
    /// The next delivery.
    pub(crate) fn pop(&mut self) -> Popped<Delivery> {
        self.shared.inbox.pop()
    }
}

impl Drop for RemoteEnd {
    fn drop(&mut self) {
        self.shared.left.store(true, sync!(FEED_E1.leave, Release));
        // Receive buffers go back at once; one that is pushed meanwhile goes with the feeder.
        while let Popped::Item(delivery) = self.shared.inbox.pop() {
            drop(delivery);
        }
        self.shared.network_node.ring();
    }
}

/// A new channel. `task_node` is rung for what is pushed, `network_node` for what the task has to say;
/// `window` is the most stream bytes that may be under way or wait, in bytes.
pub(crate) fn channel(
    task_node: Arc<ReadyNode>,
    network_node: Arc<ReadyNode>,
    window: u64,
) -> (Feeder, RemoteEnd) {
    with_capacity(task_node, network_node, window, QUEUE_LEN)
}

/// As [`channel`], with room for so many deliveries.
pub(crate) fn with_capacity(
    task_node: Arc<ReadyNode>,
    network_node: Arc<ReadyNode>,
    window: u64,
    capacity: usize,
) -> (Feeder, RemoteEnd) {
    // Until the feeder's thread says that it looks by itself.
    network_node.begin_quiet();
    let shared = Arc::new(Shared {
        inbox: Inbox::new(capacity, task_node),
        priority: Queue::new(PriorityEvent::QUEUED_MAX),
        announced: AtomicU32::new(0),
        holds_back: AtomicBool::new(false),
        progress: ProgressCell::new(),
        pins: AtomicU64::new(0),
        left: AtomicBool::new(false),
        network_node,
        window,
        capacity,
    });
    (Feeder::new(shared.clone()), RemoteEnd { shared })
}
