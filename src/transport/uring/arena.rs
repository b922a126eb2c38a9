//! The arena as the kernel knows it: memory that it needn't look up page by page.

use super::kernel::KernelRing;
use super::outgoing::Outgoing;
use super::probe;
use super::zero_copy::ZeroCopy;
use crate::memory::{Charge, OpenSegment, SegmentCache, SegmentClass, SegmentPool};
use crate::metrics::cold_event;
use crate::sync::{AtomicBool, Mutex, Ordering, Waiter, lock};
use io_uring::{IoUring, Submitter};
use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Bytes of one registered region; the kernel takes no larger one.
const REGION_BYTES: usize = 1 << 30;

/// What of the arena is registered: all of it, in regions of a gibibyte, or nothing.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    addresses: Range<usize>,
    /// Why nothing is registered.
    #[allow(dead_code, reason = "for tests")]
    note: Option<String>,
    staging: Option<Staging>,
    /// Batches that were found or brought inside.
    taken: u64,
}

impl Arena {
    /// All of it is registered.
    fn registered(pool: &Arc<SegmentPool>) -> Self {
        Self { addresses: pool.addresses(), note: None, staging: Staging::new(pool), taken: 0 }
    }

    fn refused(note: String) -> Self {
        Self { note: Some(note), ..Self::default() }
    }

    /// Batches that were sent from registered memory.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// The one line that was said of it, if nothing is registered.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    pub(crate) fn is_registered(&self) -> bool {
        !self.addresses.is_empty()
    }

    /// The regions to register, in order.
    pub(crate) fn regions(addresses: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let end = addresses.end;
        addresses.step_by(REGION_BYTES).map(move |from| from..end.min(from.saturating_add(REGION_BYTES)))
    }

    /// The region that a batch lies in. What lies outside, headers and small payloads, is copied inside first:
    /// the kernel takes one region for a whole message. `None` if that doesn't go now.
    pub(super) fn take_in(&mut self, outgoing: &mut Outgoing) -> Option<u16> {
        if !self.is_registered() {
            return None;
        }
        let outside = |stretch: &libc::iovec| !self.addresses.contains(&stretch.iov_base.addr());
        if outgoing.stretches().iter().any(outside) {
            let (addresses, staging) = (&self.addresses, self.staging.as_mut()?);
            outgoing.stage(addresses, || staging.segment());
        }
        let region = self.region_of(outgoing.stretches());
        self.taken += u64::from(region.is_some());
        region
    }

    /// The region that all of these stretches lie in.
    pub(crate) fn region_of(&self, stretches: &[libc::iovec]) -> Option<u16> {
        let mut regions =
            stretches.iter().map(|stretch| self.region(stretch.iov_base.addr(), stretch.iov_len));
        let first = regions.next()??;
        regions.all(|region| region == Some(first)).then_some(first)
    }

    fn region(&self, from: usize, bytes: usize) -> Option<u16> {
        let to = from.checked_add(bytes)?;
        if bytes == 0 || from < self.addresses.start || to > self.addresses.end {
            return None;
        }
        let first = (from - self.addresses.start) / REGION_BYTES;
        let last = (to - 1 - self.addresses.start) / REGION_BYTES;
        u16::try_from(first).ok().filter(|_| first == last)
    }
}

/// The arena's registration as the rings of one worker share it: the kernel counts the memory once.
///
/// It stands in a small ring of its own, since the kernel lets no thread look into a ring that another thread
/// alone may enter.
#[derive(Default)]
pub(crate) struct ArenaShare {
    holder: Mutex<Option<IoUring>>,
    /// A transport has said what it does without.
    is_told: AtomicBool,
}

impl ArenaShare {
    /// One line for a worker, not one for each of its transports.
    fn tell(&self, note: &str) {
        // Relaxed: it says nothing about other memory.
        if !self.is_told.swap(true, Ordering::Relaxed) {
            cold_event!(warn, note, "arena");
        }
    }
}

impl fmt::Debug for ArenaShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArenaShare").finish_non_exhaustive()
    }
}

/// What a ring registers when it is asked to.
#[derive(Clone, Debug)]
pub(crate) struct ArenaSource {
    pub(crate) pool: Arc<SegmentPool>,
    pub(crate) share: Arc<ArenaShare>,
    pub(crate) zero_copy: ZeroCopy,
}

impl ArenaSource {
    /// Registers with `ring`, or says in one line why not.
    pub(crate) fn register(&self, ring: &mut KernelRing) -> Arena {
        let addresses = self.pool.addresses();
        let bytes = addresses.len();
        if let Err(error) = self.share_or_register(&ring.submitter(), &addresses) {
            let why = match (error.raw_os_error(), memory_lock_limit()) {
                (Some(libc::ENOMEM), Some(limit)) => missing(bytes, limit),
                _ => error.to_string(),
            };
            return self.refused(&format!("the arena's {bytes} bytes are not registered"), &why);
        }
        match probe::send_from_region(ring, addresses.start) {
            Ok(()) => Arena::registered(&self.pool),
            Err((step, error)) => self.refused(&format!("{step} is refused"), &error.to_string()),
        }
    }

    fn refused(&self, what: &str, why: &str) -> Arena {
        let so = match self.zero_copy {
            ZeroCopy::Always => "zero-copy sends pin their pages one by one",
            ZeroCopy::Auto | ZeroCopy::Never => "sends are plain ones",
        };
        let note = format!("{what}, {so}: {why}");
        self.share.tell(&note);
        Arena::refused(note)
    }

    /// Not even a byte can be sent without a copy.
    pub(super) fn tell_short(&self) {
        let limit = memory_lock_limit().unwrap_or(u64::MAX);
        let why = missing(self.pool.addresses().len(), limit);
        self.share.tell(&format!("there is no memory for zero-copy sends, sends are plain ones: {why}"));
    }

    fn share_or_register(&self, ring: &Submitter<'_>, addresses: &Range<usize>) -> io::Result<()> {
        let mut holder = lock(&self.share.holder);
        if holder.is_none() {
            let fresh = IoUring::builder().dontfork().build(1)?;
            register(&fresh.submitter(), addresses)?;
            *holder = Some(fresh);
        }
        let shared = holder.as_ref().map(|holder| ring.register_buffers_clone(holder.as_raw_fd()));
        match shared {
            Some(Ok(())) => Ok(()),
            // Before 6.12 every ring has to have its own.
            _ => {
                *holder = None;
                register(ring, addresses)
            }
        }
    }
}

fn register(ring: &Submitter<'_>, addresses: &Range<usize>) -> io::Result<()> {
    let regions: Vec<libc::iovec> = Arena::regions(addresses.clone())
        .map(|region| libc::iovec {
            iov_base: std::ptr::with_exposed_provenance_mut(region.start),
            iov_len: region.len(),
        })
        .collect();
    // SAFETY: the kernel keeps the pages by itself for as long as they are registered, and only reads them, for
    // sends that hold what they send.
    unsafe { ring.register_buffers(&regions) }
}

/// What a user is told whose processes may lock `limit` bytes.
fn missing(bytes: usize, limit: u64) -> String {
    let more = (bytes as u64).saturating_sub(limit).max(4096);
    format!("the limit of locked memory (RLIMIT_MEMLOCK) is {limit} bytes, raise it by {more} or more")
}

/// The limit of locked memory in bytes, if there is one.
fn memory_lock_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Memlock).current
}

/// The most segments that copies of headers lie in at once.
const STAGING_MAX: u32 = 32;

/// Segments of the arena for what lies outside of it.
#[derive(Debug)]
struct Staging {
    pool: Arc<SegmentPool>,
    charge: Arc<Charge>,
    cache: SegmentCache,
}

impl Staging {
    /// A share of the largest segments that nobody reserved, if there are any.
    fn new(pool: &Arc<SegmentPool>) -> Option<Self> {
        let classes = SegmentClass::ALL.into_iter().rev();
        let counts = std::iter::successors(Some(STAGING_MAX), |count| Some(count / 2).filter(|it| *it > 0));
        let budget = counts
            .flat_map(|count| classes.clone().map(move |class| (class, count)))
            .find_map(|(class, count)| pool.reserve(class, 0, count, Arc::new(Waiter::new())).ok())?;
        let charge = budget.charge(0, STAGING_MAX);
        let cache = SegmentCache::new(pool, &budget);
        Some(Self { pool: Arc::clone(pool), charge, cache })
    }

    fn segment(&mut self) -> Option<OpenSegment> {
        self.pool.allocate(&self.charge, &mut self.cache).ok()
    }
}
