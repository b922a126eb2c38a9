//! Operations on both sides at once.

use super::check::{Flag, pattern};
use super::model::{Expect, Model, ModelMark};
use super::{Bench, Setup};
use crate::doorbell::ReadyNode;
use crate::error::Cause;
use crate::event::{Event, PriorityEvent};
use crate::id::{Attempt, Incarnation};
use crate::subpartition::bind::Ending;
use crate::subpartition::{
    Account, Acked, Append, BindRequest, EndKind, Flush, LocalReader, Mark, Next, Refusal, View, WhenAbsent,
};
use bytes::Bytes;
use std::sync::Arc;

/// A record that is kept by the task that read it.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) bytes: Bytes,
    pub(super) record: usize,
    /// The reader that lent it and where it counts, if it isn't a copy.
    lent: Option<(usize, usize)>,
}

/// A reader on both sides, by its number in the model.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) id: usize,
    pub(super) reader: LocalReader,
    marks: Vec<(Mark, ModelMark)>,
}

/// A record that found no room yet: its number and what is left of it.
#[derive(Debug)]
pub(super) struct Waiting {
    record: usize,
    payload: &'static [u8],
    at: usize,
}

#[derive(Debug)]
pub(in super::super) struct Oracle {
    pub(super) bench: Bench,
    pub(super) model: Model,
    /// The newest last; all but the current one are fenced.
    pub(super) live: Vec<Live>,
    pub(super) kept: Vec<Kept>,
    pub(super) waiting: Option<Waiting>,
    /// Woken since it was last put to sleep.
    pub(super) flag: Arc<Flag>,
    /// The bound reader found nothing after its node was cleared, and sleeps.
    pub(super) idle: bool,
    next_event: u64,
}

impl Oracle {
    pub(in super::super) fn new(setup: Setup) -> Self {
        let bench = Bench::new(setup.layout, setup.policies, setup.quota, setup.entries);
        Self {
            bench,
            model: Model::new(setup),
            live: Vec::new(),
            kept: Vec::new(),
            waiting: None,
            flag: Flag::new(),
            idle: false,
            next_event: 0,
        }
    }

    /// Whether a record waits to be gone on with.
    pub(in super::super) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    fn is_closed_for_writing(&self) -> bool {
        self.model.is_ended() || self.bench.writer.is_none()
    }

    /// Writes a record of so many bytes, or goes on with the one that waits. `None` if it may not be written.
    pub(in super::super) fn write(&mut self, bytes: usize) -> Option<Append> {
        if self.is_closed_for_writing() {
            return None;
        }
        if self.waiting.is_some() {
            return Some(self.go_on());
        }
        let allowed = self.bench.writer.as_ref()?.check(bytes, 1 << 20).is_ok();
        let record = self.model.new_record(bytes);
        assert_eq!(record.is_some(), allowed, "a record of {bytes} bytes");
        let record = record?;
        let payload = pattern(record, bytes);
        self.waiting = Some(Waiting { record, payload, at: 0 });
        // The short way goes wherever the long one would: the model doesn't know of it.
        let writer = self.bench.writer.as_mut()?;
        let waiting = self.waiting.as_ref()?;
        if writer.append_short(waiting.payload) {
            self.waiting = None;
            let append = self.model.append(record);
            assert_eq!(append, Append::Done);
            self.check();
            return Some(append);
        }
        self.flag.raise();
        Some(self.go_on())
    }

    fn go_on(&mut self) -> Append {
        let Some(mut waiting) = self.waiting.take() else { panic!("nothing waits") };
        let Some(writer) = &mut self.bench.writer else { panic!("no writer") };
        let mut source = &waiting.payload[waiting.at..];
        let left = source.len();
        let append = writer.append(&mut source, &mut self.bench.cache);
        let expected = self.model.append(waiting.record);
        assert_eq!(append, expected, "record {} of {} bytes", waiting.record, waiting.payload.len());
        if matches!(append, Append::Blocked(_)) {
            assert!(!self.model.drops_oldest(), "dropping the oldest, the producer runs on");
            assert!(self.flag.is_raised() || source.len() == left, "there was room, and nobody said so");
            waiting.at = waiting.payload.len() - source.len();
            self.waiting = Some(waiting);
            self.sleep();
        } else {
            assert!(self.flag.is_raised(), "there was room, and nobody said so");
            assert!(
                append == Append::Closed || source.is_empty(),
                "what isn't written is used up all the same"
            );
        }
        self.check();
        append
    }

    /// The writer goes to sleep, as it does once an append is blocked.
    fn sleep(&mut self) {
        self.flag.lower();
        self.bench.sub.writer.announce(&self.flag.clone().into());
    }

    /// Gives up the record that waits, as a caller that goes away does.
    pub(in super::super) fn abort(&mut self) {
        if let (Some(writer), true) = (&mut self.bench.writer, self.waiting.take().is_some()) {
            writer.abort(crate::subpartition::account::WriterLoss::Aborted);
            self.model.abort();
            self.check();
        }
    }

    /// Gives up the record that waits, as `WhenFull::Discard` does.
    pub(in super::super) fn overflow(&mut self) {
        let Some(waiting) = self.waiting.take() else { return };
        let Some(writer) = &mut self.bench.writer else { return };
        let mut source = &waiting.payload[waiting.at..];
        writer.overflow(&mut source);
        assert!(source.is_empty());
        self.model.overflow(waiting.record);
        self.check();
    }

    pub(in super::super) fn barrier(&mut self) -> Option<Append> {
        self.next_event += 1;
        self.event(&Event::Barrier(self.next_event))
    }

    pub(in super::super) fn event(&mut self, event: &Event) -> Option<Append> {
        if self.is_closed_for_writing() || self.waiting.is_some() {
            return None;
        }
        let writer = self.bench.writer.as_mut()?;
        let append = writer.append_event(event, &mut self.bench.cache);
        assert_eq!(append, self.model.event(event), "{event:?}");
        self.check();
        Some(append)
    }

    pub(in super::super) fn priority(&mut self) -> Option<Append> {
        if self.is_closed_for_writing() {
            return None;
        }
        self.next_event += 1;
        let event = PriorityEvent::new(&self.next_event.to_le_bytes()).unwrap();
        let append = self.bench.writer.as_mut()?.append_priority(event);
        assert_eq!(append, self.model.priority(&event));
        self.check();
        Some(append)
    }

    pub(in super::super) fn flush(&mut self) {
        if let Some(writer) = &mut self.bench.writer {
            writer.ring();
            self.check();
        }
    }

    pub(in super::super) fn end(&mut self, kind: EndKind) {
        let Some(writer) = &mut self.bench.writer else { return };
        writer.append_end(kind);
        self.waiting = None;
        self.model.end(kind == EndKind::Failed);
        self.check();
    }

    pub(in super::super) fn release(&mut self) {
        self.bench.sub.release(&Cause::Released);
        self.model.release();
        self.idle = false;
        self.check();
    }

    /// A reader of this attempt and incarnation.
    pub(in super::super) fn bind_as(
        &mut self,
        attempt: u32,
        incarnation: u64,
        explicit: bool,
    ) -> Result<usize, Refusal> {
        let node = ReadyNode::new(&self.bench.bell, self.model.readers.len() as u32);
        let old = self.model.current;
        let before = self.rung();
        let request = BindRequest::new(Attempt(attempt), Incarnation(incarnation));
        let grant = self.bench.sub.bind(request, &node);
        let told = self.model.bind(attempt, incarnation, explicit);
        let grant = match (grant, told) {
            (Ok(grant), Ok(told)) => {
                assert_eq!((grant.lost, grant.in_doubt), (told.lost, told.in_doubt));
                assert_eq!((grant.writer_lost, grant.ended), (told.writer_lost, told.ended));
                grant
            }
            (refusal, told) => {
                let refusal = refusal.map(drop);
                assert_eq!(refusal, told.map(drop));
                if let Some(old) = old.filter(|old| before.contains(&(*old as u32))) {
                    self.live[self.place_of(old)].reader.view().node().ring();
                }
                self.check();
                return Err(refusal.unwrap_err());
            }
        };
        let rung = self.rung();
        assert!(rung.contains(&node.token()), "the new reader looks at once");
        assert!(old.is_none_or(|old| rung.contains(&(old as u32))), "the old one learns that it is fenced");
        node.ring();
        let view = View::new(self.bench.sub.clone(), node, &grant);
        let reader = LocalReader::new(view, 1 << 20, explicit);
        let id = self.model.readers.len() - 1;
        self.live.push(Live { id, reader, marks: Vec::new() });
        self.idle = false;
        self.check();
        Ok(id)
    }

    /// A reader of a newer attempt than any before.
    pub(in super::super) fn bind(&mut self, attempt: u32) -> usize {
        self.bind_as(attempt, u64::from(attempt), false).unwrap()
    }

    /// Takes and clears what is listed.
    fn rung(&self) -> Vec<u32> {
        let mut rung = Vec::new();
        self.bench.bell.take_all(|node| {
            node.clear();
            rung.push(node.token());
        });
        rung
    }

    fn place_of(&self, id: usize) -> usize {
        self.live.iter().position(|live| live.id == id).expect("a live reader")
    }

    /// Lets a reader read at most `items`; says what it got. `keep`: as owned bytes, for longer.
    pub(in super::super) fn read(&mut self, id: usize, items: usize, keep: bool) -> Vec<Expect> {
        let place = self.place_of(id);
        let mut got = Vec::new();
        self.wake(place);
        for _ in 0..items {
            let expect = self.read_one(place, keep);
            let last = matches!(expect, Expect::Empty | Expect::Fenced);
            got.push(expect);
            self.check();
            if last {
                self.fall_asleep(place);
                break;
            }
        }
        got
    }

    /// Everything that is there, without the `Empty` or `Fenced` behind it.
    pub(in super::super) fn drain(&mut self, id: usize) -> Vec<Expect> {
        let mut got = self.read(id, usize::MAX, false);
        got.pop();
        got
    }

    /// The records that are there, and nothing else.
    pub(in super::super) fn drain_records(&mut self, id: usize) -> Vec<usize> {
        self.read_records(id, usize::MAX)
    }

    /// The records among the next `items`.
    pub(in super::super) fn read_records(&mut self, id: usize, items: usize) -> Vec<usize> {
        let record = |expect| match expect {
            Expect::Record(record) => Some(record),
            _ => None,
        };
        self.read(id, items, false).into_iter().filter_map(record).collect()
    }

    pub(in super::super) fn account(&self) -> Account {
        self.bench.sub.account()
    }

    /// Segments charged to the subpartition, and how many it may have.
    pub(in super::super) fn segments(&self) -> (u32, u32) {
        self.bench.sub.segments()
    }

    /// Segments of the arena that anybody holds.
    pub(in super::super) fn held(&self) -> u32 {
        self.bench.pool.census().held()
    }

    /// The thread that serves the readers turns to them: whatever is listed is cleared before it looks.
    fn wake(&mut self, place: usize) {
        self.rung();
        self.live[place].reader.view().node().stir();
        self.idle = false;
    }

    fn fall_asleep(&mut self, place: usize) {
        if self.model.current != Some(self.live[place].id) {
            return;
        }
        if matches!(self.bench.sub.policies().flush, Flush::Interval(_)) {
            self.live[place].reader.view().node().fall_quiet();
        }
        self.idle = true;
    }

    fn read_one(&mut self, place: usize, keep: bool) -> Expect {
        let live = &mut self.live[place];
        let expect = self.model.next(live.id);
        match (live.reader.next(&mut self.bench.admission), &expect) {
            (Next::Record, Expect::Record(record)) => {
                let payload = live.reader.current();
                let bytes = payload.bytes().len();
                assert!(payload.bytes() == pattern(*record, bytes), "record {record} is torn");
                assert_eq!(self.model.record_bytes(*record), self.model.encoded(bytes), "record {record}");
                if keep {
                    let bytes = payload.into_bytes();
                    let slot = self.model.keep(live.id, bytes.len());
                    let lent = slot.map(|slot| (live.id, slot));
                    self.kept.push(Kept { bytes, record: *record, lent });
                }
            }
            (Next::Barrier(id), Expect::Event(event)) => assert_eq!(*event, Event::Barrier(id)),
            (Next::Watermark(time), Expect::Event(event)) => assert_eq!(*event, Event::Watermark(time)),
            (Next::Application(bytes), Expect::Event(event)) => assert_eq!(*event, Event::Application(bytes)),
            (Next::Priority(got), Expect::Priority(event)) => assert_eq!(got.as_bytes(), event),
            (Next::Loss(got), Expect::Loss(amount)) => assert_eq!(got, *amount),
            (Next::EndOfPartition { news }, Expect::EndOfPartition { news: expected }) => {
                assert_eq!(news, *expected);
            }
            (Next::EndOfData, Expect::EndOfData) | (Next::Failed, Expect::Failed) => {}
            (Next::Empty, Expect::Empty) | (Next::Fenced, Expect::Fenced) => {}
            (got, expect) => panic!("{got:?} in place of {expect:?}"),
        }
        let mark = (live.reader.mark(), self.model.readers[live.id].mark);
        live.marks.push(mark);
        expect
    }

    /// Acknowledges the place where the reader was so many items ago.
    pub(in super::super) fn acknowledge(&mut self, id: usize, back: usize) -> bool {
        let place = self.place_of(id);
        let live = &mut self.live[place];
        let Some((mark, expected)) = live.marks.iter().rev().nth(back).copied() else { return false };
        let news = live.reader.acknowledge(mark) == Acked::Done { end: true };
        assert_eq!(news, self.model.acknowledge(id, expected));
        self.check();
        news
    }

    /// The reader is dropped in order.
    pub(in super::super) fn close(&mut self, id: usize) {
        let place = self.place_of(id);
        let mut live = self.live.remove(place);
        if self.model.current == Some(id) {
            self.idle = false;
        }
        live.reader.clear(&mut self.bench.admission);
        drop(live);
        self.model.close(id);
        self.check();
    }

    /// The bound reader's process is gone; what it held stays where it was.
    pub(in super::super) fn outage(&mut self) {
        let Some(id) = self.model.current else { return };
        let place = self.place_of(id);
        let epoch = self.live[place].reader.view().epoch();
        self.rung();
        assert!(self.bench.sub.make_unavailable(epoch, Ending::Fenced));
        assert!(self.rung().contains(&(id as u32)), "it learns that it is fenced");
        assert!(!self.bench.sub.make_unavailable(epoch, Ending::Fenced), "once");
        self.model.outage();
        self.idle = false;
        self.check();
    }

    /// A task lets go of a record that it kept.
    pub(in super::super) fn let_go(&mut self, which: usize) {
        if self.kept.is_empty() {
            return;
        }
        let kept = self.kept.remove(which % self.kept.len());
        if let Some((reader, slot)) = kept.lent {
            self.model.give_back(reader, slot);
        }
        drop(kept);
        self.check();
    }

    /// Drops the writer without an end.
    pub(in super::super) fn drop_writer(&mut self) {
        self.waiting = None;
        if self.bench.writer.take().is_some() {
            self.model.drop_writer();
            self.check();
        }
    }

    /// Whether reading on gives at least once, and not only what nobody had.
    pub(in super::super) fn replays(&self) -> bool {
        matches!(self.bench.sub.policies().when_absent, WhenAbsent::Replay { .. })
    }

    /// Drops everything, in an order that depends on `seed`; nothing of the arena is held afterwards.
    pub(in super::super) fn finish(mut self, seed: usize) {
        if seed.is_multiple_of(2) {
            self.drop_writer();
        }
        while let Some(live) = self.live.get(seed % self.live.len().max(1)) {
            self.close(live.id);
        }
        self.drop_writer();
        while !self.kept.is_empty() && !seed.is_multiple_of(3) {
            self.let_go(seed);
        }
        assert_eq!(self.bench.admission.admitted_bytes(), 0);
        let Self { bench, kept, .. } = self;
        let pool = bench.pool.clone();
        bench.bell.close();
        drop(bench);
        let lent = kept.iter().filter(|kept| kept.lent.is_some()).count();
        let census = pool.census();
        assert!(census.is_whole() && census.held() as usize <= lent, "{census:?}");
        for kept in &kept {
            assert!(kept.bytes == pattern(kept.record, kept.bytes.len()), "record {}", kept.record);
        }
        drop(kept);
        let census = pool.census();
        assert!(census.is_whole() && census.held() == 0, "{census:?}");
    }
}
