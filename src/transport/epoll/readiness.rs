//! Waits for sockets to become ready, or for a wake-up from any thread.

use crate::sync::{AtomicU64, Ordering};
use mio::{Events, Interest, Poll, Token, unix::SourceFd};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

/// What the system reports at once. More than that comes with the next wait.
pub(super) const EVENTS: usize = 1024;

/// The waker's name; sockets are named by their place in the table.
const BELL: Token = Token(usize::MAX);

/// `epoll_wait` rounds up to milliseconds, which is too much for waits that are shorter than this.
const COARSE: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Readiness {
    poll: Poll,
    events: Events,
    bell: Arc<Bell>,
    waker: Waker,
}

/// A hint that something can be done with the socket at `index` which couldn't before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) index: usize,
    /// There are bytes, an end or an error to be received.
    pub(super) readable: bool,
    /// There is room to send, or an error that a send would tell.
    pub(super) writable: bool,
    /// What is to be received ends: with the stream's end or with an error.
    pub(super) ends: bool,
    pub(super) error: bool,
}

#[derive(Debug)]
struct Bell {
    waker: mio::Waker,
    /// How often it was rung.
    rings: AtomicU64,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // E1: an eventfd that is open takes another count; if it is full, it is emptied first.
        let woken = self.waker.wake();
        assert!(woken.is_ok(), "E1: {woken:?}");
        // Relaxed: a number to show.
        self.rings.fetch_add(1, Ordering::Relaxed);
    }
}

impl Readiness {
    pub(super) fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = mio::Waker::new(poll.registry(), BELL)?;
        let bell = Arc::new(Bell { waker, rings: AtomicU64::new(0) });
        let waker = Waker::from(Arc::clone(&bell));
        Ok(Self { poll, events: Events::with_capacity(EVENTS), bell, waker })
    }

    /// How often the waker was woken, a system call each.
    pub(super) fn rings(&self) -> u64 {
        // Relaxed: a number to show.
        self.bell.rings.load(Ordering::Relaxed)
    }

    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Reports changes of `socket` from now on, under the name `index`. Ends when the socket is closed. (Had a
    /// fork left a duplicate open, what came of it would be hints for nobody, or false ones for the next
    /// socket at that place: readiness is never more than a hint.)
    pub(super) fn register(&self, socket: &impl AsRawFd, index: usize) -> io::Result<()> {
        let both = Interest::READABLE.add(Interest::WRITABLE);
        self.poll.registry().register(&mut SourceFd(&socket.as_raw_fd()), Token(index), both)
    }

    /// Waits for changes, a wake-up or `timeout`, and puts the changes into `changes`. Says how many system
    /// calls it took.
    pub(super) fn wait(&mut self, timeout: Option<Duration>, changes: &mut Vec<Change>) -> io::Result<u64> {
        let calls = self.sleep(timeout)?;
        changes.clear();
        for event in self.events.iter().filter(|event| event.token() != BELL) {
            let (ends, error) = (event.is_read_closed() || event.is_error(), event.is_error());
            changes.push(Change {
                index: event.token().0,
                readable: event.is_readable() || ends,
                writable: event.is_writable() || error,
                ends,
                error,
            });
        }
        Ok(calls)
    }

    fn sleep(&mut self, mut timeout: Option<Duration>) -> io::Result<u64> {
        let mut calls = 1;
        if let Some(short) = timeout
            && !short.is_zero()
            && short < COARSE
        {
            calls += 1;
            // An epoll descriptor is readable when it has something to report, and `ppoll` counts in
            // nanoseconds. Sooner or interrupted: the call below finds out.
            let short = Timespec::try_from(short).map_err(io::Error::other)?;
            let mut set = [PollFd::from_borrowed_fd(self.poll.registry().as_fd(), PollFlags::IN)];
            match rustix::event::poll(&mut set, Some(&short)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            timeout = Some(Duration::ZERO);
        }
        match self.poll.poll(&mut self.events, timeout) {
            Ok(()) => Ok(calls),
            // Nothing is reported then: the list was emptied before the call.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(calls),
            Err(error) => Err(error),
        }
    }
}
