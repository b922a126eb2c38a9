//! Receive buffers: their layout, and their way out and back.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

use super::*;
use std::task::Waker;
use std::thread;

/// The rule of the module's header, by the constants and by the addresses that come of them.
#[test]
fn the_stride_is_whole_pages_and_the_length_is_not() {
    assert_eq!(RECEIVE_STRIDE % 4096, 0);
    assert_ne!(RECEIVE_BYTES % 4096, 0);
    assert!((RECEIVE_BYTES..RECEIVE_BYTES + 16 * 1024).contains(&RECEIVE_STRIDE));
    // The slow distances are 1 to 31 bytes: a step of that size could go from one to the next.
    let step = RECEIVE_BYTES % 4096;
    assert!((64..=4096 - 64).contains(&step), "{step}");
    let pool = ReceivePool::new(3).unwrap();
    let mut buffers: Vec<_> = (0..3).map(|_| ReceiveBuffer::open(&pool).unwrap()).collect();
    for buffer in &mut buffers {
        assert_eq!(buffer.spare().len(), RECEIVE_BYTES);
        assert_eq!(buffer.spare().as_ptr() as usize % 4096, 0);
    }
}

#[test]
fn a_buffer_is_filled_piece_by_piece_until_little_is_left() {
    let pool = ReceivePool::new(1).unwrap();
    let mut buffer = ReceiveBuffer::open(&pool).unwrap();
    let mut lent = Vec::new();
    let mut value = 0u8;
    while !buffer.is_spent() {
        let bytes = buffer.spare().len().min(100_000);
        buffer.spare()[..bytes].fill(value);
        lent.push((value, buffer.received(bytes)));
        value += 1;
    }
    assert_eq!(lent.iter().map(|(_, lent)| lent.len()).sum::<usize>(), RECEIVE_BYTES);
    assert!(lent.iter().all(|(value, lent)| lent.iter().all(|byte| byte == value)));
    assert!(ReceiveBuffer::open(&pool).is_none());
    drop(buffer);
    assert!(ReceiveBuffer::open(&pool).is_none(), "what was lent holds the buffer");
    lent.truncate(1);
    assert_eq!(pool.free(), 0);
    lent.clear();
    assert_eq!(pool.free(), 1);
    assert!(ReceiveBuffer::open(&pool).is_some());
}

#[test]
fn a_rest_of_16_kib_is_still_used() {
    let pool = ReceivePool::new(1).unwrap();
    let mut buffer = ReceiveBuffer::open(&pool).unwrap();
    drop(buffer.received(RECEIVE_BYTES - RECEIVE_REST_MIN));
    assert!(!buffer.is_spent());
    drop(buffer.received(1));
    assert!(buffer.is_spent());
}

#[test]
#[should_panic(expected = "no more than was asked for")]
fn nothing_is_received_behind_the_length() {
    let pool = ReceivePool::new(1).unwrap();
    drop(ReceiveBuffer::open(&pool).unwrap().received(RECEIVE_BYTES + 1));
}

#[test]
fn whoever_starves_is_woken_by_the_first_buffer_that_comes_free() {
    struct Unpark(thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let pool = ReceivePool::new(2).unwrap();
    assert_eq!((pool.slots(), pool.free()), (2, 2));
    let first = ReceiveBuffer::open(&pool).unwrap();
    let second = ReceiveBuffer::open(&pool).unwrap().received(10);
    assert_eq!(pool.free(), 0);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    pool.waiter().announce(&waker);
    assert!(pool.open().is_none());
    let other = thread::spawn(move || drop(second));
    while pool.waiter().is_waiting() {
        thread::park();
    }
    assert!(pool.open().is_some());
    other.join().unwrap();
    drop(first);
    assert_eq!((pool.slots(), pool.free()), (2, 2));
    let census = pool.census();
    assert!(census.is_whole() && census.held() == 0, "{census:?}");
}
