//! A pair of fences of which one side is nearly free: for edges where one side runs per record and the other
//! once in a while.
//!
//! [`fence_light`] only keeps the compiler from reordering; [`fence_heavy`] has the kernel run a full barrier on
//! every processor that runs a thread of this process (`membarrier`, private expedited). Of two threads that each
//! store, fence and load what the other stores, at least one sees the other's store: if the light side's
//! processor has its barrier behind the store, the heavy side's load sees it; else its load comes after the
//! barrier, and with it after the heavy side's store.
//!
//! # Where the kernel has no such call
//! Both sides are plain fences. Which it is to be is settled before the first heavy fence goes on: a light side
//! that doesn't know yet, or knows it is plain, takes the full fence, which goes with either. Should the call
//! fail after it worked (a filter that was installed later), the light sides are told to take full fences, and
//! heavy sides wait, once, until all must have heard: a store is seen and a store buffer is drained in far less
//! than [`SETTLE`], and a light side that is interrupted in between has passed a full barrier by that.

use super::{AtomicU32, Ordering, fence, thread};
use std::time::Duration;

/// How long a heavy side waits for light sides that may not have heard that their fences are to be full.
const SETTLE: Duration = Duration::from_millis(10);

/// No heavy fence was asked for yet.
const UNKNOWN: u32 = 0;
const PLAIN: u32 = 1;
const ASYMMETRIC: u32 = 2;
/// It worked once, and doesn't any more: on the way to `PLAIN`.
const SETTLING: u32 = 3;

static MODE: AtomicU32 = AtomicU32::new(UNKNOWN);

/// The side that runs often.
#[inline]
pub(crate) fn fence_light(ordering: Ordering) {
    // Relaxed: whatever is read goes with what the other side does (module's text).
    if MODE.load(Ordering::Relaxed) == ASYMMETRIC {
        std::sync::atomic::compiler_fence(ordering);
    } else {
        fence(ordering);
    }
}

/// The side that runs seldom: some microseconds.
pub(crate) fn fence_heavy(ordering: Ordering) {
    // Nothing of this thread moves over the call.
    fence(ordering);
    let mut mode = settled();
    if mode == ASYMMETRIC {
        if call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
            return fence(ordering);
        }
        mode = SETTLING;
        MODE.store(mode, Ordering::Relaxed); // Relaxed: module's text
    }
    if mode == SETTLING {
        fence(ordering);
        thread::sleep(SETTLE);
        MODE.store(PLAIN, Ordering::Relaxed); // Relaxed: whoever reads `SETTLING` waits once more
    }
    fence(ordering);
}

/// Settles which it is, before anybody is in a hurry.
pub(crate) fn prepare_fences() {
    settled();
}

fn settled() -> u32 {
    match MODE.load(Ordering::Relaxed) {
        UNKNOWN => {
            // ThreadSanitizer sees plain fences only.
            let can = cfg!(not(pirn_tsan)) && call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
            let found = if can { ASYMMETRIC } else { PLAIN };
            // Relaxed: one word, and no data goes with it. Whoever comes second takes the first one's answer.
            match MODE.compare_exchange(UNKNOWN, found, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => found,
                Err(settled) => settled,
            }
        }
        mode => mode,
    }
}

fn call(command: libc::membarrier_cmd) -> bool {
    // SAFETY: it takes two numbers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

#[cfg(all(test, not(loom)))]
mod tests;
