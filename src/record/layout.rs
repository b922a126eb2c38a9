//! The two forms in which a record is encoded, and the check that a payload fits its form.

use std::num::NonZeroU32;

/// The longest payload any limit allows, in bytes: an encoded record, prefix included, is counted in 32
/// bits, and `u32::MAX` as a length means "not known" ([`UNIFORM_NONE`](super::UNIFORM_NONE)).
pub(super) const PAYLOAD_BYTES_LIMIT: usize = (u32::MAX - LENGTH_BYTES as u32) as usize;

/// The least that the longest payload of a partition may be limited to: the largest segment.
pub(crate) const RECORD_BYTES_LEAST: usize = 32 * 1024;

/// Bytes of the length prefix of [`RecordLayout::Lengths`].
pub(super) const LENGTH_BYTES: usize = 4;

/// How the records of a partition lie in its stream; the same for writer and readers.
///
/// The layout belongs to the partition. A reader that names another one is refused when it binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RecordLayout {
    /// A length (u32, little-endian, of the payload alone), then the payload: 0 bytes or more.
    #[default]
    Lengths,
    /// Payloads of this many bytes, one after the other, without a prefix: the fastest form to read.
    Fixed(NonZeroU32),
}

impl RecordLayout {
    /// Bytes that stand before each payload: 4 or 0.
    #[inline]
    #[must_use]
    pub const fn prefix_bytes(self) -> usize {
        match self {
            Self::Lengths => LENGTH_BYTES,
            Self::Fixed(_) => 0,
        }
    }

    /// Bytes that a payload of `payload` bytes takes in the stream, its prefix included.
    ///
    /// ```
    /// # use pirn::RecordLayout;
    /// assert_eq!(RecordLayout::Lengths.encoded_bytes(100), 104);
    /// ```
    #[inline]
    #[must_use]
    pub const fn encoded_bytes(self, payload: usize) -> u64 {
        payload as u64 + self.prefix_bytes() as u64
    }

    /// Payload length of the record whose encoding starts at `encoded[0]`; `None` while its prefix isn't
    /// there in full.
    #[inline]
    pub(crate) fn payload_of_prefix(self, encoded: &[u8]) -> Option<u32> {
        match self {
            Self::Lengths => encoded.first_chunk().map(|prefix| u32::from_le_bytes(*prefix)),
            Self::Fixed(width) => Some(width.get()),
        }
    }

    /// The prefix of a payload of `payload_len` bytes; its first [`prefix_bytes`](Self::prefix_bytes)
    /// bytes belong in the stream, none of them under `Fixed`.
    #[inline]
    pub(crate) const fn encode_prefix(self, payload_len: u32) -> [u8; LENGTH_BYTES] {
        payload_len.to_le_bytes()
    }

    /// Whether a payload of `payload_bytes` may be written: asked before the first byte of a record, so
    /// that a refusal leaves nothing behind. An accepted length fits in a `u32` together with its prefix.
    #[inline]
    pub(crate) fn check(&self, payload_bytes: usize, record_bytes_max: usize) -> Result<(), LayoutError> {
        let max = record_bytes_max.min(PAYLOAD_BYTES_LIMIT);
        match self {
            Self::Fixed(width) if payload_bytes != width.get() as usize => {
                Err(LayoutError::Width { bytes: payload_bytes, fixed: width.get() })
            }
            _ if payload_bytes > max => Err(LayoutError::TooLong { bytes: payload_bytes, max }),
            _ => Ok(()),
        }
    }
}

/// A record that its partition can't carry. Nothing of it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LayoutError {
    /// The payload is over the limit for one record.
    #[error(
        "a record of {bytes} bytes is longer than the {max} allowed: write it as several records, or \
         raise `record_bytes_max` on the writer's and the reader's side"
    )]
    TooLong {
        /// Payload length in bytes.
        bytes: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// The payload hasn't the width that the partition declares for all of its records.
    #[error(
        "a record of {bytes} bytes in a partition of {fixed}-byte records: write exactly {fixed} bytes, \
         or create the partition with `RecordLayout::Lengths`"
    )]
    Width {
        /// Payload length in bytes.
        bytes: usize,
        /// The width of `RecordLayout::Fixed` in bytes.
        fixed: u32,
    },
}
