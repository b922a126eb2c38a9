//! The truth about a subpartition, kept in the plainest way: nothing is ever forgotten or reused, places
//! are indices into lists that only grow, and every part of every record carries its own fate.

mod read;
mod turn;
mod write;

pub(in super::super) use read::{Expect, ModelMark};

use super::super::ORPHANS;
use super::Setup;
use crate::event::Event;
use crate::record::RecordLayout;
use crate::subpartition::{
    Account, Amount, BeforeFirstBind, DroppedEvents, Losses, Phase, WhenAbsent, WhenRetained,
};
use std::collections::VecDeque;

pub(super) const SEGMENT: u64 = 4096;

/// Which entry, and how many of its parts are behind.
pub(super) type Place = (usize, usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Queued,
    /// Taken by that reader and not consumed.
    With(usize),
    Delivered,
    InDoubt,
    Aborted,
    Drained,
    DroppedOldest,
    Skipped,
    Unread,
}

/// A stretch of one record within one entry.
#[derive(Clone, Copy, Debug)]
struct Part {
    record: usize,
    bytes: u64,
    first: bool,
    last: bool,
    fate: Fate,
    /// A reader that is gone may have been given it; under `Replay` it comes again.
    given: bool,
}

#[derive(Clone, Debug)]
enum Item {
    Data,
    Event(Event),
    Loss(Amount),
    Abort,
    EndOfData,
    EndOfPartition,
    Failed,
}

#[derive(Clone, Debug)]
struct Entry {
    item: Item,
    segment: Option<usize>,
    parts: Vec<Part>,
}

impl Entry {
    fn is_data(&self) -> bool {
        matches!(self.item, Item::Data)
    }

    fn is_end(&self) -> bool {
        matches!(self.item, Item::EndOfData | Item::EndOfPartition | Item::Failed)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    /// So many encoded bytes are written, the rest is to come.
    Half(u64),
    Written,
    /// The writer lost it.
    Lost,
    /// Refused before anything was done with it: in no account.
    Refused,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    encoded: u64,
    status: Status,
    aborted: bool,
}

/// Whose account a segment stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Charged {
    Subpartition,
    Orphans,
    Nobody,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    open: bool,
    holders: u32,
    charged: Charged,
}

#[derive(Debug)]
pub(super) struct Model {
    pub(super) setup: Setup,
    records: Vec<Record>,
    entries: Vec<Entry>,
    written: Place,
    taken: Place,
    /// Entries before this one are given up by the ring.
    released: usize,
    segments: Vec<Segment>,
    used: u32,
    limit: u32,
    orphans: u32,
    // The writer.
    open: Option<usize>,
    room: u64,
    entry_open: bool,
    half: Option<usize>,
    half_stream: u32,
    ended: bool,
    writer_lost: Losses,
    loss_told: Amount,
    priority: VecDeque<Vec<u8>>,
    dropped_events: DroppedEvents,
    // Who reads.
    phase: Phase,
    stream: u32,
    released_for_good: bool,
    acknowledged: bool,
    newest: Option<(u32, u64)>,
    pub(super) readers: Vec<read::Reader>,
    pub(super) current: Option<usize>,
    told: (Losses, Amount),
}

impl Model {
    pub(super) fn new(setup: Setup) -> Self {
        let limit = match setup.policies.when_absent {
            WhenAbsent::Replay { quota } => quota,
            _ => setup.quota,
        };
        Self {
            setup,
            records: Vec::new(),
            entries: Vec::new(),
            written: (0, 0),
            taken: (0, 0),
            released: 0,
            segments: Vec::new(),
            used: 0,
            limit,
            orphans: 0,
            open: None,
            room: 0,
            entry_open: false,
            half: None,
            half_stream: 0,
            ended: false,
            writer_lost: Losses::default(),
            loss_told: Amount::ZERO,
            priority: VecDeque::new(),
            dropped_events: DroppedEvents::default(),
            phase: Phase::Unbound,
            stream: 0,
            released_for_good: false,
            acknowledged: false,
            newest: None,
            readers: Vec::new(),
            current: None,
            told: (Losses::default(), Amount::ZERO),
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn is_released(&self) -> bool {
        self.released_for_good
    }

    pub(super) fn is_mid_record(&self) -> bool {
        self.half.is_some()
    }

    pub(super) fn is_acknowledged(&self) -> bool {
        self.acknowledged
    }

    /// Segments charged to the subpartition, and how many it may have.
    pub(super) fn segments(&self) -> (u32, u32) {
        (self.used, self.limit)
    }

    /// Segments that anybody writes to or holds.
    pub(super) fn held(&self) -> u32 {
        self.segments.iter().filter(|segment| segment.open || segment.holders > 0).count() as u32
    }

    pub(super) fn encoded(&self, payload: usize) -> u64 {
        let prefix = if self.setup.layout == RecordLayout::Lengths { 4 } else { 0 };
        payload as u64 + prefix
    }

    /// Encoded bytes of a record.
    pub(super) fn record_bytes(&self, record: usize) -> u64 {
        self.records[record].encoded
    }

    /// Whether the bound reader would find something.
    pub(super) fn is_something_there(&self) -> bool {
        self.current.is_some_and(|reader| {
            let reader = &self.readers[reader];
            !reader.is_ended() && (reader.at != self.written || !self.priority.is_empty())
        })
    }

    pub(super) fn account(&self) -> Account {
        let mut account =
            Account { lost: self.writer_lost, dropped_events: self.dropped_events, ..Account::default() };
        for part in self.entries.iter().flat_map(|entry| &entry.parts) {
            let amount = Amount::new(u64::from(part.last), part.bytes);
            *match part.fate {
                Fate::Queued | Fate::With(_) => &mut account.queued,
                Fate::Delivered => &mut account.delivered,
                Fate::InDoubt => &mut account.in_doubt,
                Fate::Aborted => &mut account.lost.aborted,
                Fate::Drained => &mut account.lost.drained,
                Fate::DroppedOldest => &mut account.lost.dropped_oldest,
                Fate::Skipped => &mut account.lost.skipped,
                Fate::Unread => &mut account.lost.unread,
            } += amount;
        }
        for record in &self.records {
            account.written += match record.status {
                Status::Half(written) => Amount::new(0, written),
                Status::Written | Status::Lost => Amount::new(1, record.encoded),
                Status::Refused => Amount::ZERO,
            };
        }
        account
    }

    /// All that the writer itself lost so far.
    fn lost_by_writer(&self) -> Amount {
        self.writer_lost.total()
    }

    // ---- places ------------------------------------------------------------------------------------

    /// Gives the parts between two places, so far as nobody has them, a fate.
    fn settle_between(&mut self, from: Place, to: Place, fate: Fate) {
        for entry in from.0..self.entries.len().min(to.0 + 1) {
            for (index, part) in self.entries[entry].parts.iter_mut().enumerate() {
                if (entry, index) >= from && (entry, index) < to {
                    assert_eq!(part.fate, Fate::Queued, "part {index} of entry {entry}");
                    // Whoever may have had it before it was to come again: that it is lost isn't certain.
                    part.fate = if part.given { Fate::InDoubt } else { fate };
                }
            }
            if fate != Fate::Skipped && (entry, 0) >= from && entry < to.0 {
                match &self.entries[entry].item {
                    Item::Event(Event::Barrier(_)) => self.dropped_events.barriers += 1,
                    Item::Event(Event::Watermark(_)) => self.dropped_events.watermarks += 1,
                    Item::Event(Event::Application(_)) => self.dropped_events.application += 1,
                    _ => {}
                }
            }
        }
    }

    /// The first place at or after `from` where a record starts, or an entry without parts stands.
    fn align(&self, from: Place) -> (Place, bool) {
        let mut at = from;
        while at < self.written {
            let entry = &self.entries[at.0];
            if !entry.is_data() {
                return (at, false);
            }
            let start = (at.1..entry.parts.len()).find(|index| entry.parts[*index].first);
            match start {
                Some(start) => return ((at.0, start), false),
                None if at.0 == self.written.0 => at = self.written,
                None => at = (at.0 + 1, 0),
            }
        }
        (at, true)
    }

    fn first_end(&self, from: Place, to: Place) -> Place {
        let ends = from.0..to.0;
        ends.into_iter().find(|entry| self.entries[*entry].is_end()).map_or(to, |entry| (entry, 0).max(from))
    }

    // ---- segments ----------------------------------------------------------------------------------

    fn hold(&mut self, segment: usize) {
        assert!(self.segments[segment].charged != Charged::Nobody, "held while free");
        self.segments[segment].holders += 1;
    }

    fn let_go(&mut self, segment: usize) {
        self.segments[segment].holders -= 1;
        self.free_if_unused(segment);
    }

    fn free_if_unused(&mut self, segment: usize) {
        let segment = &mut self.segments[segment];
        if segment.open || segment.holders > 0 {
            return;
        }
        match std::mem::replace(&mut segment.charged, Charged::Nobody) {
            Charged::Subpartition => self.used -= 1,
            Charged::Orphans => self.orphans -= 1,
            Charged::Nobody => panic!("freed twice"),
        }
    }

    /// What a replaced reader holds goes on the orphans' account, while there is room.
    fn recharge(&mut self, segment: usize) {
        let segment = &mut self.segments[segment];
        if segment.charged == Charged::Subpartition && self.orphans < ORPHANS {
            segment.charged = Charged::Orphans;
            self.used -= 1;
            self.orphans += 1;
        }
    }

    /// The ring gives up the entries before `to`.
    fn release_until(&mut self, to: usize) {
        while self.released < to {
            if let Some(segment) = self.entries[self.released].segment {
                self.let_go(segment);
            }
            self.released += 1;
        }
    }

    // ---- policies ----------------------------------------------------------------------------------

    fn discards(&self) -> bool {
        match self.phase {
            Phase::Unbound => self.setup.policies.before_first_bind == BeforeFirstBind::Discard,
            Phase::Unavailable => self.setup.policies.when_absent == WhenAbsent::Discard,
            Phase::Bound | Phase::Suspended => false,
        }
    }

    pub(super) fn drops_oldest(&self) -> bool {
        let retain = self.setup.policies.when_absent;
        self.phase == Phase::Unavailable
            && matches!(retain, WhenAbsent::Retain { then: WhenRetained::DropOldest, .. })
    }

    fn replays(&self) -> bool {
        matches!(self.setup.policies.when_absent, WhenAbsent::Replay { .. })
    }
}
