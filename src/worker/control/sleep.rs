//! What the control thread sleeps in: its poll, or a runtime of tokio-uring that waits for the poll's descriptor.
//! The loop is the same in both.

use crate::transport::Io;
use mio::Poll;
use std::time::Duration;
#[cfg(feature = "tokio-uring")]
use {crate::metrics::cold_event, crate::transport::RuntimeSleep, std::os::fd::AsFd};

/// See the module's text.
#[derive(Debug)]
pub(super) enum Sleeper {
    Poll,
    #[cfg(feature = "tokio-uring")]
    Runtime(RuntimeSleep),
}

impl Sleeper {
    /// For the thread that calls. Not a runtime where io_uring is refused, nor with [`Io::Epoll`]: whoever asks
    /// for that may be where io_uring isn't refused but punished.
    #[cfg_attr(not(feature = "tokio-uring"), allow(unused_variables, reason = "there is one way to sleep"))]
    pub(super) fn open(io: Io, poll: &Poll) -> Self {
        #[cfg(feature = "tokio-uring")]
        if io != Io::Epoll {
            match RuntimeSleep::open(poll.registry().as_fd()) {
                Ok(runtime) => return Self::Runtime(runtime),
                Err(refusal) => {
                    let (step, errno) = (refusal.step(), refusal.errno());
                    cold_event!(warn, step, errno, %refusal, "the control thread goes without tokio-uring");
                }
            }
        }
        Self::Poll
    }

    /// Sleeps until the poll has events, for at most `longest`. How long the poll is still to sleep: not at
    /// all, or `longest` if this is its affair. Before, the poll has taken all events that there were.
    pub(super) fn sleep(&self, longest: Duration) -> Duration {
        match self {
            Self::Poll => longest,
            #[cfg(feature = "tokio-uring")]
            Self::Runtime(_) if longest.is_zero() => longest,
            #[cfg(feature = "tokio-uring")]
            Self::Runtime(runtime) => match runtime.sleep(longest) {
                Ok(()) => Duration::ZERO,
                Err(error) => {
                    cold_event!(error, error = %error, "tokio-uring can't wait for the control thread's poll");
                    longest
                }
            },
        }
    }
}
