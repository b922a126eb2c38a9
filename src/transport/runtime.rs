//! A thread that sleeps in a runtime of tokio-uring, until a descriptor is readable.
//!
//! The runtime is entered for the sleep alone: what the thread does between sleeps, such as waking tasks, may do
//! what a runtime forbids, dropping another one for example.
//!
//! # Invariants
//! - T1 The descriptor that the runtime is registered with is owned by its registration: it is open, and names
//!   the same file, until the registration is gone.

#[cfg(all(test, not(loom)))]
mod tests;

use super::TransportError;
use super::uring::KernelRing;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;
use std::{fmt, io};
use tokio::io::{Interest, unix::AsyncFd};
use tokio_uring::Runtime;

/// See the module's text. Belongs to the thread that made it.
pub(crate) struct RuntimeSleep {
    /// Before the runtime, which it is registered with.
    awaited: AsyncFd<OwnedFd>,
    runtime: Runtime,
}

impl RuntimeSleep {
    /// Makes a runtime for the thread that calls, which waits for a duplicate of `descriptor`.
    ///
    /// # Errors
    /// [`TransportError::Uring`]: io_uring is refused, at whatever step; at some the runtime would panic, so that
    /// a ring is tried first. Or there are no descriptors left.
    pub(crate) fn open(descriptor: BorrowedFd<'_>) -> Result<Self, TransportError> {
        KernelRing::tried().map_err(|(step, source)| TransportError::uring(step, source))?;
        let refused = |error| TransportError::uring("the runtime of tokio-uring", error);
        let descriptor = descriptor.try_clone_to_owned().map_err(refused)?;
        let runtime = Runtime::new(&tokio_uring::builder()).map_err(refused)?;
        let register = async {
            // SAFETY: T1: the registration owns it, and nothing here takes it out or closes it.
            unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }
        };
        let awaited = runtime.block_on(register).map_err(|error| refused(error.into()))?;
        Ok(Self { awaited, runtime })
    }

    /// Sleeps until the descriptor becomes readable, for at most `longest`, to the millisecond. What made it so
    /// before is told once: whoever calls takes all that is there before the next sleep.
    ///
    /// # Errors
    /// The runtime can't wait for the descriptor.
    pub(crate) fn sleep(&self, longest: Duration) -> io::Result<()> {
        self.runtime.block_on(async {
            match tokio::time::timeout(longest, self.awaited.readable()).await {
                // Before the caller looks: what comes after that look makes it ready anew.
                Ok(ready) => ready.map(|mut ready| ready.clear_ready()),
                Err(_) => Ok(()),
            }
        })
    }
}

impl fmt::Debug for RuntimeSleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeSleep").field("awaited", &self.awaited).finish_non_exhaustive()
    }
}
