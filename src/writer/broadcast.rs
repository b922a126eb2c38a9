//! One record or event to all subpartitions.
//!
//! A record of at most [`COPIED_BYTES_MAX`] encoded bytes is copied into each ring. A longer one is written
//! once, into segments of the partition's broadcast account, and each ring gets entries of the same ranges
//! (`shared`). If that account is used up and nobody can be relieved, the record is held on the heap and
//! copied into each ring on the ring's own account: so a broadcast never waits for the account, only for
//! single subpartitions, each by its own policy. Those that have room get the record at once.

use super::lane::Verdict;
use super::shared::SharedFill;
use super::{Doing, RecordWriter};
use crate::error::WriteError;
use crate::event::Event;
use crate::subpartition::{Append, Blocked};
use bytes::{Buf, BufMut};
use std::task::{Context, Poll};

/// The longest encoded record that is copied into each ring. Below it sharing costs more than a copy: an
/// entry and a segment of its own for the reader to hold.
const COPIED_BYTES_MAX: u64 = 512;

/// What is kept of the heap copy's memory between two records.
const SCRATCH_BYTES_KEPT: usize = 32 * 1024;

/// How far a broadcast got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
#[must_use]
pub struct Reach {
    /// Subpartitions that have it in their queue.
    pub queued: u32,
    /// Subpartitions whose policy dropped it, as their accounts say.
    pub dropped: u32,
}

/// What a broadcast carries.
#[derive(Debug)]
pub(super) enum What {
    /// The record in the scratch buffer.
    Copied,
    /// A record of so many payload bytes in shared segments.
    Shared(usize),
    Event(Event),
}

/// Something on its way to many, and who is to get it yet.
#[derive(Debug)]
pub(super) struct Todo<T> {
    pub(super) what: Option<T>,
    pub(super) targets: Vec<u32>,
    pub(super) reach: Reach,
}

impl<T> Todo<T> {
    pub(super) fn new(subpartitions: usize) -> Self {
        Self { what: None, targets: Vec::with_capacity(subpartitions), reach: Reach::default() }
    }

    pub(super) fn start(&mut self, what: T, subpartitions: u32) {
        self.what = Some(what);
        self.targets.clear();
        self.targets.extend(0..subpartitions);
        self.reach = Reach::default();
    }

    pub(super) fn clear(&mut self) {
        self.what = None;
        self.targets.clear();
    }

    /// The target at `index` needs no more of it.
    pub(super) fn done(&mut self, index: usize, queued: bool) -> u32 {
        if queued {
            self.reach.queued += 1;
        } else {
            self.reach.dropped += 1;
        }
        self.targets.swap_remove(index)
    }
}

/// The broadcast under way, if there is one.
#[derive(Debug)]
pub(super) struct State {
    pub(super) todo: Todo<What>,
    /// The record that is copied into each ring.
    scratch: Vec<u8>,
    shared: SharedFill,
}

impl State {
    pub(super) fn new(subpartitions: usize, shared: SharedFill) -> Self {
        let scratch = Vec::with_capacity(COPIED_BYTES_MAX as usize);
        Self { todo: Todo::new(subpartitions), scratch, shared }
    }

    fn clear(&mut self) {
        self.todo.clear();
        self.shared.record_is_out();
        self.scratch.clear();
        self.scratch.shrink_to(SCRATCH_BYTES_KEPT);
    }
}

impl RecordWriter {
    /// Writes a record to every subpartition. The first call takes all of `record`.
    ///
    /// `Pending`: some subpartitions have no room for it yet; the others have it. Poll again with the same,
    /// now empty, buffer until it is `Ready`.
    ///
    /// # Errors
    /// As [`RecordWriter::poll_write`]; [`WriteError::BroadcastInProgress`] if a buffer with bytes in it comes
    /// while a broadcast is under way (which stays as it is).
    ///
    /// # Cancel safety
    /// Not to poll again leaves the broadcast under way. [`RecordWriter::abort_broadcast`] gives it up.
    pub fn poll_broadcast(
        &mut self,
        cx: &mut Context<'_>,
        record: &mut impl Buf,
    ) -> Poll<Result<Reach, WriteError>> {
        if self.doing == Doing::Broadcast {
            let is_record = !matches!(self.broadcast.todo.what, Some(What::Event(_)));
            if !is_record || record.has_remaining() {
                return Poll::Ready(Err(WriteError::BroadcastInProgress));
            }
        } else if let Err(error) = self.begin_broadcast(record) {
            return Poll::Ready(Err(error));
        }
        self.poll_look(cx, Self::attempt_broadcast)
    }

    /// Gives up the broadcast that is under way, of a record, an event or a priority event, if one is. Who
    /// has it keeps it. Who would still have got a record has it counted as aborted, and sees nothing of it.
    pub fn abort_broadcast(&mut self) {
        self.priority.clear();
        if self.doing != Doing::Broadcast {
            return;
        }
        self.doing = Doing::Nothing;
        self.waits.retract();
        let payload_bytes = match &self.broadcast.todo.what {
            Some(What::Copied) => Some(self.broadcast.scratch.len()),
            Some(What::Shared(payload_bytes)) => Some(*payload_bytes),
            Some(What::Event(_)) | None => None,
        };
        while let Some(target) = self.broadcast.todo.targets.pop() {
            if let (Some(payload_bytes), Some(lane)) = (payload_bytes, self.lanes.get_mut(target as usize)) {
                lane.half.give_up(payload_bytes);
            }
            self.note_dirty(target);
        }
        self.broadcast.clear();
    }

    fn begin_broadcast(&mut self, record: &mut impl Buf) -> Result<(), WriteError> {
        let payload_bytes = record.remaining();
        // Layout and limits are the same everywhere.
        self.begin(0, payload_bytes)?;
        let layout = self.partition.config.record_layout();
        let State { todo, scratch, shared } = &mut self.broadcast;
        let shares = layout.encoded_bytes(payload_bytes) > COPIED_BYTES_MAX
            && shared.place(record, payload_bytes as u32, layout, &mut self.lanes, &mut self.cache);
        let what = if shares {
            What::Shared(payload_bytes)
        } else {
            scratch.clear();
            scratch.reserve(payload_bytes);
            scratch.put(record);
            What::Copied
        };
        todo.start(what, self.lanes.len() as u32);
        self.doing = Doing::Broadcast;
        Ok(())
    }

    /// Begins to send an event to all.
    pub(super) fn begin_event(&mut self, event: &Event) -> Result<(), WriteError> {
        self.idle()?;
        self.broadcast.todo.start(What::Event(event.clone()), self.subpartitions());
        self.doing = Doing::Broadcast;
        Ok(())
    }

    /// One try to reach who is to be reached yet.
    pub(super) fn attempt_broadcast(&mut self) -> Poll<Result<Reach, WriteError>> {
        let mut index = 0;
        while let Some(target) = self.broadcast.todo.targets.get(index).copied() {
            match self.deliver(target) {
                Verdict::Wait(until) => {
                    self.waits.until(until);
                    index += 1;
                }
                Verdict::Closed => {
                    self.doing = Doing::Nothing;
                    self.broadcast.clear();
                    return Poll::Ready(Err(self.closed()));
                }
                verdict => {
                    self.broadcast.todo.done(index, verdict == Verdict::Done);
                    self.note_dirty(target);
                }
            }
        }
        if index > 0 {
            return Poll::Pending;
        }
        self.doing = Doing::Nothing;
        self.broadcast.clear();
        Poll::Ready(Ok(self.broadcast.todo.reach))
    }

    /// One try to bring what is under way to one target. A record that waited in vain is dropped there.
    fn deliver(&mut self, target: u32) -> Verdict {
        let (mut append, mut moved) = self.append_broadcast(target);
        if append == Append::Blocked(Blocked::Memory) && self.sweep_shared() {
            let before = moved;
            (append, moved) = self.append_broadcast(target);
            moved |= before;
        }
        let State { todo, scratch, .. } = &self.broadcast;
        let lane = &mut self.lanes[target as usize];
        if matches!(todo.what, Some(What::Event(_))) {
            return lane.judge_event(append);
        }
        let verdict = lane.judge(append, moved, self.waits.clock());
        if verdict == Verdict::GiveUp {
            match todo.what {
                Some(What::Shared(payload_bytes)) => lane.half.overflow_shared(payload_bytes),
                _ => lane.half.overflow(&mut rest(scratch, lane.half.record_left())),
            }
        }
        verdict
    }

    /// The append, and whether it took a part of the record.
    fn append_broadcast(&mut self, target: u32) -> (Append, bool) {
        let State { todo, scratch, shared } = &self.broadcast;
        let half = &mut self.lanes[target as usize].half;
        match &todo.what {
            Some(What::Event(event)) => (half.append_event(event, &mut self.cache), false),
            Some(What::Shared(payload_bytes)) => (half.append_shared(shared.parts(), *payload_bytes), false),
            Some(What::Copied) | None => {
                if !half.is_mid_record() && half.append_short(scratch) {
                    return (Append::Done, true);
                }
                let mut source = rest(scratch, half.record_left());
                let before = source.len();
                let append = half.append(&mut source, &mut self.cache);
                (append, source.len() != before)
            }
        }
    }
}

/// The part of a record that a half has not taken yet.
fn rest(record: &[u8], left: Option<usize>) -> &[u8] {
    &record[record.len() - left.unwrap_or(record.len()).min(record.len())..]
}
