//! Reading of a message's fields one after the other, and writing of texts.

use super::{StreamId, StreamPosition, WireError};
use crate::id::BindEpoch;
use bytes::{Buf, BufMut, TryGetError};

/// The bytes of one message that aren't read yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body<'a> {
    what: &'static str,
    rest: &'a [u8],
}

impl<'a> Body<'a> {
    /// `what` is the message's name for errors.
    pub(super) const fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { what, rest: bytes }
    }

    fn got<T>(what: &'static str, got: Result<T, TryGetError>) -> Result<T, WireError> {
        got.map_err(|error| WireError::Short { what, needed: error.requested, left: error.available })
    }

    pub(super) fn u8(&mut self) -> Result<u8, WireError> {
        Self::got(self.what, self.rest.try_get_u8())
    }

    pub(super) fn u16(&mut self) -> Result<u16, WireError> {
        Self::got(self.what, self.rest.try_get_u16_le())
    }

    pub(super) fn u32(&mut self) -> Result<u32, WireError> {
        Self::got(self.what, self.rest.try_get_u32_le())
    }

    pub(super) fn u64(&mut self) -> Result<u64, WireError> {
        Self::got(self.what, self.rest.try_get_u64_le())
    }

    pub(super) fn u128(&mut self) -> Result<u128, WireError> {
        Self::got(self.what, self.rest.try_get_u128_le())
    }

    pub(super) fn bool(&mut self, field: &'static str) -> Result<bool, WireError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(WireError::Value { field, value: u64::from(value) }),
        }
    }

    /// Bytes that keep the next field at its place; a later version may use them.
    pub(super) fn zeros(&mut self, count: usize) -> Result<(), WireError> {
        match self.bytes(count)?.iter().find(|byte| **byte != 0) {
            None => Ok(()),
            Some(byte) => Err(WireError::Value { field: "a reserved byte", value: u64::from(*byte) }),
        }
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let bytes = self.bytes(N)?;
        // A slice of N bytes is an array of N bytes.
        bytes.try_into().map_err(|_| WireError::Short { what: self.what, needed: N, left: bytes.len() })
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        let short = WireError::Short { what: self.what, needed: count, left: self.rest.len() };
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or(short)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Bytes with their number, at most `max`, before them.
    pub(super) fn counted(&mut self, field: &'static str, max: usize) -> Result<&'a [u8], WireError> {
        let count = self.u16()?;
        if usize::from(count) > max {
            return Err(WireError::Value { field, value: u64::from(count) });
        }
        self.bytes(usize::from(count))
    }

    pub(super) fn text(&mut self, field: &'static str, max: usize) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.counted(field, max)?).map_err(|_| WireError::Text { field })
    }

    pub(super) fn stream(&mut self) -> Result<StreamId, WireError> {
        Ok(StreamId(self.u32()?))
    }

    pub(super) fn epoch(&mut self) -> Result<BindEpoch, WireError> {
        Ok(BindEpoch(self.u32()?))
    }

    pub(super) fn position(&mut self) -> Result<StreamPosition, WireError> {
        Ok(StreamPosition { bytes: self.u64()?, entries: self.u64()? })
    }

    /// All that is left.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Nothing may be left.
    pub(super) fn end(self) -> Result<(), WireError> {
        match self.rest.len() {
            0 => Ok(()),
            bytes => Err(WireError::Trailing { what: self.what, bytes }),
        }
    }
}

/// As [`Body::counted`] reads it. What is over `max` is left out.
pub(super) fn put_counted(out: &mut Vec<u8>, bytes: &[u8], max: usize) {
    let bytes = bytes.get(..max.min(usize::from(u16::MAX))).unwrap_or(bytes);
    out.put_u16_le(bytes.len() as u16);
    out.extend_from_slice(bytes);
}

/// As [`Body::text`] reads it. A text that is too long is cut before the first character that doesn't fit.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str, max: usize) {
    let cut = (0..=max.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    put_counted(out, &text.as_bytes()[..cut], max);
}

pub(super) fn put_position(out: &mut Vec<u8>, position: StreamPosition) {
    out.put_u64_le(position.bytes);
    out.put_u64_le(position.entries);
}
