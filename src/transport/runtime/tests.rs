#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

use super::RuntimeSleep;
use crate::clock::Monotonic;
use crate::sync::thread;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(60);

fn add(event: &OwnedFd) {
    assert_eq!(rustix::io::write(event, &1_u64.to_ne_bytes()).unwrap(), 8);
}

#[test]
fn sleeps_until_readable_or_for_so_long_and_never_spins() {
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    let runtime = RuntimeSleep::open(event.as_fd()).unwrap();
    let clock = Monotonic::start();
    let slept = |longest| {
        let start = clock.now();
        runtime.sleep(longest).unwrap();
        clock.now().since(start)
    };
    assert!(slept(SHORT) >= SHORT);
    for _ in 0..10 {
        // Each time it becomes readable ends one sleep, though nobody reads.
        add(&event);
        assert!(slept(LONG) < LONG);
        assert!(slept(SHORT) >= SHORT);
    }
    let other = event.try_clone().unwrap();
    let later = thread::spawn(move || {
        thread::park_timeout(SHORT);
        add(&other);
    });
    assert!(slept(LONG) < LONG, "another thread ends it");
    later.join().unwrap();
}

#[test]
fn the_descriptor_may_be_closed_before() {
    let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let runtime = RuntimeSleep::open(event.as_fd()).unwrap();
    drop(event);
    runtime.sleep(SHORT).unwrap();
}
