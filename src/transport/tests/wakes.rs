//! Wake-ups from any thread.

use super::super::Transport;
use super::{Backend, Rig};
use crate::clock::Monotonic;
use crate::sync::thread;
use crate::test_size;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Longer than any wake-up takes, and short enough to wait for.
const LONG: Duration = Duration::from_secs(20);

/// Without an end where waiting makes time go on: it would be over at once.
fn long<B: Backend>() -> Option<Duration> {
    (!B::VIRTUAL_TIME).then_some(LONG)
}

pub(super) fn a_wake_from_another_thread_ends_a_wait<B: Backend>() {
    let mut rig = Rig::<B>::new(30, [1, 1]);
    let rounds = test_size::pick(2000, 100_000);
    let clock = Monotonic::start();
    let woken = Arc::new(AtomicU64::new(0));
    let (go, wait_for_go) = mpsc::channel();
    let waker = {
        let (waker, woken) = (rig.a.transport.waker().clone(), Arc::clone(&woken));
        thread::spawn(move || {
            for round in wait_for_go {
                woken.store(round, Ordering::Release);
                waker.wake_by_ref();
            }
        })
    };
    for round in 1..=rounds {
        go.send(round).unwrap();
        let before = clock.now();
        while woken.load(Ordering::Acquire) < round {
            rig.a.turn(long::<B>());
            assert!(clock.now().since(before) < LONG, "a wake-up is lost");
        }
    }
    drop(go);
    waker.join().unwrap();
    rig.finish();
}

pub(super) fn a_wake_before_a_turn_ends_it<B: Backend>() {
    let mut rig = Rig::<B>::new(31, [1, 1]);
    let clock = Monotonic::start();
    let waker = rig.a.transport.waker().clone();
    for _ in 0..100 {
        waker.wake_by_ref();
        waker.wake_by_ref();
        let before = clock.now();
        rig.a.turn(long::<B>());
        assert!(clock.now().since(before) < LONG, "a wake-up is lost");
    }
    // A turn that may not wait doesn't, and one that may for a moment comes back.
    rig.a.turn(Some(Duration::ZERO));
    rig.a.turn(Some(Duration::from_micros(100)));
    rig.finish();
    // Whoever still has the waker may use it.
    waker.wake();
}
