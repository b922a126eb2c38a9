//! Models of `sync`: a sleeper never misses the notification that its condition became true.

use super::Model;
use crate::sync::{AtomicU32, Ordering, Waiter, thread};
use loom::sync::Arc;
use std::future::poll_fn;
use std::task::Poll;

pub(super) const MODELS: &[Model] = &[
    Model {
        name: "sync::waiter_never_sleeps_past_its_condition",
        edges: &["WAKE_F1"],
        preemptions: None,
        body: waiter_never_sleeps_past_its_condition,
    },
    Model {
        name: "sync::waiter_hears_the_second_of_two_notifiers",
        edges: &["WAKE_F1"],
        preemptions: Some(2),
        body: waiter_hears_the_second_of_two_notifiers,
    },
];

/// A count that one task waits for. Its accesses are relaxed: what orders them is the waiter alone.
struct Awaited {
    count: AtomicU32,
    waiter: Waiter,
}

impl Awaited {
    fn new() -> Arc<Self> {
        Arc::new(Self { count: AtomicU32::new(0), waiter: Waiter::new() })
    }

    fn add_and_notify(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.waiter.notify();
    }

    /// Blocks as a task does: look, announce, look again, sleep. A wake-up that doesn't come leaves every
    /// thread blocked, which loom reports as a deadlock.
    fn wait_for(&self, count: u32) {
        loom::future::block_on(poll_fn(|cx| {
            if self.count.load(Ordering::Relaxed) >= count {
                return Poll::Ready(());
            }
            self.waiter.announce(cx.waker());
            if self.count.load(Ordering::Relaxed) >= count {
                self.waiter.retract();
                return Poll::Ready(());
            }
            Poll::Pending
        }));
    }
}

/// Excluded: the sleeper looks before the count is visible, the notifier looks before the announcement is.
fn waiter_never_sleeps_past_its_condition() {
    let awaited = Awaited::new();
    let notifier = thread::spawn({
        let awaited = awaited.clone();
        move || awaited.add_and_notify()
    });
    awaited.wait_for(1);
    notifier.join().unwrap();
}

/// Excluded: the first notifier takes the announcement away, and the sleeper, who then sleeps again for
/// the second, isn't announced to it.
fn waiter_hears_the_second_of_two_notifiers() {
    let awaited = Awaited::new();
    let notifiers = [(); 2].map(|()| {
        let awaited = awaited.clone();
        thread::spawn(move || awaited.add_and_notify())
    });
    awaited.wait_for(2);
    for notifier in notifiers {
        notifier.join().unwrap();
    }
}
