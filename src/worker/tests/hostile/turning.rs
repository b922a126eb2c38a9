//! The test's own thread as the task that turns the attacked worker's reactor: whenever it waits for its peer.

use super::PATIENCE;
use crate::worker::{Reactor, Worker};
use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

const MOMENT: Duration = Duration::from_millis(1);

thread_local! {
    static REACTOR: RefCell<Option<Reactor>> = const { RefCell::new(None) };
}

/// While it lives, this thread turns a reactor.
pub(super) struct Turning(());

impl Turning {
    pub(super) fn begin(worker: &Worker) -> Self {
        REACTOR.set(Some(worker.reactor().unwrap()));
        Self(())
    }
}

impl Drop for Turning {
    fn drop(&mut self) {
        drop(REACTOR.take());
    }
}

/// Whether this thread must not block but in here.
pub(super) fn is_turning() -> bool {
    REACTOR.with_borrow(Option::is_some)
}

/// Waits for a moment.
pub(super) fn wait() {
    REACTOR.with_borrow(|reactor| match reactor {
        Some(reactor) => reactor.turn(Some(MOMENT)).unwrap(),
        None => std::thread::park_timeout(MOMENT),
    });
}

/// Turns the reactor without a wait, as a task does that has other work: the kernel makes small writes ever slower for
/// who sends much to somebody who doesn't read.
pub(super) fn turn() {
    REACTOR.with_borrow(|reactor| {
        if let Some(reactor) = reactor {
            reactor.turn(Some(Duration::ZERO)).unwrap();
        }
    });
}

/// Tries again what would block.
pub(super) fn patiently<T>(mut operation: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let start = Instant::now();
    loop {
        match operation() {
            Err(error) if error.kind() == ErrorKind::WouldBlock && is_turning() => {
                assert!(start.elapsed() < PATIENCE, "a peer waits in vain");
                wait();
            }
            result => return result,
        }
    }
}
