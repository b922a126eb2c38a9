//! A core that the task's own thread turns: no hop between the task and its sockets.
//!
//! While a thread has a reactor, its blocking calls turn it instead of sleeping, its partitions are served by it,
//! and its gates read by it. One reactor a thread.

use super::core::NetCore;
use super::endpoint::{Command, Endpoint};
use crate::metrics::cold_event;
use crate::sync::{AtomicBool, Ordering, Turn, set_turn, thread};
use crate::transport::{AnyTransport, Transport};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

/// How long a reactor that is dropped may take to say its last words.
const LAST_WORDS: Duration = Duration::from_millis(10);

thread_local! {
    static ENDPOINT: RefCell<Option<Arc<Endpoint>>> = const { RefCell::new(None) };
}

/// The endpoint of the reactor that this thread turns, if it does.
pub(crate) fn own_endpoint() -> Option<Arc<Endpoint>> {
    ENDPOINT.with_borrow(Clone::clone)
}

/// See the module's text. Registered for its thread until it is dropped.
pub(crate) struct Turned {
    shared: Rc<Shared>,
    endpoint: Arc<Endpoint>,
}

struct Shared {
    core: RefCell<Option<(NetCore, AnyTransport)>>,
    /// To be done once the core is gone.
    gone: Cell<Option<Box<dyn FnOnce()>>>,
    /// The core is to end its connections within so long, and to go.
    farewell: Cell<Option<Duration>>,
    note: Arc<Note>,
    waker: Waker,
}

/// A wake-up by the thread itself costs a note, not a system call.
#[derive(Debug)]
pub(super) struct Note {
    thread: thread::Thread,
    is_set: AtomicBool,
    /// Nobody looks at it any more: who waits with its waker sleeps as threads without a reactor do.
    is_over: AtomicBool,
    wakes: Waker,
}

impl Note {
    /// Whether the thread has woken itself since this was asked last.
    pub(super) fn take(&self) -> bool {
        self.is_set.swap(false, Ordering::Relaxed) // Relaxed: this thread's own
    }
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if thread::current().id() == self.thread.id() && !self.is_over.load(Ordering::Relaxed) {
            // Relaxed: both are read by the same thread
            self.is_set.store(true, Ordering::Relaxed);
        } else {
            self.wakes.wake_by_ref();
            // Where it sleeps once the transport is gone.
            self.thread.unpark();
        }
    }
}

impl Turned {
    /// `None` if this thread has one already.
    /// `gone` is called once, when it is of no use any more: at its end, or when its transport failed.
    pub(crate) fn new(
        mut core: NetCore,
        transport: AnyTransport,
        endpoint: Arc<Endpoint>,
        gone: Box<dyn FnOnce()>,
    ) -> Option<Self> {
        let thread = thread::current();
        let wakes = transport.waker().clone();
        let note =
            Arc::new(Note { thread, is_set: AtomicBool::new(false), is_over: AtomicBool::new(false), wakes });
        core.note = Some(note.clone());
        let waker = Waker::from(note.clone());
        let core = RefCell::new(Some((core, transport)));
        let (none, farewell) = (Cell::new(None), Cell::new(None));
        let shared = Rc::new(Shared { core, gone: none, farewell, note, waker });
        if !set_turn(Some(shared.clone())) {
            return None;
        }
        shared.gone.set(Some(gone));
        ENDPOINT.set(Some(endpoint.clone()));
        Some(Self { shared, endpoint })
    }

    /// One turn. False when the end has come.
    pub(crate) fn turn(&self, timeout: Option<Duration>) -> io::Result<bool> {
        self.shared.turn_once(|core, transport| core.turn_through(transport, timeout))
    }

    pub(crate) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }
}

impl Shared {
    fn turn_once(
        &self,
        turn: impl FnOnce(&mut NetCore, &mut AnyTransport) -> io::Result<bool>,
    ) -> io::Result<bool> {
        // Asked for by what a turn has woken: the turn under way does it.
        let turned = {
            let Ok(mut core) = self.core.try_borrow_mut() else { return Ok(true) };
            let Some((core, transport)) = &mut *core else { return Ok(false) };
            turn(core, transport)
        };
        match (turned, self.farewell.take()) {
            // It was dropped by what this turn has woken.
            (Ok(_), Some(patience)) => {
                self.end(patience);
                Ok(false)
            }
            (Ok(goes_on), None) => Ok(goes_on),
            (Err(error), _) => {
                // Its channels learn that nobody feeds them any more, and whoever waits for them looks again.
                self.drop_core();
                Err(error)
            }
        }
    }

    /// Ends the connections in order, within `patience`; or, inside of a turn, once that is over.
    fn end(&self, patience: Duration) {
        let Ok(core) = self.core.try_borrow() else { return self.farewell.set(Some(patience)) };
        let is_told =
            core.as_ref().is_some_and(|(core, _)| core.endpoint().send(Command::Stop(patience)).is_ok());
        drop(core);
        if is_told {
            // Ends by itself: after `patience` at the latest, or when the transport fails.
            while let Ok(true) =
                self.turn_once(|core, transport| core.turn_through(transport, Some(patience)))
            {}
        }
        self.drop_core();
    }

    fn drop_core(&self) {
        // Not borrowed while it is dropped: that wakes tasks, which may ask.
        let core = self.core.borrow_mut().take();
        drop(core);
        if let Some(gone) = self.gone.take() {
            gone();
        }
    }

    fn sleep(&self, timeout: Option<Duration>) {
        match timeout {
            _ if self.note.take() => {}
            Some(timeout) => thread::park_timeout(timeout),
            None => thread::park(),
        }
    }
}

impl Turn for Shared {
    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn turn(&self, timeout: Option<Duration>) {
        // A call that blocks is made again by a task that goes on: what is due by then is said then. Only who turns
        // the reactor by hand may stay away.
        match self.turn_once(|core, transport| core.turn(transport, timeout)) {
            Ok(true) => {}
            // There is nothing to turn any more: the thread waits as one without a reactor does.
            Ok(false) => self.sleep(timeout),
            Err(error) => {
                cold_event!(error, %error, "a reactor can't go on: its transport failed");
            }
        }
    }
}

impl Drop for Turned {
    fn drop(&mut self) {
        ENDPOINT.set(None);
        set_turn(None);
        // A blocking call under way has this one's waker: what woke it until now is not to be slept through.
        self.shared.note.is_over.store(true, Ordering::Relaxed); // Relaxed: read by the same thread
        thread::current().unpark();
        self.shared.end(LAST_WORDS);
    }
}

impl std::fmt::Debug for Turned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turned").field("endpoint", &self.endpoint.number()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

    use super::*;
    use crate::clock::Monotonic;
    use crate::sync::Parker;

    /// What waits on after its transport has failed.
    fn without_core() -> Rc<Shared> {
        let (thread, wakes) = (thread::current(), Waker::noop().clone());
        let note =
            Arc::new(Note { thread, is_set: AtomicBool::new(false), is_over: AtomicBool::new(false), wakes });
        let (core, gone, farewell) = (RefCell::new(None), Cell::new(None), Cell::new(None));
        Rc::new(Shared { core, gone, farewell, note: note.clone(), waker: Waker::from(note) })
    }

    #[test]
    fn a_thread_whose_reactor_failed_sleeps_until_it_is_woken() {
        assert!(set_turn(Some(without_core())));
        let parker = Parker::current();
        let pause = Duration::from_millis(20);
        let clock = Monotonic::start();
        let start = clock.now();
        parker.park(Some(pause));
        let slept = clock.now().since(start);
        assert!(slept >= pause, "it doesn't spin: {slept:?}");
        // By itself, and by another thread.
        parker.waker().wake_by_ref();
        parker.park(None);
        let waker = parker.waker().clone();
        let other = thread::spawn(move || waker.wake());
        parker.park(None);
        other.join().unwrap();
        set_turn(None);
    }
}
