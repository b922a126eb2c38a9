//! What the models of `subpartition` share: a tiny one with its writer, its readers and its memory.
//!
//! A segment has 16 bytes in two tracked cells, a record of four payload bytes takes eight in the stream,
//! the ring has eight slots of which three may be in use by data. `Arc` is std's: main keeps one of each, so
//! that what it guards is dropped after the threads are joined.

use crate::doorbell::{Doorbell, ReadyNode};
use crate::id::{Attempt, BindEpoch, Incarnation};
use crate::memory::{Charge, SegmentCache, SegmentClass, SegmentPool};
use crate::record::{Admission, RecordLayout};
use crate::subpartition::{
    Account, Amount, Append, BindRequest, Flush, Grant, LocalReader, Next, Policies, Refusal, Subpartition,
    View, WhenAbsent, WhenRetained, WriteHalf,
};
use crate::sync::Waiter;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

const K: SegmentClass = SegmentClass::K4;
const SEGMENT_BYTES: usize = 16;
const GRANULE_BYTES: usize = 8;
const ENTRIES: u16 = 8;
/// Stream bytes of a record of [`Writer::write`].
pub(super) const RECORD_BYTES: u64 = 8;

pub(super) const DISCARD: Policies = policies(WhenAbsent::Discard);
pub(super) const RETAIN: Policies = policies(WhenAbsent::Retain { quota: 8, then: WhenRetained::Block });
pub(super) const REPLAY: Policies = policies(WhenAbsent::Replay { quota: 8 });

const fn policies(when_absent: WhenAbsent) -> Policies {
    Policies {
        before_first_bind: crate::subpartition::BeforeFirstBind::Wait,
        when_absent,
        when_full: crate::subpartition::WhenFull::Block,
        flush: Flush::WhenFull,
    }
}

pub(super) struct Bench {
    pub(super) pool: Arc<SegmentPool>,
    pub(super) sub: Arc<Subpartition>,
    pub(super) bell: Arc<Doorbell>,
    pub(super) waiter: Arc<Waiter>,
    pub(super) charge: Arc<Charge>,
    cache: Option<SegmentCache>,
}

impl Bench {
    /// `segments` for the subpartition, one for what fenced readers hold, and one beside it.
    pub(super) fn new(policies: Policies, segments: u32) -> Self {
        let pool = SegmentPool::with_geometry(&[(SEGMENT_BYTES, segments + 2)], GRANULE_BYTES, 1).unwrap();
        let waiter = Arc::new(Waiter::new());
        let budget = pool.reserve(K, segments, 0, Arc::clone(&waiter)).unwrap();
        let charge = budget.charge(segments, segments);
        let cache = Some(SegmentCache::new(&pool, &budget));
        let (layout, charged) = (RecordLayout::Lengths, Arc::clone(&charge));
        let sub =
            Subpartition::new(Arc::clone(&pool), layout, ENTRIES, policies, charged, Arc::clone(&waiter));
        Self { pool, sub, bell: Doorbell::new(), waiter, charge, cache }
    }

    /// The one writer.
    pub(super) fn writer(&mut self) -> Writer {
        let cache = self.cache.take().unwrap();
        Writer { half: WriteHalf::new(Arc::clone(&self.sub)), cache, waiter: Arc::clone(&self.waiter) }
    }

    pub(super) fn bind(&self, attempt: u32) -> Reader {
        self.binder().bind(attempt).unwrap()
    }

    /// Binds from a thread of its own.
    pub(super) fn binder(&self) -> Binder {
        Binder { sub: Arc::clone(&self.sub), bell: Arc::clone(&self.bell) }
    }

    /// A budget of one segment beside the subpartition's, as of a broadcast.
    pub(super) fn beside(&self) -> (Arc<Charge>, SegmentCache) {
        let budget = self.pool.reserve(K, 1, 0, Arc::clone(&self.waiter)).unwrap();
        (budget.charge(1, 1), SegmentCache::new(&self.pool, &budget))
    }

    /// Segments that stand on the account of fenced readers.
    pub(super) fn orphans(&self) -> u32 {
        self.pool.orphan(K).used()
    }

    /// The account, which must be exact by now.
    pub(super) fn account(&self) -> Account {
        let account = self.sub.account();
        assert!(account.is_balanced(), "{account:?}");
        account
    }

    /// The end of a model: the writer and the last reader go, and nothing is left of what was written.
    pub(super) fn close(self, writer: Writer, mut reader: Reader) {
        drop(writer);
        reader.drain();
        drop(reader);
        assert_eq!(self.account().queued, Amount::ZERO);
        self.finish();
    }

    /// Everybody is gone: nothing of the arena is held.
    pub(super) fn finish(self) {
        let Self { pool, sub, bell, waiter, charge, cache } = self;
        bell.close();
        drop((sub, cache, charge, waiter));
        let census = pool.census();
        assert!(census.is_whole(), "{census:?}");
        assert_eq!(census.held(), 0, "{census:?}");
    }
}

pub(super) struct Binder {
    pub(super) sub: Arc<Subpartition>,
    pub(super) bell: Arc<Doorbell>,
}

impl Binder {
    pub(super) fn bind(&self, attempt: u32) -> Result<Reader, Refusal> {
        self.bind_as(attempt, false)
    }

    /// `explicit`: the model says itself what is consumed.
    pub(super) fn bind_as(&self, attempt: u32, explicit: bool) -> Result<Reader, Refusal> {
        let node = ReadyNode::new(&self.bell, attempt);
        let incarnation = Incarnation(u64::from(attempt));
        let grant = self.sub.bind(BindRequest::new(Attempt(attempt), incarnation), &node)?;
        let view = View::new(Arc::clone(&self.sub), Arc::clone(&node), &grant);
        let local = LocalReader::new(view, 64, explicit);
        Ok(Reader { local, node, bell: Arc::clone(&self.bell), admission: Admission::new(64), grant })
    }
}

pub(super) struct Writer {
    pub(super) half: WriteHalf,
    pub(super) cache: SegmentCache,
    pub(super) waiter: Arc<Waiter>,
}

impl Writer {
    /// A record of four bytes `value`.
    pub(super) fn write(&mut self, value: u8) -> Append {
        let payload = [value; 4];
        if self.half.append_short(&payload) {
            return Append::Done;
        }
        self.half.append(&mut &payload[..], &mut self.cache)
    }

    /// As [`Writer::write`], asleep while it is blocked.
    pub(super) fn write_blocking(&mut self, value: u8) -> Append {
        let payload = [value; 4];
        self.send(&mut &payload[..])
    }

    /// Appends what `source` holds, asleep while that is blocked.
    pub(super) fn send(&mut self, source: &mut &[u8]) -> Append {
        let waiter = Arc::clone(&self.waiter);
        loom::future::block_on(poll_fn(|cx| {
            let append = self.half.append(source, &mut self.cache);
            if !matches!(append, Append::Blocked(_)) {
                return Poll::Ready(append);
            }
            waiter.announce(cx.waker());
            let append = self.half.append(source, &mut self.cache);
            if matches!(append, Append::Blocked(_)) {
                return Poll::Pending;
            }
            waiter.retract();
            Poll::Ready(append)
        }))
    }
}

/// What a reader yields, owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Got {
    /// By the value of its bytes, which are all the same.
    Record(u8),
    Barrier(u64),
    Priority(u8),
    Loss(Amount),
    EndOfData,
    EndOfPartition,
    Empty,
    Fenced,
}

pub(super) struct Reader {
    pub(super) local: LocalReader,
    pub(super) node: Arc<ReadyNode>,
    pub(super) bell: Arc<Doorbell>,
    pub(super) grant: Grant,
    admission: Admission,
}

impl Reader {
    pub(super) fn epoch(&self) -> BindEpoch {
        self.grant.epoch
    }

    pub(super) fn next(&mut self) -> Got {
        match self.local.next(&mut self.admission) {
            Next::Record => {
                let payload = self.local.current();
                let bytes = payload.bytes();
                let value = bytes[0];
                assert!(bytes.iter().all(|byte| *byte == value), "a record of two: {bytes:?}");
                Got::Record(value)
            }
            Next::Barrier(id) => Got::Barrier(id),
            Next::Priority(event) => Got::Priority(event.as_bytes()[0]),
            Next::Loss(amount) => Got::Loss(amount),
            Next::EndOfData => Got::EndOfData,
            Next::EndOfPartition { .. } => Got::EndOfPartition,
            Next::Empty => Got::Empty,
            Next::Fenced => Got::Fenced,
            other => panic!("{other:?}"),
        }
    }

    /// Everything that is there now.
    pub(super) fn drain(&mut self) -> Vec<Got> {
        let mut all = Vec::new();
        loop {
            match self.next() {
                Got::Empty | Got::Fenced => return all,
                got => all.push(got),
            }
        }
    }

    /// The next item, asleep by the doorbell until there is one: as a gate waits. `quiet` is how it waits
    /// under `Flush::Interval`.
    pub(super) fn wait(&mut self, quiet: bool) -> Got {
        loom::future::block_on(poll_fn(|cx| {
            loop {
                self.bell.take_all(|node| node.clear());
                let got = self.next();
                if got != Got::Empty {
                    return Poll::Ready(got);
                }
                if quiet {
                    self.node.fall_quiet();
                    let got = self.next();
                    if got != Got::Empty {
                        self.node.stir();
                        return Poll::Ready(got);
                    }
                }
                if self.bell.may_sleep(cx.waker()) {
                    return Poll::Pending;
                }
            }
        }))
    }
}

/// The values of the records among what was yielded.
pub(super) fn records(got: &[Got]) -> Vec<u8> {
    got.iter().filter_map(|got| if let Got::Record(value) = got { Some(*value) } else { None }).collect()
}
