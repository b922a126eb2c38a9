//! Models of `memory`: a segment is freed once, its bytes change hands in order, and what is charged is
//! there.
//!
//! Arena, headers, free list and accounts are the production ones; a segment has four bytes in two tracked
//! cells. `Arc` is std's here: models in which a last `Arc` ends a reservation let the freeing thread have
//! it, so that no edge is needed that the model can't see.

use super::Model;
use crate::memory::{Budget, Charge, Hold, SegmentCache, SegmentClass, SegmentName, SegmentPool};
use crate::sync::{Waiter, thread};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

pub(super) const MODELS: &[Model] = &[
    Model {
        name: "memory::segment_is_freed_once_by_whoever_leaves_last",
        edges: &[],
        preemptions: None,
        body: segment_is_freed_once_by_whoever_leaves_last,
    },
    Model {
        name: "memory::next_owner_writes_after_the_last_read",
        edges: &["MEM_E1"],
        preemptions: None,
        body: next_owner_writes_after_the_last_read,
    },
    Model {
        name: "memory::another_account_gets_a_freed_segment_after_its_reader",
        edges: &["MEM_E2"],
        preemptions: None,
        body: another_account_gets_a_freed_segment_after_its_reader,
    },
    Model {
        name: "memory::whoever_leaves_last_frees_after_the_others_reads",
        edges: &["MEM_E1"],
        preemptions: None,
        body: whoever_leaves_last_frees_after_the_others_reads,
    },
    Model {
        name: "memory::zombie_cannot_hold_a_segment_in_its_next_life",
        edges: &["MEM_E5"],
        preemptions: None,
        body: zombie_cannot_hold_a_segment_in_its_next_life,
    },
    Model {
        name: "memory::own_unit_comes_with_a_segment",
        edges: &["MEM_E3"],
        preemptions: None,
        body: own_unit_comes_with_a_segment,
    },
    Model {
        name: "memory::floating_unit_comes_with_a_segment",
        edges: &["MEM_E3"],
        preemptions: None,
        body: floating_unit_comes_with_a_segment,
    },
    Model {
        name: "memory::reservation_returns_once_and_with_its_segments",
        edges: &["MEM_E4"],
        preemptions: None,
        body: reservation_returns_once_and_with_its_segments,
    },
    Model {
        name: "memory::reservation_ended_by_a_third_thread_comes_with_its_segments",
        edges: &["MEM_E4"],
        preemptions: None,
        body: reservation_ended_by_a_third_thread_comes_with_its_segments,
    },
    Model {
        name: "memory::free_wakes_the_blocked_writer",
        edges: &["WAKE_F1"],
        preemptions: None,
        body: free_wakes_the_blocked_writer,
    },
    Model {
        name: "memory::patient_writer_is_woken_at_its_level",
        edges: &["WAKE_F1"],
        preemptions: None,
        body: patient_writer_is_woken_at_its_level,
    },
    Model {
        name: "memory::patient_writer_is_woken_at_the_level_of_the_share",
        edges: &["WAKE_F1"],
        preemptions: Some(3),
        body: patient_writer_is_woken_at_the_level_of_the_share,
    },
    Model {
        name: "memory::writer_out_of_patience_is_woken_by_the_first",
        edges: &["WAKE_F1"],
        preemptions: None,
        body: writer_out_of_patience_is_woken_by_the_first,
    },
    Model {
        name: "memory::recharge_and_free_agree_on_the_account",
        edges: &["MEM_E5"],
        preemptions: None,
        body: recharge_and_free_agree_on_the_account,
    },
    Model {
        name: "memory::free_list_notices_a_top_that_came_back",
        edges: &["MEM_E6"],
        preemptions: None,
        body: free_list_notices_a_top_that_came_back,
    },
    Model {
        name: "memory::batch_into_a_cache_against_a_free",
        edges: &["MEM_E2"],
        preemptions: None,
        body: batch_into_a_cache_against_a_free,
    },
];

const K: SegmentClass = SegmentClass::K4;

/// A budget, one account of it that may use all, and the cache of its writer.
struct Owner {
    pool: Arc<SegmentPool>,
    charge: Arc<Charge>,
    cache: SegmentCache,
}

impl Owner {
    fn new(pool: &Arc<SegmentPool>, guaranteed: u32, floating: u32) -> Self {
        let budget = pool.reserve(K, guaranteed, floating, Arc::new(Waiter::new())).unwrap();
        Self::with_charge(pool, &budget, budget.charge(guaranteed, guaranteed + floating))
    }

    fn with_charge(pool: &Arc<SegmentPool>, budget: &Arc<Budget>, charge: Arc<Charge>) -> Self {
        Self { pool: Arc::clone(pool), charge, cache: SegmentCache::new(pool, budget) }
    }

    /// Writes a whole segment and leaves one hold of it.
    fn written(&mut self, value: u8) -> SegmentName {
        let mut open = self.pool.allocate(&self.charge, &mut self.cache).unwrap();
        open.spare(0..4).fill(value);
        open.commit(4);
        open.add_hold();
        open.name()
    }

    /// Allocates and writes if there is a segment for this account.
    fn try_write(&mut self, value: u8) -> Option<crate::memory::OpenSegment> {
        let mut open = self.pool.allocate(&self.charge, &mut self.cache).ok()?;
        open.spare(0..4).fill(value);
        open.commit(4);
        Some(open)
    }
}

/// Reads the segment as lent bytes, and lets go.
fn read_and_drop(pool: &Arc<SegmentPool>, name: SegmentName, value: u8) {
    let hold = Hold::from_counted(pool, name);
    // SAFETY: the models spawn their readers after the commit.
    let bytes = unsafe { hold.into_bytes(0..4) };
    assert!(bytes.iter().all(|byte| *byte == value), "bytes of another life");
}

fn assert_whole(pool: &SegmentPool) {
    let census = pool.census();
    assert!(census.is_whole(), "{census:?}");
}

/// Excluded: two of the three that leave both find themselves last, or none does.
fn segment_is_freed_once_by_whoever_leaves_last() {
    let pool = SegmentPool::for_model(4, 2, 1).unwrap();
    let mut owner = Owner::new(&pool, 1, 0);
    let open = owner.try_write(7).unwrap();
    let name = open.name();
    let holders = [(); 2].map(|()| {
        open.add_hold();
        let pool = Arc::clone(&pool);
        thread::spawn(move || pool.drop_hold(name))
    });
    drop(open);
    for holder in holders {
        holder.join().unwrap();
    }
    assert_eq!((pool.census().held(), owner.charge.used()), (0, 0));
    assert_whole(&pool);
}

/// Excluded: the writer closes last, frees, allocates again and writes while the reader's read, which came
/// before, isn't ordered before that.
fn next_owner_writes_after_the_last_read() {
    let pool = SegmentPool::for_model(4, 2, 1).unwrap();
    let mut owner = Owner::new(&pool, 1, 0);
    let open = owner.try_write(7).unwrap();
    let name = open.name();
    open.add_hold();
    let reader = thread::spawn({
        let pool = Arc::clone(&pool);
        move || read_and_drop(&pool, name, 7)
    });
    drop(open);
    drop(owner.try_write(8));
    reader.join().unwrap();
    assert_whole(&pool);
}

/// Excluded: a writer with a unit of its own, which nobody had before, takes the segment off the list and
/// writes to it with no order after its last reader. (With a unit that came back, MEM_E3 would order it.)
fn another_account_gets_a_freed_segment_after_its_reader() {
    let pool = SegmentPool::for_model(4, 2, 2).unwrap();
    let name = Owner::new(&pool, 1, 0).written(7);
    let mut other = Owner::new(&pool, 1, 0);
    let reader = thread::spawn({
        let pool = Arc::clone(&pool);
        move || read_and_drop(&pool, name, 7)
    });
    drop(other.try_write(8));
    reader.join().unwrap();
    assert_whole(&pool);
}

/// Excluded: the writer closes last and lists the segment, and another account's writer, ordered after that
/// alone, writes over what a reader reads. (A writer that allocates the segment again itself has passed the
/// fence of its own wake-up call, which hides a missing acquire.)
fn whoever_leaves_last_frees_after_the_others_reads() {
    let pool = SegmentPool::for_model(4, 2, 2).unwrap();
    let open = Owner::new(&pool, 1, 0).try_write(7).unwrap();
    let name = open.name();
    open.add_hold();
    let mut other = Owner::new(&pool, 1, 0);
    let reader = thread::spawn({
        let pool = Arc::clone(&pool);
        move || read_and_drop(&pool, name, 7)
    });
    let writer = thread::spawn(move || drop(other.try_write(8)));
    drop(open);
    reader.join().unwrap();
    writer.join().unwrap();
    assert_whole(&pool);
}

/// Excluded: a reader that still has a name of before counts itself into the next life of the segment.
fn zombie_cannot_hold_a_segment_in_its_next_life() {
    let pool = SegmentPool::for_model(4, 2, 1).unwrap();
    let mut owner = Owner::new(&pool, 1, 0);
    let name = owner.written(7);
    let zombie = thread::spawn({
        let pool = Arc::clone(&pool);
        move || {
            if pool.try_hold(name) {
                read_and_drop(&pool, name, 7);
            }
        }
    });
    pool.drop_hold(name);
    let next = owner.try_write(8);
    assert!(next.as_ref().is_none_or(|open| open.name() != name));
    drop(next);
    zombie.join().unwrap();
    assert_eq!(owner.charge.used(), 0);
    assert_whole(&pool);
}

/// Excluded: the unit is back, and the list still looks empty to whoever takes it.
fn own_unit_comes_with_a_segment() {
    let pool = SegmentPool::for_model(4, 2, 1).unwrap();
    let mut owner = Owner::new(&pool, 1, 0);
    let name = owner.written(7);
    let holder = thread::spawn({
        let pool = Arc::clone(&pool);
        move || pool.drop_hold(name)
    });
    // A unit without a segment trips an assertion in `allocate`.
    drop(owner.try_write(8));
    holder.join().unwrap();
    drop(owner.try_write(8).expect("the segment is back"));
    assert_whole(&pool);
}

/// Excluded: the same, with a unit that one account gives back to the floating share and another takes.
fn floating_unit_comes_with_a_segment() {
    let pool = SegmentPool::for_model(4, 2, 1).unwrap();
    let budget = pool.reserve(K, 0, 1, Arc::new(Waiter::new())).unwrap();
    let mut first = Owner::with_charge(&pool, &budget, budget.charge(0, 1));
    let mut second = Owner::with_charge(&pool, &budget, budget.charge(0, 1));
    let name = first.written(7);
    let holder = thread::spawn({
        let pool = Arc::clone(&pool);
        move || pool.drop_hold(name)
    });
    drop(second.try_write(8));
    holder.join().unwrap();
    drop(second.try_write(8).expect("the segment is back"));
    assert_eq!(budget.floating_free(), 1);
    assert_whole(&pool);
}

/// Excluded: what a partition had reserved is promised to the next one before its last segment is listed,
/// or returns twice.
fn reservation_returns_once_and_with_its_segments() {
    let pool = SegmentPool::for_model(4, 2, 1).unwrap();
    let name = Owner::new(&pool, 1, 0).written(7);
    let holder = thread::spawn({
        let pool = Arc::clone(&pool);
        move || pool.drop_hold(name)
    });
    let reserve = || pool.reserve(K, 1, 0, Arc::new(Waiter::new()));
    if let Ok(budget) = reserve() {
        let mut next = Owner::with_charge(&pool, &budget, budget.charge(1, 1));
        drop(next.try_write(8).expect("reserved is there"));
    }
    holder.join().unwrap();
    assert_eq!(pool.census().classes[0].reserved, 0);
    drop(reserve().unwrap());
    assert_whole(&pool);
}

/// Excluded: the same, where one thread frees the segment and another, ordered after it, ends the
/// reservation without having passed the fence of the first one's wake-up call.
fn reservation_ended_by_a_third_thread_comes_with_its_segments() {
    let pool = SegmentPool::for_model(4, 2, 1).unwrap();
    let mut owner = Owner::new(&pool, 1, 0);
    let name = owner.written(7);
    let next = thread::spawn({
        let pool = Arc::clone(&pool);
        move || {
            if let Ok(budget) = pool.reserve(K, 1, 0, Arc::new(Waiter::new())) {
                let mut next = Owner::with_charge(&pool, &budget, budget.charge(1, 1));
                drop(next.try_write(8).expect("reserved is there"));
            }
        }
    });
    pool.drop_hold(name);
    let end = thread::spawn(move || drop(owner));
    end.join().unwrap();
    next.join().unwrap();
    assert_eq!(pool.census().classes[0].reserved, 0);
    assert_whole(&pool);
}

/// Excluded: the segment comes free after the writer's last look, and nobody wakes the writer.
fn free_wakes_the_blocked_writer() {
    let pool = SegmentPool::for_model(4, 2, 1).unwrap();
    let mut owner = Owner::new(&pool, 1, 0);
    let name = owner.written(7);
    let holder = thread::spawn({
        let pool = Arc::clone(&pool);
        move || pool.drop_hold(name)
    });
    let waiter = Arc::clone(owner.charge.budget().waiter());
    drop(loom::future::block_on(poll_fn(|cx| {
        if let Some(open) = owner.try_write(8) {
            return Poll::Ready(open);
        }
        waiter.announce(cx.waker());
        match owner.try_write(8) {
            Some(open) => {
                waiter.retract();
                Poll::Ready(open)
            }
            None => Poll::Pending,
        }
    })));
    holder.join().unwrap();
    assert_whole(&pool);
}

/// Excluded: what brings the account down to the level that its writer waits for takes it for one that isn't worth a
/// wake-up, since it looks at what the writer said before, or at a use of before.
fn patient_writer_is_woken_at_its_level() {
    patient_writer_is_woken(2, 0, |charge| charge.await_level(0), |charge| charge.used() == 0);
}

/// Excluded: the same for the floating share, whose use is given back beside that of the account.
fn patient_writer_is_woken_at_the_level_of_the_share() {
    let is_there = |charge: &Charge| charge.budget().floating_free() == 2;
    patient_writer_is_woken(0, 2, |charge| charge.budget().await_share(0), is_there);
}

/// Two segments of a writer are freed while it waits for both.
fn patient_writer_is_woken(
    guaranteed: u32,
    floating: u32,
    say: impl Fn(&Charge),
    is_there: impl Fn(&Charge) -> bool,
) {
    let pool = SegmentPool::for_model(4, 2, 2).unwrap();
    let mut owner = Owner::new(&pool, guaranteed, floating);
    let names = [owner.written(7), owner.written(7)];
    let charge = Arc::clone(&owner.charge);
    let holder = thread::spawn({
        let pool = Arc::clone(&pool);
        move || names.into_iter().for_each(|name| pool.drop_hold(name))
    });
    let waiter = Arc::clone(charge.budget().waiter());
    loom::future::block_on(poll_fn(|cx| {
        say(&charge);
        waiter.announce(cx.waker());
        if !is_there(&charge) {
            return Poll::Pending;
        }
        waiter.retract();
        Poll::Ready(())
    }));
    holder.join().unwrap();
    drop(owner);
    assert_whole(&pool);
}

/// Excluded: a writer that takes whatever there is by now isn't woken, since the level that it waited for before still
/// counts.
fn writer_out_of_patience_is_woken_by_the_first() {
    let pool = SegmentPool::for_model(4, 2, 2).unwrap();
    let mut owner = Owner::new(&pool, 2, 0);
    let names = [owner.written(7), owner.written(7)];
    let charge = Arc::clone(&owner.charge);
    charge.await_level(0);
    let holder = thread::spawn({
        let pool = Arc::clone(&pool);
        move || pool.drop_hold(names[0])
    });
    let waiter = Arc::clone(charge.budget().waiter());
    loom::future::block_on(poll_fn(|cx| {
        charge.budget().await_any();
        waiter.announce(cx.waker());
        if charge.used() > 1 {
            return Poll::Pending;
        }
        waiter.retract();
        Poll::Ready(())
    }));
    holder.join().unwrap();
    pool.drop_hold(names[1]);
    drop(owner);
    assert_whole(&pool);
}

/// Excluded: the segment is freed in the middle of a move between accounts, and one of them is left with a
/// segment that is no more, or the move hits the segment's next life.
fn recharge_and_free_agree_on_the_account() {
    let pool = SegmentPool::with_geometry(&[(4, 2)], 2, 1).unwrap();
    let orphan = Arc::clone(pool.orphan(K));
    let mut owner = Owner::new(&pool, 1, 0);
    let charge = Arc::clone(&owner.charge);
    let name = owner.written(7);
    let reader = thread::spawn({
        let pool = Arc::clone(&pool);
        move || {
            pool.drop_hold(name);
            owner.try_write(8)
        }
    });
    let moved = pool.recharge(name, &charge, &orphan);
    let next = reader.join().unwrap();
    assert_eq!(charge.used(), u32::from(next.is_some()));
    assert_eq!(orphan.used(), 0, "moved: {moved}");
    assert_whole(&pool);
}

/// Excluded: one thread reads top and the one below; another takes both and puts the first back; the
/// exchange of the first thread puts a segment in use on top.
fn free_list_notices_a_top_that_came_back() {
    let pool = SegmentPool::for_model(4, 2, 3).unwrap();
    let mut other = Owner::new(&pool, 1, 0);
    let mut owner = Owner::new(&pool, 2, 0);
    let taker = thread::spawn(move || drop(other.pool.allocate(&other.charge, &mut other.cache).unwrap()));
    let first = owner.pool.allocate(&owner.charge, &mut owner.cache).unwrap();
    let second = owner.pool.allocate(&owner.charge, &mut owner.cache).unwrap();
    drop(first);
    taker.join().unwrap();
    assert_whole(&pool);
    drop(second);
    assert_whole(&pool);
}

/// Excluded: a batch takes a chain that a push has changed meanwhile.
fn batch_into_a_cache_against_a_free() {
    let pool = SegmentPool::for_model(4, 2, 3).unwrap();
    let name = Owner::new(&pool, 1, 0).written(7);
    let mut owner = Owner::new(&pool, 0, 2);
    let reader = thread::spawn({
        let pool = Arc::clone(&pool);
        move || read_and_drop(&pool, name, 7)
    });
    let first = owner.try_write(8).unwrap();
    assert_eq!(owner.cache.len(), 1);
    let second = owner.try_write(8).unwrap();
    reader.join().unwrap();
    assert_eq!(owner.cache.len(), 0);
    assert_ne!(first.name().id, second.name().id);
    assert_whole(&pool);
    drop((first, second, owner));
    assert_whole(&pool);
}
