//! A writer as a `Sink` of owned records.

use super::RecordWriter;
use crate::error::WriteError;
use bytes::Bytes;
use futures_sink::Sink;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Takes `(subpartition, record)`; holds at most one record that found no room yet. Closing it finishes the
/// partition, as [`RecordWriter::poll_finish`] does.
///
/// A record that can't be written is dropped with its error, and the sink takes further ones. Whether a policy
/// dropped a record says the subpartition's account alone.
#[derive(Debug)]
pub struct RecordSink {
    writer: RecordWriter,
    held: Option<(u32, Bytes)>,
}

impl RecordSink {
    /// A sink over the writer.
    #[must_use]
    pub fn new(writer: RecordWriter) -> Self {
        Self { writer, held: None }
    }

    /// The writer. A record that is half written must be flushed first: the writer refuses others until then.
    #[must_use]
    pub fn writer(&self) -> &RecordWriter {
        &self.writer
    }

    /// The writer back, for events. A record that found no room yet is given up and counts as aborted if it was
    /// polled for; flush first to keep it.
    #[must_use]
    pub fn into_writer(mut self) -> RecordWriter {
        self.writer.abort_record();
        self.writer
    }

    fn poll_held(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        let Some((target, record)) = &mut self.held else { return Poll::Ready(Ok(())) };
        let written = ready!(self.writer.poll_write(cx, *target, record));
        self.held = None;
        Poll::Ready(written.map(drop))
    }
}

impl From<RecordWriter> for RecordSink {
    fn from(writer: RecordWriter) -> Self {
        Self::new(writer)
    }
}

impl Sink<(u32, Bytes)> for RecordSink {
    type Error = WriteError;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        self.get_mut().poll_held(cx)
    }

    fn start_send(self: Pin<&mut Self>, (target, record): (u32, Bytes)) -> Result<(), WriteError> {
        let this = self.get_mut();
        if let Some((held, _)) = this.held {
            return Err(WriteError::RecordInProgress { target: held });
        }
        if this.writer.write_short(target, &record).is_none() {
            this.writer.begin(target, record.len())?;
            this.held = Some((target, record));
        }
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        let this = self.get_mut();
        ready!(this.poll_held(cx))?;
        this.writer.flush();
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        let this = self.get_mut();
        ready!(this.poll_held(cx))?;
        this.writer.poll_finish(cx)
    }
}
