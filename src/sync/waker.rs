//! Sleeping and waking of the one task that waits for something.
//!
//! # Guarantees
//! A condition made true before [`Waiter::notify`] is either seen by the re-check that the sleeper does
//! after [`Waiter::announce`], or its waker is woken. Neither side takes a lock unless somebody sleeps.
//!
//! # Edges
//! `WAKE_F1`: two full fences (store buffering). Sleeper: `waiting = true`, fence, look at the condition.
//! Notifier: make the condition true, fence, look at `waiting`. At least one of the two looks sees the
//! other's store. Without either fence both may look at old values, and the sleeper sleeps for ever.

use super::{AtomicBool, Mutex, Ordering, fence, lock, sync};
use std::task::Waker;

/// Wakes a task. A waker is foreign code, run by whoever happens to notify: another task's thread in the
/// middle of its record, a release that has more to tell, the thread that keeps the time. Its panic is the
/// waking task's own trouble: the panic hook has reported it, and nobody else is hurt.
pub(crate) fn wake(waker: Waker) {
    // A panic in a model is the model's verdict.
    #[cfg(loom)]
    waker.wake();
    #[cfg(not(loom))]
    drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| waker.wake())));
}

/// Holds at most one waker. The lock is held for a move only: never while a waker is cloned, woken or
/// dropped, since those run foreign code.
#[derive(Debug)]
pub(crate) struct WakerSlot(Mutex<Option<Waker>>);

impl WakerSlot {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Puts `waker` in place of the one before.
    pub(crate) fn register(&self, waker: &Waker) {
        let fresh = waker.clone();
        let old = lock(&self.0).replace(fresh);
        drop(old);
    }

    /// Wakes and forgets the waker, if there is one. Tells whether there was.
    pub(crate) fn wake(&self) -> bool {
        let waker = lock(&self.0).take();
        match waker {
            Some(waker) => {
                wake(waker);
                true
            }
            None => false,
        }
    }
}

/// One task's place to sleep: a flag that notifiers look at, and the waker behind it.
#[derive(Debug)]
pub(crate) struct Waiter {
    waiting: AtomicBool,
    waker: WakerSlot,
}

impl Waiter {
    pub(crate) fn new() -> Self {
        Self { waiting: AtomicBool::new(false), waker: WakerSlot::new() }
    }

    /// Says that the task is about to sleep. The caller looks at its condition once more afterwards, and
    /// sleeps only if it is still false; otherwise it calls [`Waiter::retract`].
    pub(crate) fn announce(&self, waker: &Waker) {
        self.waker.register(waker);
        // Relaxed: the fence orders it before the look at the condition. The waker is seen by whoever
        // sees the flag: had the notifier locked the slot before `register` did, its look at the flag
        // would happen before this swap and could not have read it. The flag changes by swaps only, on both
        // sides: each follows the one that it read, so a notifier that took an older announcement away has
        // not hidden this one from its next look. (Of a plain store loom doesn't know that.)
        self.waiting.swap(true, Ordering::Relaxed);
        fence(sync!(WAKE_F1.sleeper, SeqCst));
    }

    /// The task goes on without sleeping.
    pub(crate) fn retract(&self) {
        // Relaxed: only spares a wake-up that would be spurious.
        self.waiting.swap(false, Ordering::Relaxed);
    }

    /// Whether the task sleeps or is about to; a hint.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) // Relaxed: a hint
    }

    /// Wakes the task if it sleeps or is about to. Called after the condition was made true.
    pub(crate) fn notify(&self) -> bool {
        self.notify_if(|| true)
    }

    /// The same for a sleeper that has said, before it announced itself, what is worth waking it: `is_worth` looks
    /// at that, and at the condition. It sees what the sleeper said, or the sleeper's look sees what the caller did,
    /// by the same two fences.
    pub(crate) fn notify_if(&self, is_worth: impl FnOnce() -> bool) -> bool {
        fence(sync!(WAKE_F1.notifier, SeqCst));
        // Relaxed: the fence orders the look after the caller's store; of several notifiers the swap
        // lets one pay for the wake-up.
        if self.waiting.load(Ordering::Relaxed) && is_worth() && self.waiting.swap(false, Ordering::Relaxed) {
            return self.waker.wake();
        }
        false
    }
}
