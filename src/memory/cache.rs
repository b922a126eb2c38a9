//! A few free segments kept by the one writer that uses them.

use super::budget::Budget;
use super::pool::SegmentPool;
use std::sync::Arc;

/// The most that a cache keeps.
pub(crate) const CACHED_MAX: usize = 4;

/// Free segments of one writer, last in first out. They are charged to the floating share of its budget,
/// and serve those allocations that need one: never is an allocation refused for a segment that lies here.
#[derive(Debug)]
pub(crate) struct SegmentCache {
    pool: Arc<SegmentPool>,
    budget: Arc<Budget>,
    ids: [u32; CACHED_MAX],
    len: usize,
}

impl SegmentCache {
    pub(crate) fn new(pool: &Arc<SegmentPool>, budget: &Arc<Budget>) -> Self {
        Self { pool: Arc::clone(pool), budget: Arc::clone(budget), ids: [0; CACHED_MAX], len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn serves(&self, budget: &Arc<Budget>) -> bool {
        Arc::ptr_eq(&self.budget, budget)
    }

    pub(super) fn pop(&mut self) -> Option<u32> {
        self.len = self.len.checked_sub(1)?;
        Some(self.ids[self.len])
    }

    pub(super) fn push(&mut self, id: u32) {
        self.ids[self.len] = id;
        self.len += 1;
    }
}

impl Drop for SegmentCache {
    fn drop(&mut self) {
        let ids = &self.ids[..self.len];
        self.pool.uncache(&self.budget, ids);
    }
}
