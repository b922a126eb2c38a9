//! Turns of channels: who is served next, and what a channel's turn begins with.

use super::InputGate;
use super::advance::Found;
use super::alignment::Broken;
use super::channel::State;
use super::config::{TURN_BYTES_MAX, TURN_RECORDS_MAX};
use super::error::GateError;
use super::item::Item;
use super::ready::NOBODY;
use crate::inbox::Popped;
use std::sync::Arc;

impl InputGate {
    /// Ends a turn and begins the next. `Some(None)`: nothing is there.
    #[cold]
    #[inline(never)]
    pub(super) fn next_turn(&mut self) -> Option<Option<Found>> {
        self.end_turn();
        if let Some(Broken { barrier, channel }) = self.alignment.next_notice() {
            return Some(Some(Found::Item(Item::AlignmentBroken { barrier, channel })));
        }
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
        let index = std::mem::replace(&mut self.turn, NOBODY);
        if let Some(channel) = self.channels.get_mut(index)
            && let Some(reader) = &mut channel.reader
        {
            reader.settle(&mut self.admission);
            self.ready.queue(index, channel);
        }
    }

    /// Takes what the bell has, and obeys commands.
    pub(super) fn listen(&mut self) {
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
                // Before any look, and at once: a priority event that comes while the channel waits for its
                // turn has to be heard.
                node.clear();
                channel.stir();
                ready.queue(index, channel);
                if channel.reader.as_ref().is_some_and(|reader| reader.has_priority()) {
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

    /// Something was given back: who was refused admission is asked again.
    fn feed_starved(&mut self) {
        let eased = self.admission.eased();
        if std::mem::replace(&mut self.eased, eased) == eased || self.starved == 0 {
            return;
        }
        for (index, channel) in self.channels.iter_mut().enumerate() {
            if channel.starved.is_some() {
                self.ready.queue(index, channel);
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
            State::Connecting { .. } => self.serve_connecting(index),
            State::Told(_) => self.refuse(index),
            _ => None,
        }
    }

    fn serve_active(&mut self, index: usize) -> Option<Found> {
        let channel = &mut self.channels[index];
        let number = index as u32;
        if let Some(loss) = channel.announce.take() {
            self.ready.queue(index, channel);
            self.alignment.lost(index, channel.barriers.before);
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
        channel.stir();
        if channel.is_paused {
            if let Some(reader) = &mut channel.reader {
                reader.report();
            }
            return None;
        }
        self.feed(index);
        self.channels[index].reader.as_mut()?.begin_turn(TURN_RECORDS_MAX, TURN_BYTES_MAX);
        self.turn = index;
        None
    }

    /// Nothing is there: who looks next, and when? See `ready`.
    pub(super) fn found_empty(&mut self, index: usize) {
        let channel = &mut self.channels[index];
        let (Some(reader), Some(node)) = (&mut channel.reader, &channel.node) else { return };
        reader.settle(&mut self.admission);
        let Some(pause) = channel.look_after.filter(|_| !channel.is_timed) else { return };
        let mark = Some(reader.mark());
        if channel.looked != mark {
            channel.looked = mark;
            channel.is_timed = true;
            self.ready.look_after(&**self.manager.clock(), index, pause);
            return;
        }
        node.fall_quiet();
        channel.is_quiet = true;
        if reader.has_more() {
            // The next turn stirs the node.
            self.ready.queue(index, channel);
        }
    }

    /// The channel's next record finds no admission: it is asked again when something is given back.
    pub(super) fn starve(&mut self, index: usize, bytes: usize) {
        if self.channels[index].starved.replace(bytes).is_none() {
            self.starved += 1;
        }
        self.post(index);
    }

    /// The channel asks for admission again, or doesn't need it any more.
    pub(super) fn feed(&mut self, index: usize) {
        if self.channels[index].starved.take().is_some() {
            self.starved -= 1;
            self.post(index);
        }
    }
}
