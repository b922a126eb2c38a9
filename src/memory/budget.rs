//! Who may have how many segments: reservations of partitions, accounts of their subpartitions.

use super::config::{MemoryError, SegmentClass};
use crate::sync::{AtomicU32, AtomicU64, CachePadded, Ordering, Waiter, sync};
use std::sync::Arc;

/// What is reserved of one class. Budgets keep it alive on their own, so that one that outlives the pool
/// has where to return to.
#[derive(Debug)]
pub(super) struct ClassAccount {
    pub(super) class: SegmentClass,
    total: u32,
    orphans: u32,
    reserved: AtomicU32,
}

impl ClassAccount {
    pub(super) fn new(class: SegmentClass, total: u32, orphans: u32) -> Self {
        Self { class, total, orphans, reserved: AtomicU32::new(0) }
    }

    pub(super) fn reserved(&self) -> u32 {
        // Relaxed: a number to show.
        self.reserved.load(Ordering::Relaxed)
    }

    /// Reserves `guaranteed + floating` segments, or nothing.
    pub(super) fn reserve(
        self: &Arc<Self>,
        guaranteed: u32,
        floating: u32,
        waiter: Arc<Waiter>,
    ) -> Result<Arc<Budget>, MemoryError> {
        let needed = guaranteed.saturating_add(floating);
        // Relaxed: a guess for the exchange.
        let mut reserved = self.reserved.load(Ordering::Relaxed);
        loop {
            let free = self.total - reserved;
            if needed > free {
                let limit = self.total - self.orphans;
                return Err(MemoryError::Insufficient { class: self.class, needed, free, limit });
            }
            let order = sync!(MEM_E4.reserve, Acquire);
            match self.reserved.compare_exchange_weak(reserved, reserved + needed, order, Ordering::Relaxed) {
                Ok(_) => break,
                Err(newer) => reserved = newer,
            }
        }
        Ok(Arc::new(Budget {
            account: Arc::clone(self),
            guaranteed,
            floating,
            unissued: AtomicU32::new(guaranteed),
            floating_used: CachePadded::new(AtomicU32::new(0)),
            charges: AtomicU32::new(0),
            awaited: AtomicU64::new(ANY),
            waiter,
        }))
    }
}

/// The reservation of one partition in one class. It lasts until the last charge of it is dropped, and a
/// segment that isn't free keeps its charge: what readers hold after the partition ended is still counted.
#[derive(Debug)]
pub(crate) struct Budget {
    account: Arc<ClassAccount>,
    guaranteed: u32,
    floating: u32,
    /// Guaranteed segments that no charge was given yet.
    unissued: AtomicU32,
    floating_used: CachePadded<AtomicU32>,
    /// Charges that were given out; each has its number.
    charges: AtomicU32,
    /// What is worth waking the writer for: [`ANY`], or whose use has to come down, and how low: that of a charge
    /// (its number), or of the floating [`SHARE`].
    awaited: AtomicU64,
    waiter: Arc<Waiter>,
}

/// Whatever is freed wakes the writer. (No charge has the number 0.)
const ANY: u64 = 0;

/// In the place of a charge's number: the floating share. (Charges are numbered by the subpartitions and orphans of a
/// partition, and never come so far.)
const SHARE: u32 = u32::MAX;

/// Accounts and shares with fewer segments don't let their writer sleep until half of them are free.
const PATIENT_LIMIT_MIN: u32 = 8;

impl Budget {
    pub(crate) fn class(&self) -> SegmentClass {
        self.account.class
    }

    pub(crate) fn floating_free(&self) -> u32 {
        // Relaxed: a number to show.
        self.floating - self.floating_used.load(Ordering::Relaxed)
    }

    pub(crate) fn waiter(&self) -> &Arc<Waiter> {
        &self.waiter
    }

    /// An account on this budget. Its first `guaranteed` segments are its own, more (up to `limit` in all)
    /// come from the floating share. What is given to accounts as their own never exceeds what was
    /// reserved as guaranteed, and doesn't come back before the budget ends.
    pub(crate) fn charge(self: &Arc<Self>, guaranteed: u32, limit: u32) -> Arc<Charge> {
        // Relaxed: a number of its own.
        let mut unissued = self.unissued.load(Ordering::Relaxed);
        let own = loop {
            let own = guaranteed.min(unissued);
            debug_assert!(own == guaranteed, "more guaranteed segments given out than were reserved");
            let left = unissued - own;
            match self.unissued.compare_exchange_weak(unissued, left, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break own,
                Err(newer) => unissued = newer,
            }
        };
        Arc::new(Charge {
            budget: Arc::clone(self),
            // Relaxed: a number of its own.
            number: self.charges.fetch_add(1, Ordering::Relaxed).wrapping_add(1),
            own,
            used: AtomicU32::new(0),
            limit: AtomicU32::new(limit),
        })
    }

    /// Whatever is freed is worth waking the writer. Said before it announces itself.
    pub(crate) fn await_any(&self) {
        // Relaxed: ordered by the fences of the waiter (WAKE_F1).
        self.awaited.store(ANY, Ordering::Relaxed);
    }

    /// Only this is worth waking the writer for: that of the account `whose`, or of the floating [`SHARE`], at most
    /// `used` segments are in use. Said before it announces itself.
    fn await_level(&self, whose: u32, used: u32) {
        // Relaxed: ordered by the fences of the waiter (WAKE_F1).
        self.awaited.store(u64::from(whose) << 32 | u64::from(used), Ordering::Relaxed);
    }

    /// As [`Charge::await_level`], for the floating share.
    pub(crate) fn await_share(&self, used: u32) {
        self.await_level(SHARE, used);
    }

    /// Takes up to `wanted` floating segments; says how many.
    pub(super) fn take_floating(&self, wanted: u32) -> u32 {
        // Relaxed: a guess for the exchange.
        let mut used = self.floating_used.load(Ordering::Relaxed);
        loop {
            let taken = wanted.min(self.floating - used);
            if taken == 0 {
                return 0;
            }
            let order = sync!(MEM_E3.take, Acquire);
            match self.floating_used.compare_exchange_weak(used, used + taken, order, Ordering::Relaxed) {
                Ok(_) => return taken,
                Err(newer) => used = newer,
            }
        }
    }

    /// Gives floating segments back, which are free or stand on another account by now. The caller
    /// notifies.
    pub(super) fn give_floating(&self, count: u32) {
        let used = self.floating_used.fetch_sub(count, sync!(MEM_E3.give, Release));
        debug_assert!(used >= count, "I5: given back once");
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        let count = self.guaranteed + self.floating;
        let reserved = self.account.reserved.fetch_sub(count, sync!(MEM_E4.unreserve, Release));
        debug_assert!(reserved >= count, "I5: a reservation ends once");
    }
}

/// The account of one subpartition.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    /// Among the charges of the budget.
    number: u32,
    own: u32,
    used: AtomicU32,
    limit: AtomicU32,
}

/// No segment for this account now. Somebody who frees one notifies the budget's waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{used} of {limit} segments in use, {floating_free} left in the floating share")]
pub(crate) struct Exhausted {
    pub(crate) used: u32,
    pub(crate) limit: u32,
    pub(crate) floating_free: u32,
}

impl Charge {
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub(crate) fn used(&self) -> u32 {
        // Relaxed: a number to show.
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn limit(&self) -> u32 {
        // Relaxed: read as a bound for what comes next; nothing hangs on how new it is.
        self.limit.load(Ordering::Relaxed)
    }

    /// The most segments that the account can ever have: its own and all of the floating share.
    pub(crate) fn reach(&self) -> u32 {
        self.own.saturating_add(self.budget.floating)
    }

    /// Segments that the account could still get, where its writer keeps `cached` at hand: a moment's number,
    /// exact while nobody else draws on the budget.
    pub(crate) fn free(&self, cached: u32) -> u32 {
        let used = self.used();
        let there = self.own.saturating_sub(used) + self.budget.floating_free() + cached;
        self.limit().saturating_sub(used).min(there)
    }

    /// Sets the most segments this account may use. What it uses beyond a lower limit stays. The caller
    /// notifies the budget's waiter afterwards, when it holds no lock.
    pub(crate) fn set_limit(&self, limit: u32) {
        // Relaxed: the fence of `notify` orders it for a sleeper.
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Whether the next segment would come from the floating share.
    pub(super) fn is_beyond_own(&self) -> bool {
        self.used() >= self.own
    }

    /// One segment more on this account. `floating_in_hand`: the caller brings a unit of the floating
    /// share. `Ok(true)`: a unit of it is left in the caller's hand.
    pub(super) fn add(&self, floating_in_hand: bool) -> Result<bool, Exhausted> {
        let mut in_hand = floating_in_hand;
        // Relaxed: a guess for the exchange.
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let floating = used >= self.own;
            if used >= self.limit() || (floating && !in_hand && self.budget.take_floating(1) == 0) {
                if in_hand && !floating_in_hand {
                    self.budget.give_floating(1);
                    self.budget.waiter.notify();
                }
                return Err(Exhausted {
                    used,
                    limit: self.limit(),
                    floating_free: self.budget.floating_free(),
                });
            }
            in_hand |= floating;
            let order = sync!(MEM_E3.charge, Acquire);
            match self.used.compare_exchange_weak(used, used + 1, order, Ordering::Relaxed) {
                Ok(_) => return Ok(in_hand && !floating),
                Err(newer) => used = newer,
            }
        }
    }

    /// One segment less, which is in the free list or on another account by now; wakes a writer that
    /// waits for it.
    pub(super) fn sub(&self) {
        let used = self.used.fetch_sub(1, sync!(MEM_E3.uncharge, Release));
        debug_assert!(used > 0, "I5: uncharged once");
        if used > self.own {
            self.budget.give_floating(1);
        }
        self.notify();
    }

    /// The writer may find more than before: wakes it if it waits for that.
    pub(crate) fn notify(&self) -> bool {
        self.budget.waiter.notify_if(|| {
            // Relaxed: ordered by the fences of the waiter (WAKE_F1).
            let awaited = self.budget.awaited.load(Ordering::Relaxed);
            let (whose, level) = ((awaited >> 32) as u32, awaited as u32);
            if whose == SHARE {
                // Relaxed: as above.
                return self.budget.floating_used.load(Ordering::Relaxed) <= level;
            }
            awaited == ANY || (whose == self.number && self.used() <= level)
        })
    }

    /// The writer, which has used up this account or the floating share, need not be woken before half of that is
    /// free, nor for any other account: a wake-up for each segment costs more than the segment. Said before it
    /// announces itself; who says it looks again by himself soon, since the half may never come: what is wanted of a
    /// reader meanwhile may hang on this writer's next record for another. False where neither is used up, or what is
    /// has few segments.
    pub(crate) fn await_half(&self) -> bool {
        let (limit, floating) = (self.limit(), self.budget.floating);
        if limit >= PATIENT_LIMIT_MIN && self.used() >= limit {
            self.await_level(limit / 2);
        } else if floating >= PATIENT_LIMIT_MIN && self.is_beyond_own() && self.budget.floating_free() == 0 {
            self.budget.await_share(floating / 2);
        } else {
            return false;
        }
        true
    }

    /// As [`Charge::await_half`], for any number of segments in use on this account.
    pub(crate) fn await_level(&self, used: u32) {
        self.budget.await_level(self.number, used);
    }
}
