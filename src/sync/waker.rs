//! A place for the waker of the one task that waits.

use super::{Mutex, lock};
use std::task::Waker;

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
                waker.wake();
                true
            }
            None => false,
        }
    }
}
