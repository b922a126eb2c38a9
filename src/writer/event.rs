//! Events among the records of one subpartition or all, and priority events past them.

use super::lane::Verdict;
use super::{Doing, Reach, RecordWriter, broadcast};
use crate::error::WriteError;
use crate::event::{Event, PriorityEvent};
use crate::subpartition::{Append, Blocked};
use std::task::{Context, Poll};

/// Where an event goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// To this subpartition.
    One(u32),
    /// To every subpartition.
    All,
}

impl RecordWriter {
    /// Appends an event behind everything that was written to its target. It is never dropped because a reader
    /// is slow, but counted and dropped where the consumer is absent.
    ///
    /// `Pending`: call again with the same target and an equal event until it is `Ready`. With
    /// [`Target::All`] some subpartitions have the event then and keep it.
    ///
    /// # Errors
    /// [`WriteError::EventTooLong`], [`WriteError::NoSuchSubpartition`]; [`WriteError::RecordInProgress`]
    /// while a record is under way, [`WriteError::BroadcastInProgress`] while something else is broadcast;
    /// [`WriteError::Finished`], [`WriteError::Closed`].
    ///
    /// # Cancel safety
    /// With `One` nothing happened. With `All` the event stays under way;
    /// [`RecordWriter::abort_broadcast`] gives it up for who hasn't it yet.
    pub fn poll_event(
        &mut self,
        cx: &mut Context<'_>,
        target: Target,
        event: &Event,
    ) -> Poll<Result<Reach, WriteError>> {
        let begun = match target {
            Target::One(target) => self.begin_event_to(target, event),
            Target::All if self.doing == Doing::Broadcast => self.is_broadcasting(event),
            Target::All => check(event).and_then(|()| self.begin_event(event)),
        };
        if let Err(error) = begun {
            return Poll::Ready(Err(error));
        }
        match target {
            Target::One(target) => self.poll_look(cx, |writer| writer.attempt_event(target, event)),
            Target::All => self.poll_look(cx, Self::attempt_broadcast),
        }
    }

    /// Sends an event past everything that is queued, also between two halves of a record. At most
    /// [`PriorityEvent::QUEUED_MAX`] of a subpartition wait to be taken; then this is `Pending`, with the
    /// contract of [`RecordWriter::poll_event`].
    ///
    /// # Errors
    /// [`WriteError::NoSuchSubpartition`], [`WriteError::Finished`], [`WriteError::Closed`];
    /// [`WriteError::BroadcastInProgress`] while another priority event is on its way to all.
    pub fn poll_priority_event(
        &mut self,
        cx: &mut Context<'_>,
        target: Target,
        event: PriorityEvent,
    ) -> Poll<Result<Reach, WriteError>> {
        if let Err(error) = self.begin_priority(target, event) {
            return Poll::Ready(Err(error));
        }
        match target {
            Target::One(target) => self.poll_look(cx, |writer| writer.attempt_priority(target, event)),
            Target::All => self.poll_look(cx, Self::attempt_priority_all),
        }
    }

    fn begin_event_to(&self, target: u32, event: &Event) -> Result<(), WriteError> {
        check(event)?;
        self.idle()?;
        self.exists(target)
    }

    fn is_broadcasting(&self, event: &Event) -> Result<(), WriteError> {
        match &self.broadcast.todo.what {
            Some(broadcast::What::Event(under_way)) if under_way == event => Ok(()),
            _ => Err(WriteError::BroadcastInProgress),
        }
    }

    fn begin_priority(&mut self, target: Target, event: PriorityEvent) -> Result<(), WriteError> {
        if self.doing == Doing::Ended {
            return Err(WriteError::Finished);
        }
        match (target, self.priority.what) {
            (Target::One(target), _) => self.exists(target),
            (Target::All, None) => {
                self.priority.start(event, self.lanes.len() as u32);
                Ok(())
            }
            (Target::All, Some(under_way)) if under_way == event => Ok(()),
            (Target::All, Some(_)) => Err(WriteError::BroadcastInProgress),
        }
    }

    fn attempt_event(&mut self, target: u32, event: &Event) -> Poll<Result<Reach, WriteError>> {
        let mut append = self.lanes[target as usize].half.append_event(event, &mut self.cache);
        if append == Append::Blocked(Blocked::Memory) && self.sweep_shared() {
            append = self.lanes[target as usize].half.append_event(event, &mut self.cache);
        }
        let verdict = self.lanes[target as usize].judge_event(append);
        self.reach_of_one(verdict)
    }

    fn attempt_priority(&mut self, target: u32, event: PriorityEvent) -> Poll<Result<Reach, WriteError>> {
        let append = self.lanes[target as usize].half.append_priority(event);
        let verdict = judge_priority(append);
        self.reach_of_one(verdict)
    }

    fn reach_of_one(&self, verdict: Verdict) -> Poll<Result<Reach, WriteError>> {
        match verdict {
            Verdict::Wait(_) => Poll::Pending,
            Verdict::Closed => Poll::Ready(Err(self.closed())),
            Verdict::Done => Poll::Ready(Ok(Reach { queued: 1, dropped: 0 })),
            Verdict::Dropped | Verdict::GiveUp => Poll::Ready(Ok(Reach { queued: 0, dropped: 1 })),
        }
    }

    fn attempt_priority_all(&mut self) -> Poll<Result<Reach, WriteError>> {
        let Some(event) = self.priority.what else { return Poll::Ready(Ok(self.priority.reach)) };
        let mut index = 0;
        while let Some(target) = self.priority.targets.get(index) {
            match judge_priority(self.lanes[*target as usize].half.append_priority(event)) {
                Verdict::Wait(_) => index += 1,
                Verdict::Closed => {
                    self.priority.clear();
                    return Poll::Ready(Err(self.closed()));
                }
                verdict => {
                    self.priority.done(index, verdict == Verdict::Done);
                }
            }
        }
        if index > 0 {
            return Poll::Pending;
        }
        self.priority.clear();
        Poll::Ready(Ok(self.priority.reach))
    }

    pub(super) fn exists(&self, target: u32) -> Result<(), WriteError> {
        let count = self.subpartitions();
        if target < count { Ok(()) } else { Err(WriteError::NoSuchSubpartition { target, count }) }
    }
}

/// A full ring of priority events says nothing about room for records: the lane isn't marked as blocked.
fn judge_priority(append: Append) -> Verdict {
    match append {
        Append::Blocked(_) => Verdict::Wait(None),
        Append::Done => Verdict::Done,
        Append::Dropped => Verdict::Dropped,
        Append::Closed => Verdict::Closed,
    }
}

fn check(event: &Event) -> Result<(), WriteError> {
    match event {
        Event::Application(bytes) if bytes.len() > Event::APPLICATION_BYTES_MAX => {
            Err(WriteError::EventTooLong { bytes: bytes.len(), max: Event::APPLICATION_BYTES_MAX })
        }
        _ => Ok(()),
    }
}
