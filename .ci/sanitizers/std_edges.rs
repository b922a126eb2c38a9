//! Sound use of all that std has for threads, contended. ThreadSanitizer must be silent: what it says here is
//! a false alarm, and `.ci/tsan/std_edges.c` lacks an edge.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, RwLock, mpsc};
use std::thread;
use std::time::Duration;

fn together(count: u64, work: impl Fn(u64) + Send + Sync + 'static) {
    let work = Arc::new(work);
    let threads: Vec<_> = (0..count)
        .map(|me| {
            let work = work.clone();
            thread::spawn(move || work(me))
        })
        .collect();
    for thread in threads {
        thread.join().expect("no check of this program fails");
    }
}

fn mutex() {
    let numbers = Arc::new(Mutex::new(vec![0_u64; 4]));
    let inner = numbers.clone();
    together(4, move |me| {
        for round in 0..20_000 {
            let mut numbers = inner.lock().expect("nobody panics");
            numbers[me as usize] += round;
            numbers[0] += 1;
            if round % 100 == 0 {
                thread::yield_now();
            }
        }
    });
    assert!(numbers.lock().expect("nobody panics")[0] >= 80_000);
}

fn rwlock() {
    let numbers = RwLock::new([0_u64; 2]);
    together(3, move |me| {
        for _ in 0..5_000 {
            if me == 0 {
                let mut numbers = numbers.write().expect("nobody panics");
                numbers[0] += 1;
                thread::yield_now();
                numbers[1] += 1;
            } else {
                let numbers = numbers.read().expect("nobody panics");
                assert_eq!(numbers[0], numbers[1]);
            }
        }
    });
}

fn condvar() {
    let turn = Arc::new((Mutex::new(0_u64), Condvar::new()));
    together(2, move |me| {
        let (number, changed) = &*turn;
        for round in 0..5_000 {
            let mut number = number.lock().expect("nobody panics");
            while *number % 2 != me {
                number = if round % 2 == 0 {
                    changed.wait(number).expect("nobody panics")
                } else {
                    changed.wait_timeout(number, Duration::from_millis(1)).expect("nobody panics").0
                };
            }
            *number += 1;
            changed.notify_all();
        }
    });
}

fn arc() {
    for _ in 0..1_000 {
        let shared = Arc::new((vec![1_u8; 64], Mutex::new(vec![1_u8; 64]), AtomicU64::new(0)));
        let threads = [(); 3].map(|()| {
            let shared = shared.clone();
            thread::spawn(move || {
                black_box(shared.0[3]);
                shared.1.lock().expect("nobody panics")[0] += 1;
                shared.2.fetch_add(1, Ordering::Relaxed);
            })
        });
        drop(shared);
        for thread in threads {
            thread.join().expect("no check of this program fails");
        }
    }
}

fn channels() {
    let (sender, receiver) = mpsc::channel::<Box<u64>>();
    let (bounded, other) = mpsc::sync_channel::<Box<u64>>(2);
    let receiving = thread::spawn(move || receiver.iter().map(|item| *item).sum::<u64>());
    let also = thread::spawn(move || other.iter().map(|item| *item).sum::<u64>());
    together(3, move |_| {
        for item in 0..5_000 {
            sender.send(Box::new(item)).expect("it is received");
            bounded.send(Box::new(item)).expect("it is received");
        }
    });
    let sum = 3 * (0..5_000).sum::<u64>();
    assert_eq!(receiving.join().expect("it sums"), sum);
    assert_eq!(also.join().expect("it sums"), sum);
}

fn park() {
    for _ in 0..200 {
        let data = Arc::new((AtomicBool::new(false), Mutex::new(0)));
        let inner = data.clone();
        let parked = thread::spawn(move || {
            while !inner.0.load(Ordering::Acquire) {
                thread::park();
            }
            *inner.1.lock().expect("nobody panics")
        });
        *data.1.lock().expect("nobody panics") = 7;
        data.0.store(true, Ordering::Release);
        parked.thread().unpark();
        assert_eq!(parked.join().expect("it reads"), 7);
    }
}

fn scope() {
    let mut numbers = vec![0_u64; 64];
    for _ in 0..200 {
        let (low, high) = numbers.split_at_mut(32);
        thread::scope(|scope| {
            scope.spawn(|| low.iter_mut().for_each(|number| *number += 1));
            scope.spawn(|| high.iter_mut().for_each(|number| *number += 1));
        });
        numbers[5] += 1;
        numbers[60] += 1;
    }
    assert_eq!(numbers[5] + numbers[60], 800);
}

fn main() {
    for (name, check) in [
        ("mutex", mutex as fn()),
        ("rwlock", rwlock),
        ("condvar", condvar),
        ("arc", arc),
        ("channels", channels),
        ("park", park),
        ("scope", scope),
    ] {
        check();
        println!("std_edges: {name}: silent if nothing stands above");
    }
}
