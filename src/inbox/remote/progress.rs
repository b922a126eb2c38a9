//! How far the task has come with a remote channel: several numbers that belong together, from one thread to
//! another without a lock and without waiting.
//!
//! # Layout
//! `version` (odd while the words are being stored) and nine words. The one writer is the task.
//!
//! # Invariants
//! - I1 A picture is used only if `version` was even and the same before and after its words were read.
//!
//! # Edges
//! `PROG_E1` version (publish → read): the words of that version, or newer ones. `PROG_E2` fences (begin →
//! recheck): a reader that saw a word of a newer version sees, at its second look, that the version isn't the
//! same any more.
//!
//! A network thread never waits for a task: after two looks in vain it goes on with the picture of before.
//! The task rings after it has published, so the newer picture is looked for again.

use crate::subpartition::Amount;
use crate::sync::{AtomicU64, CachePadded, Ordering, check, fence, sync};

/// Looks at a picture that is being changed, before the one of before is taken.
const LOOKS_MAX: usize = 2;

const WORDS: usize = 9;

/// A place up to which everything is consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Consumed {
    /// Records, and stream bytes up to a record's end.
    pub(crate) amount: Amount,
    /// Entries without stream bytes.
    pub(crate) entries: u64,
    /// Bytes of `amount` that are of records broken off.
    pub(crate) aborted: u64,
}

/// What the network thread learns of the task: everything since the bind, and never less than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Progress {
    /// Stream bytes that left the queue.
    pub(crate) left: u64,
    /// Entries without stream bytes that left the queue, whether they count as consumed or not.
    pub(crate) left_entries: u64,
    /// Stream bytes that lie in buffers lent to the task. A moment's picture, apart from the rest.
    pub(crate) pinned: u64,
    pub(crate) consumed: Consumed,
    /// Records yielded, and stream bytes up to the last one's end.
    pub(crate) yielded: Amount,
    /// Priority events taken, modulo 2^32.
    pub(crate) priority: u32,
}

impl Progress {
    fn to_words(self) -> [u64; WORDS] {
        let consumed = self.consumed;
        [
            self.left,
            self.left_entries,
            consumed.amount.records,
            consumed.amount.bytes,
            consumed.entries,
            consumed.aborted,
            self.yielded.records,
            self.yielded.bytes,
            u64::from(self.priority),
        ]
    }

    fn from_words(words: [u64; WORDS]) -> Self {
        let [left, left_entries, records, bytes, entries, aborted, yielded_records, yielded_bytes, priority] =
            words;
        Self {
            left,
            left_entries,
            pinned: 0,
            consumed: Consumed { amount: Amount::new(records, bytes), entries, aborted },
            yielded: Amount::new(yielded_records, yielded_bytes),
            priority: priority as u32,
        }
    }
}

/// Words that belong together, with one writer.
#[derive(Debug)]
pub(crate) struct Picture<const N: usize>(CachePadded<Versioned<N>>);

#[derive(Debug)]
struct Versioned<const N: usize> {
    version: AtomicU64,
    words: [AtomicU64; N],
}

impl<const N: usize> Picture<N> {
    pub(crate) fn new() -> Self {
        let words = std::array::from_fn(|_| AtomicU64::new(0));
        Self(CachePadded::new(Versioned { version: AtomicU64::new(0), words }))
    }

    /// The writer: from now on these are the words.
    pub(crate) fn publish(&self, words: [u64; N]) {
        let version = self.0.version.load(Ordering::Relaxed); // Relaxed: the writer's own word
        self.0.version.store(version + 1, Ordering::Relaxed); // Relaxed: the fence orders it before the words
        fence(sync!(PROG_E2.begin, Release));
        for (word, value) in self.0.words.iter().zip(words) {
            // Relaxed: the writer's own, published by the version. Most of them are as they were.
            if word.load(Ordering::Relaxed) != value {
                word.store(value, Ordering::Relaxed);
            }
        }
        self.0.version.store(version + 2, sync!(PROG_E1.publish, Release));
    }

    /// A reader: the words, unless they are being changed right now.
    pub(crate) fn look(&self) -> Option<[u64; N]> {
        let version = self.0.version.load(sync!(PROG_E1.read, Acquire));
        // Relaxed: used only if the version is the same afterwards (I1).
        let words = std::array::from_fn(|index| self.0.words[index].load(Ordering::Relaxed));
        fence(sync!(PROG_E2.recheck, Acquire));
        let again = self.0.version.load(Ordering::Relaxed); // Relaxed: the fence orders it behind the words
        check!(PROG_E2.same, version.is_multiple_of(2) && again == version).then_some(words)
    }
}

/// The picture of a channel.
#[derive(Debug)]
pub(super) struct ProgressCell(Picture<WORDS>);

impl ProgressCell {
    pub(super) fn new() -> Self {
        Self(Picture::new())
    }

    /// Task: from now on this is the picture. `pinned` is no part of it.
    pub(super) fn publish(&self, progress: Progress) {
        self.0.publish(progress.to_words());
    }

    /// Network thread: the picture, unless it was being changed all the while.
    pub(super) fn read(&self) -> Option<Progress> {
        (0..LOOKS_MAX).find_map(|_| self.0.look()).map(Progress::from_words)
    }
}
