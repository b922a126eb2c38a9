//! Finding record boundaries inside one entry, from the facts the ring keeps about it.
//!
//! Used on cold paths (bind, skip, account of a position), where the reader stands somewhere in an entry
//! it didn't walk itself. With equal lengths the answers are divisions; else the lengths are chased from
//! the first record start.

use super::layout::{LENGTH_BYTES, RecordLayout};

/// The longest entry in bytes: the largest segment class.
pub(crate) const ENTRY_BYTES_MAX: usize = 32 * 1024;

/// [`EntryFacts::uniform`] when the lengths differ or aren't known.
pub(crate) const UNIFORM_NONE: u32 = u32::MAX;

/// Offset in an entry of the first record that starts in it, fixed when the entry is opened.
///
/// It counts the entry's bytes that belong to a record begun earlier: 0 when a record starts at its
/// begin, the entry's full length when the earlier record ends just there, [`NONE`](Self::NONE) when that
/// one goes on beyond the entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct First(u16);

impl First {
    /// No record starts in this entry, and the earlier one doesn't end in it.
    pub(crate) const NONE: Self = Self(u16::MAX);

    /// The first record starts at `off`; an offset that no entry has is a record that goes on beyond it.
    #[inline]
    pub(crate) const fn at(off: usize) -> Self {
        if off <= ENTRY_BYTES_MAX { Self(off as u16) } else { Self::NONE }
    }

    /// The offset, or `None` for [`NONE`](Self::NONE).
    #[inline]
    pub(crate) const fn get(self) -> Option<u16> {
        if self.0 == Self::NONE.0 { None } else { Some(self.0) }
    }

    /// The form that a slot of the ring stores.
    #[inline]
    pub(crate) const fn to_bits(self) -> u16 {
        self.0
    }

    /// The inverse of [`to_bits`](Self::to_bits).
    #[inline]
    pub(crate) const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }
}

/// What is known of a data entry beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryFacts {
    pub(crate) layout: RecordLayout,
    pub(crate) first: First,
    /// Payload length in bytes that all records share which start in the entry's published bytes, or
    /// [`UNIFORM_NONE`]. A hint: where none starts, any value is right.
    pub(crate) uniform: u32,
}

impl EntryFacts {
    /// Payload length in bytes of every record that starts in the entry, if one length serves all.
    #[inline]
    pub(super) fn equal_payload(&self) -> Option<usize> {
        match self.layout {
            RecordLayout::Fixed(width) => Some(width.get() as usize),
            RecordLayout::Lengths if self.uniform == UNIFORM_NONE => None,
            RecordLayout::Lengths => Some(self.uniform as usize),
        }
    }

    /// Bytes from one record start to the next, if all are alike; never 0.
    #[inline]
    fn stride(&self) -> Option<usize> {
        self.equal_payload().map(|payload| payload.saturating_add(self.layout.prefix_bytes()))
    }
}

/// Where the next record starts, seen from an offset in an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Boundary {
    /// A record starts, or would start, at this offset of the entry.
    At(usize),
    /// The record that covers the offset isn't whole within the published bytes.
    Beyond,
}

/// Number of records whose last byte lies before entry offset `off`, i.e. of record ends in `1..=off`.
///
/// `bytes` are the entry's from its begin to at least `off`. A record begun in an earlier entry counts
/// where it ends.
pub(crate) fn ends_until(facts: &EntryFacts, bytes: &[u8], off: usize) -> u32 {
    let Some(first) = facts.first.get().map(usize::from).filter(|first| *first <= off) else {
        return 0;
    };
    let started_here = match facts.stride() {
        Some(stride) => (off - first) / stride,
        None => {
            let ends = std::iter::successors(chase(bytes, first), |end| chase(bytes, *end));
            ends.take_while(|end| *end <= off).count()
        }
    };
    // An entry has at most `ENTRY_BYTES_MAX` bytes and a record at least one: the count fits.
    started_here as u32 + u32::from(first > 0)
}

/// The first offset at or after `off` where a record starts or would start, as far as `bytes`, the
/// published part of the entry, can tell.
pub(crate) fn boundary_at_or_after(facts: &EntryFacts, bytes: &[u8], off: usize) -> Boundary {
    let Some(first) = facts.first.get().map(usize::from) else {
        return Boundary::Beyond;
    };
    let boundary = match facts.stride() {
        _ if off <= first => Some(first),
        Some(stride) => {
            (off - first).div_ceil(stride).checked_mul(stride).and_then(|run| first.checked_add(run))
        }
        None => std::iter::successors(Some(first), |start| chase(bytes, *start)).find(|start| *start >= off),
    };
    match boundary {
        Some(at) if at <= bytes.len() => Boundary::At(at),
        _ => Boundary::Beyond,
    }
}

/// From one start of a length-prefixed record to the next, at least 4 bytes on. `None` where no whole
/// prefix stands; a length that leads out of `bytes` is noticed there at the following step.
#[inline]
fn chase(bytes: &[u8], start: usize) -> Option<usize> {
    let payload = RecordLayout::Lengths.payload_of_prefix(bytes.get(start..)?)?;
    start.checked_add(LENGTH_BYTES)?.checked_add(payload as usize)
}
