//! The writer in the model.

use super::{Charged, Entry, Fate, Item, Model, Part, Record, SEGMENT, Segment, Status};
use crate::event::{Event, PriorityEvent};
use crate::record::RecordLayout;
use crate::subpartition::{Amount, Append, Blocked, Phase, WhenAbsent};

/// Slots for ABORT, LOSS, end of data, end of partition, and the one behind the last.
const RESERVED: usize = 5;

impl Model {
    /// A record that the caller wants to write. `None`: it is longer than what can be kept for a replay.
    pub(crate) fn new_record(&mut self, payload: usize) -> Option<usize> {
        let encoded = self.encoded(payload);
        if let WhenAbsent::Replay { quota } = self.setup.policies.when_absent
            && encoded > u64::from(quota - 1) * SEGMENT
        {
            return None;
        }
        self.records.push(Record { encoded, status: Status::Refused, aborted: false });
        Some(self.records.len() - 1)
    }

    /// Begins or goes on with a record.
    pub(crate) fn append(&mut self, record: usize) -> Append {
        if self.half.is_none() {
            if self.released_for_good {
                return Append::Closed;
            }
            if self.discards() {
                self.records[record].status = Status::Lost;
                self.writer_lost.discarded += Amount::new(1, self.records[record].encoded);
                return Append::Dropped;
            }
            self.half_stream = self.stream;
            while let Err(blocked) = self.tell_loss() {
                if !self.drops_oldest() || !self.drop_oldest(record) {
                    return Append::Blocked(blocked);
                }
            }
            self.half = Some(record);
            self.records[record].status = Status::Half(0);
        }
        assert_eq!(self.half, Some(record), "one record at a time");
        if let Some(ended) = self.look_at_stream() {
            return ended;
        }
        loop {
            match self.part(record) {
                Ok(true) => break,
                Ok(false) => {}
                Err(blocked) if !self.drops_oldest() => return Append::Blocked(blocked),
                Err(_) => {
                    if !self.drop_oldest(record) {
                        self.break_off(|lost| &mut lost.aborted);
                        return Append::Dropped;
                    }
                }
            }
        }
        self.half = None;
        self.records[record].status = Status::Written;
        Append::Done
    }

    fn look_at_stream(&mut self) -> Option<Append> {
        if self.released_for_good {
            self.break_off(|lost| &mut lost.aborted);
            return Some(Append::Closed);
        }
        if self.half_stream == self.stream {
            return None;
        }
        self.half_stream = self.stream;
        let begun = self.half_written() > 0;
        if begun && self.setup.policies.when_absent == WhenAbsent::Discard {
            self.break_off(|lost| &mut lost.aborted);
        } else if !begun && self.discards() {
            self.break_off(|lost| &mut lost.discarded);
        } else {
            return None;
        }
        Some(Append::Dropped)
    }

    fn half_written(&self) -> u64 {
        match self.half.map(|record| self.records[record].status) {
            Some(Status::Half(written)) => written,
            _ => 0,
        }
    }

    /// Writes as much as goes into one entry; true when the record is complete.
    fn part(&mut self, record: usize) -> Result<bool, Blocked> {
        let written = self.half_written();
        let left = self.records[record].encoded - written;
        let first = written == 0;
        let prefix = if self.setup.layout == RecordLayout::Lengths { 4 } else { 1 };
        // Small records aren't split, and a length never is.
        let least = match first {
            true if left <= SEGMENT / 8 => left,
            true => prefix,
            false => 1,
        };
        self.make_room(least)?;
        let bytes = left.min(self.room);
        let last = bytes == left;
        self.room -= bytes;
        let index = self.entries.len() - 1;
        let entry = &mut self.entries[index];
        entry.parts.push(Part { record, bytes, first, last, fate: Fate::Queued, given: false });
        self.written = (index, entry.parts.len());
        self.records[record].status = Status::Half(written + bytes);
        Ok(last)
    }

    fn has_slot(&self) -> bool {
        let open = usize::from(self.entry_open);
        let used = self.entries.len() - open - self.released;
        usize::from(self.setup.entries) - used > RESERVED + open
    }

    fn make_room(&mut self, least: u64) -> Result<(), Blocked> {
        if self.entry_open && self.room >= least {
            return Ok(());
        }
        if self.open.is_some() && self.room < least {
            self.end_entry();
            self.close_segment();
        }
        if !self.has_slot() {
            return Err(Blocked::Slots);
        }
        let segment = match self.open {
            Some(segment) => segment,
            None => self.open_segment()?,
        };
        if !self.entry_open {
            self.entries.push(Entry { item: Item::Data, segment: Some(segment), parts: Vec::new() });
            self.hold(segment);
            self.entry_open = true;
        }
        Ok(())
    }

    fn open_segment(&mut self) -> Result<usize, Blocked> {
        if self.used >= self.limit {
            return Err(Blocked::Memory);
        }
        self.used += 1;
        self.segments.push(Segment { open: true, holders: 0, charged: Charged::Subpartition });
        let segment = self.segments.len() - 1;
        self.open = Some(segment);
        self.room = SEGMENT;
        Ok(segment)
    }

    fn close_segment(&mut self) {
        if let Some(segment) = self.open.take() {
            self.segments[segment].open = false;
            self.room = 0;
            self.free_if_unused(segment);
        }
    }

    fn end_entry(&mut self) {
        if !std::mem::take(&mut self.entry_open) {
            return;
        }
        if self.entries.last().is_some_and(|entry| entry.parts.is_empty()) {
            let segment = self.entries.pop().and_then(|entry| entry.segment);
            self.let_go(segment.expect("a data entry"));
        }
        self.written = (self.entries.len(), 0);
    }

    fn push(&mut self, item: Item, segment: Option<usize>) {
        self.end_entry();
        self.entries.push(Entry { item, segment, parts: Vec::new() });
        self.written = (self.entries.len(), 0);
    }

    fn tell_loss(&mut self) -> Result<(), Blocked> {
        if self.lost_by_writer() != self.loss_told {
            if !self.has_slot() {
                return Err(Blocked::Slots);
            }
            self.push_loss();
        }
        Ok(())
    }

    fn push_loss(&mut self) {
        self.loss_told = self.lost_by_writer();
        self.push(Item::Loss(self.loss_told), None);
    }

    /// The record at hand comes to nothing.
    fn break_off(&mut self, cause: impl FnOnce(&mut crate::subpartition::Losses) -> &mut Amount) {
        let written = self.half_written();
        let Some(record) = self.half.take() else { return };
        let record = &mut self.records[record];
        record.status = Status::Lost;
        record.aborted = true;
        *cause(&mut self.writer_lost) += Amount::new(1, record.encoded - written);
        if written > 0 {
            self.push(Item::Abort, None);
        }
    }

    pub(crate) fn abort(&mut self) {
        self.break_off(|lost| &mut lost.aborted);
    }

    /// Gives up `record`, which found no room, begun or not.
    pub(crate) fn overflow(&mut self, record: usize) {
        if self.half.is_some() {
            self.break_off(|lost| &mut lost.overflowed);
        } else {
            self.records[record].status = Status::Lost;
            self.writer_lost.overflowed += Amount::new(1, self.records[record].encoded);
        }
    }

    fn drop_oldest(&mut self, record: usize) -> bool {
        let next = self.entries.len() - usize::from(self.entry_open);
        let keep = match self.half_written() {
            0 => next,
            _ => self.entry_where(record),
        };
        let from = self.taken;
        let mut to = from.0;
        let oldest = self.entries.get(to).and_then(|entry| entry.segment);
        while to != self.written.0 && to != keep {
            let entry = &self.entries[to];
            if entry.is_end() || (entry.is_data() && entry.segment != oldest) {
                break;
            }
            to += 1;
        }
        if to == from.0 {
            return false;
        }
        let (to, _) = self.align((to, 0));
        self.settle_between(from, to, Fate::DroppedOldest);
        self.taken = to;
        self.release_until(to.0);
        true
    }

    /// Where a record begins.
    fn entry_where(&self, record: usize) -> usize {
        let begins = |entry: &Entry| entry.parts.iter().any(|part| part.record == record && part.first);
        self.entries.iter().position(begins).expect("it has begun")
    }

    pub(crate) fn event(&mut self, event: &Event) -> Append {
        if self.released_for_good {
            return Append::Closed;
        }
        if self.discards() || self.phase == Phase::Unavailable {
            match event {
                Event::Barrier(_) => self.dropped_events.barriers += 1,
                Event::Watermark(_) => self.dropped_events.watermarks += 1,
                Event::Application(_) => self.dropped_events.application += 1,
            }
            return Append::Dropped;
        }
        match self.try_event(event) {
            Ok(()) => Append::Done,
            Err(blocked) => Append::Blocked(blocked),
        }
    }

    fn try_event(&mut self, event: &Event) -> Result<(), Blocked> {
        self.tell_loss()?;
        let mut segment = None;
        if let Event::Application(bytes) = event {
            self.end_entry();
            self.make_room(bytes.len().max(1) as u64)?;
            self.end_entry();
            let open = self.open.expect("there is room");
            self.hold(open);
            self.room -= bytes.len() as u64;
            segment = Some(open);
        } else if !self.has_slot() {
            return Err(Blocked::Slots);
        }
        self.push(Item::Event(event.clone()), segment);
        Ok(())
    }

    pub(crate) fn priority(&mut self, event: &PriorityEvent) -> Append {
        if self.released_for_good {
            return Append::Closed;
        }
        if self.discards() || self.phase == Phase::Unavailable {
            self.dropped_events.priority += 1;
            return Append::Dropped;
        }
        if self.priority.len() == PriorityEvent::QUEUED_MAX {
            return Append::Blocked(Blocked::Priority);
        }
        self.priority.push_back(event.as_bytes().to_vec());
        Append::Done
    }

    pub(crate) fn end(&mut self, failed: bool) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        self.abort();
        if self.lost_by_writer() != self.loss_told {
            self.push_loss();
        }
        if failed {
            self.push(Item::Failed, None);
        } else {
            self.push(Item::EndOfData, None);
            self.push(Item::EndOfPartition, None);
        }
        self.close_segment();
    }

    /// The writer is dropped, with or without an end.
    pub(crate) fn drop_writer(&mut self) {
        self.abort();
        self.end_entry();
        self.close_segment();
    }
}
