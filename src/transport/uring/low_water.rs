//! When a socket may keep small amounts to itself: never at rest, and never without a deadline.
//!
//! Under load every arriving segment would wake the thread for a few ten kilobytes; with a low-water mark
//! (`SO_RCVLOWAT`) the kernel waits for more. A tail below the mark would lie there, so the mark is above 1
//! only while the thread waits for at most [`PATIENCE`], and goes back to 1 when nothing came by then.

use crate::clock::Moment;
use std::time::Duration;

/// The mark under load, and the length of a stretch, in bytes.
pub(super) const MARK: u32 = 128 * 1024;
/// A stretch that comes within this time is quick.
pub(super) const QUICK: Duration = Duration::from_micros(250);
/// Quick stretches in a row before the mark goes up.
const STRETCHES: u8 = 2;
/// How long the kernel may keep bytes below the mark.
pub(super) const PATIENCE: Duration = Duration::from_micros(100);

/// The mark of one socket.
#[derive(Debug)]
pub(super) struct LowWater {
    enabled: bool,
    begin: Moment,
    bytes: u64,
    quick: u8,
    /// While the mark is up: when bytes came last.
    raised: Option<Moment>,
}

impl LowWater {
    pub(super) fn new(enabled: bool, now: Moment) -> Self {
        Self { enabled, begin: now, bytes: 0, quick: 0, raised: None }
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Bytes came. Tells whether the mark shall go up; then [`Self::raise`] says that it did.
    pub(super) fn received(&mut self, bytes: usize, now: Moment) -> bool {
        if let Some(last) = &mut self.raised {
            *last = now;
            return false;
        }
        self.bytes += bytes as u64;
        if self.bytes < u64::from(MARK) {
            return false;
        }
        // A receive may bring several stretches at once: they count as one.
        self.quick = if now.since(self.begin) <= QUICK { self.quick + 1 } else { 0 };
        self.begin = now;
        self.bytes = 0;
        self.quick >= STRETCHES
    }

    pub(super) fn raise(&mut self, now: Moment) {
        self.raised = Some(now);
    }

    /// When the mark has to go down, if it is up.
    pub(super) fn deadline(&self) -> Option<Moment> {
        self.raised.map(|last| last.plus(PATIENCE))
    }

    /// The mark goes down: at rest, until the load is back.
    pub(super) fn lower(&mut self, now: Moment) {
        (self.raised, self.quick, self.bytes, self.begin) = (None, 0, 0, now);
    }

    /// The system doesn't know marks on this socket.
    pub(super) fn disable(&mut self) {
        self.enabled = false;
        self.raised = None;
    }
}
