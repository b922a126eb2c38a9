//! Logs that survive the kill of who writes them: files mapped with `MAP_SHARED`. A store is in the page cache when
//! the next instruction runs, whatever becomes of the process.

use crate::common::now;
use memmap2::MmapMut;
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Records that a log has room for. Files are sparse: only pages that are used exist.
pub(crate) const RECORDS_MAX: u64 = 1 << 23;
/// Attempts that a log has room for.
pub(crate) const ATTEMPTS_MAX: u8 = 210;
const WORD: usize = size_of::<u64>();
const WORDS: usize = 4096;
const BYTES: usize = WORDS * WORD + RECORDS_MAX as usize;

/// What an attempt notes, one word each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// The channel was available: times.
    Bound,
    /// Records yielded.
    Yielded,
    /// Records told as lost by the report of the bind.
    Lost,
    /// Records told as lost by notices while it was bound.
    Noticed,
    /// Records told as in doubt.
    InDoubt,
    /// A newer attempt reads, and this one knows.
    Fenced,
    /// The end of the partition came.
    Ended,
    /// What the attempt shall do: a number of its own.
    Order,
}

const NOTES: usize = 8;
/// Behind the notes of all attempts: the longest gap between two records, in nanoseconds, by stretch.
const GAPS: usize = (ATTEMPTS_MAX as usize + 1) * NOTES;
const STRETCHES: u64 = 8;
/// Which stretch of the test it is.
const STRETCH: usize = GAPS + STRETCHES as usize;
/// When the last record was yielded.
const LAST: usize = STRETCH + 1;
/// How long the machine kept the producer's thread, or one of the consumer's process, from running, in nanoseconds.
const STALLED: usize = LAST + 1;

/// One subpartition's log of one side. Invariant L1: the mapping is `BYTES` long, begins at a page, and is reached by
/// atomics alone, in this process and in others.
pub(crate) struct Log(MmapMut);

impl Log {
    /// Opens the log at `path`, and makes it if it isn't there.
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        file.set_len(BYTES as u64)?;
        // SAFETY: L1; nobody shortens the file, which lives in a folder of this test alone.
        Ok(Self(unsafe { MmapMut::map_mut(&file)? }))
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < WORDS);
        // SAFETY: L1, and the assertion: within the mapping.
        let word = unsafe { self.0.as_ptr().cast::<AtomicU64>().add(index) };
        // SAFETY: L1: aligned, reached by atomics alone, and there as long as this is.
        unsafe { &*word }
    }

    /// The cell of a record: 0 until something is noted.
    fn cell(&self, record: u64) -> &AtomicU8 {
        assert!(record < RECORDS_MAX, "the log is full");
        // SAFETY: L1, and the assertion: behind the words, within the mapping.
        let cell = unsafe { self.0.as_ptr().add(WORDS * WORD + record as usize) };
        // SAFETY: L1: reached by atomics alone, and there as long as this is.
        unsafe { &*cell.cast::<AtomicU8>() }
    }

    /// Notes `what` of a record; returns what was noted before.
    pub(crate) fn note(&self, record: u64, what: u8) -> u8 {
        self.cell(record).swap(what, Ordering::SeqCst)
    }

    pub(crate) fn noted(&self, record: u64) -> u8 {
        self.cell(record).load(Ordering::SeqCst)
    }

    fn of(&self, attempt: u8, note: Note) -> &AtomicU64 {
        assert!(attempt <= ATTEMPTS_MAX);
        self.word(usize::from(attempt) * NOTES + note as usize)
    }

    pub(crate) fn add(&self, attempt: u8, note: Note, more: u64) {
        self.of(attempt, note).fetch_add(more, Ordering::SeqCst);
    }

    pub(crate) fn set(&self, attempt: u8, note: Note, value: u64) {
        self.of(attempt, note).store(value, Ordering::SeqCst);
    }

    pub(crate) fn get(&self, attempt: u8, note: Note) -> u64 {
        self.of(attempt, note).load(Ordering::SeqCst)
    }

    /// The sum over all attempts.
    pub(crate) fn sum(&self, note: Note) -> u64 {
        (0..=ATTEMPTS_MAX).map(|attempt| self.get(attempt, note)).sum()
    }

    /// The machine kept the thread that keeps the time of this log from running for so long.
    pub(crate) fn stall(&self, nanos: u64) {
        self.word(STALLED).fetch_add(nanos, Ordering::SeqCst);
    }

    /// A clock that stands still while the machine stalls the producer, or the process of this log's consumer: that is
    /// no gap of the reader's.
    pub(crate) fn clock(&self, producer: &Self) -> u64 {
        let stalled = |log: &Self| log.word(STALLED).load(Ordering::SeqCst);
        now().saturating_sub(stalled(self) + stalled(producer))
    }

    /// A new stretch begins; `now` ends the gap that is under way.
    pub(crate) fn begin_stretch(&self, stretch: u64, now: u64) {
        assert!(stretch < STRETCHES);
        self.word(LAST).store(now, Ordering::SeqCst);
        self.word(STRETCH).store(stretch, Ordering::SeqCst);
    }

    /// Something came at `now`.
    pub(crate) fn tick(&self, now: u64) {
        let before = self.word(LAST).swap(now, Ordering::SeqCst);
        let stretch = self.word(STRETCH).load(Ordering::SeqCst) as usize;
        if before != 0 {
            self.word(GAPS + stretch).fetch_max(now.saturating_sub(before), Ordering::SeqCst);
        }
    }

    /// The longest gap of `stretch` in nanoseconds, with the one that is under way at `now`.
    pub(crate) fn longest_gap(&self, stretch: u64, now: u64) -> u64 {
        let current = self.word(STRETCH).load(Ordering::SeqCst) == stretch;
        let open = if current { now.saturating_sub(self.word(LAST).load(Ordering::SeqCst)) } else { 0 };
        self.word(GAPS + stretch as usize).load(Ordering::SeqCst).max(open)
    }
}
