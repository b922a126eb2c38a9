//! From nothing to a transport that has shown that it works.

use super::arena::{ArenaShare, ArenaSource};
use super::kernel::{KernelRing, Rung};
use super::probe::{Refusal, probe};
use super::ring::Ring;
use super::zero_copy::{Ability, ZeroCopy};
use super::{Settings, Uring};
use crate::memory::{ReceivePool, SegmentPool};
use std::fmt;
use std::sync::Arc;

/// What a transport over io_uring is made with.
#[derive(Clone, Debug)]
pub(crate) struct UringOptions {
    /// Receive buffers of this transport.
    pub(crate) receive: ReceivePool,
    /// What segments of batches lie in.
    pub(crate) arena: Arc<SegmentPool>,
    /// The arena's registration, shared by the transports of a worker.
    pub(crate) share: Arc<ArenaShare>,
    pub(crate) zero_copy: ZeroCopy,
    /// Low-water marks under load.
    pub(crate) lazy: bool,
}

/// What the kernel gives, for one log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    rung: Rung,
    ability: Ability,
    takes_buffers: bool,
    completions: u32,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let receives = if self.takes_buffers { "multishot" } else { "single" };
        let Self { rung, ability, completions, .. } = self;
        write!(
            f,
            "set-up {rung:?}, {completions} completions, {receives} receives, zero-copy sends: {ability:?}"
        )
    }
}

#[cfg(feature = "tokio-uring")]
impl KernelRing {
    /// Makes a ring, tries it, and drops it.
    pub(in crate::transport) fn tried() -> Result<(), Refusal> {
        probe(&mut Self::from_rung(Rung::NoIndex)?).map(drop)
    }
}

impl Uring<KernelRing> {
    /// Makes a ring for the thread that calls, tries it, and makes a transport of it.
    ///
    /// # Errors
    /// The step that the kernel refuses, and its answer.
    pub(crate) fn open(options: UringOptions) -> Result<(Self, Found), Refusal> {
        Self::open_from(Rung::NoIndex, true, options)
    }

    /// The same as on an older kernel: from a lower rung, or without provided buffers.
    pub(in crate::transport) fn open_from(
        rung: Rung,
        takes_buffers: bool,
        options: UringOptions,
    ) -> Result<(Self, Found), Refusal> {
        let mut ring = KernelRing::from_rung(rung)?;
        let ability = probe(&mut ring)?;
        if !takes_buffers {
            ring.drop_buffers_ring().map_err(|error| ("unregister the ring of buffers", error))?;
        }
        let (rung, takes_buffers, completions) = (ring.rung(), ring.takes_buffers(), ring.completions());
        let found = Found { rung, ability, takes_buffers, completions };
        let (pool, share, zero_copy) = (options.arena, options.share, options.zero_copy);
        let arena = ArenaSource { pool, share, zero_copy };
        if ability == Ability::Short && zero_copy != ZeroCopy::Never {
            arena.tell_short();
        }
        ring.set_arena(arena);
        let settings = Settings { zero_copy, ability, lazy: options.lazy };
        let uring = Self::new(ring, options.receive, settings).map_err(|error| ("eventfd", error))?;
        Ok((uring, found))
    }
}
