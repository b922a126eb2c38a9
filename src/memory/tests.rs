//! Unit tests of memory on real threads, with the census as the judge.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

use super::budget::Exhausted;
use super::*;
use crate::sync::Waiter;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Wake, Waker};
use std::thread;

const K: SegmentClass = SegmentClass::K4;

fn waiter() -> Arc<Waiter> {
    Arc::new(Waiter::new())
}

fn pool(count: u32, orphans: u32) -> Arc<SegmentPool> {
    let config = MemoryConfig::new().segments(SegmentClass::K32, 0).segments(K, count);
    SegmentPool::new(&config.orphan_segments(orphans)).unwrap()
}

fn assert_whole(pool: &SegmentPool) {
    let census = pool.census();
    assert!(census.is_whole(), "{census:?}");
}

#[test]
fn sizes_and_names() {
    assert_eq!(SegmentClass::ALL.map(SegmentClass::bytes), [4096, 8192, 16384, 32768]);
    assert_eq!(MemoryConfig::default().bytes(), 64 << 20);
    let name = SegmentName { id: 7, generation: u32::MAX };
    assert_eq!(SegmentName::from_bits(name.to_bits()), name);
    assert_eq!(SegmentName::from_bits(SegmentName::NONE.to_bits()), SegmentName::NONE);
    let pool = pool(2, 0);
    assert!(!pool.try_hold(SegmentName::NONE));
    assert!(!pool.try_hold(SegmentName::from_bits(0)), "zeroed memory names nothing");
}

#[test]
fn every_class_has_its_own_aligned_bytes() {
    let mut config = MemoryConfig::new().orphan_segments(1);
    for class in SegmentClass::ALL {
        config = config.segments(class, 3);
    }
    let pool = SegmentPool::new(&config).unwrap();
    let mut open = Vec::new();
    for class in SegmentClass::ALL {
        let budget = pool.reserve(class, 2, 0, waiter()).unwrap();
        let charge = budget.charge(2, 2);
        let mut cache = SegmentCache::new(&pool, &budget);
        for _ in 0..2 {
            let mut segment = pool.allocate(&charge, &mut cache).unwrap();
            assert_eq!(segment.capacity(), class.bytes());
            let value = open.len() as u8;
            segment.spare(0..class.bytes()).fill(value);
            segment.commit(class.bytes());
            open.push(segment);
        }
    }
    for (value, segment) in open.iter().enumerate() {
        let bytes = segment.committed(0..segment.capacity());
        assert_eq!(bytes.as_ptr() as usize % 4096, 0);
        assert!(bytes.iter().all(|byte| usize::from(*byte) == value));
    }
    assert_eq!(pool.census().held(), 8);
    assert_whole(&pool);
    drop(open);
    assert_eq!(pool.census().held(), 0);
    assert_whole(&pool);
}

#[test]
fn refusals_say_numbers_and_remedy() {
    let pool = pool(10, 2);
    let kept = pool.reserve(K, 3, 1, waiter()).unwrap();
    let error = pool.reserve(K, 4, 1, waiter()).unwrap_err();
    assert!(matches!(error, MemoryError::Insufficient { class: K, needed: 5, free: 4, limit: 8 }));
    assert_eq!(
        error.to_string(),
        "5 segments of 4 KiB needed (one per subpartition plus the floating share), 4 of 8 are not reserved: \
         create fewer or narrower partitions at a time, lower the floating share, or give the class at least 1 \
         segments more in MemoryConfig::segments"
    );
    drop(kept);
    assert!(pool.reserve(K, 8, 0, waiter()).is_ok());
    assert!(pool.reserve(SegmentClass::K8, 1, 0, waiter()).is_err());
    let overflow = pool.reserve(K, u32::MAX, 2, waiter()).unwrap_err();
    assert!(matches!(overflow, MemoryError::Insufficient { .. }));
    assert_eq!(pool.census().classes[0].reserved, 2);
}

#[test]
fn configurations_that_cannot_work_are_refused() {
    let none = MemoryConfig::new().segments(SegmentClass::K32, 0);
    assert!(none.validate().unwrap_err().to_string().contains("no segments"));
    let all_orphans = MemoryConfig::new().segments(K, 64);
    assert!(all_orphans.validate().unwrap_err().to_string().contains("orphan"));
    let too_many = MemoryConfig::new().segments(SegmentClass::K32, u32::MAX);
    assert!(too_many.validate().unwrap_err().to_string().contains("too many"));
    assert!(MemoryConfig::default().validate().is_ok());
    assert!(SegmentPool::with_geometry(&[(10, 1)], 4, 0).is_err());
}

#[test]
fn a_mapping_that_the_system_refuses_is_an_error() {
    let config = MemoryConfig::new().segments(SegmentClass::K32, 1 << 31);
    match SegmentPool::with_geometry(&[(1 << 60, 4)], 4096, 0) {
        Err(MemoryError::Map { bytes, .. }) => assert_eq!(bytes, 1 << 62),
        other => panic!("{other:?}"),
    }
    assert!(config.validate().is_ok());
}

#[test]
fn own_first_then_floating_then_exhausted() {
    let pool = pool(8, 1);
    let budget = pool.reserve(K, 2, 2, waiter()).unwrap();
    let (first, second) = (budget.charge(1, 3), budget.charge(1, 10));
    let mut cache = SegmentCache::new(&pool, &budget);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(pool.allocate(&first, &mut cache).unwrap());
    }
    let refused = pool.allocate(&first, &mut cache).unwrap_err();
    assert_eq!(refused, Exhausted { used: 3, limit: 3, floating_free: 0 });
    first.set_limit(4);
    assert_eq!(pool.allocate(&first, &mut cache).unwrap_err().limit, 4);
    // The other's own segment is untouched by the greed of the first.
    let own = pool.allocate(&second, &mut cache).unwrap();
    assert_eq!(pool.allocate(&second, &mut cache).unwrap_err().used, 1);
    drop(held.pop());
    assert_eq!(budget.floating_free(), 1);
    let more = pool.allocate(&second, &mut cache).unwrap();
    drop((own, more, held, cache));
    assert_eq!((first.used(), second.used(), budget.floating_free()), (0, 0, 2));
    assert_whole(&pool);
}

#[test]
fn what_lies_in_the_cache_is_never_refused() {
    let pool = pool(9, 1);
    let budget = pool.reserve(K, 0, 8, waiter()).unwrap();
    let (first, second) = (budget.charge(0, 8), budget.charge(0, 8));
    let mut cache = SegmentCache::new(&pool, &budget);
    let mut held = Vec::new();
    for index in 0..8 {
        held.push(pool.allocate(if index % 3 == 0 { &first } else { &second }, &mut cache).unwrap());
        assert_whole(&pool);
    }
    assert!(pool.allocate(&first, &mut cache).is_err());
    held.truncate(4);
    let fresh = pool.allocate(&first, &mut cache).unwrap();
    assert_eq!(cache.len(), 3);
    assert_eq!(pool.census().classes[0].cached, 3);
    drop(fresh);
    drop(cache);
    assert_eq!(pool.census().classes[0].cached, 0);
    assert_eq!(budget.floating_free(), 4);
    assert_whole(&pool);
}

#[test]
fn committed_bytes_are_final() {
    let pool = pool(2, 1);
    let budget = pool.reserve(K, 1, 0, waiter()).unwrap();
    let mut open = pool.allocate(&budget.charge(1, 1), &mut SegmentCache::new(&pool, &budget)).unwrap();
    open.spare(0..3).copy_from_slice(b"abc");
    open.commit(3);
    assert_eq!(open.committed(1..3), b"bc");
    let fails = |touch: &mut dyn FnMut(&mut OpenSegment)| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| touch(&mut open))).is_err()
    };
    let mut fails = fails;
    assert!(fails(&mut |open| _ = open.spare(2..4)));
    assert!(fails(&mut |open| _ = open.committed(2..4)));
    assert!(fails(&mut |open| open.commit(2)));
    assert!(fails(&mut |open| open.commit(4097)));
    assert!(fails(&mut |open| _ = open.spare(4096..4097)));
    assert!(!fails(&mut |open| open.commit(3)));
}

#[test]
fn names_of_a_former_life_are_dead() {
    let pool = pool(2, 1);
    let budget = pool.reserve(K, 1, 0, waiter()).unwrap();
    let charge = budget.charge(1, 1);
    let mut cache = SegmentCache::new(&pool, &budget);
    let open = pool.allocate(&charge, &mut cache).unwrap();
    let name = open.name();
    assert!(pool.try_hold(name));
    drop(open);
    assert!(Hold::try_new(&pool, name).is_some(), "held: the life goes on");
    pool.drop_hold(name);
    assert!(!pool.try_hold(name));
    let again = pool.allocate(&charge, &mut cache).unwrap();
    assert_eq!((again.name().id, again.name().generation), (name.id, name.generation + 1));
    assert!(!pool.try_hold(name));
    assert!(!pool.recharge(name, &charge, pool.orphan(K)));
}

#[test]
fn a_free_segment_is_held_by_no_name() {
    let pool = pool(2, 0);
    // The generations that the first two lives of segment 0 will have, named while it is in the list.
    for generation in 1..3 {
        assert!(!pool.try_hold(SegmentName { id: 0, generation }), "its life hasn't begun");
        let budget = pool.reserve(K, 1, 0, waiter()).unwrap();
        let charge = budget.charge(1, 1);
        let open = pool.allocate(&charge, &mut SegmentCache::new(&pool, &budget)).unwrap();
        assert_eq!(open.name(), SegmentName { id: 0, generation });
        assert!(pool.try_hold(open.name()));
        pool.drop_hold(open.name());
    }
    assert_whole(&pool);
    assert_eq!(pool.census().held(), 0);
}

#[test]
fn freed_bytes_are_poisoned_under_assertions() {
    let pool = pool(2, 1);
    let budget = pool.reserve(K, 1, 0, waiter()).unwrap();
    let charge = budget.charge(1, 1);
    let mut cache = SegmentCache::new(&pool, &budget);
    let mut open = pool.allocate(&charge, &mut cache).unwrap();
    open.spare(0..10).fill(1);
    drop(open);
    let mut again = pool.allocate(&charge, &mut cache).unwrap();
    let expected = if cfg!(debug_assertions) { 0xA5 } else { 1 };
    assert!(again.spare(0..10).iter().all(|byte| *byte == expected));
}

#[test]
fn lent_bytes_outlive_every_handle() {
    let pool = pool(4, 1);
    let weak = Arc::downgrade(&pool);
    let budget = pool.reserve(K, 1, 0, waiter()).unwrap();
    let mut open = pool.allocate(&budget.charge(1, 1), &mut SegmentCache::new(&pool, &budget)).unwrap();
    open.spare(0..11).copy_from_slice(b"hello world");
    open.commit(11);
    // SAFETY: committed just above, by this thread.
    let bytes = unsafe { open.hold().into_bytes(6..11) };
    drop((open, budget));
    assert_eq!(pool.census().classes[0].reserved, 2, "still counted after the partition's end");
    let part = bytes.slice(1..3);
    drop(pool);
    assert_eq!((&bytes[..], &part[..]), (&b"world"[..], &b"or"[..]));
    drop(bytes);
    assert_eq!(&part[..], b"or");
    drop(part);
    assert!(weak.upgrade().is_none(), "the last lent bytes take the arena with them");
}

#[test]
fn orphans_move_to_their_own_account() {
    let pool = pool(4, 1);
    let orphan = pool.orphan(K);
    let budget = pool.reserve(K, 2, 0, waiter()).unwrap();
    let charge = budget.charge(2, 2);
    let mut cache = SegmentCache::new(&pool, &budget);
    let held: Vec<Hold> = (0..2).map(|_| pool.allocate(&charge, &mut cache).unwrap().hold()).collect();
    assert!(pool.recharge(held[0].name(), &charge, orphan));
    assert_eq!((charge.used(), orphan.used()), (1, 1));
    assert!(!pool.recharge(held[0].name(), &charge, orphan), "no longer on that account");
    assert!(!pool.recharge(held[1].name(), &charge, orphan), "the orphan account is full");
    assert_eq!((charge.used(), orphan.used()), (1, 1));
    assert!(pool.allocate(&charge, &mut cache).is_ok(), "the unit is free again");
    drop(held);
    assert_eq!((charge.used(), orphan.used()), (0, 0));
    assert_whole(&pool);
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A writer as the layers above write one: refused, it announces itself, tries again, and sleeps.
fn allocate_blocking(pool: &Arc<SegmentPool>, charge: &Arc<Charge>, cache: &mut SegmentCache) -> OpenSegment {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Ok(open) = pool.allocate(charge, cache) {
            return open;
        }
        charge.budget().waiter().announce(&waker);
        match pool.allocate(charge, cache) {
            Ok(open) => {
                charge.budget().waiter().retract();
                return open;
            }
            Err(_) => thread::park(),
        }
    }
}

/// Three partitions on scarce memory, each with its readers; some segments move to the orphan account
/// while they are read. A lost wake-up hangs, a double free or a foreign write shows in the bytes.
#[test]
fn stress_leaves_everything_whole() {
    const ROUNDS: u64 = 4000;
    let pool = pool(3 * 3 + 2, 2);
    let mut charges = Vec::new();
    thread::scope(|scope| {
        for partition in 0..3u64 {
            let budget = pool.reserve(K, 1, 2, waiter()).unwrap();
            let charge = budget.charge(1, 3);
            charges.push(Arc::clone(&charge));
            let (sender, receiver) = mpsc::channel::<(Hold, SegmentName, u64)>();
            let (writer_pool, reader_pool) = (Arc::clone(&pool), Arc::clone(&pool));
            let reader_charge = Arc::clone(&charge);
            scope.spawn(move || {
                let mut cache = SegmentCache::new(&writer_pool, &budget);
                for round in 0..ROUNDS {
                    let mut open = allocate_blocking(&writer_pool, &charge, &mut cache);
                    let stamp = partition << 32 | round;
                    open.spare(0..8).copy_from_slice(&stamp.to_le_bytes());
                    open.commit(8);
                    sender.send((open.hold(), open.name(), stamp)).unwrap();
                    open.spare(8..16).copy_from_slice(&stamp.to_le_bytes());
                }
            });
            scope.spawn(move || {
                for (hold, name, stamp) in receiver {
                    if stamp % 3 == 0 {
                        let _moved = reader_pool.recharge(name, &reader_charge, reader_pool.orphan(K));
                    }
                    // SAFETY: committed before the hold was sent.
                    let bytes = unsafe { hold.into_bytes(0..8) };
                    assert_eq!(bytes[..], stamp.to_le_bytes());
                    drop(bytes);
                    assert!(!reader_pool.try_hold(SegmentName { generation: name.generation - 1, ..name }));
                }
            });
        }
    });
    assert!(charges.iter().all(|charge| charge.used() == 0));
    assert_eq!((pool.orphan(K).used(), pool.census().held()), (0, 0));
    assert_whole(&pool);
    drop(charges);
    assert_eq!(pool.census().classes[0].reserved, 2);
}
