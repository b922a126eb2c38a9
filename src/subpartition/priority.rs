//! The ring of priority events: eight small messages that overtake everything.
//!
//! # Guarantees
//! FIFO among themselves; at most [`PriorityEvent::QUEUED_MAX`] wait; each is taken once by the reader of
//! the current bind epoch. Nobody waits.
//!
//! # Layout and ownership
//! `tail` (events pushed, by the writer), `head` `{epoch 32 | events taken 32}` (by the reader of that
//! epoch, or the binder), 8 messages of 8 words (by the writer outside of `[head, tail)`).
//!
//! # Invariants
//! - I1 `head <= tail <= head + 8`, counted modulo 2^32.
//! - I2 The writer stores into a message only outside of `[head, tail)`. A reader uses what it read only if
//!   its compare-and-swap on `head` succeeds: then the message was in the range all the while.
//!
//! # Edges
//! `PRIO_E1` tail (push → take): the message's words. `PRIO_E2` head (take → push): the reader has read the
//! words that the writer now overwrites; (take → bump): the binder sees every push that the reader saw.
//! `PRIO_E3` epoch comparison: an older reader takes nothing.

use crate::event::PriorityEvent;
use crate::id::BindEpoch;
use crate::sync::{AtomicU32, AtomicU64, CachePadded, Ordering, check, sync};

use super::ring::Fenced;

const MESSAGES: u32 = PriorityEvent::QUEUED_MAX as u32;

#[derive(Debug)]
pub(crate) struct PriorityRing {
    tail: CachePadded<AtomicU32>,
    head: CachePadded<AtomicU64>,
    messages: [[AtomicU64; 8]; MESSAGES as usize],
}

/// All eight places are taken; the reader has to come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

fn split(head: u64) -> (BindEpoch, u32) {
    (BindEpoch((head >> 32) as u32), head as u32)
}

fn join(epoch: BindEpoch, count: u32) -> u64 {
    u64::from(epoch.0) << 32 | u64::from(count)
}

impl PriorityRing {
    pub(crate) fn new() -> Self {
        Self {
            tail: CachePadded::new(AtomicU32::new(0)),
            head: CachePadded::new(AtomicU64::new(join(BindEpoch::NEVER, 0))),
            messages: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))),
        }
    }

    fn message(&self, count: u32) -> &[AtomicU64; 8] {
        &self.messages[(count % MESSAGES) as usize]
    }

    /// Writer.
    pub(crate) fn push(&self, event: PriorityEvent) -> Result<(), Full> {
        let tail = self.tail.load(Ordering::Relaxed); // Relaxed: the writer's own word
        let (_, head) = split(self.head.load(sync!(PRIO_E2.push, Acquire)));
        if tail.wrapping_sub(head) >= MESSAGES {
            return Err(Full);
        }
        for (word, value) in self.message(tail).iter().zip(event.to_words()) {
            word.store(value, Ordering::Relaxed); // Relaxed: published by `tail`
        }
        self.tail.store(tail.wrapping_add(1), sync!(PRIO_E1.push, Release));
        Ok(())
    }

    /// Whether something waits; a hint.
    pub(crate) fn is_empty(&self) -> bool {
        let (_, head) = split(self.head.load(Ordering::Relaxed)); // Relaxed: a hint
        self.tail.load(Ordering::Relaxed) == head // Relaxed: a hint
    }

    /// Reader of `epoch`.
    pub(crate) fn take(&self, epoch: BindEpoch) -> Result<Option<PriorityEvent>, Fenced> {
        let now = self.head.load(Ordering::Relaxed); // Relaxed: confirmed by the compare-and-swap
        let (owner, head) = split(now);
        if !check!(PRIO_E3.take_epoch, owner == epoch) {
            return Err(Fenced);
        }
        if self.tail.load(sync!(PRIO_E1.take, Acquire)) == head {
            return Ok(None);
        }
        // Relaxed: after the acquire load above.
        let words = std::array::from_fn(|index| self.message(head)[index].load(Ordering::Relaxed));
        let next = join(owner, head.wrapping_add(1));
        let swapped = self.head.compare_exchange(now, next, sync!(PRIO_E2.take, Release), Ordering::Relaxed);
        swapped.map(|_| Some(PriorityEvent::from_words(words))).map_err(|_| Fenced)
    }

    /// Binder: only `epoch` takes from here on.
    pub(crate) fn bump(&self, epoch: BindEpoch) {
        let mut now = self.head.load(Ordering::Relaxed); // Relaxed: confirmed by the compare-and-swap
        // Acquire: the binder sees the tail that the old reader saw, or more. An older one would be behind
        // the head, and look like a ring that never gets empty.
        while let Err(seen) = self.head.compare_exchange_weak(
            now,
            join(epoch, split(now).1),
            sync!(PRIO_E2.bump, Acquire),
            Ordering::Relaxed,
        ) {
            now = seen;
        }
    }

    /// Binder, after `bump(epoch)`: drops what waits and says how many.
    pub(crate) fn drain(&self, epoch: BindEpoch) -> u64 {
        let mut dropped = 0;
        while let Ok(Some(_)) = self.take(epoch) {
            dropped += 1;
        }
        dropped
    }
}
