//! One fault of each kind on demand: a sanitizer that lets it pass isn't at work.

use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::thread;

/// A place that threads write to without asking.
struct Shared(std::cell::UnsafeCell<u64>);

// SAFETY: none. That is the point.
unsafe impl Sync for Shared {}

impl Shared {
    fn add(&self) {
        for _ in 0..1000 {
            // SAFETY: none: this is the race.
            unsafe { *black_box(self.0.get()) += 1 };
        }
    }
}

fn race() {
    static SHARED: Shared = Shared(std::cell::UnsafeCell::new(0));
    let other = thread::spawn(|| SHARED.add());
    SHARED.add();
    other.join().expect("it adds");
}

/// What is suppressed of the test harness must not hide what a test does.
#[test]
fn race_in_a_test() {
    race();
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("use-after-free") => {
            let bytes = vec![1_u8; 100];
            let start = bytes.as_ptr();
            drop(bytes);
            // SAFETY: none: this is the use.
            println!("{}", unsafe { *black_box(start) });
        }
        Some("leak") => std::mem::forget(black_box(vec![1_u8; 100])),
        Some("race") => race(),
        // The counts of `Arc` order its end, not what happens before.
        Some("race-under-arc") => {
            let shared = Arc::new(Shared(std::cell::UnsafeCell::new(0)));
            let others = [(); 2].map(|()| {
                let shared = shared.clone();
                thread::spawn(move || shared.add())
            });
            for other in others {
                other.join().expect("it adds");
            }
        }
        // A lock orders what its holders do, not what is done before it is taken.
        Some("race-beside-mutex") => {
            let shared = Arc::new((Mutex::new(0_u64), Shared(std::cell::UnsafeCell::new(0))));
            let others = [(); 2].map(|()| {
                let shared = shared.clone();
                thread::spawn(move || {
                    for _ in 0..1000 {
                        shared.1.add();
                        *shared.0.lock().expect("nobody panics") += 1;
                    }
                })
            });
            for other in others {
                other.join().expect("it adds");
            }
        }
        other => panic!("no such fault: {other:?}"),
    }
}
