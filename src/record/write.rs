//! The writer's way through one record: how much of it goes into the room at hand, what is still to come.

use super::{layout::RecordLayout, walk::First};

/// What to write next. The cursor counts it as written, so the caller writes all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The length prefix, to be written before the payload bytes of this piece.
    pub(crate) prefix: Option<[u8; 4]>,
    /// Bytes of the payload, following those of earlier pieces. 0 also where only the prefix fits.
    pub(crate) payload: usize,
    /// The record ends with this piece.
    pub(crate) done: bool,
}

/// One record on its way into entries. To rewind it is to begin with a new cursor.
#[derive(Debug, Clone)]
pub(crate) struct RecordCursor {
    layout: RecordLayout,
    payload_bytes: u32,
    /// Encoded bytes so far, at most `prefix + payload_bytes`; past the prefix as soon as it isn't 0.
    written: u64,
}

impl RecordCursor {
    /// For a payload that [`RecordLayout::check`] let pass.
    #[inline]
    pub(crate) const fn new(layout: RecordLayout, payload_len: u32) -> Self {
        Self { layout, payload_bytes: payload_len, written: 0 }
    }

    /// The piece that goes into `room` bytes of the open entry. `None` means close the entry: there is no
    /// room, or too little for the prefix, which is never split.
    #[inline]
    pub(crate) fn next_piece(&mut self, room: usize) -> Option<Piece> {
        let mut left = self.remaining_bytes();
        let prefix_bytes = if self.written == 0 { self.layout.prefix_bytes() } else { 0 };
        if left > 0 && room < prefix_bytes.max(1) {
            return None;
        }
        // A record that isn't begun has its prefix ahead, so both differences below are at least 0.
        left -= prefix_bytes as u64;
        let payload = left.min((room - prefix_bytes) as u64);
        self.written += prefix_bytes as u64 + payload;
        Some(Piece {
            prefix: (prefix_bytes > 0).then(|| self.layout.encode_prefix(self.payload_bytes)),
            payload: payload as usize,
            done: payload == left,
        })
    }

    /// Encoded bytes that went into pieces so far; 0 = the record isn't begun.
    #[inline]
    pub(crate) const fn written_bytes(&self) -> u64 {
        self.written
    }

    /// Encoded bytes still to come, the prefix included.
    #[inline]
    pub(crate) const fn remaining_bytes(&self) -> u64 {
        self.layout.encoded_bytes(self.payload_bytes as usize) - self.written
    }

    /// [`First`] of the entry of at most `entry_capacity` bytes that is opened next.
    #[inline]
    pub(crate) fn first_of_next(&self, entry_capacity: usize) -> First {
        match self.remaining_bytes() {
            _ if self.written == 0 => First::at(0),
            left if left <= entry_capacity as u64 => First::at(left as usize),
            _ => First::NONE,
        }
    }
}
