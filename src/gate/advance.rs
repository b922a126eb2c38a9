//! The core of all forms of the gate: the next thing that is there, without waiting.

use super::InputGate;
use super::error::GateError;
use super::item::{Item, Record};
use super::ready::NOBODY;
use crate::event::Event;
use crate::record::Refused;
use crate::subpartition::{Amount, Next};

/// What the gate came to. A record is lent afterwards: a loop can't return a borrow of what it goes on with.
#[derive(Debug)]
pub(super) enum Found {
    /// The reader of this channel has it (I1).
    Record(usize),
    Item(Item<'static>),
    Failed(GateError),
    End,
}

impl InputGate {
    /// The channel whose next record lies whole where it is being read, if its turn isn't over: the way of
    /// nearly all records. `None` says nothing of what [`InputGate::advance`] finds.
    #[inline(always)]
    pub(super) fn next_record(&mut self) -> Option<usize> {
        let index = self.turn;
        let reader = self.channels.get_mut(index)?.reader.as_mut()?;
        reader.next_whole().then_some(index)
    }

    /// The next thing that is there; `None` when nothing is.
    pub(super) fn advance(&mut self) -> Option<Found> {
        loop {
            let index = self.turn;
            if let Some(channel) = self.channels.get_mut(index)
                && let Some(reader) = &mut channel.reader
                && reader.has_turn()
            {
                let next = reader.next(&mut self.admission);
                if matches!(next, Next::Record) {
                    return Some(Found::Record(index));
                }
                let found = self.step(index, next);
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

    #[inline(always)]
    pub(super) fn record(&self, index: usize) -> Record<'_> {
        let channel = &self.channels[index];
        let Some(reader) = &channel.reader else { unreachable!("I1: found with this reader") };
        Record { channel: index as u32, stamp: channel.stamp, bytes: reader.current(), reader }
    }

    /// What it breaks is told next: behind the barrier, before anything else.
    fn note_barrier(&mut self, index: usize, id: u64) {
        let channels = &self.channels;
        self.alignment.yielded(index, id, |other| channels[other].standing());
        if let Some((_, lost)) = channels[index].barriers.behind.filter(|(last, _)| id >= *last) {
            self.alignment.lost(index, Some(lost));
        }
        if self.alignment.has_notice()
            && let Some(reader) = &mut self.channels[index].reader
        {
            reader.end_turn();
        }
    }

    /// What follows from something that isn't a record.
    #[cold]
    fn step(&mut self, index: usize, next: Next) -> Option<Found> {
        let channel = &mut self.channels[index];
        let number = index as u32;
        let event = |event| Some(Found::Item(Item::Event { channel: number, event }));
        match next {
            Next::Record => Some(Found::Record(index)),
            Next::Barrier(id) => {
                self.note_barrier(index, id);
                event(Event::Barrier(id))
            }
            Next::Application(bytes) => event(Event::Application(bytes)),
            Next::Watermark(time) => {
                self.note_watermark(index, time);
                event(Event::Watermark(time))
            }
            Next::Priority(event) => Some(Found::Item(Item::Priority { channel: number, event })),
            Next::Loss(total) => {
                // An entry that waited while the bind's report was made is in that report.
                let lost = total.beyond(channel.told);
                if lost == Amount::ZERO {
                    return None;
                }
                channel.told = total;
                channel.lost += lost;
                Some(Found::Item(Item::Loss { channel: number, epoch: channel.epoch, lost }))
            }
            Next::EndOfData => {
                channel.is_data_ended = true;
                self.lift_watermark();
                Some(Found::Item(Item::EndOfData { channel: number }))
            }
            Next::EndOfPartition { news } => {
                if news && let Some(partition) = &channel.partition {
                    partition.acknowledge_end();
                }
                Some(self.ended(index))
            }
            Next::Failed => Some(self.failed(index)),
            Next::Fenced => Some(self.severed(index)),
            Next::Refused(Refused::TooLong { bytes, max }) => Some(self.too_long(index, bytes, max)),
            Next::Refused(Refused::NotAdmitted { bytes }) => {
                self.turn = NOBODY;
                self.starve(index, bytes);
                None
            }
            Next::Empty => {
                self.turn = NOBODY;
                self.found_empty(index);
                None
            }
        }
    }
}
