//! The one room that names atomics, cells and threads: std's in production, loom's in models.
//!
//! Everything above imports synchronisation from here, so that the models of `loom_tests/` check the
//! source that ships. Three things make the proofs bite:
//!
//! - [`sync!`]`(EDGE.site, Ordering)` stands wherever an access takes part in a happens-before edge. In
//!   production it is the literal ordering. Under loom the site named by `PIRN_MUTANT` is weakened, and
//!   a model has to notice (`cargo xtask mutants`).
//! - [`check!`]`(EDGE.site, condition)` marks a re-check or an epoch comparison that carries an edge; its
//!   mutant drops the condition, as if it held.
//! - [`Region`] is raw memory accessed by ranges. Under loom every granule of it is a tracked cell, so
//!   that a read that isn't ordered after the write it sees is a reported race.
//!
//! An access without `sync!` is `Relaxed`, and its comment says why that is enough.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this is the facade: the one place that names std's and loom's primitives"
)]

#[cfg(not(loom))]
mod asymmetric;
mod cell;
#[cfg(loom)]
pub(crate) mod mutant;
mod park;
mod prefetch;
#[cfg(not(loom))]
mod queue;
#[cfg(loom)]
mod queue_model;
mod region;
mod waker;

mod primitives {
    #[cfg(loom)]
    pub(crate) use loom::{
        hint::spin_loop,
        sync::{
            Mutex, MutexGuard,
            atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering},
        },
        thread,
    };
    #[cfg(not(loom))]
    pub(crate) use std::{
        hint::spin_loop,
        sync::{
            Mutex, MutexGuard,
            atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering},
        },
        thread,
    };
}

#[cfg(not(loom))]
pub(crate) use asymmetric::{fence_heavy, fence_light, prepare_fences};
pub(crate) use cell::Exclusive;
pub(crate) use crossbeam_utils::CachePadded;
pub(crate) use park::Parker;
#[cfg(not(loom))]
pub(crate) use park::{Turn, parks, set_turn, turn_now};
/// A model's threads turn nothing.
#[cfg(loom)]
pub(crate) fn turn_now() {}
pub(crate) use prefetch::prefetch_write;
pub(crate) use primitives::*;
#[cfg(not(loom))]
pub(crate) use queue::Queue;
#[cfg(loom)]
pub(crate) use queue_model::Queue;
pub(crate) use region::Region;
pub(crate) use waker::{Waiter, wake};

/// The ordering of one end of a numbered edge: `sync!(RING_E1.publish, Release)`.
#[cfg(not(loom))]
macro_rules! sync {
    ($id:ident . $site:ident, $ordering:ident) => {
        $crate::sync::Ordering::$ordering
    };
}
/// The ordering of one end of a numbered edge, weakened when `PIRN_MUTANT` names the site.
#[cfg(loom)]
macro_rules! sync {
    ($id:ident . $site:ident, $ordering:ident) => {{
        static SITE: $crate::sync::mutant::Site =
            $crate::sync::mutant::Site::new(concat!(stringify!($id), ".", stringify!($site)));
        SITE.ordering($crate::sync::Ordering::$ordering)
    }};
}
pub(crate) use sync;

/// A condition that carries an edge: `if !check!(RING_E4.epoch, mine == theirs) { return Err(Fenced) }`.
#[cfg(not(loom))]
macro_rules! check {
    ($id:ident . $site:ident, $condition:expr) => {
        $condition
    };
}
/// A condition that carries an edge, taken as true when `PIRN_MUTANT` names the site.
#[cfg(loom)]
macro_rules! check {
    ($id:ident . $site:ident, $condition:expr) => {
        ({
            static SITE: $crate::sync::mutant::Site =
                $crate::sync::mutant::Site::new(concat!(stringify!($id), ".", stringify!($site)));
            SITE.dropped()
        } || $condition)
    };
}
pub(crate) use check;

/// A fence whose ordering comes from [`sync!`]; `Relaxed` (a mutant) is no fence at all.
#[inline]
pub(crate) fn fence(ordering: Ordering) {
    #[cfg(loom)]
    if ordering != Ordering::Relaxed {
        loom::sync::atomic::fence(ordering);
    }
    #[cfg(all(not(loom), not(pirn_tsan)))]
    std::sync::atomic::fence(ordering);
    // ThreadSanitizer doesn't model fences; one shared read-modify-write gives it the same order.
    #[cfg(all(not(loom), pirn_tsan))]
    {
        static FENCE: AtomicU32 = AtomicU32::new(0);
        let _ = ordering;
        FENCE.fetch_add(0, Ordering::AcqRel);
    }
}

/// In models both sides are plain fences.
#[cfg(loom)]
pub(crate) fn fence_light(ordering: Ordering) {
    fence(ordering);
}
#[cfg(loom)]
pub(crate) fn fence_heavy(ordering: Ordering) {
    fence(ordering);
}
#[cfg(loom)]
pub(crate) fn prepare_fences() {}

/// Locks, and goes on with the data of a panicked holder: every critical section of this crate leaves
/// its data valid at each step, so poison carries no information here.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Publishes a word to the kernel, together with everything written before. The other end of the edge is the
/// kernel's acquire load of the same word, which no model can drive: so this is no edge of ours.
///
/// # Safety
/// `word` is valid, aligned, and accessed by nobody else but the kernel.
#[cfg(not(loom))]
pub(crate) unsafe fn publish_to_kernel(word: std::ptr::NonNull<u16>, value: u16) {
    // SAFETY: the caller's promise.
    let word = unsafe { std::sync::atomic::AtomicU16::from_ptr(word.as_ptr()) };
    word.store(value, Ordering::Release);
}
