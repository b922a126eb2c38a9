//! One attempt of a producer task: writes by its dice until it finishes, fails, or is told to.

use super::oracle::Oracle;
use super::plan::ProducerPlan;
use super::task::Flag;
use crate::clock::Moment;
use crate::event::{Event, PriorityEvent};
use crate::transport::fake::Random;
use crate::writer::{RecordWriter, Target};
use bytes::Bytes;
use std::sync::Arc;
use std::task::Waker;

/// What is under way.
#[derive(Debug)]
pub(super) enum Doing {
    Nothing,
    Record { target: u32, sequence: usize, rest: Bytes },
    Broadcast { sequence: usize, rest: Bytes },
    Event { target: Target, sequence: usize, event: Event },
    Priority { target: Target, event: PriorityEvent },
    Finish,
    Over,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Producer {
    pub(super) task: usize,
    pub(super) attempt: u32,
    /// The serial of its worker.
    pub(super) worker: usize,
    pub(super) writer: Option<RecordWriter>,
    pub(super) doing: Doing,
    pub(super) flag: Arc<Flag>,
    pub(super) waker: Waker,
    pub(super) operations: u64,
    /// It does nothing before.
    pub(super) until: Moment,
}

impl Producer {
    pub(super) fn new(
        task: usize,
        attempt: u32,
        worker: usize,
        writer: RecordWriter,
        operations: u64,
    ) -> Self {
        let (flag, waker) = Flag::new();
        Self {
            task,
            attempt,
            worker,
            writer: Some(writer),
            doing: Doing::Nothing,
            flag,
            waker,
            operations,
            until: Moment::default(),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.doing, Doing::Over)
    }

    /// Everything is written.
    pub(super) fn is_finishing(&self) -> bool {
        matches!(self.doing, Doing::Finish)
    }

    /// Nothing is half done.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.doing, Doing::Nothing | Doing::Finish | Doing::Over)
    }

    /// What is under way, and why it waits.
    pub(super) fn doing(&self) -> String {
        let why = |target: u32| self.writer.as_ref().map(|writer| writer.why_blocked(target).to_string());
        match &self.doing {
            Doing::Record { target, .. } => format!("{:.100?}, {:?}", self.doing, why(*target)),
            doing => format!("{doing:.100?}, {:?}", why(0)),
        }
    }

    /// Whether a step may do something: it isn't waiting, or was woken.
    pub(super) fn may_step(&self, now: Moment) -> bool {
        let waits = !matches!(self.doing, Doing::Nothing);
        !self.is_over() && self.until <= now && (!waits || self.flag.is_set())
    }

    /// From now on it comes to its end.
    pub(super) fn hurry(&mut self) {
        self.operations = self.operations.min(20);
        self.until = Moment::default();
    }

    /// The task ends badly: by saying so, by being dropped, or by giving the partition up.
    pub(super) fn end(&mut self, how: u64, oracle: &mut Oracle) -> Result<(), String> {
        self.give_up(oracle)?;
        let log = oracle.log(self.task, self.attempt)?;
        log.closed |= how == 2;
        self.doing = Doing::Over;
        match (self.writer.take(), how) {
            (Some(writer), 0) => writer.fail("by the plan"),
            (Some(writer), 2) => writer.abandon(),
            (writer, _) => drop(writer),
        }
        Ok(())
    }

    /// Its process is gone.
    pub(super) fn vanish(&mut self) {
        self.writer = None;
        self.doing = Doing::Over;
    }

    /// One step. Tells whether anything was done.
    pub(super) fn step(
        &mut self,
        plan: &ProducerPlan,
        oracle: &mut Oracle,
        random: &mut Random,
        now: Moment,
    ) -> Result<bool, String> {
        if self.writer.is_none() {
            return Ok(false);
        }
        self.flag.take();
        if matches!(self.doing, Doing::Nothing) {
            self.begin(plan, oracle, random, now)?;
        } else if !matches!(self.doing, Doing::Finish) && random.chance(20) {
            oracle.marks.note("given up");
            self.give_up(oracle)?;
            return Ok(true);
        }
        self.go_on(oracle)
    }
}
