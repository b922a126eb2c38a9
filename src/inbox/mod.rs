//! What another thread hands to a task: a bounded queue with an end, and the doorbell of the task's gate.
//!
//! The mirror image of `subpartition`: there a task hands entries to whoever serves its consumer; here a
//! network thread or a binder hands items to the task that owns an input channel.
//!
//! # Guarantees
//! FIFO; every item pushed before [`Inbox::close`] is popped before [`Popped::Closed`] is seen; the owner is
//! woken for the first item after it looked. Pushing takes no lock.
//!
//! # Edges
//! `INBOX_E1` closed (close → pop): a pop that sees the end looks at the queue once more, and by this edge
//! finds whatever was pushed before the end. Who hands something over and the owner that ends at the same moment
//! can't both miss the other's store, so that one of them lets go of what is left: `DOOR_E1`.

#[allow(dead_code, reason = "on its way to `net`")]
mod remote;

#[allow(unused_imports, reason = "for `net`, tests and models")]
pub(crate) use remote::{
    Chunk, Consumed, Delivery, Feeder, Over, Picture, Progress, RemoteEnd, RemoteEvent, RemoteGrant,
    RemoteReader, RemoteWatch, channel, with_capacity,
};

use crate::doorbell::ReadyNode;
use crate::sync::{AtomicBool, Ordering, Queue, check, sync};
use std::sync::Arc;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    queue: Queue<T>,
    closed: AtomicBool,
    node: Arc<ReadyNode>,
}

/// What a pop found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Popped<T> {
    Item(T),
    /// Nothing now.
    Empty,
    /// Nothing, and nothing will come.
    Closed,
}

impl<T> Inbox<T> {
    /// `node` is rung for what is pushed.
    pub(crate) fn new(capacity: usize, node: Arc<ReadyNode>) -> Self {
        Self { queue: Queue::new(capacity), closed: AtomicBool::new(false), node }
    }

    /// Hands an item over; gives it back when the queue is full or nobody will pop any more.
    pub(crate) fn push(&self, item: T) -> Result<(), T> {
        self.push_silently(item)?;
        self.node.ring();
        Ok(())
    }

    /// The same, and nobody is told: the caller rings the node when it has pushed what it has.
    pub(crate) fn push_silently(&self, item: T) -> Result<(), T> {
        // Relaxed: a push that misses the end is dropped with the queue.
        if self.closed.load(Ordering::Relaxed) {
            return Err(item);
        }
        self.queue.push(item)
    }

    /// Hands an item to an owner that may [`Inbox::end`]: it is popped by it, or let go. Gives it back when the
    /// queue is full.
    pub(crate) fn hand(&self, item: T) -> Result<(), T> {
        self.queue.push(item)?;
        // The ring stands between this push and this look, and another between the owner's end and its last look: of
        // two swaps of one word the later sees what came before the earlier (DOOR_E1).
        self.node.ring();
        if self.is_closed() {
            self.let_go();
        }
        Ok(())
    }

    /// The owner pops no more: what is left, and what comes at this moment, is let go.
    pub(crate) fn end(&self) {
        // It rings: see `hand`.
        self.close();
        self.let_go();
    }

    fn let_go(&self) {
        while let Some(item) = self.queue.pop() {
            drop(item);
        }
    }

    /// Nothing comes after what was pushed before.
    pub(crate) fn close(&self) {
        self.closed.store(true, sync!(INBOX_E1.close, Release));
        self.node.ring();
    }

    /// Whether nobody will pop any more, or nothing will be pushed; a hint.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed) // Relaxed: a hint
    }

    /// Whether nothing waits right now; a hint.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The owner takes the oldest item.
    pub(crate) fn pop(&self) -> Popped<T> {
        if let Some(item) = self.queue.pop() {
            return Popped::Item(item);
        }
        if !self.closed.load(sync!(INBOX_E1.pop, Acquire)) {
            return Popped::Empty;
        }
        // The end was set after the last push: what the first look missed is there now. (The mutant of
        // this look does without it.)
        let item = if check!(INBOX_E1.relook, false) { None } else { self.queue.pop() };
        item.map_or(Popped::Closed, Popped::Item)
    }
}
