//! The binder's table of streams: asks, is answered, receives.

use super::incoming::{Accept, Incoming};
use super::table::{Counts, Table};
use super::{BIND_COUNT_MAX, Violation};
use crate::id::BindEpoch;
use crate::wire::{
    Amount, Bound, Close, Consumed, EventFrame, Gone, PriorityFrame, Refused, Rule, Run, StreamId,
    StreamPosition, Waiting,
};

/// One stream of a binder. `S` is whatever the owner keeps with it.
#[derive(Debug)]
pub(crate) struct Reader<S> {
    phase: Phase,
    pub(crate) state: S,
}

/// ```text
///            WAITING
///   Asked ------------> Waiting
///     |  \ REFUSED         |  \ REFUSED
///     |   `--> (over)      |   `--> (over)
///     | BOUND              | BOUND
///     `------> Bound <-----'
///                | CLOSE sent, GONE or ERROR either way, connection lost
///                `--> (over)
/// ```
#[derive(Debug)]
enum Phase {
    Asked(Asked),
    Waiting(Asked),
    Bound(Incoming),
}

/// What BOUND will make of it.
#[derive(Debug)]
struct Asked {
    window: u64,
    /// The stream that the bind asks to resume.
    resume: Option<Incoming>,
}

impl<S> Reader<S> {
    /// The stream's end, if it is bound.
    pub(crate) fn incoming(&mut self) -> Option<&mut Incoming> {
        match &mut self.phase {
            Phase::Bound(incoming) => Some(incoming),
            Phase::Asked(_) | Phase::Waiting(_) => None,
        }
    }

    /// What the stream was, after its end: what a bind could resume, and what the owner kept with it.
    pub(crate) fn into_parts(self) -> (Option<Incoming>, S) {
        let incoming = match self.phase {
            Phase::Bound(incoming) => Some(incoming),
            Phase::Asked(asked) | Phase::Waiting(asked) => asked.resume,
        };
        (incoming, self.state)
    }

    /// The CLOSE to send for a stream that was taken out of the table; also before it is bound.
    pub(crate) fn closing(&self, stream: StreamId, consumed: Consumed, yielded: Amount) -> Close {
        match &self.phase {
            Phase::Bound(incoming) => incoming.closing(consumed, yielded),
            Phase::Asked(_) | Phase::Waiting(_) => Close {
                stream,
                epoch: BindEpoch::NEVER,
                received: StreamPosition::default(),
                consumed: Consumed::default(),
                yielded: Amount::default(),
            },
        }
    }
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Binder<S> {
    table: Table<Reader<S>>,
}

/// `None`: the frame is dropped, and counted. An error: [`Binder::remove`] the stream and answer.
type Found<T> = Result<Option<T>, Violation>;

impl<S> Binder<S> {
    pub(crate) fn new() -> Self {
        Self { table: Table::new() }
    }

    /// Streams for one BIND of `count` subpartitions, each with this window. Returns the first one's id;
    /// `None` if the connection has no room for so many.
    pub(crate) fn open(
        &mut self,
        count: u32,
        window: u64,
        mut state: impl FnMut(u32) -> S,
    ) -> Option<StreamId> {
        if count == 0 || count > BIND_COUNT_MAX || !self.table.has_room(count) {
            return None;
        }
        Some(self.table.open(count, |index| Reader {
            phase: Phase::Asked(Asked { window, resume: None }),
            state: state(index),
        }))
    }

    /// A stream for a BIND that asks to resume `incoming`, which is suspended. Should it start anew instead,
    /// it has this window. They come back if the connection has no room.
    pub(crate) fn reopen(
        &mut self,
        window: u64,
        incoming: Incoming,
        state: S,
    ) -> Result<StreamId, (Incoming, S)> {
        debug_assert!(incoming.is_suspended());
        if !self.table.has_room(1) {
            return Err((incoming, state));
        }
        let phase = Phase::Asked(Asked { window, resume: Some(incoming) });
        Ok(self.table.open_one(Reader { phase, state }))
    }

    /// Streams that are open.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.table.counts
    }

    pub(crate) fn get(&mut self, stream: StreamId) -> Option<&mut Reader<S>> {
        self.table.get(stream)
    }

    pub(crate) fn iter(&mut self) -> impl Iterator<Item = (StreamId, &mut Reader<S>)> {
        self.table.iter()
    }

    /// The stream is over for this side: closed, or failed. What still comes of it is dropped.
    pub(crate) fn remove(&mut self, stream: StreamId) -> Option<Reader<S>> {
        self.table.remove(stream)
    }

    /// The connection is lost: all streams are over.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (StreamId, Reader<S>)> {
        self.table.drain()
    }

    pub(crate) fn on_waiting(&mut self, waiting: &Waiting) -> Found<&mut S> {
        let Some(reader) = self.table.find(waiting.stream)? else { return Ok(None) };
        let Phase::Asked(asked) = &mut reader.phase else {
            return Err(self.out_of_turn(waiting.stream, "WAITING"));
        };
        let asked = Asked { window: asked.window, resume: asked.resume.take() };
        reader.phase = Phase::Waiting(asked);
        Ok(self.table.get(waiting.stream).map(|reader| &mut reader.state))
    }

    /// The stream is over.
    pub(crate) fn on_refused(&mut self, refused: &Refused) -> Found<Reader<S>> {
        let Some(reader) = self.table.find(refused.stream)? else { return Ok(None) };
        if matches!(reader.phase, Phase::Bound(_)) {
            return Err(self.out_of_turn(refused.stream, "REFUSED"));
        }
        Ok(self.table.remove(refused.stream))
    }

    /// The stream is bound. Whether it goes on is `bound.resumed`; if it was asked to and doesn't, what was
    /// before is gone.
    pub(crate) fn on_bound(&mut self, bound: &Bound) -> Found<&mut Reader<S>> {
        let Some(reader) = self.table.find(bound.stream)? else { return Ok(None) };
        let (Phase::Asked(asked) | Phase::Waiting(asked)) = &mut reader.phase else {
            return Err(self.out_of_turn(bound.stream, "BOUND"));
        };
        let incoming = match (asked.resume.take(), bound.resumed) {
            (Some(mut incoming), true) if bound.epoch != BindEpoch::NEVER => {
                incoming.resumed(bound);
                incoming
            }
            (_, false) if bound.epoch != BindEpoch::NEVER => Incoming::new(bound, asked.window),
            (resume, resumed) => {
                let (epoch, asked) = (bound.epoch, resume.is_some());
                let text = format_args!("bound with {epoch}, resumed: {resumed}, asked for: {asked}");
                let violation = Violation::stream(bound.stream, Rule::RESUME, text);
                return Err(self.table.counts.judge(violation));
            }
        };
        reader.phase = Phase::Bound(incoming);
        Ok(self.table.get(bound.stream))
    }

    /// The run's bytes are to be stored for this stream.
    pub(crate) fn on_run(&mut self, run: &Run) -> Found<&mut Reader<S>> {
        self.on_next(run.stream, "DATA", |incoming| incoming.on_run(run))
    }

    /// The event is to be stored for this stream.
    pub(crate) fn on_event(&mut self, event: &EventFrame<'_>) -> Found<&mut Reader<S>> {
        self.on_next(event.stream, "EVENT", |incoming| incoming.on_event(event))
    }

    /// The event is to be handed to this stream's reader.
    pub(crate) fn on_priority(&mut self, priority: &PriorityFrame) -> Found<&mut Reader<S>> {
        self.on_next(priority.stream, "PRIORITY", |incoming| incoming.on_priority(priority))
    }

    /// The stream is over.
    pub(crate) fn on_gone(&mut self, gone: &Gone) -> Found<Reader<S>> {
        let Some(reader) = self.table.find(gone.stream)? else { return Ok(None) };
        let Phase::Bound(incoming) = &reader.phase else {
            return Err(self.out_of_turn(gone.stream, "GONE"));
        };
        if incoming.epoch() != gone.epoch {
            self.table.counts.stale += 1;
            return Ok(None);
        }
        Ok(self.table.remove(gone.stream))
    }

    /// The server gives the stream up; it is over. Never an error: errors are not answered.
    pub(crate) fn on_error(&mut self, stream: StreamId) -> Option<Reader<S>> {
        self.table.on_error(stream)
    }

    fn on_next(
        &mut self,
        stream: StreamId,
        what: &str,
        accept: impl FnOnce(&mut Incoming) -> Result<Accept, Violation>,
    ) -> Found<&mut Reader<S>> {
        let Some(reader) = self.table.find(stream)? else { return Ok(None) };
        let Phase::Bound(incoming) = &mut reader.phase else {
            return Err(self.out_of_turn(stream, what));
        };
        match accept(incoming) {
            Ok(Accept::Fresh) => Ok(self.table.get(stream)),
            Ok(Accept::Dropped) => {
                self.table.counts.stale += 1;
                Ok(None)
            }
            Err(violation) => Err(self.table.counts.judge(violation)),
        }
    }

    #[cold]
    fn out_of_turn(&mut self, stream: StreamId, what: &str) -> Violation {
        let phase = match self.table.get(stream).map(|reader| &reader.phase) {
            Some(Phase::Asked(_)) => "asked for",
            Some(Phase::Waiting(_)) => "waiting",
            Some(Phase::Bound(_)) => "bound",
            None => "over",
        };
        let text = format_args!("{what} for a stream that is {phase}");
        self.table.counts.judge(Violation::stream(stream, Rule::ANSWER, text))
    }
}
