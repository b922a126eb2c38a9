//! The state word: is there somebody to write for?
//!
//! ```text
//!   {bind epoch 32 | stream 8 | phase 3 | finishing 1 | released 1}      one AtomicU64
//!
//!                 bind                  suspend            bind (resume or new)
//!   Unbound ─────────────> Bound ─────────────> Suspended ──────────────> Bound
//!                           │  ^                    │
//!               unavailable │  │ bind               │ unavailable
//!                           v  │                    v
//!                        Unavailable <──────────────┘
//! ```
//! `finishing` (the writer has appended its end) and `released` (final) are flags beside the phase.
//!
//! # Who may change it
//! The phase, epoch and stream change only under the mutex of the bind record, by a compare-and-swap that
//! keeps the flags; the flags are set by anybody with `fetch_or`; there is no plain store. So a release
//! that comes between a binder's steps is never lost: the binder's compare-and-swap keeps it, and the
//! binder sees it in the returned word and undoes itself.
//!
//! `stream` grows with every outage and every bind that is neither a resume nor the first: a writer in the
//! middle of a record compares it, not the epoch, to know whether the record's first part reached whoever
//! reads now.
//!
//! # Edges
//! None of its own: see [`State::load`]. That the writer's ring reaches the view of the newest bind is
//! `BIND_F1` (module above).

use crate::id::BindEpoch;
use crate::sync::{AtomicU64, CachePadded, Ordering};

/// Who reads a subpartition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Nobody has bound it yet.
    Unbound,
    /// A view is bound.
    Bound,
    /// The connection of the bound view is lost; it may come back and go on where it was.
    Suspended,
    /// The consumer is gone; the policy `when_absent` rules until the next bind.
    Unavailable,
}

const FINISHING: u64 = 1 << 1;
const RELEASED: u64 = 1;

/// A picture of the state word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(u64);

impl Word {
    fn new(epoch: BindEpoch, stream: u8, phase: Phase, flags: u64) -> Self {
        let phase = match phase {
            Phase::Unbound => 0,
            Phase::Bound => 1,
            Phase::Suspended => 2,
            Phase::Unavailable => 3,
        };
        Self(u64::from(epoch.0) << 32 | u64::from(stream) << 24 | phase << 2 | flags)
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    pub(crate) const fn epoch(self) -> BindEpoch {
        BindEpoch((self.0 >> 32) as u32)
    }

    pub(crate) const fn stream(self) -> u8 {
        (self.0 >> 24) as u8
    }

    pub(crate) const fn phase(self) -> Phase {
        match self.0 >> 2 & 0b111 {
            0 => Phase::Unbound,
            1 => Phase::Bound,
            2 => Phase::Suspended,
            _ => Phase::Unavailable,
        }
    }

    pub(crate) const fn is_finishing(self) -> bool {
        self.0 & FINISHING != 0
    }

    pub(crate) const fn is_released(self) -> bool {
        self.0 & RELEASED != 0
    }

    const fn flags(self) -> u64 {
        self.0 & (FINISHING | RELEASED)
    }
}

impl std::fmt::Debug for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Word")
            .field("epoch", &self.epoch().0)
            .field("stream", &self.stream())
            .field("phase", &self.phase())
            .field("finishing", &self.is_finishing())
            .field("released", &self.is_released())
            .finish()
    }
}

/// A transition met the released flag: it has no effect that lasts, the caller undoes its own part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct ReleasedMeanwhile;

/// The atomic behind [`Word`]; private to this file.
#[derive(Debug)]
pub(crate) struct State(CachePadded<AtomicU64>);

impl State {
    pub(crate) fn new() -> Self {
        Self(CachePadded::new(AtomicU64::new(Word::new(BindEpoch::NEVER, 0, Phase::Unbound, 0).bits())))
    }

    /// The writer's question, once a record.
    #[inline]
    pub(crate) fn load(&self) -> Word {
        // Relaxed: the word alone is the answer. Nothing that a transition did before it is read on the
        // strength of it: what the writer publishes after this load can't be what the binder drained before
        // (RING_E1: had the binder read it, this load would come before the transition), the place that
        // came free is read by RING_E2, the quota by the budget's own words and its wake-up, and all else
        // (the node, the cause of a release) under the mutex.
        Word(self.0.load(Ordering::Relaxed))
    }

    /// Under the bind mutex: a view of `epoch` reads from now on. `same_stream`: a resume, or the first bind.
    pub(crate) fn bind(&self, epoch: BindEpoch, same_stream: bool) -> Result<Word, ReleasedMeanwhile> {
        self.transition(epoch, Phase::Bound, !same_stream)
    }

    /// Under the bind mutex: nobody reads from now on; `epoch` is the fence.
    pub(crate) fn unavailable(&self, epoch: BindEpoch) -> Result<Word, ReleasedMeanwhile> {
        self.transition(epoch, Phase::Unavailable, true)
    }

    /// The writer has appended the end of the stream.
    pub(crate) fn finish(&self) {
        // Relaxed: tells observers; the end itself is an entry.
        self.0.fetch_or(FINISHING, Ordering::Relaxed);
    }

    /// Final: nothing is written or bound any more. Returns the word before.
    pub(crate) fn release(&self) -> Word {
        // Relaxed: see `load`.
        Word(self.0.fetch_or(RELEASED, Ordering::Relaxed))
    }

    fn transition(
        &self,
        epoch: BindEpoch,
        phase: Phase,
        new_stream: bool,
    ) -> Result<Word, ReleasedMeanwhile> {
        // Relaxed: the compare-and-swap confirms it, and the mutex orders transitions among themselves.
        let mut now = Word(self.0.load(Ordering::Relaxed));
        loop {
            if now.is_released() {
                return Err(ReleasedMeanwhile);
            }
            let stream = now.stream().wrapping_add(u8::from(new_stream));
            let next = Word::new(epoch, stream, phase, now.flags());
            // Relaxed: see `load`.
            match self.0.compare_exchange_weak(now.bits(), next.bits(), Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return Ok(next),
                Err(seen) => now = Word(seen),
            }
        }
    }
}
