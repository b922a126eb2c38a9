//! Places in a ring: which entry, how far into it, and of which bind epoch.

use crate::id::BindEpoch;

/// A place in a ring. `entry` counts entries modulo 2^16 and never restarts; a ring has at most 2^15
/// slots, so two entries that live at once are never confused. `offset` is in bytes from the entry's begin.
///
/// `(e, 0)` stands for "all of entry e-1 is behind": an entry is complete exactly when `written` has left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Position {
    pub(crate) entry: u16,
    pub(crate) offset: u16,
}

impl Position {
    pub(crate) const fn new(entry: u16, offset: u16) -> Self {
        Self { entry, offset }
    }

    pub(crate) const fn at_entry(entry: u16) -> Self {
        Self { entry, offset: 0 }
    }

    pub(crate) const fn to_bits(self) -> u32 {
        (self.entry as u32) << 16 | self.offset as u32
    }

    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self { entry: (bits >> 16) as u16, offset: bits as u16 }
    }

    /// How many entries `later` is ahead of this one.
    pub(crate) const fn entries_to(self, later: Self) -> u16 {
        later.entry.wrapping_sub(self.entry)
    }
}

/// A position that only the reader of one bind epoch may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tagged {
    pub(crate) epoch: BindEpoch,
    pub(crate) position: Position,
}

impl Tagged {
    pub(crate) const fn new(epoch: BindEpoch, position: Position) -> Self {
        Self { epoch, position }
    }

    pub(crate) const fn to_bits(self) -> u64 {
        (self.epoch.0 as u64) << 32 | self.position.to_bits() as u64
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self { epoch: BindEpoch((bits >> 32) as u32), position: Position::from_bits(bits as u32) }
    }
}

/// What lies before a position, counted since the subpartition was made: stream bytes (payloads with their
/// length prefixes) and records whose last byte lies before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Amount {
    /// Records, each counted where its last byte is.
    pub records: u64,
    /// Stream bytes: payloads and length prefixes.
    pub bytes: u64,
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} records, {} bytes", self.records, self.bytes)
    }
}

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self { records: 0, bytes: 0 };

    pub(crate) const fn new(records: u64, bytes: u64) -> Self {
        Self { records, bytes }
    }

    /// What this has more than `earlier`; both are counts that only grow.
    pub(crate) const fn since(self, earlier: Self) -> Self {
        Self {
            records: self.records.wrapping_sub(earlier.records),
            bytes: self.bytes.wrapping_sub(earlier.bytes),
        }
    }

    /// What this has more than `other`, each count for itself; 0 where it has less.
    pub(crate) const fn beyond(self, other: Self) -> Self {
        Self {
            records: self.records.saturating_sub(other.records),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

impl Amount {
    /// The greater of the two, each count for itself.
    pub(crate) fn at_least(self, least: Self) -> Self {
        Self { records: self.records.max(least.records), bytes: self.bytes.max(least.bytes) }
    }

    /// The lesser of the two, each count for itself.
    pub(crate) fn at_most(self, most: Self) -> Self {
        Self { records: self.records.min(most.records), bytes: self.bytes.min(most.bytes) }
    }
}

impl std::ops::Add for Amount {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            records: self.records.wrapping_add(other.records),
            bytes: self.bytes.wrapping_add(other.bytes),
        }
    }
}

impl std::ops::AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
