//! The binder's end of one stream: what may come next, and what is told back when.

use super::{ACK_DELAY, EVENTS_MAX, Violation};
use crate::clock::Moment;
use crate::event::PriorityEvent;
use crate::id::{BindEpoch, Incarnation};
use crate::rules::rule;
use crate::wire::{
    Ack, Amount, Bound, Close, Consumed, Ended, EventFrame, PriorityFrame, Resume, Rule, Run, StreamEvent,
    StreamId, StreamPosition,
};

/// What to do with what came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Accept {
    /// It is the next of the stream, and counts as received: store it.
    Fresh,
    /// It is of another epoch, or comes too late: drop it. Nothing is changed.
    Dropped,
}

/// How far the task has come with what was received. No count ever goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Progress {
    /// What left the queue of the channel: to the reader, or into the half record. Entries count when the
    /// reader has them in hand, whether they count as consumed or not.
    pub(crate) left: StreamPosition,
    /// Bytes of receive buffers that lent records keep.
    pub(crate) pinned: u64,
    pub(crate) consumed: Consumed,
    /// Priority events that were taken; wraps around.
    pub(crate) priority: u32,
}

/// What the server was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Told {
    received: StreamPosition,
    consumed: Consumed,
    priority: u32,
}

/// See the module's text. Survives the loss of its connection, for a bind that resumes.
#[derive(Clone, Debug)]
pub(crate) struct Incoming {
    stream: StreamId,
    epoch: BindEpoch,
    incarnation: Incarnation,
    window: u64,
    /// Everything before is received.
    at: StreamPosition,
    /// Credit as told.
    limit: StreamPosition,
    told: Told,
    /// `told` may have been lost on its way: the same has to be told again.
    retell: bool,
    /// Runs and entries since `told.received`.
    arrived: u64,
    ring_entries: u64,
    /// Priority events that were received.
    priority: u32,
    /// Since when there is something to tell.
    since: Option<Moment>,
    /// The last entry was received: so many entries in all.
    end: Option<u64>,
    /// It was the end of the partition, which the server has to learn of.
    is_whole: bool,
    /// The connection is lost: nothing is told until the bind is resumed.
    suspended: bool,
}

impl Incoming {
    /// A stream that starts anew, with the window that its BIND gave as credit.
    ///
    /// # Errors
    /// BOUND goes on with a stream: one that was asked to is [`Incoming::resumed`].
    pub(crate) fn new(bound: &Bound, window: u64) -> Result<Self, Violation> {
        check_bound(bound, false)?;
        Ok(Self {
            stream: bound.stream,
            epoch: bound.epoch,
            incarnation: bound.incarnation,
            window,
            at: StreamPosition::default(),
            limit: Self::initial_limit(window),
            told: Told::default(),
            retell: false,
            arrived: 0,
            ring_entries: u64::from(bound.ring_entries),
            priority: 0,
            since: None,
            end: None,
            is_whole: false,
            suspended: false,
        })
    }

    /// The credit that a BIND gives to a stream that starts anew.
    pub(crate) const fn initial_limit(window: u64) -> StreamPosition {
        StreamPosition::new(window, EVENTS_MAX)
    }

    #[allow(
        dead_code,
        reason = "binds are resumed by the protocol's simulation; the rings begin anew for now"
    )]
    pub(crate) fn stream(&self) -> StreamId {
        self.stream
    }

    pub(crate) fn epoch(&self) -> BindEpoch {
        self.epoch
    }

    /// Everything before is received.
    #[allow(
        dead_code,
        reason = "binds are resumed by the protocol's simulation; the rings begin anew for now"
    )]
    pub(crate) fn received(&self) -> StreamPosition {
        self.at
    }

    /// Whether the last entry was received.
    #[allow(
        dead_code,
        reason = "binds are resumed by the protocol's simulation; the rings begin anew for now"
    )]
    pub(crate) fn is_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Whether all of the stream was received, with the end of the partition: nothing of it is missing, whatever
    /// becomes of the connection.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// What has to be told until it is confirmed, once the task has consumed the end of the partition.
    pub(crate) fn ended(&self, consumed: Consumed) -> Option<Ended> {
        let is_through = self.is_whole && self.end.is_some_and(|end| consumed.entries >= end);
        is_through.then_some(Ended { incarnation: self.incarnation, epoch: self.epoch, consumed })
    }

    /// The bytes of credit from here on; what was granted stays granted.
    #[allow(
        dead_code,
        reason = "binds are resumed by the protocol's simulation; the rings begin anew for now"
    )]
    pub(crate) fn set_window(&mut self, window: u64) {
        self.window = window;
    }

    /// # Errors
    /// It isn't the next of the stream, or is beyond the credit. Nothing is changed then.
    pub(crate) fn on_run(&mut self, run: &Run) -> Result<Accept, Violation> {
        if !rule!(DATA_EPOCH, run.epoch == self.epoch) {
            return Ok(Accept::Dropped);
        }
        self.check_next(run.position)?;
        let room = self.limit.bytes.saturating_sub(self.at.bytes);
        let is_granted = rule!(DATA_CREDIT, u64::from(run.bytes) <= room);
        if !is_granted {
            let (bytes, at) = (run.bytes, self.at);
            let text = format_args!("{bytes} bytes at {at} with credit for {room}");
            return Err(Violation::stream(self.stream, Rule::CREDIT, text));
        }
        self.at.bytes += u64::from(run.bytes);
        self.arrived += 1;
        Ok(Accept::Fresh)
    }

    /// # Errors
    /// It isn't the next of the stream, or one too many. Nothing is changed then.
    pub(crate) fn on_event(&mut self, event: &EventFrame<'_>) -> Result<Accept, Violation> {
        if event.epoch != self.epoch {
            return Ok(Accept::Dropped);
        }
        self.check_next(event.position)?;
        if self.at.entries >= self.limit.entries {
            let text = format_args!("the queue holds {EVENTS_MAX} events, and another comes at {}", self.at);
            return Err(Violation::stream(self.stream, Rule::EVENTS, text));
        }
        self.at.entries += 1;
        self.arrived += 1;
        if event.event.is_last() {
            self.end = Some(self.at.entries);
            self.is_whole = matches!(event.event, StreamEvent::EndOfPartition);
        }
        Ok(Accept::Fresh)
    }

    /// # Errors
    /// It isn't the next one, or one too many. Nothing is changed then.
    pub(crate) fn on_priority(&mut self, priority: &PriorityFrame) -> Result<Accept, Violation> {
        // One that was sent before the end may have been overtaken by it: it never follows the end.
        if priority.epoch != self.epoch || self.end.is_some() {
            return Ok(Accept::Dropped);
        }
        let refuse =
            |text: std::fmt::Arguments<'_>| Err(Violation::stream(self.stream, Rule::PRIORITY, text));
        if priority.sequence != self.priority {
            return refuse(format_args!("priority event {} instead of {}", priority.sequence, self.priority));
        }
        let waiting = self.priority.wrapping_sub(self.told.priority);
        if waiting as usize >= PriorityEvent::QUEUED_MAX {
            return refuse(format_args!("{waiting} priority events wait, and another comes"));
        }
        self.priority = self.priority.wrapping_add(1);
        Ok(Accept::Fresh)
    }

    fn check_next(&self, position: StreamPosition) -> Result<(), Violation> {
        let refuse = |rule, text: std::fmt::Arguments<'_>| Err(Violation::stream(self.stream, rule, text));
        if self.end.is_some() {
            return refuse(Rule::END, format_args!("something at {position}, behind the end at {}", self.at));
        }
        let is_next = rule!(DATA_POSITION, position == self.at);
        if !is_next {
            return refuse(Rule::POSITION, format_args!("{position} instead of {}", self.at));
        }
        Ok(())
    }

    /// What is to be told to the server now, if anything is due: call it after each turn in which something
    /// was received or the task moved on, and at [`Incoming::due_at`]. What it returns has to be sent.
    ///
    /// Due is: anything new if `force` (another frame goes out, or the caller's turn ends), half a window of
    /// credit or half of the events', received by a quarter of the window or of the sender's ring, the end
    /// of the partition, and anything new but credit for bytes after [`ACK_DELAY`].
    pub(crate) fn acknowledgement(&mut self, progress: &Progress, now: Moment, force: bool) -> Option<Ack> {
        if self.suspended {
            return None;
        }
        let limit = self.limit_of(progress);
        let credit = limit.bytes - self.limit.bytes;
        let event_credit = limit.entries - self.limit.entries;
        let tell = Told { received: self.at, consumed: progress.consumed, priority: progress.priority };
        // Events may have to wait by their bytes long before half of them are in the queue: their credit is
        // told in time, too. A sender without credit for bytes has used up a window, so that its half comes.
        if tell != self.told || event_credit > 0 || self.retell {
            self.since = self.since.or(Some(now));
        } else if credit == 0 {
            return None;
        }
        let unsaid = self.at.bytes - self.told.received.bytes;
        let is_end = |consumed: Consumed| self.end.is_some_and(|end| consumed.entries >= end);
        let due = force
            || credit > 0 && credit.saturating_mul(2) >= self.window
            || event_credit * 2 >= EVENTS_MAX
            || unsaid > 0 && unsaid.saturating_mul(4) >= self.window
            || self.arrived > 0 && self.arrived * 4 >= self.ring_entries
            || is_end(tell.consumed) && !is_end(self.told.consumed)
            || self.due_at().is_some_and(|due| now >= due);
        if !due {
            return None;
        }
        self.since = None;
        self.arrived = 0;
        self.told = tell;
        self.retell = false;
        self.limit = limit;
        Some(Ack {
            stream: self.stream,
            epoch: self.epoch,
            limit,
            received: tell.received,
            consumed: tell.consumed,
            priority: tell.priority,
        })
    }

    /// When [`Incoming::acknowledgement`] is to be called at the latest; changed by that call alone.
    pub(crate) fn due_at(&self) -> Option<Moment> {
        self.since.map(|since| since.plus(ACK_DELAY))
    }

    /// Credit is absolute and never shrinks, whatever is pinned later.
    fn limit_of(&self, progress: &Progress) -> StreamPosition {
        let bytes = progress.left.bytes.saturating_add(self.window).saturating_sub(progress.pinned);
        let entries = progress.left.entries.saturating_add(EVENTS_MAX);
        StreamPosition::new(self.limit.bytes.max(bytes), self.limit.entries.max(entries))
    }

    /// The connection is lost, and nothing of it will be stored any more. Returns what a BIND says to go on
    /// from here.
    #[allow(
        dead_code,
        reason = "binds are resumed by the protocol's simulation; the rings begin anew for now"
    )]
    pub(crate) fn suspend(&mut self) -> Resume {
        self.suspended = true;
        self.since = None;
        Resume {
            incarnation: self.incarnation,
            epoch: self.epoch,
            at: self.at,
            limit: self.limit,
            priority: self.priority,
        }
    }

    #[allow(
        dead_code,
        reason = "binds are resumed by the protocol's simulation; the rings begin anew for now"
    )]
    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended
    }

    /// The answer to a BIND with [`Incoming::suspend`]'s fields: the stream goes on where it stands. How
    /// far the task is will be told again. If BOUND isn't `resumed`, what was before is
    /// gone, and [`Incoming::new`] takes its place.
    ///
    /// # Errors
    /// BOUND starts anew, or this wasn't suspended.
    #[allow(
        dead_code,
        reason = "binds are resumed by the protocol's simulation; the rings begin anew for now"
    )]
    pub(crate) fn resumed(&mut self, bound: &Bound) -> Result<(), Violation> {
        check_bound(bound, self.suspended)?;
        self.stream = bound.stream;
        self.epoch = bound.epoch;
        self.ring_entries = u64::from(bound.ring_entries);
        // The BIND said so. What was told of the task's progress before may not have arrived.
        self.told.received = self.at;
        self.retell = true;
        self.arrived = 0;
        self.suspended = false;
        Ok(())
    }

    /// The most that a task may have been given of what was received: a record has at least a byte.
    pub(crate) fn at_most(&self) -> Amount {
        Amount { records: self.at.bytes, bytes: self.at.bytes }
    }

    /// The last word about the stream, when the reader goes in order. `yielded`: up to where the task was
    /// given items.
    pub(crate) fn closing(&self, consumed: Consumed, yielded: Amount) -> Close {
        Close { stream: self.stream, epoch: self.epoch, received: self.at, consumed, yielded }
    }
}

fn check_bound(bound: &Bound, resumed: bool) -> Result<(), Violation> {
    if bound.resumed == resumed && bound.epoch != BindEpoch::NEVER {
        return Ok(());
    }
    let text = format_args!("bound with {}, resumed: {}, instead of {resumed}", bound.epoch, bound.resumed);
    Err(Violation::stream(bound.stream, Rule::RESUME, text))
}

/// The CLOSE that takes a bind back which isn't answered yet.
pub(crate) fn withdrawal(stream: StreamId) -> Close {
    Close {
        stream,
        epoch: BindEpoch::NEVER,
        received: StreamPosition::default(),
        consumed: Consumed::default(),
        yielded: Amount::default(),
    }
}
