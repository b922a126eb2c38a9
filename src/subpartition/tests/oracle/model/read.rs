//! A reader in the model.

use super::{Entry, Fate, Item, Model, Place};
use crate::event::Event;
use crate::subpartition::Amount;

/// What a reader must get next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    Record(usize),
    Event(Event),
    Priority(Vec<u8>),
    Loss(Amount),
    EndOfData,
    EndOfPartition { news: bool },
    Failed,
    Empty,
    Fenced,
}

/// How far a reader has come: the place behind what it was given, and the entry that it still needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModelMark {
    pub(crate) place: Place,
    pub(super) entry: usize,
}

#[derive(Clone, Debug)]
struct Piece {
    entry: usize,
    next: usize,
    to: usize,
    end: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Reader {
    pub(super) at: Place,
    skip: bool,
    piece: Option<Piece>,
    /// Between two parts of a record, of which the first came with an earlier piece if it is `true`.
    mid_record: bool,
    pub(crate) mark: ModelMark,
    pub(super) consumed: ModelMark,
    explicit: bool,
    ended: bool,
    /// The first end it was given: entries from there on stay in the ring.
    end: Option<usize>,
    lent: [Option<usize>; 2],
    /// The segment of the record it was given last, where that could be lent.
    lendable: Option<usize>,
}

impl Reader {
    pub(super) fn new(at: Place, skip: bool, explicit: bool) -> Self {
        let mark = ModelMark { place: at, entry: at.0 };
        Self {
            at,
            skip,
            piece: None,
            mid_record: false,
            mark,
            consumed: mark,
            explicit,
            ended: false,
            end: None,
            lent: [None; 2],
            lendable: None,
        }
    }

    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    /// What it reads from, then what it lent.
    pub(super) fn held(&self, entries: &[Entry]) -> Vec<usize> {
        let piece = self.piece.as_ref().and_then(|piece| entries[piece.entry].segment);
        piece.into_iter().chain(self.lent.into_iter().flatten()).collect()
    }
}

impl Model {
    /// What the reader gets next.
    pub(crate) fn next(&mut self, id: usize) -> Expect {
        if !self.readers[id].explicit {
            self.consume(id, self.readers[id].mark);
        }
        self.readers[id].lendable = None;
        loop {
            if let Some(record) = self.next_of_piece(id) {
                return Expect::Record(record);
            }
            self.pass(id);
            if self.readers[id].ended {
                return Expect::Empty;
            }
            if self.current != Some(id) {
                return Expect::Fenced;
            }
            if let Some(event) = self.priority.pop_front() {
                return Expect::Priority(event);
            }
            let Some(entry) = self.take(id) else { return Expect::Empty };
            if !self.entries[entry].is_data()
                && let Some(expect) = self.event_at(id, entry)
            {
                return expect;
            }
        }
    }

    fn next_of_piece(&mut self, id: usize) -> Option<usize> {
        let reader = &mut self.readers[id];
        let piece = reader.piece.as_mut()?;
        let entry = &self.entries[piece.entry];
        while piece.next < piece.to {
            let part = &entry.parts[piece.next];
            let continued = reader.mid_record;
            assert_eq!(part.first, !continued, "the model's own stream is whole");
            piece.next += 1;
            reader.mid_record = !part.last;
            if part.last {
                reader.mark = ModelMark { place: (piece.entry, piece.next), entry: piece.entry };
                reader.lendable = if continued { None } else { entry.segment };
                return Some(part.record);
            }
        }
        None
    }

    /// The piece at hand is used up, or dropped.
    pub(super) fn pass(&mut self, id: usize) {
        let reader = &mut self.readers[id];
        let Some(piece) = reader.piece.take() else { return };
        if !reader.mid_record {
            reader.mark.entry = piece.end;
        }
        self.let_go(self.entries[piece.entry].segment.expect("a data entry"));
    }

    /// Takes the next entry, or what is there of it.
    fn take(&mut self, id: usize) -> Option<usize> {
        loop {
            let at = self.readers[id].at;
            if at == self.written {
                return None;
            }
            let complete = at.0 < self.written.0;
            let parts = self.entries[at.0].parts.len();
            let (to, end) = if complete { (parts, (at.0 + 1, 0)) } else { (self.written.1, self.written) };
            self.readers[id].at = end;
            self.taken = end;
            let is_data = self.entries[at.0].is_data();
            let mut from = at.1;
            for part in &mut self.entries[at.0].parts[from..to] {
                assert_eq!(part.fate, Fate::Queued, "taken once");
                part.fate = Fate::With(id);
            }
            if self.readers[id].skip {
                from = self.skip(id, at.0, from, to);
            }
            if self.entries[at.0].is_end() {
                self.readers[id].end.get_or_insert(at.0);
            }
            let is_piece = is_data && from < to;
            if is_piece {
                self.hold(self.entries[at.0].segment.expect("a data entry"));
                self.readers[id].piece = Some(Piece { entry: at.0, next: from, to, end: end.0 });
            }
            if !self.replays() {
                self.release_for(id, end.0);
            }
            if is_piece || !is_data {
                return Some(at.0);
            }
        }
    }

    /// The rest of a record whose begin went to an older reader.
    fn skip(&mut self, id: usize, entry: usize, from: usize, to: usize) -> usize {
        if from == to && self.entries[entry].is_data() {
            return from;
        }
        let rest = self.entries[entry].parts.get_mut(from).filter(|part| !part.first);
        let Some(part) = rest else {
            self.readers[id].skip = false;
            return from;
        };
        part.fate = Fate::Skipped;
        self.readers[id].skip = !part.last;
        from + 1
    }

    fn release_for(&mut self, id: usize, to: usize) {
        let to = self.readers[id].end.map_or(to, |end| to.min(end));
        self.release_until(to);
    }

    fn event_at(&mut self, id: usize, entry: usize) -> Option<Expect> {
        let behind = (entry + 1, 0);
        let reader = &mut self.readers[id];
        reader.mark.entry = behind.0;
        // What the reader was given so far ends here; a half record before an abort is behind it.
        reader.mark.place = behind;
        Some(match &self.entries[entry].item {
            Item::Data => unreachable!("no event"),
            Item::Abort => {
                reader.mid_record = false;
                return None;
            }
            Item::Event(event) => Expect::Event(event.clone()),
            Item::Loss(amount) => Expect::Loss(*amount),
            Item::EndOfData => Expect::EndOfData,
            Item::EndOfPartition => {
                reader.ended = true;
                let news = !reader.explicit && !self.acknowledged;
                self.acknowledged |= news;
                Expect::EndOfPartition { news }
            }
            Item::Failed => {
                reader.ended = true;
                Expect::Failed
            }
        })
    }

    /// Explicit mode: everything up to `mark` is consumed. Tells whether that is the end, for the first time.
    pub(crate) fn acknowledge(&mut self, id: usize, mark: ModelMark) -> bool {
        self.consume(id, mark);
        let reader = &self.readers[id];
        let ended = matches!(self.entries.last().map(|entry| &entry.item), Some(Item::EndOfPartition));
        ended
            && reader.ended
            && mark == reader.mark
            && self.current == Some(id)
            && !std::mem::replace(&mut self.acknowledged, true)
    }

    fn consume(&mut self, id: usize, mark: ModelMark) {
        let before = self.readers[id].consumed;
        if mark.place < before.place || mark.entry < before.entry {
            return;
        }
        for (entry, parts) in self.entries.iter_mut().map(|entry| &mut entry.parts).enumerate() {
            for (index, part) in parts.iter_mut().enumerate() {
                if part.fate == Fate::With(id) && (entry, index) < mark.place {
                    let aborted = self.records[part.record].aborted;
                    part.fate = if aborted { Fate::Aborted } else { Fate::Delivered };
                }
            }
        }
        self.readers[id].consumed = mark;
        if self.replays() && self.current == Some(id) && mark.entry != before.entry {
            self.release_for(id, mark.entry);
        }
    }

    /// The reader's task wants to own the record of so many bytes that it was just given. `Some`: the
    /// place of its segment among the lent ones; else it is copied.
    pub(crate) fn keep(&mut self, id: usize, bytes: usize) -> Option<usize> {
        let segment = self.readers[id].lendable?;
        if (bytes as u64) * 2 < super::SEGMENT || self.used * 2 > self.limit {
            return None;
        }
        let slot = self.readers[id].lent.iter().position(Option::is_none)?;
        self.readers[id].lent[slot] = Some(segment);
        self.hold(segment);
        Some(slot)
    }

    pub(crate) fn give_back(&mut self, id: usize, slot: usize) {
        let segment = self.readers[id].lent[slot].take().expect("lent");
        self.let_go(segment);
    }
}
