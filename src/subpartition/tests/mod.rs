//! Tests of a subpartition with its writer and local readers, without partitions and gates.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod basics;
mod catalogue;
mod ended;
mod faults;
mod found;
mod oracle;
mod passed;
mod skipped;
mod stress;

use super::*;
use crate::doorbell::{Doorbell, ReadyNode};
use crate::id::{Attempt, Incarnation};
use crate::memory::{MemoryConfig, SegmentCache, SegmentClass, SegmentPool};
use crate::record::{Admission, RecordLayout};
use crate::sync::Waiter;
use std::sync::Arc;

/// Segments kept for what replaced readers hold.
const ORPHANS: u32 = 8;

/// A subpartition on its own, with small segments.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) pool: Arc<SegmentPool>,
    pub(super) sub: Arc<Subpartition>,
    pub(super) writer: Option<WriteHalf>,
    pub(super) cache: SegmentCache,
    pub(super) bell: Arc<Doorbell>,
    pub(super) admission: Admission,
}

/// What a reader yielded, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Got {
    Record(Vec<u8>),
    Event(crate::event::Event),
    Priority(Vec<u8>),
    Loss(Amount),
    EndOfData,
    EndOfPartition,
    Failed,
    Empty,
    Fenced,
    Refused,
}

impl Bench {
    pub(super) fn new(layout: RecordLayout, policies: Policies, quota: u32, entries: u16) -> Self {
        Self::with_arena(layout, policies, quota, entries, (64, ORPHANS))
    }

    /// `arena`: its segments, and how many of them are for orphans.
    pub(super) fn with_arena(
        layout: RecordLayout,
        policies: Policies,
        quota: u32,
        entries: u16,
        arena: (u32, u32),
    ) -> Self {
        let memory = MemoryConfig::new().segments(SegmentClass::K32, 0).segments(SegmentClass::K4, arena.0);
        let pool = SegmentPool::new(&memory.orphan_segments(arena.1)).unwrap();
        let waiter = Arc::new(Waiter::new());
        let budget = pool.reserve(SegmentClass::K4, 1, 40, waiter.clone()).unwrap();
        let charge = budget.charge(1, quota);
        let cache = SegmentCache::new(&pool, &budget);
        let sub = Subpartition::new(pool.clone(), layout, entries, policies, charge, waiter);
        let writer = Some(WriteHalf::new(sub.clone()));
        Self { pool, sub, writer, cache, bell: Doorbell::new(), admission: Admission::new(1 << 20) }
    }

    /// What the subpartition's memory is reserved by.
    pub(super) fn budget(&self) -> &Arc<crate::memory::Budget> {
        self.sub.charge.budget()
    }

    pub(super) fn bind(&self, attempt: u32) -> Result<LocalReader, Refusal> {
        self.bind_as(attempt, u64::from(attempt))
    }

    pub(super) fn bind_as(&self, attempt: u32, incarnation: u64) -> Result<LocalReader, Refusal> {
        let node = ReadyNode::new(&self.bell, 0);
        let request = BindRequest::new(Attempt(attempt), Incarnation(incarnation));
        let grant = self.sub.bind(request, &node)?;
        Ok(LocalReader::new(View::new(self.sub.clone(), node, &grant), 1 << 20, false))
    }

    pub(super) fn write(&mut self, record: &[u8]) -> Append {
        let writer = self.writer.as_mut().unwrap();
        if writer.append_short(record) {
            return Append::Done;
        }
        let mut source = record;
        let append = writer.append(&mut source, &mut self.cache);
        if matches!(append, Append::Blocked(_)) && writer.is_mid_record() {
            writer.overflow(&mut source);
        }
        append
    }

    pub(super) fn read(&mut self, reader: &mut LocalReader) -> Got {
        match reader.next(&mut self.admission) {
            Next::Record => Got::Record(reader.current().bytes().to_vec()),
            Next::Barrier(id) => Got::Event(crate::event::Event::Barrier(id)),
            Next::Watermark(time) => Got::Event(crate::event::Event::Watermark(time)),
            Next::Application(bytes) => Got::Event(crate::event::Event::Application(bytes)),
            Next::Priority(event) => Got::Priority(event.as_bytes().to_vec()),
            Next::Loss(amount) => Got::Loss(amount),
            Next::EndOfData => Got::EndOfData,
            Next::EndOfPartition { .. } => Got::EndOfPartition,
            Next::Failed => Got::Failed,
            Next::Empty => Got::Empty,
            Next::Fenced => Got::Fenced,
            Next::Refused(_) => Got::Refused,
        }
    }

    pub(super) fn drain(&mut self, reader: &mut LocalReader) -> Vec<Got> {
        let mut all = Vec::new();
        loop {
            match self.read(reader) {
                Got::Empty | Got::Fenced => return all,
                got => all.push(got),
            }
        }
    }

    /// Everything is given back: nothing of the arena is held.
    pub(super) fn assert_whole(self) {
        let Self { pool, sub, writer, cache, bell, .. } = self;
        bell.close();
        drop((sub, writer, cache));
        let census = pool.census();
        assert!(census.is_whole(), "{census:?}");
        assert_eq!(census.held(), 0, "{census:?}");
    }
}

pub(super) fn record(index: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![index as u8; len];
    bytes.iter_mut().zip(index.to_le_bytes()).for_each(|(to, from)| *to = from);
    bytes
}
