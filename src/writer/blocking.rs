//! The forms that block the calling thread. None of them is for a thread that drives an executor.

use super::{Partitioner, Reach, RecordWriter, Target, WaitError, Written};
use crate::error::WriteError;
use crate::event::{Event, PriorityEvent};
use crate::sync::turn_now;
use std::time::Duration;

impl RecordWriter {
    /// Writes a record, and blocks the thread while there is no room for it. Under `Flush::EveryRecord` a thread
    /// that turns a [`Reactor`](crate::Reactor) turns it once, so that the record is sent.
    ///
    /// # Errors
    /// As [`RecordWriter::poll_write`].
    #[inline(always)]
    pub fn write_blocking(&mut self, target: u32, record: &[u8]) -> Result<Written, WriteError> {
        if let Some(written) = self.write_short(target, record) {
            if self.flushes_each {
                turn_now();
            }
            return Ok(written);
        }
        self.write_parked(target, record)
    }

    /// Writes a record, and blocks the thread while there is no room for it, for at most `longest`.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`]: no reader sees anything of the record. If nothing of it was out yet it
    /// counts for nothing, else it is broken off and counts as aborted.
    /// Or as [`RecordWriter::poll_write`].
    pub fn write_blocking_timeout(
        &mut self,
        target: u32,
        record: &[u8],
        longest: Duration,
    ) -> Result<Written, WaitError> {
        if let Some(written) = self.write_short(target, record) {
            return Ok(written);
        }
        self.begin(target, record.len())?;
        let mut source = record;
        let deadline = self.waits.clock().now().plus(longest);
        match self.block(deadline, |writer, cx| writer.poll_write(cx, target, &mut source)) {
            Some(written) => Ok(written?),
            None => {
                self.withdraw_record();
                Err(WaitError::TimedOut { waited: longest })
            }
        }
    }

    /// Writes a record to the subpartition that `partitioner` chooses, and blocks the thread while there is
    /// no room for it.
    ///
    /// # Errors
    /// As [`RecordWriter::poll_write`]; [`WriteError::NoSuchSubpartition`] if the partition function chose
    /// an index out of range.
    #[inline]
    pub fn write_partitioned_blocking(
        &mut self,
        partitioner: &mut impl Partitioner,
        record: &[u8],
    ) -> Result<Written, WriteError> {
        let target = partitioner.target(record, self.subpartitions());
        self.write_blocking(target, record)
    }

    /// Writes a record to every subpartition, and blocks the thread until all have it or dropped it.
    ///
    /// # Errors
    /// As [`RecordWriter::poll_broadcast`].
    pub fn broadcast_blocking(&mut self, record: &[u8]) -> Result<Reach, WriteError> {
        self.idle()?;
        let mut source = record;
        self.park(|writer, cx| writer.poll_broadcast(cx, &mut source))
    }

    /// Appends an event, and blocks the thread while there is no room for it.
    ///
    /// # Errors
    /// As [`RecordWriter::poll_event`].
    pub fn event_blocking(&mut self, target: Target, event: &Event) -> Result<Reach, WriteError> {
        self.idle()?;
        self.park(|writer, cx| writer.poll_event(cx, target, event))
    }

    /// Sends a priority event, and blocks the thread while eight of them wait already.
    ///
    /// # Errors
    /// As [`RecordWriter::poll_priority_event`].
    pub fn priority_event_blocking(
        &mut self,
        target: Target,
        event: PriorityEvent,
    ) -> Result<Reach, WriteError> {
        self.park(|writer, cx| writer.poll_priority_event(cx, target, event))
    }

    /// Ends the partition, and blocks the thread until every consumer has acknowledged its end.
    ///
    /// # Errors
    /// As [`RecordWriter::poll_finish`].
    pub fn finish_blocking(&mut self) -> Result<(), WriteError> {
        self.park(Self::poll_finish)
    }

    /// Ends the partition, and blocks the thread until every consumer has acknowledged its end, for at most
    /// `longest`.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`]: the ends are appended, and may be waited for again. Or as
    /// [`RecordWriter::poll_finish`].
    pub fn finish_blocking_timeout(&mut self, longest: Duration) -> Result<(), WaitError> {
        let deadline = self.waits.clock().now().plus(longest);
        match self.block(deadline, Self::poll_finish) {
            Some(finished) => Ok(finished?),
            None => Err(WaitError::TimedOut { waited: longest }),
        }
    }

    #[cold]
    #[inline(never)]
    fn write_parked(&mut self, target: u32, record: &[u8]) -> Result<Written, WriteError> {
        self.begin(target, record.len())?;
        let mut source = record;
        let written = self.park(|writer, cx| writer.poll_write(cx, target, &mut source));
        if self.flushes_each {
            turn_now();
        }
        written
    }
}
