//! Records in a row to one subpartition: what costs the least by the record.

use super::{RecordWriter, Written};
use crate::error::WriteError;
use crate::sync::turn_now;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// What became of the records of a batch: as many calls of [`RecordWriter::write`] would have told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchWritten {
    /// Records that are on their way to the reader.
    pub queued: u64,
    /// Records that the subpartition's policy dropped, and counted.
    pub dropped: u64,
}

impl BatchWritten {
    fn add(&mut self, written: Written) {
        match written {
            Written::Queued => self.queued += 1,
            Written::Dropped => self.dropped += 1,
        }
    }
}

impl RecordWriter {
    /// Writes records to one subpartition, one behind the other, and blocks the thread while there is no room. The
    /// same as [`RecordWriter::write_blocking`] for each, at less cost for each.
    ///
    /// Each record is there for its reader before the next one is asked for. Nothing is taken from `records` beyond
    /// what is written: who passes `&mut iterator` goes on with the rest after an error. On a thread that turns a
    /// [`Reactor`](crate::Reactor), under `Flush::EveryRecord`, it is turned once, behind the last.
    ///
    /// # Errors
    /// As [`RecordWriter::poll_write`], of the record that was taken last. Those before it are written.
    #[inline]
    pub fn write_batch_blocking<R: AsRef<[u8]>>(
        &mut self,
        target: u32,
        records: impl IntoIterator<Item = R>,
    ) -> Result<BatchWritten, WriteError> {
        let mut batch = BatchWritten::default();
        let mut records = records.into_iter();
        while let Some(record) = self.write_row(target, &mut records, &mut batch.queued)? {
            batch.add(self.write_blocking(target, record.as_ref())?);
        }
        if self.flushes_each {
            turn_now();
        }
        Ok(batch)
    }

    /// Writes records to one subpartition, one behind the other, waiting for room: as
    /// [`RecordWriter::write_batch_blocking`], as a future.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, the records before the one under way are written; that one is given up: no reader
    /// sees it, and it counts as aborted. The rest is where it was, in the iterator. The writer goes on.
    pub fn write_batch<R, I>(&mut self, target: u32, records: I) -> WriteBatch<'_, R, I::IntoIter>
    where
        R: AsRef<[u8]> + Unpin,
        I: IntoIterator<Item = R>,
        I::IntoIter: Unpin,
    {
        let records = records.into_iter();
        WriteBatch { writer: self, target, records, under_way: None, batch: BatchWritten::default() }
    }

    /// Those that can go the short way. Gives back the first that can't.
    #[inline]
    fn write_row<R: AsRef<[u8]>>(
        &mut self,
        target: u32,
        records: &mut impl Iterator<Item = R>,
        queued: &mut u64,
    ) -> Result<Option<R>, WriteError> {
        self.idle()?;
        let count = self.subpartitions();
        if target >= count {
            return Err(WriteError::NoSuchSubpartition { target, count });
        }
        // Also when the iterator panics.
        let listing = ListWhenDone { writer: self, target };
        let Some(lane) = listing.writer.lanes.get_mut(target as usize) else { return Ok(None) };
        Ok(lane.half.append_row(records, queued))
    }
}

/// The subpartition gets on the list of those to be told, however a row ends.
struct ListWhenDone<'w> {
    writer: &'w mut RecordWriter,
    target: u32,
}

impl Drop for ListWhenDone<'_> {
    fn drop(&mut self) {
        self.writer.note_dirty(self.target);
    }
}

/// Records on their way to one subpartition: [`RecordWriter::write_batch`].
#[derive(Debug)]
#[must_use = "nothing is written before it is polled"]
pub struct WriteBatch<'w, R: AsRef<[u8]>, I> {
    writer: &'w mut RecordWriter,
    target: u32,
    records: I,
    /// A record that found no room yet, and how many of its bytes are taken; whether the writer has it under way.
    under_way: Option<(R, usize, bool)>,
    batch: BatchWritten,
}

impl<R: AsRef<[u8]> + Unpin, I: Iterator<Item = R> + Unpin> Future for WriteBatch<'_, R, I> {
    type Output = Result<BatchWritten, WriteError>;

    /// Polled after it was ready, it goes on with what the iterator has then.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            let Some((record, taken, is_begun)) = &mut this.under_way else {
                let left = this.writer.write_row(this.target, &mut this.records, &mut this.batch.queued)?;
                match left {
                    Some(record) => this.under_way = Some((record, 0, false)),
                    None => return Poll::Ready(Ok(std::mem::take(&mut this.batch))),
                }
                continue;
            };
            if !*is_begun {
                // Another record of the same length may be under way: this is none of it.
                this.writer.idle()?;
            }
            let mut rest = record.as_ref().get(*taken..).unwrap_or(&[]);
            let before = rest.len();
            let written = this.writer.poll_write(cx, this.target, &mut rest);
            (*taken, *is_begun) = (*taken + before - rest.len(), written.is_pending());
            let written = ready!(written);
            this.under_way = None;
            this.batch.add(written?);
        }
    }
}

impl<R: AsRef<[u8]>, I> Drop for WriteBatch<'_, R, I> {
    fn drop(&mut self) {
        if matches!(self.under_way, Some((_, _, true))) {
            self.writer.abort_record();
        }
    }
}
