//! The streams of one connection by their ids.

use super::{STREAMS_MAX, VIOLATIONS_MAX, Violation};
use crate::wire::{Rule, StreamId};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// What was dropped on one connection, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    /// Frames of another epoch than the stream's, or too late in it.
    pub(crate) stale: u64,
    /// Frames of streams that are over.
    pub(crate) unknown: u64,
    /// What was answered with an error.
    pub(crate) violations: u64,
}

/// Spreads ids, which count from 0: whoever could choose them to collide would have to open streams in
/// order to get there.
#[derive(Debug, Default)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, id: u32) {
        // The golden ratio of 2^64: neighbours come far apart, and the upper bits are mixed too.
        self.0 = (self.0 ^ u64::from(id)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Ids are given in order, each once; what is behind `next` and not open is over.
#[derive(Debug)]
pub(super) struct Table<T> {
    next: u64,
    open: HashMap<StreamId, T, BuildHasherDefault<IdHasher>>,
    pub(super) counts: Counts,
}

impl<T> Table<T> {
    pub(super) fn new() -> Self {
        Self { next: 0, open: HashMap::default(), counts: Counts::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// The id that the next stream has.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Whether so many more streams may be opened.
    pub(super) fn has_room(&self, count: u32) -> bool {
        let ids = self.next + u64::from(count) <= u64::from(u32::MAX);
        ids && self.open.len() + count as usize <= STREAMS_MAX
    }

    /// Opens so many streams, for which there is room. Returns the first one's id.
    pub(super) fn open(&mut self, count: u32, mut make: impl FnMut(u32) -> T) -> StreamId {
        let first = StreamId(self.next as u32);
        for index in 0..count {
            self.open_one(make(index));
        }
        first
    }

    /// Opens one stream, for which there is room.
    pub(super) fn open_one(&mut self, stream: T) -> StreamId {
        let id = StreamId(self.next as u32);
        self.open.insert(id, stream);
        self.next += 1;
        id
    }

    /// The peer gives a stream up; `None`, and counted, if there is none.
    pub(super) fn on_error(&mut self, stream: StreamId) -> Option<T> {
        let removed = self.open.remove(&stream);
        if removed.is_none() {
            self.counts.unknown += 1;
        }
        removed
    }

    /// The stream that a frame names; `None`, and counted, if it is over.
    ///
    /// # Errors
    /// There never was such a stream.
    pub(super) fn find(&mut self, stream: StreamId) -> Result<Option<&mut T>, Violation> {
        if u64::from(stream.0) >= self.next {
            let text = format_args!("there never was such a stream, {} were opened", self.next);
            let violation = Violation::stream(stream, Rule::STREAM, text);
            return Err(self.counts.judge(violation));
        }
        let found = self.open.get_mut(&stream);
        if found.is_none() {
            self.counts.unknown += 1;
        }
        Ok(found)
    }

    /// As [`Table::find`], for an open stream and without counting.
    pub(super) fn get(&mut self, stream: StreamId) -> Option<&mut T> {
        self.open.get_mut(&stream)
    }

    pub(super) fn remove(&mut self, stream: StreamId) -> Option<T> {
        self.open.remove(&stream)
    }

    pub(super) fn iter(&mut self) -> impl Iterator<Item = (StreamId, &mut T)> {
        self.open.iter_mut().map(|(stream, open)| (*stream, open))
    }

    /// Everything that is open, and is over now.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (StreamId, T)> {
        self.open.drain()
    }
}

impl Counts {
    /// Counts a violation; the connection is given up for one too many.
    pub(super) fn judge(&mut self, mut violation: Violation) -> Violation {
        self.violations += 1;
        if self.violations > VIOLATIONS_MAX {
            violation.scope = super::Scope::Connection;
        }
        violation
    }
}
