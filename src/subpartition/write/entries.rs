//! The open end of a ring: the segment being filled, the entry in it, and how entries begin and end.

use super::super::position::{Amount, Position};
use super::super::ring::Ring;
use super::super::slot::{Entry, Kind};
use super::shared::SharedPart;
use crate::memory::{Appender, Charge, OpenSegment, SegmentCache, SegmentName};
use crate::record::{First, UNIFORM_NONE};
use std::sync::Arc;

/// Slots that stay free for what must always fit: ABORT, LOSS, end of data, end of partition, and the slot
/// behind the last one, which carries its base.
const RESERVED_SLOTS: u16 = 5;

/// There is no room now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// The subpartition's quota of segments, or its partition's floating share, is used up.
    Memory,
    /// All slots of the ring are in use.
    Slots,
    /// Eight priority events wait already.
    Priority,
}

/// The writer's end of a ring. All positions are of stream bytes; `written` is published by [`Tail::end_record`]
/// and by the end of an entry.
#[derive(Debug)]
pub(super) struct Tail {
    open: Option<OpenSegment>,
    /// The entry that is open, or comes next.
    entry: u16,
    /// Whether the slot of `entry` is filled and the ring holds its segment.
    entry_open: bool,
    /// The slot of `entry` is filled with a shared entry: in which segment, and where in it the entry ends.
    /// Never together with `entry_open`.
    shared: Option<(SegmentName, usize)>,
    /// Where the open entry begins in its segment.
    from: usize,
    /// Bytes in the open entry, published or not.
    filled: usize,
    /// Bytes of the open segment that are behind `from + filled`.
    room: usize,
    /// Payload length that all records of the open entry share; `UNIFORM_NONE` when they differ. Means
    /// nothing before the first record has started in it.
    uniform: u32,
    started: bool,
    /// What lies before the open entry.
    base: u64,
    /// Records whose last byte is published, or about to be.
    records: u64,
}

impl Tail {
    pub(super) fn new(ring: &Ring) -> Self {
        ring.slot(0).set_base(0, 0);
        Self {
            open: None,
            entry: 0,
            entry_open: false,
            shared: None,
            from: 0,
            filled: 0,
            room: 0,
            uniform: UNIFORM_NONE,
            started: false,
            base: 0,
            records: 0,
        }
    }

    /// Bytes that a record may still take in the open entry; 0 when none is open.
    #[inline]
    pub(super) fn room(&self) -> usize {
        if self.entry_open { self.room } else { 0 }
    }

    /// Bytes that are free in the segment at hand, whether an entry of it is open or not.
    pub(super) fn rest(&self) -> usize {
        if self.open.is_some() { self.room } else { 0 }
    }

    pub(super) fn segment_bytes(&self) -> Option<usize> {
        self.open.as_ref().map(OpenSegment::capacity)
    }

    pub(super) fn entry(&self) -> u16 {
        self.entry
    }

    pub(super) fn filled(&self) -> usize {
        self.filled
    }

    /// Published and about to be published: records, and stream bytes.
    #[inline]
    pub(super) fn amount(&self) -> Amount {
        Amount::new(self.records, self.base + self.filled as u64)
    }

    /// Whether a record of this payload length can go the short way: a record has started in the entry,
    /// and the length keeps the hint as it is.
    #[inline]
    fn keeps_uniform(&self, payload_bytes: usize) -> bool {
        self.started && (self.uniform == UNIFORM_NONE || self.uniform as usize == payload_bytes)
    }

    /// Puts a record of one piece into the open entry, and publishes it. False, with nothing done, where the entry
    /// has no room for it, or where the record would change what the entry says of its records' lengths.
    #[inline]
    pub(super) fn append(&mut self, ring: &Ring, prefix: bool, payload: &[u8]) -> bool {
        let bytes = payload.len() + if prefix { 4 } else { 0 };
        if !self.keeps_uniform(payload.len()) || bytes > self.room() {
            return false;
        }
        let Some(open) = &mut self.open else { return false };
        // What is filled of the entry is published, and so committed: no record is under way.
        let prefix = prefix.then(|| (payload.len() as u32).to_le_bytes());
        if !open.append(prefix, payload) {
            return false;
        }
        self.filled += bytes;
        self.room -= bytes;
        self.records += 1;
        ring.publish(Position::new(self.entry, self.filled as u16));
        true
    }

    /// The open entry, for records of one piece each that are put into it one behind the other. `None` where none is
    /// open, or no record has started in it.
    #[inline]
    pub(super) fn row<'t>(&'t mut self, ring: &'t Ring, prefix: bool) -> Option<RecordRow<'t>> {
        let uniform = self.uniform;
        if !self.started || !self.entry_open {
            return None;
        }
        let Self { open, entry, filled, room, records, .. } = self;
        let appender = open.as_mut()?.appender();
        Some(RecordRow { ring, appender, prefix, uniform, entry: *entry, filled, room, records })
    }

    /// Bytes to fill, behind what is filled.
    #[inline]
    pub(super) fn spare(&mut self, bytes: usize) -> Option<&mut [u8]> {
        let start = self.from + self.filled;
        self.open.as_mut().map(|open| open.spare(start..start + bytes))
    }

    #[inline]
    pub(super) fn advance(&mut self, bytes: usize) {
        self.filled += bytes;
        self.room -= bytes;
    }

    /// Takes back what was filled behind `filled` and not published.
    pub(super) fn rewind(&mut self, filled: usize) {
        self.room += self.filled - filled;
        self.filled = filled;
    }

    /// A record ends at what is filled: publishes it.
    #[inline]
    pub(super) fn end_record(&mut self, ring: &Ring) {
        self.records += 1;
        if let Some(open) = &mut self.open {
            open.commit(self.from + self.filled);
        }
        ring.publish(Position::new(self.entry, self.filled as u16));
    }

    /// A record of this payload length starts in the entry and is about to be published.
    pub(super) fn note_length(&mut self, ring: &Ring, payload_bytes: u32) {
        let next = if !self.started || self.uniform == payload_bytes { payload_bytes } else { UNIFORM_NONE };
        if !self.started || next != self.uniform {
            ring.slot(self.entry).set_uniform(next);
        }
        self.started = true;
        self.uniform = next;
    }

    fn slots_free(&self, ring: &Ring) -> u16 {
        ring.capacity() - self.entry.wrapping_sub(ring.released().entry)
    }

    /// Whether an entry can begin and leave the reserve untouched.
    pub(super) fn has_slot(&self, ring: &Ring) -> bool {
        self.has_slots(ring, 1)
    }

    /// Whether `count` entries can begin and leave the reserve untouched.
    pub(super) fn has_slots(&self, ring: &Ring, count: u16) -> bool {
        // The open entry has its slot already; those looked for are the next.
        let open = self.entry_open || self.shared.is_some();
        self.slots_free(ring) >= RESERVED_SLOTS + u16::from(open) + count
    }

    /// Makes sure that an entry is open with at least `least` bytes of room. Ends the one before if need
    /// be, which publishes all of it.
    pub(super) fn make_room(
        &mut self,
        ring: &Ring,
        charge: &Arc<Charge>,
        cache: &mut SegmentCache,
        least: usize,
        first: impl Fn(usize) -> First,
    ) -> Result<(), Blocked> {
        if self.entry_open && self.room >= least {
            return Ok(());
        }
        if self.shared.is_some() || (self.open.is_some() && self.room < least) {
            self.end_entry(ring);
        }
        if self.room < least {
            self.open = None;
            self.room = 0;
        }
        if !self.has_slot(ring) {
            return Err(Blocked::Slots);
        }
        if self.open.is_none() {
            let open = ring.pool.allocate(charge, cache).map_err(|_| Blocked::Memory)?;
            self.from = 0;
            self.room = open.capacity();
            self.open = Some(open);
        }
        if !self.entry_open {
            self.begin_entry(ring, first(self.room));
        }
        Ok(())
    }

    fn begin_entry(&mut self, ring: &Ring, first: First) {
        let Some(open) = &self.open else { return };
        open.add_hold();
        ring.slot(self.entry).fill(&Entry {
            kind: Kind::Data,
            segment: open.name(),
            from: self.from as u16,
            first,
            aux: 0,
        });
        self.entry_open = true;
        self.filled = 0;
        self.started = false;
        self.uniform = UNIFORM_NONE;
    }

    /// Ends the open entry where it is filled to, and publishes all of it.
    pub(super) fn end_entry(&mut self, ring: &Ring) {
        if self.shared.is_some() {
            self.pass_shared(ring);
            ring.publish(Position::at_entry(self.entry));
            return;
        }
        if !self.entry_open {
            return;
        }
        self.entry_open = false;
        if self.filled == 0 {
            // Nothing of it was ever published: the slot is the next entry's.
            if let Some(open) = &self.open {
                ring.pool.drop_hold(open.name());
            }
            return;
        }
        if let Some(open) = &mut self.open {
            open.commit(self.from + self.filled);
        }
        self.from += self.filled;
        self.base += self.filled as u64;
        self.filled = 0;
        self.leave_entry(ring);
    }

    /// Appends an entry without stream bytes. The caller knows that there is a slot.
    pub(super) fn push(&mut self, ring: &Ring, kind: Kind, segment: SegmentName, aux: u64) {
        self.end_entry(ring);
        ring.slot(self.entry).fill(&Entry {
            kind,
            segment,
            from: self.from as u16,
            first: First::at(0),
            aux,
        });
        self.leave_entry(ring);
    }

    /// Appends an application event whose bytes go into the open segment. The caller made room.
    pub(super) fn push_bytes(&mut self, ring: &Ring, bytes: &[u8]) {
        self.end_entry(ring);
        let Some(open) = &mut self.open else { return };
        open.spare(self.from..self.from + bytes.len()).copy_from_slice(bytes);
        open.commit(self.from + bytes.len());
        open.add_hold();
        let name = open.name();
        self.push(ring, Kind::Application, name, bytes.len() as u64);
        self.from += bytes.len();
        self.room -= bytes.len();
    }

    /// Whether a record that begins with this part goes on in the open entry.
    pub(super) fn grows_shared(&self, part: &SharedPart) -> bool {
        self.shared == Some((part.segment, part.from))
    }

    /// Appends a record that lies in shared segments, by one store: readers see all of it or nothing. The
    /// caller knows that there are slots.
    pub(super) fn push_shared(&mut self, ring: &Ring, parts: &[SharedPart], payload_bytes: u32) {
        for (index, part) in parts.iter().enumerate() {
            if index > 0 || !self.grows_shared(part) {
                if self.shared.is_some() {
                    self.pass_shared(ring);
                } else {
                    // Its bytes are published already: a record ended here.
                    self.end_entry(ring);
                }
                ring.slot(self.entry).fill(&Entry {
                    kind: Kind::Shared,
                    segment: part.segment,
                    from: part.from as u16,
                    first: part.first,
                    aux: 0,
                });
                self.started = false;
                self.uniform = UNIFORM_NONE;
            }
            if index == 0 {
                self.note_length(ring, payload_bytes);
            }
            self.filled += part.bytes;
            self.shared = Some((part.segment, part.from + part.bytes));
        }
        self.records += 1;
        ring.publish(Position::new(self.entry, self.filled as u16));
    }

    /// The open shared entry is complete; published by the caller.
    fn pass_shared(&mut self, ring: &Ring) {
        self.shared = None;
        self.base += self.filled as u64;
        self.filled = 0;
        self.entry = self.entry.wrapping_add(1);
        ring.slot(self.entry).set_base(self.base, self.records);
    }

    /// The entry is complete: its successor's base tells its length.
    fn leave_entry(&mut self, ring: &Ring) {
        let next = self.entry.wrapping_add(1);
        ring.slot(next).set_base(self.base, self.records);
        self.entry = next;
        ring.publish(Position::at_entry(next));
    }

    /// Ends the entry and lets the segment go.
    pub(super) fn close(&mut self, ring: &Ring) {
        self.end_entry(ring);
        self.open = None;
        self.room = 0;
    }
}

/// The open entry while records are put into it in a row: [`Tail::row`].
#[derive(Debug)]
pub(super) struct RecordRow<'t> {
    ring: &'t Ring,
    appender: Appender<'t>,
    prefix: bool,
    uniform: u32,
    entry: u16,
    filled: &'t mut usize,
    room: &'t mut usize,
    records: &'t mut u64,
}

impl RecordRow<'_> {
    /// As [`Tail::append`].
    #[inline]
    pub(super) fn append(&mut self, payload: &[u8]) -> bool {
        let bytes = payload.len() + if self.prefix { 4 } else { 0 };
        let keeps_uniform = self.uniform == UNIFORM_NONE || self.uniform as usize == payload.len();
        // What is filled of the entry is published, and so committed, since no record is under way: the appender
        // has what `room` says.
        let prefix = self.prefix.then(|| (payload.len() as u32).to_le_bytes());
        if !keeps_uniform || !self.appender.append(prefix, payload) {
            return false;
        }
        *self.filled += bytes;
        *self.room -= bytes;
        *self.records += 1;
        self.ring.publish(Position::new(self.entry, *self.filled as u16));
        true
    }
}
