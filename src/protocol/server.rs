//! The server's table of streams: is asked, answers, sends.

use super::outgoing::{Acked, News, Outgoing};
use super::table::{Counts, Table};
use super::{BIND_COUNT_MAX, Violation};
use crate::id::BindEpoch;
use crate::wire::{Ack, Bind, Close, Rule, StreamId};

/// One stream of a server. `S` is whatever the owner keeps with it.
#[derive(Debug)]
pub(crate) struct Feed<S> {
    phase: Phase,
    pub(crate) state: S,
}

/// ```text
///            wait()
///   Asked ------------> Waiting
///     |  \ refuse()        |  \ refuse()
///     |   `--> (over)      |   `--> (over)
///     | bind()             | bind()
///     `------> Bound <-----'
///                | CLOSE came, end() (GONE is sent), ERROR either way, connection lost
///                `--> (over)
/// ```
/// CLOSE may come in every state: before BOUND it takes the bind back.
#[derive(Debug)]
enum Phase {
    Asked,
    Waiting,
    Bound(Outgoing),
}

impl<S> Feed<S> {
    /// The stream's end, if it is bound.
    pub(crate) fn outgoing(&mut self) -> Option<&mut Outgoing> {
        match &mut self.phase {
            Phase::Bound(outgoing) => Some(outgoing),
            Phase::Asked | Phase::Waiting => None,
        }
    }

    /// The stream's end, if it is bound, and what the owner keeps with it.
    pub(crate) fn parts(&mut self) -> (Option<&mut Outgoing>, &mut S) {
        let outgoing = match &mut self.phase {
            Phase::Bound(outgoing) => Some(outgoing),
            Phase::Asked | Phase::Waiting => None,
        };
        (outgoing, &mut self.state)
    }

    /// What the stream was, after its end: what a bind may resume, and what the owner kept with it.
    pub(crate) fn into_parts(self) -> (Option<Outgoing>, S) {
        let outgoing = match self.phase {
            Phase::Bound(outgoing) => Some(outgoing),
            Phase::Asked | Phase::Waiting => None,
        };
        (outgoing, self.state)
    }
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Server<S> {
    table: Table<Feed<S>>,
}

/// `None`: the frame is dropped, and counted. An error: [`Server::remove`] the stream and answer.
type Found<T> = Result<Option<T>, Violation>;

impl<S> Server<S> {
    pub(crate) fn new() -> Self {
        Self { table: Table::new() }
    }

    /// Streams that are open.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.table.counts
    }

    pub(crate) fn get(&mut self, stream: StreamId) -> Option<&mut Feed<S>> {
        self.table.get(stream)
    }

    pub(crate) fn iter(&mut self) -> impl Iterator<Item = (StreamId, &mut Feed<S>)> {
        self.table.iter()
    }

    /// The stream is over for this side: refused, ended with GONE, or failed. What still comes of it is
    /// dropped.
    pub(crate) fn remove(&mut self, stream: StreamId) -> Option<Feed<S>> {
        self.table.remove(stream)
    }

    /// The connection is lost: all streams are over.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (StreamId, Feed<S>)> {
        self.table.drain()
    }

    /// Opens the streams that the binder asks for. `state` is given the number of each, from 0 on.
    ///
    /// # Errors
    /// The ids aren't the next ones, or the range is none: about the connection, since both sides wouldn't
    /// mean the same streams from here on.
    pub(crate) fn on_bind(&mut self, bind: &Bind, state: impl FnMut(u32) -> S) -> Result<(), Violation> {
        let mut state = state;
        let refuse = |rule, text: std::fmt::Arguments<'_>| Err(Violation::connection(rule, text));
        let (first, count) = (bind.stream.0, bind.count);
        if u64::from(first) != self.table.next() {
            let next = self.table.next();
            return refuse(Rule::STREAM, format_args!("BIND opens stream {first}, the next one is {next}"));
        }
        if count == 0 || count > BIND_COUNT_MAX {
            return refuse(
                Rule::RANGE,
                format_args!("BIND of {count} streams, 1 to {BIND_COUNT_MAX} may be"),
            );
        }
        if bind.resume.is_some() && count != 1 {
            return refuse(Rule::RANGE, format_args!("BIND resumes {count} streams at one position"));
        }
        if bind.subpartition.checked_add(count).is_none() {
            let from = bind.subpartition;
            return refuse(Rule::RANGE, format_args!("BIND of {count} subpartitions from {from} on"));
        }
        if !self.table.has_room(count) {
            let open = self.table.len();
            return refuse(Rule::RANGE, format_args!("{count} more streams while {open} are open"));
        }
        self.table.open(count, |index| Feed { phase: Phase::Asked, state: state(index) });
        Ok(())
    }

    /// The partition isn't there yet: WAITING is to be sent if this is true. False if the stream is over, or
    /// waits already.
    pub(crate) fn wait(&mut self, stream: StreamId) -> bool {
        match self.table.get(stream).map(|feed| &mut feed.phase) {
            Some(phase @ Phase::Asked) => {
                *phase = Phase::Waiting;
                true
            }
            _ => false,
        }
    }

    /// The bind succeeds: BOUND is to be sent if there is a stream. `None` if the binder has taken it back
    /// meanwhile, or if it is bound already.
    pub(crate) fn bind(&mut self, stream: StreamId, outgoing: Outgoing) -> Option<&mut Feed<S>> {
        debug_assert_ne!(outgoing.epoch(), BindEpoch::NEVER);
        let feed = self.table.get(stream)?;
        if matches!(feed.phase, Phase::Bound(_)) {
            return None;
        }
        feed.phase = Phase::Bound(outgoing);
        Some(feed)
    }

    /// What is new, and the stream that it is about.
    pub(crate) fn on_ack(&mut self, ack: &Ack) -> Found<(News, &mut Feed<S>)> {
        let Some(feed) = self.table.find(ack.stream)? else { return Ok(None) };
        let Phase::Bound(outgoing) = &mut feed.phase else {
            let violation = Violation::stream(
                ack.stream,
                Rule::ANSWER,
                format_args!("ACK for a stream that isn't bound"),
            );
            return Err(self.table.counts.judge(violation));
        };
        match outgoing.on_ack(ack) {
            Ok(Acked::Fresh(news)) => Ok(self.table.get(ack.stream).map(|feed| (news, feed))),
            Ok(Acked::Stale) => {
                self.table.counts.stale += 1;
                Ok(None)
            }
            Err(violation) => Err(self.table.counts.judge(violation)),
        }
    }

    /// The stream is over: the binder leaves in order, and the stream's [`Outgoing`] knows its last word
    /// (ask it for [`Outgoing::is_end_consumed`]; what was yielded is in `close`). Before BOUND, or with epoch
    /// 0, the bind is taken back, and nothing was received.
    pub(crate) fn on_close(&mut self, close: &Close) -> Found<Feed<S>> {
        let Some(feed) = self.table.find(close.stream)? else { return Ok(None) };
        if let Phase::Bound(outgoing) = &mut feed.phase {
            let acked = match close.epoch {
                // It was sent before BOUND arrived.
                BindEpoch::NEVER => Ok(Acked::Fresh(News::default())),
                _ => outgoing.on_close(close),
            };
            match acked {
                Ok(Acked::Fresh(_)) => {}
                Ok(Acked::Stale) => {
                    self.table.counts.stale += 1;
                    return Ok(None);
                }
                Err(violation) => return Err(self.table.counts.judge(violation)),
            }
        } else if close.epoch != BindEpoch::NEVER {
            let text = format_args!("CLOSE with {} for a stream that isn't bound", close.epoch);
            let violation = Violation::stream(close.stream, Rule::ANSWER, text);
            return Err(self.table.counts.judge(violation));
        }
        Ok(self.table.remove(close.stream))
    }

    /// The binder gives the stream up; it is over. Never an error: errors are not answered.
    pub(crate) fn on_error(&mut self, stream: StreamId) -> Option<Feed<S>> {
        self.table.on_error(stream)
    }
}
