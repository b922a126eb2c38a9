//! The network thread's end of a remote channel.

use super::{Chunk, Delivery, Progress, Shared};
use crate::doorbell::ReadyNode;
use crate::event::PriorityEvent;
use crate::record::UNIFORM_NONE;
use crate::sync::{Ordering, sync};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;

/// Held deliveries from which on small ones are put together.
const HELD_LONG: usize = 16;

/// Stream bytes of deliveries put together, at most. Two neighbours have more than this, so what is held is
/// at most one delivery for each 4 KiB of the window, and the events between.
const MERGED_BYTES_MAX: usize = 8 * 1024;

/// See the module's text. Dropping it tells the task that the network is gone, unless an
/// [`Over`](super::Over) was pushed before.
#[derive(Debug)]
pub(crate) struct Feeder {
    shared: Arc<Shared>,
    /// What the queue didn't take, in order.
    held: VecDeque<Held>,
    /// The last picture read.
    progress: Progress,
}

#[derive(Debug)]
enum Held {
    Whole(Delivery),
    /// Small data put together.
    Merged {
        uniform: u32,
        bytes: Vec<u8>,
    },
}

impl Held {
    fn into_delivery(self) -> Delivery {
        match self {
            Self::Whole(delivery) => delivery,
            Self::Merged { uniform, bytes } => {
                Delivery::Data { uniform, bytes: Chunk::Heap(Bytes::from(bytes)) }
            }
        }
    }

    /// Takes `more` in, if the two together are small.
    fn merge(&mut self, more_uniform: u32, more: &[u8]) -> bool {
        let fits = |own: usize| own + more.len() <= MERGED_BYTES_MAX;
        match self {
            Self::Merged { uniform, bytes } if fits(bytes.len()) => {
                *uniform = shared_length(*uniform, more_uniform);
                bytes.extend_from_slice(more);
            }
            Self::Whole(Delivery::Data { uniform, bytes }) if fits(bytes.len()) => {
                let mut merged = Vec::with_capacity(MERGED_BYTES_MAX);
                merged.extend_from_slice(bytes);
                merged.extend_from_slice(more);
                *self = Self::Merged { uniform: shared_length(*uniform, more_uniform), bytes: merged };
            }
            _ => return false,
        }
        true
    }
}

/// The length that all records of two stretches share.
fn shared_length(first: u32, second: u32) -> u32 {
    if first == second { first } else { UNIFORM_NONE }
}

impl Feeder {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, held: VecDeque::new(), progress: Progress::default() }
    }

    /// The node that the task rings: the one that the channel was made with.
    pub(crate) fn node(&self) -> &Arc<ReadyNode> {
        &self.shared.network_node
    }

    /// The feeder's thread looks by itself for how far the task is, until [`Feeder::rest`].
    pub(crate) fn watch(&self) {
        self.shared.network_node.stir();
    }

    /// It looks no more: from now on the task rings for everything. To be followed by a last look
    /// ([`Feeder::flush`], [`Feeder::progress`]).
    pub(crate) fn rest(&self) {
        self.shared.network_node.fall_quiet();
    }

    /// The channel's window, in stream bytes.
    pub(crate) fn window(&self) -> u64 {
        self.shared.window
    }

    /// Hands a delivery over, and wakes the task if it sleeps. What the queue doesn't take waits here for
    /// [`Feeder::flush`]; a task that is gone gets nothing.
    pub(crate) fn push(&mut self, delivery: Delivery) {
        if self.push_silently(delivery) {
            self.ring();
        }
    }

    /// The same without waking the task: true if there is something to wake it for, which is then the caller's to do
    /// ([`Feeder::ring`]), once for all that it pushes.
    #[must_use]
    pub(crate) fn push_silently(&mut self, delivery: Delivery) -> bool {
        if self.is_closed() {
            return false;
        }
        let mut moved = !self.held.is_empty() && self.hand_over();
        if self.held.is_empty() {
            match self.shared.inbox.push_silently(delivery) {
                Ok(()) => moved = true,
                Err(delivery) => {
                    self.held.push_back(Held::Whole(delivery));
                    self.say_holding(true);
                }
            }
            return moved;
        }
        if let Delivery::Data { uniform, bytes } = &delivery
            && self.held.len() >= HELD_LONG
            && self.held.back_mut().is_some_and(|last| last.merge(*uniform, bytes))
        {
            return moved;
        }
        self.held.push_back(Held::Whole(delivery));
        moved
    }

    /// Wakes the task if it sleeps.
    pub(crate) fn ring(&self) {
        self.shared.inbox.node.ring();
    }

    /// Hands over what waits here, as far as there is room: to be called when the node was rung. Tells whether
    /// nothing is left.
    pub(crate) fn flush(&mut self) -> bool {
        if self.is_closed() {
            self.held = VecDeque::new();
        }
        if self.hand_over() {
            self.ring();
        }
        self.held.is_empty()
    }

    /// Moves what waits here into the queue; tells whether anything was moved.
    fn hand_over(&mut self) -> bool {
        let mut moved = false;
        while let Some(first) = self.held.pop_front() {
            if let Err(first) = self.shared.inbox.push_silently(first.into_delivery()) {
                self.held.push_front(Held::Whole(first));
                break;
            }
            moved = true;
            if self.held.is_empty() {
                self.say_holding(false);
            }
        }
        moved
    }

    fn say_holding(&self, holding: bool) {
        // Relaxed: a hint that makes the task ring earlier than when it runs dry.
        self.shared.holds_back.store(holding, Ordering::Relaxed);
    }

    /// Hands a priority event over, past all deliveries. False when eight wait: again when the node was rung.
    pub(crate) fn push_priority(&mut self, event: PriorityEvent) -> bool {
        if self.shared.priority.push(event).is_err() {
            return false;
        }
        // Relaxed: a hint, stored by this thread only and seen after the ring.
        let announced = self.shared.announced.load(Ordering::Relaxed).wrapping_add(1);
        self.shared.announced.store(announced, Ordering::Relaxed);
        self.shared.inbox.node.ring();
        true
    }

    /// How far the task has come. Looked for after the node was cleared it is at least what the ring was for,
    /// or the task is about to ring again.
    pub(crate) fn progress(&mut self) -> Progress {
        if let Some(newer) = self.shared.progress.read() {
            self.progress = newer;
        }
        self.progress.pinned = self.shared.pinned();
        self.progress
    }

    /// Whether the task reads no more: then [`Feeder::progress`] is final.
    pub(crate) fn is_closed(&self) -> bool {
        self.shared.left.load(sync!(FEED_E1.closed, Acquire))
    }

    /// Deliveries that wait here.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        self.shared.inbox.close();
    }
}
