//! Which subpartition a record goes to.

use xxhash_rust::xxh3::xxh3_64;

/// Chooses the subpartition of a record.
pub trait Partitioner {
    /// The subpartition of `record`, less than `subpartitions`, which is at least 1. A greater one is refused by
    /// the writer as `NoSuchSubpartition`, and the record isn't written.
    fn target(&mut self, record: &[u8], subpartitions: u32) -> u32;
}

/// One subpartition after the other.
#[derive(Clone, Debug, Default)]
pub struct RoundRobin {
    next: u32,
}

impl RoundRobin {
    /// Begins with subpartition `first`; producers that begin at different ones spread better.
    #[must_use]
    pub const fn starting_at(first: u32) -> Self {
        Self { next: first }
    }
}

impl Partitioner for RoundRobin {
    #[inline]
    fn target(&mut self, _record: &[u8], subpartitions: u32) -> u32 {
        let target = if self.next < subpartitions { self.next } else { 0 };
        self.next = target + 1;
        target
    }
}

/// By the hash of the record's key: records with equal keys go to the same subpartition.
///
/// The choice is the upper half of the XXH3 hash (64 bits, no seed) of the key's bytes, scaled to the number
/// of subpartitions. It is the same in every process, on every machine and in every version of this crate:
/// attempts of a task, and tasks of different versions, agree on it.
#[derive(Clone, Debug)]
pub struct Hash<F> {
    key: F,
}

impl<F: Fn(&[u8]) -> &[u8]> Hash<F> {
    /// `key` finds the key in a record.
    #[must_use]
    pub const fn new(key: F) -> Self {
        Self { key }
    }
}

impl<F: Fn(&[u8]) -> &[u8]> Partitioner for Hash<F> {
    #[inline]
    fn target(&mut self, record: &[u8], subpartitions: u32) -> u32 {
        let hash = xxh3_64((self.key)(record)) >> 32;
        // Less than `subpartitions`, since the hash is less than 2^32.
        ((hash * u64::from(subpartitions)) >> 32) as u32
    }
}

/// Always the same subpartition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward(pub u32);

impl Partitioner for Forward {
    #[inline]
    fn target(&mut self, _record: &[u8], _subpartitions: u32) -> u32 {
        self.0
    }
}
