//! Putting the calling thread to sleep until its waker is woken, or having it turn its reactor meanwhile.

use super::thread;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

#[cfg(not(loom))]
pub(crate) use turned::{Turn, parks, set_turn, turn_now};

/// The waker of one thread, for calls that block it.
///
/// A wake-up that comes before [`Parker::park`] makes that return at once, and it may return for nothing: the
/// caller looks at its condition in a loop.
#[derive(Debug)]
pub(crate) struct Parker {
    thread: thread::ThreadId,
    /// Which reactor the thread turns instead of sleeping.
    #[cfg(not(loom))]
    turn: Option<u64>,
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
        #[cfg(not(loom))]
        if let Some((turn, waker)) = turned::current() {
            return Self { thread: thread.id(), turn: Some(turn), waker };
        }
        Self {
            thread: thread.id(),
            #[cfg(not(loom))]
            turn: None,
            waker: Waker::from(Arc::new(Unpark(thread))),
        }
    }

    /// Whether this is the calling thread's.
    pub(crate) fn is_current(&self) -> bool {
        #[cfg(not(loom))]
        if self.turn != turned::number() {
            return false;
        }
        self.thread == thread::current().id()
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Sleeps until the waker is woken or `timeout` is over.
    pub(crate) fn park(&self, timeout: Option<Duration>) {
        debug_assert!(self.is_current());
        #[cfg(not(loom))]
        if self.turn.is_some() && turned::turn(timeout) {
            return;
        }
        #[cfg(not(loom))]
        turned::PARKS.fetch_add(1, super::Ordering::Relaxed); // Relaxed: a statistic
        // A model has no time: whatever is waited for must come.
        #[cfg(not(loom))]
        if let Some(timeout) = timeout {
            return thread::park_timeout(timeout);
        }
        let _ = timeout;
        thread::park();
    }
}

/// Threads that turn a reactor while they wait.
#[cfg(not(loom))]
mod turned {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;
    use std::task::Waker;
    use std::time::Duration;

    /// What a thread turns instead of sleeping.
    pub(crate) trait Turn {
        /// Ends a turn that waits.
        fn waker(&self) -> Waker;

        /// Does what there is to do, and waits for more until the waker is woken or `timeout` is over.
        fn turn(&self, timeout: Option<Duration>);
    }

    /// How often threads of this process slept in blocking calls.
    pub(super) static PARKS: super::super::AtomicU64 = super::super::AtomicU64::new(0);

    /// How often threads of this process slept in blocking calls of this library.
    pub(crate) fn parks() -> u64 {
        PARKS.load(super::super::Ordering::Relaxed) // Relaxed: a statistic
    }

    thread_local! {
        static TURN: RefCell<Option<Rc<dyn Turn>>> = const { RefCell::new(None) };
        /// Which one it is; 0 while there is none.
        static NUMBER: Cell<u64> = const { Cell::new(0) };
        static LAST: Cell<u64> = const { Cell::new(0) };
    }

    /// From now on blocking calls of this thread turn `turn`, or sleep again. False if there is one already.
    pub(crate) fn set_turn(turn: Option<Rc<dyn Turn>>) -> bool {
        if turn.is_some() && NUMBER.get() != 0 {
            return false;
        }
        NUMBER.set(0);
        if turn.is_some() {
            LAST.set(LAST.get() + 1);
            NUMBER.set(LAST.get());
        }
        let old = TURN.replace(turn);
        drop(old);
        true
    }

    pub(super) fn number() -> Option<u64> {
        Some(NUMBER.get()).filter(|number| *number != 0)
    }

    pub(super) fn current() -> Option<(u64, Waker)> {
        let turn = TURN.with_borrow(Clone::clone)?;
        Some((NUMBER.get(), turn.waker()))
    }

    /// False if there is none (any more).
    pub(super) fn turn(timeout: Option<Duration>) -> bool {
        // Not borrowed meanwhile: a turn may wake, and a waker may ask.
        let turn = TURN.with_borrow(Clone::clone);
        turn.inspect(|turn| turn.turn(timeout)).is_some()
    }

    /// Sends what this thread has published, if it turns a reactor; never waits.
    #[inline]
    pub(crate) fn turn_now() {
        if NUMBER.get() != 0 {
            let _is_there = turn(Some(Duration::ZERO));
        }
    }
}
