//! Waits with long limits that end early leave nothing behind.

use crate::common::*;
use pirn::{Attempt, Policies, WhenAbsent, WhenFull};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

/// A task that waits for room thousands of times, each time for at most an hour: the clock keeps one alarm of
/// them, and so at most a few clones of its waker.
#[test]
fn waits_that_end_early_leave_no_alarms() {
    let worker = worker(128);
    let when_full = WhenFull::Discard { after: Duration::from_secs(3600) };
    let policies = Policies { when_full, ..Policies::default() };
    let full = config(1, WhenAbsent::Discard).policies(policies);
    let mut writer = worker.create_partition(id(0), Attempt(1), full).unwrap();
    let mut gate = worker.input_gate(reads(1, &writer, 0));
    assert!(matches!(gate.try_next().unwrap(), pirn::TryNext::Item(pirn::Item::Available { .. })));
    let count = Arc::new(Counting::default());
    let waker = Waker::from(count.clone());
    let mut cx = Context::from_waker(&waker);
    let long = record(1, 4000);
    let mut waits = 0;
    while waits < 2000 {
        let mut source = &long[..];
        while writer.poll_write(&mut cx, 0, &mut source).is_pending() {
            waits += 1;
            while matches!(gate.try_next().unwrap(), pirn::TryNext::Item(_)) {}
        }
    }
    assert!(Arc::strong_count(&count) < 8, "{} clones of the waker", Arc::strong_count(&count));
    writer.abandon();
    drop(gate);
    end(&worker);
}
