//! What travels among the records of a stream, in its order.
#![forbid(unsafe_code)]

use bytes::Bytes;

/// An in-band event of the engine. It never stands between two halves of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A checkpoint barrier with its id.
    Barrier(u64),
    /// A watermark: no record of this channel will be older than this time, in the engine's unit.
    Watermark(i64),
    /// Bytes that only the engine understands, at most [`Event::APPLICATION_BYTES_MAX`].
    Application(Bytes),
}

impl Event {
    /// The most bytes that an application event may have.
    pub const APPLICATION_BYTES_MAX: usize = 2048;
}

/// Which barriers a bind doesn't bring: they went to an older reader, or were dropped while there was none. Those
/// that wait in the ring come; what was dropped in an outage is newer than they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct LostBarriers {
    /// Those up to this id.
    pub(crate) before: Option<u64>,
    /// Behind the first of these, which comes, those up to the second.
    pub(crate) behind: Option<(u64, u64)>,
}

/// An event that overtakes data: at most [`PriorityEvent::BYTES_MAX`] bytes, of which up to
/// [`PriorityEvent::QUEUED_MAX`] wait at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PriorityEvent {
    len: u8,
    bytes: [u8; Self::BYTES_MAX],
}

impl PriorityEvent {
    /// The most bytes of a priority event.
    pub const BYTES_MAX: usize = 56;
    /// How many priority events of one subpartition may wait to be taken.
    pub const QUEUED_MAX: usize = 8;

    /// The event with these bytes; `None` if there are more than [`PriorityEvent::BYTES_MAX`].
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut event = Self { len: u8::try_from(bytes.len()).ok()?, bytes: [0; Self::BYTES_MAX] };
        event.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(event)
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        // The length is at most the array's by `new`; a smaller slice is the answer to anything else.
        self.bytes.get(..usize::from(self.len)).unwrap_or(&self.bytes)
    }

    /// As words that atomics can hold: the length, then the bytes.
    pub(crate) fn to_words(self) -> [u64; 8] {
        let mut words = [0; 8];
        words[0] = u64::from(self.len);
        for (word, chunk) in words[1..].iter_mut().zip(self.bytes.chunks_exact(8)) {
            *word = chunk.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
        words
    }

    pub(crate) fn from_words(words: [u64; 8]) -> Self {
        let mut bytes = [0; Self::BYTES_MAX];
        for (word, chunk) in words[1..].iter().zip(bytes.chunks_exact_mut(8)) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        Self { len: (words[0] & 0xff) as u8, bytes }
    }
}

impl std::fmt::Debug for PriorityEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PriorityEvent").field(&self.as_bytes()).finish()
    }
}
