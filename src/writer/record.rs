//! A record to one subpartition, the long way: refused, under way, given up.

use super::lane::Verdict;
use super::{Doing, RecordWriter, TryWriteError, Written, shared};
use crate::error::{Cause, WriteError};
use crate::subpartition::{Append, Blocked};
use bytes::Buf;
use std::task::{Context, Poll};

impl RecordWriter {
    /// Writes a record if it finds room as a whole now: all or nothing.
    ///
    /// A record that is longer than what the subpartition's quota has left is [`TryWriteError::Full`], as is
    /// one that is longer than the whole quota, always: such a record goes out in parts while the reader
    /// reads, which takes one of the other forms. A policy `when_full: Discard` drops nothing here: the
    /// caller sees `Full` and decides.
    ///
    /// # Errors
    /// `Full`, or the errors of [`RecordWriter::poll_write`].
    #[inline]
    pub fn try_write(&mut self, target: u32, record: &[u8]) -> Result<Written, TryWriteError> {
        if let Some(written) = self.write_short(target, record) {
            return Ok(written);
        }
        self.try_write_long(target, record)
    }

    #[cold]
    #[inline(never)]
    fn try_write_long(&mut self, target: u32, record: &[u8]) -> Result<Written, TryWriteError> {
        self.begin(target, record.len())?;
        let mut has_room = self.has_room_for(target, record.len());
        if !has_room && self.sweep_shared() {
            has_room = self.has_room_for(target, record.len());
        }
        if !has_room {
            self.tell_before_waiting();
            return Err(TryWriteError::Full);
        }
        let mut source = record;
        let lane = &mut self.lanes[target as usize];
        let append = lane.half.append(&mut source, &mut self.cache);
        if let Append::Blocked(blocked) = append {
            // The limit was lowered since the look. A part may be out already: then the record is lost.
            lane.blocked = Some(blocked);
            if lane.half.retract() {
                self.tell_before_waiting();
                return Err(TryWriteError::Full);
            }
            lane.half.overflow(&mut source);
            return Ok(Written::Dropped);
        }
        match lane.judge(append, true, self.waits.clock()) {
            Verdict::Done => {
                self.note_dirty(target);
                Ok(Written::Queued)
            }
            Verdict::Closed => Err(self.closed().into()),
            Verdict::Dropped | Verdict::Wait(_) | Verdict::GiveUp => Ok(Written::Dropped),
        }
    }

    fn has_room_for(&mut self, target: u32, payload_bytes: usize) -> bool {
        self.lanes[target as usize].half.has_room_for(payload_bytes, &self.cache)
    }

    /// Gives up the record that is under way, if one is. What was published of it is broken off, so that no
    /// reader sees it; it counts as aborted in the subpartition's account.
    pub fn abort_record(&mut self) {
        let Doing::Record { target, left } = self.doing else { return };
        self.doing = Doing::Nothing;
        self.waits.retract();
        if let Some(lane) = self.lanes.get_mut(target as usize) {
            lane.half.give_up(left);
        }
        self.note_dirty(target);
    }

    /// As `abort_record`, but a record of which nothing is published is taken back uncounted.
    pub(super) fn withdraw_record(&mut self) {
        if let Doing::Record { target, .. } = self.doing
            && self.lanes[target as usize].half.retract()
        {
            self.doing = Doing::Nothing;
            self.waits.retract();
        }
        self.abort_record();
    }

    #[cold]
    #[inline(never)]
    pub(super) fn poll_write_long(
        &mut self,
        cx: &mut Context<'_>,
        target: u32,
        record: &mut impl Buf,
    ) -> Poll<Result<Written, WriteError>> {
        if let Err(error) = self.go_on(target, record.remaining()) {
            return Poll::Ready(Err(error));
        }
        self.poll_look(cx, |writer| writer.attempt_record(target, record))
    }

    /// Whether the call begins a record, or goes on with the one that is under way.
    fn go_on(&mut self, target: u32, left: usize) -> Result<(), WriteError> {
        match self.doing {
            Doing::Record { target: under_way, left: expected } => {
                if (target, left) != (under_way, expected) {
                    return Err(WriteError::RecordInProgress { target: under_way });
                }
                Ok(())
            }
            _ => self.begin(target, left),
        }
    }

    /// Whether a record of so many bytes may begin.
    pub(super) fn begin(&self, target: u32, payload_bytes: usize) -> Result<(), WriteError> {
        self.idle()?;
        let count = self.subpartitions();
        let lane = self.lanes.get(target as usize).ok_or(WriteError::NoSuchSubpartition { target, count })?;
        lane.half.check(payload_bytes, self.record_bytes_max)
    }

    /// Whether nothing is under way.
    pub(super) fn idle(&self) -> Result<(), WriteError> {
        match self.doing {
            Doing::Nothing => Ok(()),
            Doing::Record { target, .. } => Err(WriteError::RecordInProgress { target }),
            Doing::Broadcast => Err(WriteError::BroadcastInProgress),
            Doing::Ended => Err(WriteError::Finished),
        }
    }

    /// One try to get on with the record.
    fn attempt_record(&mut self, target: u32, record: &mut impl Buf) -> Poll<Result<Written, WriteError>> {
        let unwinding = GiveUpOnPanic { writer: self, target };
        let written = unwinding.writer.advance_record(target, record);
        std::mem::forget(unwinding);
        written
    }

    fn advance_record(&mut self, target: u32, record: &mut impl Buf) -> Poll<Result<Written, WriteError>> {
        let before = record.remaining();
        let mut append = self.lanes[target as usize].half.append(record, &mut self.cache);
        if append == Append::Blocked(Blocked::Memory) && self.sweep_shared() {
            append = self.lanes[target as usize].half.append(record, &mut self.cache);
        }
        let lane = &mut self.lanes[target as usize];
        let moved = record.remaining() != before;
        let verdict = lane.judge(append, moved, self.waits.clock());
        let written = match verdict {
            Verdict::Wait(until) => {
                self.waits.until(until);
                self.doing = Doing::Record { target, left: record.remaining() };
                return Poll::Pending;
            }
            Verdict::GiveUp => {
                lane.half.overflow(record);
                Ok(Written::Dropped)
            }
            Verdict::Done => Ok(Written::Queued),
            Verdict::Dropped => Ok(Written::Dropped),
            Verdict::Closed => Err(self.closed()),
        };
        self.doing = Doing::Nothing;
        self.note_dirty(target);
        Poll::Ready(written)
    }

    /// Puts the subpartition on the list of those to be told, if it is due.
    #[cold]
    #[inline(never)]
    pub(super) fn note_dirty(&mut self, target: u32) {
        if self.lanes.get_mut(target as usize).is_some_and(super::lane::Lane::is_newly_dirty) {
            self.unrung.push(target);
        }
    }

    /// The error of a partition that is closed.
    pub(super) fn closed(&self) -> WriteError {
        // The cause is set before the subpartitions are told.
        WriteError::Closed { cause: self.partition.closed().unwrap_or(Cause::Released) }
    }

    /// Gives up shared segments, and private copies, that rings have passed. Tells whether there was one.
    pub(super) fn sweep_shared(&mut self) -> bool {
        shared::sweep(&mut self.lanes)
    }
}

/// The source of a record is foreign code: when it panics, what it gave is half a record, which the next one
/// must not complete. Forgotten when all went well.
struct GiveUpOnPanic<'a> {
    writer: &'a mut RecordWriter,
    target: u32,
}

impl Drop for GiveUpOnPanic<'_> {
    fn drop(&mut self) {
        self.writer.doing = Doing::Nothing;
        if let Some(lane) = self.writer.lanes.get_mut(self.target as usize) {
            lane.half.give_up_begun();
        }
        self.writer.note_dirty(self.target);
    }
}
