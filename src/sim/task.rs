//! What tasks are woken by.

use crate::sync::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{Wake, Waker};

/// Whether a task was woken since it was polled last.
#[derive(Debug)]
pub(super) struct Flag(AtomicBool);

impl Flag {
    /// A task that was just spawned has to be polled.
    pub(super) fn new() -> (Arc<Self>, Waker) {
        let flag = Arc::new(Self(AtomicBool::new(true)));
        (flag.clone(), Waker::from(flag))
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) // Relaxed: one thread
    }

    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed); // Relaxed: one thread
    }

    pub(super) fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed) // Relaxed: one thread
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.set();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.set();
    }
}
