//! The core of all forms of the gate: the next thing that is there, without waiting.

use super::InputGate;
use super::channel::State;
use super::config::{TURN_BYTES_MAX, TURN_RECORDS_MAX};
use super::error::GateError;
use super::item::{Item, Record};
use super::ready::Turn;
use crate::event::{Event, PriorityEvent};
use crate::inbox::Popped;
use crate::record::Refused;
use crate::subpartition::{Amount, Next};
use std::sync::Arc;

/// What the gate came to. A record is lent afterwards: a loop can't return a borrow of what it goes on with.
#[derive(Debug)]
pub(super) enum Found {
    /// The reader of this channel has it (I1).
    Record(usize),
    Item(Item<'static>),
    Failed(GateError),
    End,
}

/// What a reader found that isn't a record, free of its borrow.
enum Step {
    Event(Event),
    Priority(PriorityEvent),
    Loss(Amount),
    EndOfData,
    EndOfPartition { news: bool },
    Failed,
    Empty,
    Fenced,
    Refused(Refused),
}

impl Step {
    #[cold]
    fn of(next: Next<'_>) -> Option<Self> {
        Some(match next {
            Next::Record(_) => return None,
            Next::Barrier(id) => Self::Event(Event::Barrier(id)),
            Next::Watermark(time) => Self::Event(Event::Watermark(time)),
            Next::Application(bytes) => Self::Event(Event::Application(bytes)),
            Next::Priority(event) => Self::Priority(event),
            Next::Loss(total) => Self::Loss(total),
            Next::EndOfData => Self::EndOfData,
            Next::EndOfPartition { news } => Self::EndOfPartition { news },
            Next::Failed => Self::Failed,
            Next::Empty => Self::Empty,
            Next::Fenced => Self::Fenced,
            Next::Refused(refused) => Self::Refused(refused),
        })
    }
}

impl InputGate {
    /// The next thing that is there; `None` when nothing is.
    #[inline]
    pub(super) fn advance(&mut self) -> Option<Found> {
        loop {
            let index = self.turn.channel;
            if self.turn.records_left > 0
                && let Some(channel) = self.channels.get_mut(index)
                && let Some(reader) = &mut channel.reader
                && reader.yielded_bytes() < self.turn.bytes_end
            {
                self.turn.records_left -= 1;
                let step = match reader.next(&mut self.admission) {
                    Next::Record(_) => return Some(Found::Record(index)),
                    other => Step::of(other),
                };
                let found = step.and_then(|step| self.step(index, step));
                if found.is_some() {
                    return found;
                }
            } else if let Some(rest) = self.next_turn() {
                return rest;
            }
        }
    }

    /// Lends what was found.
    #[inline]
    pub(super) fn lend(&self, found: Found) -> Result<Option<Item<'_>>, GateError> {
        match found {
            Found::Record(index) => Ok(Some(Item::Record(self.record(index)))),
            Found::Item(item) => Ok(Some(item)),
            Found::Failed(error) => Err(error),
            Found::End => Ok(None),
        }
    }

    #[inline]
    fn record(&self, index: usize) -> Record<'_> {
        let channel = &self.channels[index];
        let Some(reader) = &channel.reader else { unreachable!("I1: found with this reader") };
        Record { channel: index as u32, bind: channel.binds, bytes: reader.current().bytes(), reader }
    }

    /// Ends a turn and begins the next. `Some(None)`: nothing is there.
    #[cold]
    #[inline(never)]
    fn next_turn(&mut self) -> Option<Option<Found>> {
        self.end_turn();
        self.listen();
        if let Some(priority) = self.next_urgent() {
            return Some(Some(priority));
        }
        self.ready.look_at_clock(&**self.manager.clock(), &mut self.channels);
        self.feed_starved();
        let Some(index) = self.ready.next() else {
            return Some(self.end());
        };
        self.channels[index].is_queued = false;
        self.serve(index).map(Some)
    }

    /// The channel whose turn it was has used it up, or was paused.
    fn end_turn(&mut self) {
        let index = std::mem::replace(&mut self.turn, Turn::NOBODY).channel;
        if let Some(channel) = self.channels.get_mut(index)
            && let Some(reader) = &mut channel.reader
        {
            reader.settle(&mut self.admission);
            if !channel.is_paused {
                self.ready.queue(index, channel);
            }
        }
    }

    /// Takes what the bell has, and obeys commands.
    fn listen(&mut self) {
        if self.bell.is_silent() {
            return;
        }
        let (channels, ready, mut commands) = (&mut self.channels, &mut self.ready, false);
        let command_node = &self.command_node;
        self.bell.take_all(|node| {
            let index = node.token() as usize;
            if Arc::ptr_eq(&node, command_node) {
                node.clear();
                commands = true;
            } else if let Some(channel) = channels.get_mut(index)
                // A node of an older bind stays listed for ever, and means nothing.
                && channel.node.as_ref().is_some_and(|newest| Arc::ptr_eq(newest, &node))
            {
                channel.is_rung = true;
                ready.queue(index, channel);
                if channel.reader.as_ref().is_some_and(|reader| reader.view().has_priority()) {
                    ready.hurry(index, channel);
                }
            }
        });
        if commands {
            self.obey_all();
        }
    }

    fn next_urgent(&mut self) -> Option<Found> {
        while let Some(index) = self.ready.first_urgent() {
            let channel = &mut self.channels[index];
            // Behind the notice of its bind, which the channel's turn brings.
            if channel.announce.is_none()
                && let Some(event) = channel.reader.as_mut().and_then(|reader| reader.take_priority())
            {
                return Some(Found::Item(Item::Priority { channel: index as u32, event }));
            }
            channel.is_urgent = false;
            self.ready.drop_urgent();
        }
        None
    }

    /// Admission fell: who was refused it is asked again.
    fn feed_starved(&mut self) {
        if self.admission.admitted_bytes() < self.starved_at {
            self.starved_at = 0;
            for (index, channel) in self.channels.iter_mut().enumerate() {
                if channel.starved.is_some() {
                    self.ready.queue(index, channel);
                }
            }
        }
    }

    /// All is at rest: whether anything can come.
    fn end(&self) -> Option<Found> {
        if self.ended + self.fenced < self.channels.len() {
            return None;
        }
        let fenced = self.channels.iter().zip(0..).find_map(|(channel, index)| match channel.state {
            State::Fenced(newer) => Some(GateError::Fenced { channel: index, newer }),
            _ => None,
        });
        Some(fenced.map_or(Found::End, Found::Failed))
    }

    /// A channel's turn: a transition, or the begin of its reading.
    fn serve(&mut self, index: usize) -> Option<Found> {
        let channel = &mut self.channels[index];
        if std::mem::take(&mut channel.is_rung)
            && let Some(node) = &channel.node
        {
            node.clear();
        }
        match &channel.state {
            State::Active => self.serve_active(index),
            State::Unbound => {
                self.bind(index);
                None
            }
            State::Waiting { inbox, .. } => match inbox.pop() {
                Popped::Item(answer) => {
                    self.answer(index, answer);
                    None
                }
                Popped::Empty | Popped::Closed => {
                    self.move_waiting(index);
                    None
                }
            },
            State::Told(_) => self.refuse(index),
            _ => None,
        }
    }

    fn serve_active(&mut self, index: usize) -> Option<Found> {
        let channel = &mut self.channels[index];
        let number = index as u32;
        if let Some(loss) = channel.announce.take() {
            self.ready.queue(index, channel);
            let producer = channel.descriptor.producer_attempt;
            return Some(Found::Item(Item::Available {
                channel: number,
                producer,
                epoch: channel.epoch,
                loss,
            }));
        }
        if channel.is_ended_before {
            return Some(self.ended(index));
        }
        let reader = channel.reader.as_mut()?;
        if let Some(event) = reader.take_priority() {
            self.ready.queue(index, channel);
            return Some(Found::Item(Item::Priority { channel: number, event }));
        }
        // Also of a paused channel: `resume` looks by itself, no ring is missed.
        if std::mem::take(&mut channel.is_quiet)
            && let Some(node) = &channel.node
        {
            node.stir();
        }
        if channel.is_paused {
            return None;
        }
        if channel.starved.take().is_some() {
            self.post(index);
        }
        let bytes_end = self.channels[index].reader.as_ref()?.yielded_bytes() + TURN_BYTES_MAX;
        self.turn = Turn { channel: index, records_left: TURN_RECORDS_MAX, bytes_end };
        None
    }

    /// What follows from something that isn't a record.
    #[cold]
    fn step(&mut self, index: usize, step: Step) -> Option<Found> {
        let channel = &mut self.channels[index];
        let number = index as u32;
        match step {
            Step::Event(event) => {
                if let Event::Watermark(time) = event {
                    self.note_watermark(index, time);
                }
                Some(Found::Item(Item::Event { channel: number, event }))
            }
            Step::Priority(event) => Some(Found::Item(Item::Priority { channel: number, event })),
            Step::Loss(total) => {
                // An entry that waited while the bind's report was made is in that report.
                let lost = total.beyond(channel.told);
                if lost == Amount::ZERO {
                    return None;
                }
                channel.told = total;
                channel.lost += lost;
                Some(Found::Item(Item::Loss { channel: number, epoch: channel.epoch, lost }))
            }
            Step::EndOfData => {
                channel.is_data_ended = true;
                self.lift_watermark();
                Some(Found::Item(Item::EndOfData { channel: number }))
            }
            Step::EndOfPartition { news } => {
                if news && let Some(partition) = &channel.partition {
                    partition.acknowledge_end();
                }
                Some(self.ended(index))
            }
            Step::Failed => Some(self.failed(index)),
            Step::Fenced => Some(self.severed(index)),
            Step::Refused(Refused::TooLong { bytes, max }) => Some(self.too_long(index, bytes, max)),
            Step::Refused(Refused::NotAdmitted { bytes }) => {
                channel.starved = Some(bytes);
                self.turn = Turn::NOBODY;
                self.starved_at = self.starved_at.max(self.admission.admitted_bytes());
                self.post(index);
                None
            }
            Step::Empty => {
                self.turn = Turn::NOBODY;
                self.found_empty(index);
                None
            }
        }
    }

    /// Nothing is there: who looks next, and when? See `ready`.
    fn found_empty(&mut self, index: usize) {
        let channel = &mut self.channels[index];
        let (Some(reader), Some(node)) = (&mut channel.reader, &channel.node) else { return };
        reader.settle(&mut self.admission);
        let Some(interval) = channel.interval.filter(|_| !channel.is_timed) else { return };
        let mark = Some(reader.mark());
        if channel.looked != mark {
            channel.looked = mark;
            channel.is_timed = true;
            self.ready.look_after(&**self.manager.clock(), index, interval);
            return;
        }
        node.fall_quiet();
        channel.is_quiet = true;
        if reader.has_more() {
            // The next turn stirs the node.
            self.ready.queue(index, channel);
        }
    }
}
