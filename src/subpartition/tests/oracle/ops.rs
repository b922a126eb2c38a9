//! Operations as data, so that a failing case shrinks to one that can be read.

use super::Setup;
use super::drive::Oracle;
use crate::event::Event;
use crate::record::RecordLayout;
use crate::subpartition::EndKind;
use bytes::Bytes;

#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) setup: Setup,
    pub(super) ops: Vec<Op>,
    /// In which order things are dropped at the end.
    pub(super) seed: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    /// A record of so many bytes; under `Fixed` they are as many as they must be.
    Write(usize),
    /// Many records of one size.
    Burst(usize, usize),
    Abort,
    Overflow,
    Barrier,
    Watermark(i64),
    Application(usize),
    Priority,
    Flush,
    /// Reader 0 is the newest, 1 the one before.
    Read {
        who: usize,
        items: usize,
        keep: bool,
    },
    Acknowledge {
        who: usize,
        back: usize,
    },
    /// So many attempts newer; 0 is the same one again.
    Bind {
        newer: u32,
        explicit: bool,
    },
    BindStale,
    BindDuplicate,
    Outage,
    Close {
        who: usize,
    },
    LetGo(usize),
    End(bool),
    Release,
}

/// More fenced readers than these are closed, the oldest first.
const LIVE_MAX: usize = 5;
/// More kept records than these are let go, the oldest first.
const KEPT_MAX: usize = 8;

/// Plays a case from its begin to its end.
pub(super) fn play(case: &Case) {
    let mut oracle = Oracle::new(case.setup);
    let mut attempt = 1;
    for op in &case.ops {
        step(&mut oracle, &mut attempt, op);
        if oracle.live.len() > LIVE_MAX {
            let oldest = oracle.live[0].id;
            oracle.close(oldest);
        }
        if oracle.kept.len() > KEPT_MAX {
            oracle.let_go(0);
        }
    }
    oracle.finish(case.seed);
}

fn reader(oracle: &Oracle, who: usize) -> Option<usize> {
    oracle.live.iter().rev().nth(who.min(oracle.live.len().saturating_sub(1))).map(|live| live.id)
}

fn step(oracle: &mut Oracle, attempt: &mut u32, op: &Op) {
    match *op {
        Op::Write(bytes) => write(oracle, bytes),
        Op::Burst(bytes, times) => (0..times).for_each(|_| write(oracle, bytes)),
        Op::Abort => oracle.abort(),
        Op::Overflow => oracle.overflow(),
        Op::Barrier => drop(oracle.barrier()),
        Op::Watermark(time) => drop(oracle.event(&Event::Watermark(time))),
        Op::Application(bytes) => drop(oracle.event(&Event::Application(Bytes::from(vec![7; bytes])))),
        Op::Priority => drop(oracle.priority()),
        Op::Flush => oracle.flush(),
        Op::Read { who, items, keep } => {
            if let Some(id) = reader(oracle, who) {
                oracle.read(id, items, keep);
            }
        }
        Op::Acknowledge { who, back } => {
            if let Some(id) = reader(oracle, who) {
                oracle.acknowledge(id, back);
            }
        }
        Op::Bind { newer, explicit } => {
            *attempt += newer;
            let _ = oracle.bind_as(*attempt, u64::from(*attempt), explicit);
        }
        Op::BindStale => drop(oracle.bind_as(*attempt - 1, 1, false)),
        Op::BindDuplicate => drop(oracle.bind_as(*attempt, u64::from(*attempt) + (1 << 40), false)),
        Op::Outage => oracle.outage(),
        Op::Close { who } => {
            if let Some(id) = reader(oracle, who) {
                oracle.close(id);
            }
        }
        Op::LetGo(which) => oracle.let_go(which),
        Op::End(failed) => oracle.end(if failed { EndKind::Failed } else { EndKind::Finished }),
        Op::Release => oracle.release(),
    }
}

fn write(oracle: &mut Oracle, bytes: usize) {
    let bytes = match oracle.model.setup.layout {
        RecordLayout::Fixed(width) => width.get() as usize,
        RecordLayout::Lengths => bytes,
    };
    let _ = oracle.write(bytes);
}
