//! Tests of the control thread.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod ends;
#[cfg(feature = "tracing")]
mod failing;
mod hostile;

use super::clock::WorkerClock;
use crate::clock::Clock;
use std::sync::{Arc, mpsc};
use std::task::{Wake, Waker};
use std::time::Duration;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

struct Faulty;

impl Wake for Faulty {
    fn wake(self: Arc<Self>) {
        panic!("the waker's fault");
    }
}

struct Tells(mpsc::Sender<()>);

impl Wake for Tells {
    fn wake(self: Arc<Self>) {
        self.0.send(()).unwrap();
    }
}

#[test]
fn a_waker_that_panics_spoils_nobody_elses_alarm() {
    let clock = WorkerClock::new();
    let thread = clock.start(|| {}).unwrap();
    let (tell, told) = mpsc::channel();
    clock.wake_at(clock.now(), &Waker::from(Arc::new(Faulty)));
    clock.wake_at(clock.now().plus(Duration::from_millis(5)), &Waker::from(Arc::new(Tells(tell))));
    assert_eq!(told.recv_timeout(PATIENCE), Ok(()));
    clock.stop();
    thread.join().unwrap();
}

#[test]
fn a_clock_that_is_stopped_keeps_no_waker() {
    let clock = WorkerClock::new();
    let thread = clock.start(|| {}).unwrap();
    let (tell, told) = mpsc::channel();
    let task = Arc::new(Tells(tell));
    let far = clock.now().plus(Duration::from_secs(3600));
    clock.wake_at(far, &Waker::from(task.clone()));
    clock.stop();
    assert_eq!(told.try_recv(), Ok(()), "who waits looks for himself");
    clock.wake_at(far, &Waker::from(task.clone()));
    assert_eq!(Arc::strong_count(&task), 1);
    thread.join().unwrap();
}
