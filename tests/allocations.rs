//! Nothing is allocated per record in the steady state, on either side.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "a test with an allocator and threads of its own"
)]

use pirn::{
    Attempt, Flush, GateConfig, Incarnation, Item, PartitionConfig, PartitionId, Policies, TryNext, Worker,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

struct Counting;

/// What may be allocated once for good in the stretch that is measured: a side that sleeps there for the first
/// time makes its waker then. Per record there would be thousands, per segment hundreds, per sleep dozens.
const ONCE: u64 = 4;

/// Long enough for the other side to fall asleep.
const PAUSE: Duration = Duration::from_millis(20);

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: hands everything to the system's allocator and counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's contract is the same.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's contract is the same.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Two threads, all flush policies, records that fit and records that run over segments.
#[test]
fn nothing_is_allocated_in_the_steady_state() {
    let interval = Flush::Interval(Duration::from_millis(1));
    for flush in [Flush::WhenFull, Flush::EveryRecord, interval] {
        for record_bytes in [0_usize, 100, 1_000, 40_000] {
            let records = if record_bytes > 1_000 { 2_000 } else { 60_000 };
            let worker = Worker::builder().start().unwrap();
            let config = PartitionConfig::new(2).policies(Policies { flush, ..Policies::default() });
            let mut writer = worker.create_partition(PartitionId::default(), Attempt(1), config).unwrap();
            let channels = writer.descriptors();
            let mut gate = worker.input_gate(GateConfig::new(Attempt(1), Incarnation(1)).channels(channels));
            let reader = thread::spawn(move || {
                let (mut got, mut before) = (0_u64, 0);
                // Both sides have slept by then, and have what they sleep with.
                let warm = records + records / 2;
                while let TryNext::Item(item) = gate.next_blocking_timeout(Duration::from_secs(10)).unwrap() {
                    if let Item::Record(record) = item {
                        assert_eq!(record.as_bytes().len(), record_bytes);
                        got += 1;
                        if got == 1 {
                            thread::sleep(PAUSE);
                        }
                    }
                    if got == warm {
                        before = ALLOCATIONS.load(Ordering::Relaxed);
                    }
                    if got == 2 * records {
                        return ALLOCATIONS.load(Ordering::Relaxed) - before;
                    }
                }
                panic!("only {got} records of {} came", 2 * records);
            });
            let record = vec![1; record_bytes];
            for index in 0..2 * records + 1_000 {
                if index == records {
                    writer.flush();
                    thread::sleep(PAUSE);
                }
                writer.write_blocking((index % 2) as u32, &record).unwrap();
            }
            writer.flush();
            let allocated = reader.join().unwrap();
            assert!(
                allocated <= ONCE,
                "{allocated} allocations in {} records of {record_bytes} bytes, {flush:?}",
                records / 2
            );
        }
    }
}
