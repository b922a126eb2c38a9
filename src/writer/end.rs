//! How a partition ends: finished, failed, abandoned, or left behind.

use super::{Doing, RecordWriter};
use crate::error::{Cause, WriteError};
use crate::subpartition::EndKind;
use crate::sync::thread;
use std::sync::Arc;
use std::task::{Context, Poll};

impl RecordWriter {
    /// Appends end of data and end of partition to every subpartition, at the first call, and resolves when
    /// every consumer has acknowledged its end; the partition is released then.
    ///
    /// May be called again and again, also after it was ready. Dropping the writer after the first call loses
    /// nothing: the partition stays until its consumers have read it.
    ///
    /// # Errors
    /// [`WriteError::RecordInProgress`] or [`WriteError::BroadcastInProgress`], before anything is appended,
    /// while one is under way; [`WriteError::Closed`] if the partition was released before all consumers
    /// acknowledged.
    pub fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        match self.idle() {
            Ok(()) => self.append_ends(EndKind::Finished),
            Err(WriteError::Finished) => {}
            Err(under_way) => return Poll::Ready(Err(under_way)),
        }
        self.poll_look(cx, |writer| writer.look_finished())
    }

    /// Tells the consumers that the producer failed: they get all whole records that are queued, then the
    /// failure with its reason. What is under way is broken off and counted as aborted.
    ///
    /// The partition stays, with its memory, for consumers that come yet; the engine releases it
    /// (`Worker::release_partition`, `release_job`) or a newer attempt takes its place.
    pub fn fail(mut self, reason: impl Into<Arc<str>>) {
        self.end_as(Cause::Failed(reason.into()));
    }

    /// Releases the partition at once, with everything that is queued: consumers learn of it where they are.
    pub fn abandon(mut self) {
        self.partition.release(Cause::Released);
        self.doing = Doing::Ended;
    }

    fn look_finished(&self) -> Poll<Result<(), WriteError>> {
        if self.partition.is_fully_acknowledged() {
            return Poll::Ready(Ok(()));
        }
        match self.partition.closed() {
            None => Poll::Pending,
            Some(Cause::Consumed) => Poll::Ready(Ok(())),
            Some(cause) => Poll::Ready(Err(WriteError::Closed { cause })),
        }
    }

    fn append_ends(&mut self, kind: EndKind) {
        self.doing = Doing::Ended;
        for lane in &mut self.lanes {
            lane.half.append_end(kind);
        }
        self.unrung.clear();
    }

    fn end_as(&mut self, cause: Cause) {
        self.abort_record();
        self.abort_broadcast();
        if self.doing == Doing::Ended {
            return;
        }
        self.partition.set_failure(cause);
        self.append_ends(EndKind::Failed);
    }
}

impl Drop for RecordWriter {
    fn drop(&mut self) {
        let cause = if thread::panicking() { Cause::Panicked } else { Cause::Dropped };
        self.end_as(cause);
    }
}
