//! The records that lie whole in a range, one behind the other: the way of nearly all of them.
//!
//! A [`Run`] steps from record to record as long as nothing else has to be looked at. Where it stops, for
//! whatever reason, the [`Assembler`](super::Assembler) finds out why. What was stepped over is counted when
//! somebody asks, not record by record.

use super::layout::{LENGTH_BYTES, RecordLayout};
use super::walk::{EntryFacts, UNIFORM_NONE};

/// How the length of a record is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// All have one length, and no prefixes.
    Fixed,
    /// All are said to have one length. Each prefix is compared with it, which is no chain from one record to the
    /// next.
    Equal,
    /// Each has its own.
    Own,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Run {
    /// Where the next record begins in the range.
    at: usize,
    /// Records may begin before this place of the range; 0 stops the run.
    limit: usize,
    /// Records that may be stepped over.
    left: u32,
    /// `left` when they were counted last.
    counted: u32,
    form: Form,
    /// The one payload length, or the longest that passes.
    payload: usize,
    /// Payload length of the record stepped over last.
    last: usize,
}

/// What was stepped over since it was counted last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stepped {
    pub(crate) records: u32,
    /// Stream bytes of the last of them.
    pub(crate) last_bytes: u64,
}

impl Run {
    pub(crate) const fn new() -> Self {
        Self { at: 0, limit: 0, left: 0, counted: 0, form: Form::Fixed, payload: 0, last: 0 }
    }

    /// Where the next record begins.
    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The range's records, of which the next begins at `at`, may be stepped over: at most `records`, and only
    /// those that begin before `limit` and have at most `longest` bytes of payload.
    pub(crate) fn begin(
        &mut self,
        facts: &EntryFacts,
        at: usize,
        limit: usize,
        records: u32,
        longest: usize,
    ) {
        debug_assert_eq!(self.counted, self.left, "what was stepped over is counted first");
        (self.form, self.payload) = match facts.layout {
            RecordLayout::Fixed(width) => (Form::Fixed, width.get() as usize),
            RecordLayout::Lengths if facts.uniform == UNIFORM_NONE => (Form::Own, longest),
            RecordLayout::Lengths => (Form::Equal, facts.uniform as usize),
        };
        self.at = at;
        self.limit = if self.payload > longest { 0 } else { limit };
        (self.left, self.counted) = (records, records);
    }

    /// Another range, or none: nothing is stepped over until [`Run::begin`].
    pub(crate) fn stop(&mut self, at: usize) {
        debug_assert_eq!(self.counted, self.left, "what was stepped over is counted first");
        self.at = at;
        self.limit = 0;
    }

    /// No range is at hand; so many records may be stepped over in the next.
    pub(crate) fn wait(&mut self, records: u32) {
        self.stop(0);
        (self.left, self.counted) = (records, records);
    }

    /// Steps over the next record, which is then [`Run::last_of`] the same range. False: nothing is done, and
    /// nothing said of what comes.
    #[inline]
    pub(crate) fn step(&mut self, range: &[u8]) -> bool {
        if self.at >= self.limit || self.left == 0 {
            return false;
        }
        let Some(rest) = range.get(self.at..) else { return false };
        let (payload, encoded) = match self.form {
            Form::Fixed => (self.payload, self.payload),
            Form::Equal | Form::Own => {
                let Some(prefix) = rest.first_chunk() else { return false };
                let payload = u32::from_le_bytes(*prefix) as usize;
                let passes = match self.form {
                    Form::Own => payload <= self.payload,
                    _ => payload == self.payload,
                };
                if !passes {
                    return false;
                }
                // So that the next record's place doesn't wait for this prefix.
                let known = if self.form == Form::Equal { self.payload } else { payload };
                (known, known + LENGTH_BYTES)
            }
        };
        if rest.len() < encoded {
            return false;
        }
        self.at += encoded;
        self.left -= 1;
        self.last = payload;
        true
    }

    /// The payload of the record that was stepped over last.
    #[inline]
    pub(crate) fn last_of<'r>(&self, range: &'r [u8]) -> &'r [u8] {
        range.get(self.at.wrapping_sub(self.last)..self.at).unwrap_or(&[])
    }

    /// How many were stepped over since they were counted last, if any.
    #[inline]
    pub(crate) fn stepped(&self) -> Option<Stepped> {
        let records = self.counted - self.left;
        let prefix = if self.form == Form::Fixed { 0 } else { LENGTH_BYTES };
        (records > 0).then(|| Stepped { records, last_bytes: (self.last + prefix) as u64 })
    }

    /// The same, and they are counted.
    pub(crate) fn count(&mut self) -> Option<Stepped> {
        let stepped = self.stepped();
        self.counted = self.left;
        stepped
    }

    /// Records that may still be stepped over.
    pub(crate) fn left(&self) -> u32 {
        self.left
    }

    /// A record of `payload` bytes was found to end at `at` in some other way.
    pub(crate) fn found(&mut self, at: usize, payload: usize) {
        self.at = at;
        self.last = payload;
    }
}

/// The records that are stepped over in a row, as an iterator: the run is its own for as long as it lives, so that
/// a loop has it in registers, and back in its place when it is dropped.
#[derive(Debug)]
pub(crate) struct Steps<'r> {
    range: &'r [u8],
    run: Run,
    home: &'r mut Run,
}

impl<'r> Steps<'r> {
    /// `range` is the one that `run` steps through.
    #[inline]
    pub(crate) fn new(range: &'r [u8], run: &'r mut Run) -> Self {
        Self { range, run: std::mem::replace(run, Run::new()), home: run }
    }

    /// See [`Run::stepped`] and [`Run::at`].
    pub(crate) fn run(&self) -> &Run {
        &self.run
    }
}

impl<'r> Iterator for Steps<'r> {
    type Item = &'r [u8];

    #[inline]
    fn next(&mut self) -> Option<&'r [u8]> {
        self.run.step(self.range).then(|| self.run.last_of(self.range))
    }
}

impl Drop for Steps<'_> {
    #[inline]
    fn drop(&mut self) {
        *self.home = std::mem::replace(&mut self.run, Run::new());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

    use super::*;
    use crate::record::First;
    use std::num::NonZeroU32;

    fn facts(layout: RecordLayout, uniform: u32) -> EntryFacts {
        EntryFacts { layout, first: First::NONE, uniform }
    }

    fn encoded(payloads: &[usize]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (index, payload) in payloads.iter().enumerate() {
            bytes.extend((*payload as u32).to_le_bytes());
            bytes.extend(vec![index as u8; *payload]);
        }
        bytes
    }

    fn walk(run: &mut Run, range: &[u8]) -> Vec<usize> {
        let mut lengths = Vec::new();
        while run.step(range) {
            lengths.push(run.last_of(range).len());
        }
        lengths
    }

    #[test]
    fn records_of_all_forms_are_stepped_over_and_counted() {
        let mixed = encoded(&[3, 0, 7]);
        let mut run = Run::new();
        assert!(!run.step(&mixed), "not begun");
        run.begin(&facts(RecordLayout::Lengths, UNIFORM_NONE), 0, mixed.len(), 9, 100);
        assert_eq!(walk(&mut run, &mixed), [3, 0, 7]);
        assert_eq!(run.count(), Some(Stepped { records: 3, last_bytes: 11 }));
        assert_eq!((run.count(), run.at(), run.left()), (None, mixed.len(), 6));

        let equal = encoded(&[5, 5]);
        run.begin(&facts(RecordLayout::Lengths, 5), 0, equal.len(), 9, 100);
        assert_eq!(walk(&mut run, &equal), [5, 5]);
        run.count();
        run.begin(&facts(RecordLayout::Fixed(NonZeroU32::new(4).unwrap()), UNIFORM_NONE), 0, 18, 9, 100);
        assert_eq!(walk(&mut run, &equal), [4, 4, 4, 4], "and the half one is none");
        assert_eq!(run.count(), Some(Stepped { records: 4, last_bytes: 4 }));
    }

    #[test]
    fn steps_in_a_row_end_where_a_run_does_and_are_counted_there() {
        let mixed = encoded(&[3, 0, 7]);
        let mut run = Run::new();
        run.begin(&facts(RecordLayout::Lengths, UNIFORM_NONE), 0, mixed.len(), 9, 100);
        let lengths: Vec<_> = Steps::new(&mixed, &mut run).take(2).map(<[u8]>::len).collect();
        assert_eq!(lengths, [3, 0]);
        assert_eq!(run.stepped(), Some(Stepped { records: 2, last_bytes: 4 }));
        assert_eq!(walk(&mut run, &mixed), [7], "it goes on where they ended");
        assert_eq!(Steps::new(&mixed, &mut run).next(), None);
        assert_eq!(run.count(), Some(Stepped { records: 3, last_bytes: 11 }));
    }

    #[test]
    fn it_stops_at_limits_lies_and_long_records() {
        let lie = encoded(&[5, 6, 5]);
        let mut run = Run::new();
        run.begin(&facts(RecordLayout::Lengths, 5), 0, lie.len(), 9, 100);
        assert_eq!(walk(&mut run, &lie), [5], "the second hasn't the length that all are said to have");
        run.count();
        run.begin(&facts(RecordLayout::Lengths, UNIFORM_NONE), 0, lie.len(), 9, 5);
        assert_eq!(walk(&mut run, &lie), [5], "the second is too long");
        run.count();
        run.begin(&facts(RecordLayout::Lengths, 5), 0, lie.len(), 9, 4);
        assert!(!run.step(&lie), "all are too long");
        run.begin(&facts(RecordLayout::Lengths, UNIFORM_NONE), 0, lie.len(), 2, 100);
        assert_eq!(walk(&mut run, &lie).len(), 2, "of so many records");
        run.count();
        run.begin(&facts(RecordLayout::Lengths, UNIFORM_NONE), 0, 10, 9, 100);
        assert_eq!(walk(&mut run, &lie).len(), 2, "those that begin before the limit");
        run.count();
        let huge = u32::MAX.to_le_bytes();
        run.begin(&facts(RecordLayout::Lengths, UNIFORM_NONE), 0, 4, 9, usize::MAX);
        assert!(!run.step(&huge));
        assert!(!run.step(&[]));
    }
}
