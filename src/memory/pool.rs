//! The arena and the ways in and out of it.

use super::backing::Backing;
use super::budget::{Budget, Charge, ClassAccount, Exhausted};
use super::cache::{CACHED_MAX, SegmentCache};
use super::census::{Census, ClassCensus};
use super::config::{MemoryConfig, MemoryError, SegmentClass};
use super::free_list::FreeList;
use super::open::OpenSegment;
use super::segment::{Header, Part, SegmentName};
use crate::sync::{AtomicU32, CachePadded, Ordering, Region, Waiter, prepare_fences};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// What a freed segment is filled with where assertions are on: a reader that came too late shows.
const POISON: u8 = 0xA5;

/// All segments of a worker.
#[derive(Debug)]
pub(crate) struct SegmentPool {
    headers: Box<[CachePadded<Header>]>,
    classes: [Class; 4],
    region: Region,
    poison: bool,
    /// Lent ranges that are kept for long; each counts for a segment.
    pinned: CachePadded<AtomicU32>,
    notes: Vec<&'static str>,
    /// Last: the region points into it.
    _backing: Backing,
}

#[derive(Debug)]
struct Class {
    segment_bytes: usize,
    first: u32,
    count: u32,
    free: FreeList,
    /// Segments in caches.
    cached: CachePadded<AtomicU32>,
    account: Arc<ClassAccount>,
    orphan: Arc<Charge>,
}

impl SegmentPool {
    /// Maps what `config` says.
    pub(crate) fn new(config: &MemoryConfig) -> Result<Arc<Self>, MemoryError> {
        // Before there is anything to publish: the first writer's fences are cheap ones.
        prepare_fences();
        config.validate()?;
        let mut pool = Self::build(&config.geometry(), 4096, config.orphans())?;
        pool.poison = cfg!(debug_assertions);
        Ok(Arc::new(pool))
    }

    /// A pool of any sizes: `(bytes of a segment, segments)` for each class from the smallest on.
    /// `granule` is the size of a tracked cell in models and divides every segment size.
    pub(crate) fn with_geometry(
        classes: &[(usize, u32)],
        granule: usize,
        orphans: u32,
    ) -> Result<Arc<Self>, MemoryError> {
        Self::build(classes, granule, orphans).map(Arc::new)
    }

    /// One class of `count` segments, none of them for orphans.
    #[allow(dead_code, reason = "for tests and models")]
    pub(crate) fn for_model(
        segment_bytes: usize,
        granule: usize,
        count: u32,
    ) -> Result<Arc<Self>, MemoryError> {
        Self::with_geometry(&[(segment_bytes, count)], granule, 0)
    }

    fn build(geometry: &[(usize, u32)], granule: usize, orphans: u32) -> Result<Self, MemoryError> {
        let mut headers = Vec::new();
        let mut bytes = 0;
        let mut classes = Vec::with_capacity(SegmentClass::ALL.len());
        for class in SegmentClass::ALL {
            let (segment_bytes, count) = geometry.get(class.index()).copied().unwrap_or((granule, 0));
            if granule == 0 || segment_bytes % granule != 0 {
                let reason =
                    format!("segments of {segment_bytes} bytes aren't made of whole {granule} bytes");
                return Err(MemoryError::Config { reason });
            }
            let first = headers.len() as u32;
            for index in 0..count as usize {
                let offset = bytes + index * segment_bytes;
                headers.push(CachePadded::new(Header::new(class.index() as u8, offset)));
            }
            bytes += count as usize * segment_bytes;
            let orphans = orphans.min(count);
            let account = Arc::new(ClassAccount::new(class, count, orphans));
            let orphan = account.reserve(orphans, 0, Arc::new(Waiter::new()))?.charge(orphans, orphans);
            let cached = CachePadded::new(AtomicU32::new(0));
            classes.push(Class {
                segment_bytes,
                first,
                count,
                free: FreeList::new(),
                cached,
                account,
                orphan,
            });
        }
        let mut notes = Vec::new();
        let refused = |source| MemoryError::Map { bytes, source };
        let backing = Backing::new(bytes, &mut notes).map_err(refused)?;
        let base = backing.base().ok_or_else(|| refused(io::ErrorKind::AddrNotAvailable.into()))?;
        // SAFETY: the mapping is `bytes` long and lives as long as the pool, whose fields drop in order.
        let region = unsafe { Region::new(base, bytes, granule) };
        let classes: [Class; 4] =
            classes.try_into().map_err(|_| MemoryError::Config { reason: "four classes".to_owned() })?;
        let pool = Self {
            headers: headers.into(),
            classes,
            region,
            poison: false,
            pinned: CachePadded::new(AtomicU32::new(0)),
            notes,
            _backing: backing,
        };
        for class in &pool.classes {
            // Downwards, so that the first segment of the arena is on top.
            for id in (class.first..class.first + class.count).rev() {
                class.free.push(&pool.headers, id);
            }
        }
        Ok(pool)
    }

    /// What the system refused without harm, for one log line each.
    pub(crate) fn notes(&self) -> &[&'static str] {
        &self.notes
    }

    /// Reserves `guaranteed + floating` segments of `class`, or nothing. `waiter` is notified whenever a
    /// segment of the reservation comes free.
    pub(crate) fn reserve(
        &self,
        class: SegmentClass,
        guaranteed: u32,
        floating: u32,
        waiter: Arc<Waiter>,
    ) -> Result<Arc<Budget>, MemoryError> {
        self.classes[class.index()].account.reserve(guaranteed, floating, waiter)
    }

    /// The account of what replaced readers of `class` still hold.
    pub(crate) fn orphan(&self, class: SegmentClass) -> &Arc<Charge> {
        &self.classes[class.index()].orphan
    }

    /// Bytes of one segment of `class` here.
    pub(crate) fn segment_bytes(&self, class: SegmentClass) -> usize {
        self.classes[class.index()].segment_bytes
    }

    /// The class of a segment.
    pub(crate) fn class_of(&self, name: SegmentName) -> SegmentClass {
        SegmentClass::ALL[usize::from(self.header(name).class)]
    }

    /// A segment on `charge`'s account, open for writing. Whoever is refused sleeps by the budget's
    /// waiter: announce, allocate once more, sleep.
    pub(crate) fn allocate(
        self: &Arc<Self>,
        charge: &Arc<Charge>,
        cache: &mut SegmentCache,
    ) -> Result<OpenSegment, Exhausted> {
        let id = self.allocate_id(charge, cache)?;
        let generation = self.headers[id as usize].open(Arc::clone(charge));
        Ok(OpenSegment::new(Arc::clone(self), SegmentName { id, generation }))
    }

    fn allocate_id(&self, charge: &Arc<Charge>, cache: &mut SegmentCache) -> Result<u32, Exhausted> {
        let budget = charge.budget();
        let class = &self.classes[budget.class().index()];
        // Own segments come from the list: a cached one would only swap its floating unit for theirs.
        let cached = charge.is_beyond_own() && cache.serves(budget);
        if let Some(id) = if cached { cache.pop() } else { None } {
            match charge.add(true) {
                Ok(unit_left) => {
                    // Relaxed: a count to show.
                    class.cached.fetch_sub(1, Ordering::Relaxed);
                    if unit_left {
                        budget.give_floating(1);
                        budget.waiter().notify();
                    }
                    return Ok(id);
                }
                Err(exhausted) => {
                    cache.push(id);
                    return Err(exhausted);
                }
            }
        }
        if charge.add(false)? {
            budget.give_floating(1);
            budget.waiter().notify();
        }
        let extra = if cached { budget.take_floating(CACHED_MAX as u32 - 1) as usize } else { 0 };
        let mut ids = [0; CACHED_MAX];
        let found = class.free.pop(&self.headers, &mut ids[..=extra]);
        debug_assert!(found == extra + 1, "I7: what is charged is there");
        if found <= extra {
            budget.give_floating((extra + 1 - found.max(1)) as u32);
        }
        if found == 0 {
            charge.sub();
            return Err(Exhausted {
                used: charge.used(),
                limit: charge.limit(),
                floating_free: budget.floating_free(),
            });
        }
        // The top of the list, the warmest, is used now; the rest so that the next warmest comes first.
        for id in ids[1..found].iter().rev() {
            cache.push(*id);
        }
        if found > 1 {
            // Relaxed: a count to show.
            class.cached.fetch_add((found - 1) as u32, Ordering::Relaxed);
        }
        Ok(ids[0])
    }

    /// Takes back what a cache kept.
    pub(super) fn uncache(&self, budget: &Arc<Budget>, ids: &[u32]) {
        if ids.is_empty() {
            return;
        }
        let class = &self.classes[budget.class().index()];
        for id in ids {
            class.free.push(&self.headers, *id);
        }
        // Relaxed: a count to show.
        class.cached.fetch_sub(ids.len() as u32, Ordering::Relaxed);
        budget.give_floating(ids.len() as u32);
        budget.waiter().notify();
    }

    /// One hold of `name` more; false if that life of the segment is over. The name came to the caller by
    /// an edge from the allocation (a name read without one may be refused for nothing). `NONE` is refused.
    #[must_use]
    pub(crate) fn try_hold(&self, name: SegmentName) -> bool {
        self.headers.get(name.id as usize).is_some_and(|header| header.try_hold(name.generation))
    }

    /// One hold more, by the owner of the write half or of a hold.
    pub(crate) fn add_hold(&self, name: SegmentName) {
        self.header(name).add_hold(name.generation);
    }

    /// Gives up a hold that was counted by [`Self::try_hold`] or [`Self::add_hold`].
    pub(crate) fn drop_hold(&self, name: SegmentName) {
        if self.header(name).leave(Part::Hold, name.generation) {
            self.free(name.id);
        }
    }

    pub(super) fn close(&self, name: SegmentName) {
        if self.header(name).leave(Part::WriteHalf, name.generation) {
            self.free(name.id);
        }
    }

    /// The caller made the segment free and has it alone.
    fn free(&self, id: u32) {
        let header = &self.headers[id as usize];
        let class = &self.classes[usize::from(header.class)];
        let charge = header.take_charge();
        debug_assert!(charge.is_some(), "I3: freed once");
        if self.poison {
            // SAFETY: I4: the segment is free, not listed yet, and this thread's alone.
            unsafe { self.region.write(header.offset..header.offset + class.segment_bytes) }.fill(POISON);
        }
        class.free.push(&self.headers, id);
        // Only now: who takes the unit finds the segment (I7). And then the wake-up, in `sub`.
        if let Some(charge) = charge {
            charge.sub();
        }
    }

    /// Moves the segment from one account to another; false if its life is over, if it stands on neither,
    /// or if `to` has no room.
    #[must_use]
    pub(crate) fn recharge(&self, name: SegmentName, from: &Arc<Charge>, to: &Arc<Charge>) -> bool {
        // The hold keeps the segment, and with it the charge in the header, until the accounts agree.
        if !self.try_hold(name) {
            return false;
        }
        let moved = self.recharge_held(name, from, to);
        self.drop_hold(name);
        moved
    }

    fn recharge_held(&self, name: SegmentName, from: &Arc<Charge>, to: &Arc<Charge>) -> bool {
        let Ok(unit_left) = to.add(false) else { return false };
        if unit_left {
            to.budget().give_floating(1);
            to.budget().waiter().notify();
        }
        let Some(old) = self.header(name).change_charge(from, to) else {
            to.sub();
            return false;
        };
        old.sub();
        true
    }

    /// Bytes of one segment.
    pub(crate) fn capacity(&self, name: SegmentName) -> usize {
        self.classes[usize::from(self.header(name).class)].segment_bytes
    }

    /// # Safety
    /// - The caller holds the segment (a hold, or its write half) for as long as the reference lives.
    /// - Every byte of `range` was committed by the write half, with an edge from there to this call.
    pub(crate) unsafe fn read(&self, name: SegmentName, range: Range<usize>) -> &[u8] {
        // SAFETY: I2: nobody writes to a committed byte before the segment is free, which the caller's hold
        // excludes; the caller promises the edge.
        unsafe { self.region.read(self.place(name, range)) }
    }

    /// # Safety
    /// `range` is of the arena. The caller owns the write half of the segment that it lies in, and every byte
    /// of it is beyond what was committed; nobody else has a reference into it while this one lives.
    #[inline]
    #[allow(clippy::mut_from_ref, reason = "the range is the caller's alone, as the contract says")]
    pub(super) unsafe fn write(&self, range: Range<usize>) -> &mut [u8] {
        // SAFETY: I2: readers touch committed bytes only, and the write half is one.
        unsafe { self.region.write(range) }
    }

    /// Where the segment begins in the arena, and how many bytes it has.
    pub(super) fn extent(&self, name: SegmentName) -> (usize, usize) {
        (self.header(name).offset, self.capacity(name))
    }

    /// Says that a lent range was readable until now (seen by models).
    pub(crate) fn touch_read(&self, name: SegmentName, range: Range<usize>) {
        self.region.touch_read(self.place(name, range));
    }

    /// The range of a segment as one of the arena.
    fn place(&self, name: SegmentName, range: Range<usize>) -> Range<usize> {
        let header = self.header(name);
        debug_assert!(header.lives(name.generation), "I1: the caller has a part of the segment");
        let capacity = self.classes[usize::from(header.class)].segment_bytes;
        assert!(range.start <= range.end && range.end <= capacity, "range outside of the segment");
        header.offset + range.start..header.offset + range.end
    }

    fn header(&self, name: SegmentName) -> &Header {
        &self.headers[name.id as usize]
    }

    /// Where the arena lies, for who registers it with the kernel.
    #[allow(dead_code, reason = "transports use it, which models don't know")]
    pub(crate) fn addresses(&self) -> Range<usize> {
        let bytes =
            self.classes.iter().map(|class| class.segment_bytes * class.count as usize).sum::<usize>();
        let base = self._backing.base().map_or(0, |base| base.as_ptr().expose_provenance());
        base..base + bytes
    }

    pub(super) fn try_pin(&self) -> bool {
        let most = self.headers.len() as u32 / 2;
        let more = |pinned: u32| (pinned < most).then(|| pinned + 1);
        // Relaxed: a count; the segment itself is kept by a hold.
        self.pinned.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    pub(super) fn unpin(&self) {
        self.pinned.fetch_sub(1, Ordering::Relaxed); // Relaxed: as above
    }

    /// Counts every segment.
    pub(crate) fn census(&self) -> Census {
        let classes = self.classes.iter().filter(|class| class.count > 0).map(|class| {
            let mut census = ClassCensus {
                class: class.account.class,
                total: class.count,
                free: 0,
                listed: class.free.len(&self.headers),
                // Relaxed: a moment's picture.
                cached: class.cached.load(Ordering::Relaxed),
                held: 0,
                open: 0,
                charged: 0,
                reserved: class.account.reserved(),
            };
            for header in &self.headers[class.first as usize..(class.first + class.count) as usize] {
                let look = header.look();
                if look.open || look.holders > 0 {
                    census.held += 1;
                    census.open += u32::from(look.open);
                } else {
                    census.free += 1;
                }
                census.charged += u32::from(look.charged);
            }
            census
        });
        Census { classes: classes.collect() }
    }
}
