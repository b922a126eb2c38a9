//! Models of shared entries: a private copy takes the place of a segment while others read the entry.
//!
//! Write half, subpartition and view are the production ones; a segment has four bytes in two tracked cells,
//! and holds two records of two bytes.

use super::Model;
use crate::doorbell::{Doorbell, ReadyNode};
use crate::id::{Attempt, Incarnation};
use crate::memory::{Charge, OpenSegment, SegmentCache, SegmentClass, SegmentPool};
use crate::record::{First, RecordLayout};
use crate::subpartition::{
    Append, BindRequest, Policies, SharedPart, Subpartition, View, WhenAbsent, WhenRetained, WriteHalf,
};
use crate::sync::{Waiter, thread};
use std::sync::Arc;

pub(super) const MODELS: &[Model] = &[
    Model {
        name: "shared::a_reader_takes_the_copy_with_its_bytes",
        edges: &["RING_E5"],
        preemptions: Some(2),
        body: a_reader_takes_the_copy_with_its_bytes,
    },
    Model {
        name: "shared::a_binder_finds_the_copy_with_its_bytes",
        edges: &["RING_E5"],
        preemptions: Some(2),
        body: a_binder_finds_the_copy_with_its_bytes,
    },
];

const K: SegmentClass = SegmentClass::K4;

/// A subpartition with one shared entry, and its writer.
struct Rig {
    pool: Arc<SegmentPool>,
    sub: Arc<Subpartition>,
    half: WriteHalf,
    cache: SegmentCache,
    broadcast: Arc<Charge>,
    shared: OpenSegment,
    bell: Arc<Doorbell>,
}

impl Rig {
    fn new() -> Self {
        let pool = SegmentPool::for_model(4, 2, 2).unwrap();
        let waiter = Arc::new(Waiter::new());
        let budget = pool.reserve(K, 2, 0, waiter.clone()).unwrap();
        let (own, broadcast) = (budget.charge(1, 1), budget.charge(1, 1));
        let layout = RecordLayout::Fixed(2.try_into().unwrap());
        // What an old reader has not taken is there for the next one.
        let when_absent = WhenAbsent::Retain { quota: 1, then: WhenRetained::Block };
        let policies = Policies { when_absent, ..Policies::default() };
        let sub = Subpartition::new(pool.clone(), layout, 8, policies, own, waiter);
        let mut cache = SegmentCache::new(&pool, &budget);
        let shared = pool.allocate(&broadcast, &mut cache).unwrap();
        let half = WriteHalf::new(sub.clone());
        Self { pool, sub, half, cache, broadcast, shared, bell: Doorbell::new() }
    }

    /// Writes the record at `from` of the shared segment.
    fn write(&mut self, from: usize) {
        self.shared.spare(from..from + 2).fill(7);
        self.shared.commit(from + 2);
        let part = SharedPart { segment: self.shared.name(), from, bytes: 2, first: First::at(0) };
        assert_eq!(self.half.append_shared(&[part], 2), Append::Done);
    }

    fn bind(&self, attempt: u32) -> View {
        bind(&self.sub, &self.bell, attempt)
    }

    /// Gives the ring a copy, and writes something else into the shared segment if it comes back.
    fn take_back(mut self) -> Arc<SegmentPool> {
        assert!(self.half.make_private(self.shared.name(), &mut self.cache));
        drop(self.shared);
        if let Ok(mut next) = self.pool.allocate(&self.broadcast, &mut self.cache) {
            next.spare(0..4).fill(8);
        }
        self.pool
    }
}

fn bind(sub: &Arc<Subpartition>, bell: &Arc<Doorbell>, attempt: u32) -> View {
    let node = ReadyNode::new(bell, 0);
    let request = BindRequest::new(Attempt(attempt), Incarnation(1));
    let grant = sub.bind(request, &node).unwrap();
    View::new(sub.clone(), node, &grant)
}

/// Takes one piece and checks its bytes.
fn read(view: &mut View, bytes: usize) {
    let mut pieces = Vec::new();
    view.take(1, &mut pieces).unwrap();
    // SAFETY: taken just now, let go below.
    let found = unsafe { view.bytes(&pieces[0]) };
    assert!(found.len() == bytes && found.iter().all(|byte| *byte == 7), "bytes of another life: {found:?}");
    view.let_go(&pieces[0]);
}

fn assert_free(pool: &SegmentPool) {
    let census = pool.census();
    assert!(census.is_whole() && census.held() == 0, "{census:?}");
}

/// Excluded: the reader finds the copy's name in the slot and reads what the copy's segment held before, or
/// it reads the original after its next life has begun.
fn a_reader_takes_the_copy_with_its_bytes() {
    let mut rig = Rig::new();
    rig.write(0);
    rig.write(2);
    let mut view = rig.bind(1);
    let bell = rig.bell.clone();
    let reader = thread::spawn(move || {
        read(&mut view, 4);
        drop(view);
    });
    let pool = rig.take_back();
    reader.join().unwrap();
    bell.close();
    assert_free(&pool);
}

/// Excluded: the same for a binder that counts the records before the place where the old reader stood.
fn a_binder_finds_the_copy_with_its_bytes() {
    let mut rig = Rig::new();
    rig.write(0);
    let mut old = rig.bind(1);
    read(&mut old, 2);
    rig.write(2);
    let (sub, bell) = (rig.sub.clone(), rig.bell.clone());
    let binder = thread::spawn(move || {
        let mut view = bind(&sub, &bell, 2);
        read(&mut view, 2);
        drop(view);
        bell.close();
    });
    let pool = rig.take_back();
    binder.join().unwrap();
    drop(old);
    assert_free(&pool);
}
