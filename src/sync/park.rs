//! Putting the calling thread to sleep until its waker is woken.

use super::thread;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

/// The waker of one thread, for calls that block it.
///
/// A wake-up that comes before [`Parker::park`] makes that return at once, and it may return for nothing: the
/// caller looks at its condition in a loop.
#[derive(Debug)]
pub(crate) struct Parker {
    thread: thread::ThreadId,
    waker: Waker,
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

impl Parker {
    /// The calling thread's.
    pub(crate) fn current() -> Self {
        let thread = thread::current();
        Self { thread: thread.id(), waker: Waker::from(Arc::new(Unpark(thread))) }
    }

    /// Whether this is the calling thread's.
    pub(crate) fn is_current(&self) -> bool {
        self.thread == thread::current().id()
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Sleeps until the waker is woken or `timeout` is over.
    pub(crate) fn park(&self, timeout: Option<Duration>) {
        debug_assert!(self.is_current());
        // A model has no time: whatever is waited for must come.
        #[cfg(not(loom))]
        if let Some(timeout) = timeout {
            return thread::park_timeout(timeout);
        }
        let _ = timeout;
        thread::park();
    }
}
