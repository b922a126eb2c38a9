//! The async forms: futures with names, which give up what is under way when they are dropped.

use super::{Doing, Reach, RecordWriter, Target, Written};
use crate::error::WriteError;
use crate::event::Event;
use bytes::Buf;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

impl RecordWriter {
    /// Writes a record to subpartition `target`, waiting for room.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, the record is given up: no reader sees it, and once it was polled it counts
    /// as aborted. The writer goes on.
    pub fn write<B: Buf + Unpin>(&mut self, target: u32, record: B) -> Write<'_, B> {
        Write { writer: self, target, record, started: false, over: false }
    }

    /// Writes a record to every subpartition, waiting for room.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, the subpartitions that have the record keep it; for the others it is given
    /// up and counts as aborted. The writer goes on.
    pub fn broadcast<B: Buf + Unpin>(&mut self, record: B) -> Broadcast<'_, B> {
        Broadcast { writer: self, record, started: false, over: false }
    }

    /// Appends an event, waiting for room.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, the subpartitions that have the event keep it, and the others don't get it.
    pub fn event(&mut self, target: Target, event: Event) -> SendEvent<'_> {
        SendEvent { writer: self, target, event, started: false, over: false }
    }

    /// Ends the partition, and waits until every consumer has acknowledged its end.
    ///
    /// # Cancel safety
    /// Once polled, the ends are appended; they may be waited for again.
    pub fn finish(&mut self) -> Finish<'_> {
        Finish { writer: self }
    }
}

/// A record on its way to one subpartition: [`RecordWriter::write`].
#[derive(Debug)]
#[must_use = "nothing is written before it is polled"]
pub struct Write<'a, B> {
    writer: &'a mut RecordWriter,
    target: u32,
    record: B,
    /// The record under way is this one's.
    started: bool,
    over: bool,
}

impl<B: Buf + Unpin> Future for Write<'_, B> {
    type Output = Result<Written, WriteError>;

    /// # Panics
    /// When it is polled after it was ready: what is left of its buffer would count as another record.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        assert!(!this.over, "polled after it was ready");
        if !this.started {
            // Another record of the same length may be under way: this is none of it.
            this.writer.idle()?;
        }
        let written = this.writer.poll_write(cx, this.target, &mut this.record);
        this.started = written.is_pending();
        this.over = written.is_ready();
        written
    }
}

impl<B> Drop for Write<'_, B> {
    fn drop(&mut self) {
        if self.started {
            self.writer.abort_record();
        }
    }
}

/// A record on its way to all subpartitions: [`RecordWriter::broadcast`].
#[derive(Debug)]
#[must_use = "nothing is written before it is polled"]
pub struct Broadcast<'a, B> {
    writer: &'a mut RecordWriter,
    record: B,
    /// The broadcast under way is this one's.
    started: bool,
    over: bool,
}

impl<B: Buf + Unpin> Future for Broadcast<'_, B> {
    type Output = Result<Reach, WriteError>;

    /// # Panics
    /// When it is polled after it was ready: what is left of its buffer would count as another record.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        assert!(!this.over, "polled after it was ready");
        if !this.started {
            this.writer.idle()?;
        }
        let reach = this.writer.poll_broadcast(cx, &mut this.record);
        this.started = reach.is_pending();
        this.over = reach.is_ready();
        reach
    }
}

impl<B> Drop for Broadcast<'_, B> {
    fn drop(&mut self) {
        if self.started {
            self.writer.abort_broadcast();
        }
    }
}

/// An event on its way: [`RecordWriter::event`].
#[derive(Debug)]
#[must_use = "nothing is sent before it is polled"]
pub struct SendEvent<'a> {
    writer: &'a mut RecordWriter,
    target: Target,
    event: Event,
    /// The broadcast under way is this one's.
    started: bool,
    over: bool,
}

impl Future for SendEvent<'_> {
    type Output = Result<Reach, WriteError>;

    /// # Panics
    /// When it is polled after it was ready: the event would be sent again.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        assert!(!this.over, "polled after it was ready");
        if !this.started {
            this.writer.idle()?;
        }
        let reach = this.writer.poll_event(cx, this.target, &this.event);
        this.started = reach.is_pending() && this.writer.doing == Doing::Broadcast;
        this.over = reach.is_ready();
        reach
    }
}

impl Drop for SendEvent<'_> {
    fn drop(&mut self) {
        if self.started {
            self.writer.abort_broadcast();
        }
    }
}

/// The end of a partition: [`RecordWriter::finish`].
#[derive(Debug)]
#[must_use = "nothing ends before it is polled"]
pub struct Finish<'a> {
    writer: &'a mut RecordWriter,
}

impl Future for Finish<'_> {
    type Output = Result<(), WriteError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(ready!(self.get_mut().writer.poll_finish(cx)))
    }
}
