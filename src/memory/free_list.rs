//! The free segments of one class: a lock-free stack of indices, most recently freed on top.

use super::segment::Header;
use crate::sync::{AtomicU64, CachePadded, Ordering, check, sync};

const NIL: u32 = u32::MAX;

/// `{tag 32 | top 32}`. Every push moves the tag: a top that went away and came back with another
/// segment below it is another head. (A pop can leave the tag: a segment comes back to the top by a push
/// only, its own or that of one above it.)
#[derive(Debug)]
pub(super) struct FreeList {
    head: CachePadded<AtomicU64>,
}

#[allow(clippy::cast_possible_truncation, reason = "the lower half of the word")]
fn top(head: u64) -> u32 {
    head as u32
}

fn with_top(head: u64, top: u32) -> u64 {
    head & !u64::from(u32::MAX) | u64::from(top)
}

impl FreeList {
    pub(super) fn new() -> Self {
        Self { head: CachePadded::new(AtomicU64::new(u64::from(NIL))) }
    }

    /// `id` is free and the caller's alone.
    pub(super) fn push(&self, headers: &[CachePadded<Header>], id: u32) {
        let step = if check!(MEM_E6.tag, false) { 0 } else { 1 << 32 };
        // Relaxed: a guess for the exchange.
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // Relaxed: published by the exchange below.
            headers[id as usize].next.store(top(head), Ordering::Relaxed);
            let new = with_top(head.wrapping_add(step), id);
            match self.head.compare_exchange_weak(head, new, sync!(MEM_E2.push, Release), Ordering::Relaxed) {
                Ok(_) => return,
                Err(newer) => head = newer,
            }
        }
    }

    /// Takes as many as fit into `out` in one step, and says how many those are.
    pub(super) fn pop(&self, headers: &[CachePadded<Header>], out: &mut [u32]) -> usize {
        loop {
            let head = self.head.load(sync!(MEM_E2.pop, Acquire));
            let mut below = top(head);
            let mut count = 0;
            while below != NIL && count < out.len() {
                out[count] = below;
                count += 1;
                // Relaxed: written before the push that `head` shows; if a later push wrote it again, the
                // tag has moved and the exchange fails.
                below = headers[below as usize].next.load(Ordering::Relaxed);
            }
            if count == 0 {
                return 0;
            }
            let new = with_top(head, below);
            // Relaxed: the load above has the edge, for the very value that is exchanged here; a relaxed
            // read-modify-write keeps the releases of the pushes before it going.
            if self.head.compare_exchange_weak(head, new, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return count;
            }
        }
    }

    /// How many are listed; exact when nobody pushes or pops.
    pub(super) fn len(&self, headers: &[CachePadded<Header>]) -> u32 {
        // Relaxed: a moment's picture; so are the links.
        let mut below = top(self.head.load(Ordering::Relaxed));
        let mut count = 0;
        while below != NIL && (count as usize) < headers.len() {
            count += 1;
            below = headers[below as usize].next.load(Ordering::Relaxed);
        }
        count
    }
}
