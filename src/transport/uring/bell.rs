//! The doorbell of a ring: an event counter that the ring reads, and anybody adds to.

use crate::sync::{AtomicU64, Ordering};
use rustix::event::{EventfdFlags, eventfd};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Wake, Waker};

/// The counter. It outlives the ring in the hands of wakers.
#[derive(Debug)]
struct Counter {
    file: File,
    /// Wake-ups so far, each a system call.
    rings: AtomicU64,
}

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // The counter takes 2^64 - 2 wake-ups before it would make anybody wait, and each read empties it. A
        // write of eight bytes to it has no other way to fail.
        let result = (&self.file).write(&1_u64.to_ne_bytes());
        self.rings.fetch_add(1, Ordering::Relaxed); // Relaxed: a statistic
        debug_assert!(result.is_ok(), "{result:?}");
    }
}

/// The ring's end: the counter, and where it is read to.
#[derive(Debug)]
pub(super) struct Bell {
    counter: Arc<Counter>,
    waker: Waker,
    /// Written by the kernel; never looked at.
    value: NonNull<u64>,
}

impl Bell {
    pub(super) fn new() -> io::Result<Self> {
        // Without `NONBLOCK`: a read of the ring shall wait.
        let file = eventfd(0, EventfdFlags::CLOEXEC)?;
        let counter = Arc::new(Counter { file: File::from(file), rings: AtomicU64::new(0) });
        let waker = Waker::from(Arc::clone(&counter));
        Ok(Self { counter, waker, value: NonNull::from(Box::leak(Box::new(0))) })
    }

    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }

    pub(super) fn file(&self) -> RawFd {
        self.counter.file.as_raw_fd()
    }

    /// How often it was rung.
    pub(super) fn rings(&self) -> u64 {
        self.counter.rings.load(Ordering::Relaxed) // Relaxed: a statistic
    }

    pub(super) fn value(&self) -> NonNull<u64> {
        self.value
    }

    /// The memory that is read to is left to the kernel.
    pub(super) fn leak(&mut self) {
        self.value = NonNull::dangling();
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        if self.value != NonNull::dangling() {
            // SAFETY: U2: the read is over, or `leak` was called; the address came from a leaked box.
            drop(unsafe { Box::from_raw(self.value.as_ptr()) });
        }
    }
}
