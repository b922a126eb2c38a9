//! What a producer task does with its writer: begins something, goes on with it, gives it up.

use super::log::{Fate, HEAD_BYTES, Log, What};
use super::oracle::{Oracle, Verdict};
use super::plan::ProducerPlan;
use super::producer::{Doing, Producer};
use crate::clock::Moment;
use crate::error::WriteError;
use crate::event::{Event, PriorityEvent};
use crate::record::RecordLayout;
use crate::transport::fake::Random;
use crate::writer::{Target, TryWriteError, Written};
use std::task::{Context, Poll};
use std::time::Duration;

impl Producer {
    pub(super) fn begin(
        &mut self,
        plan: &ProducerPlan,
        oracle: &mut Oracle,
        random: &mut Random,
        now: Moment,
    ) -> Verdict {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let log = oracle.log(self.task, self.attempt)?;
        if self.operations == 0 {
            log.finishing = true;
            self.doing = Doing::Finish;
            return Ok(());
        }
        self.operations -= 1;
        if random.chance(plan.rest) {
            self.until = now.plus(Duration::from_micros(random.of(1..8000)));
        }
        if random.chance(100) {
            writer.flush();
        }
        let one = random.of(0..u64::from(writer.subpartitions())) as u32;
        let target = if random.chance(400) { Target::All } else { Target::One(one) };
        let of = |target| match target {
            Target::One(one) => Some(one),
            Target::All => None,
        };
        self.doing = if random.chance(plan.priority) {
            let number = log.priorities.iter().max().copied().unwrap_or(0);
            for (index, sent) in log.priorities.iter_mut().enumerate() {
                if of(target).is_none_or(|one| one as usize == index) {
                    *sent = number + 1;
                }
            }
            let event = PriorityEvent::new(&number.to_le_bytes()).ok_or("8 bytes are too many")?;
            Doing::Priority { target, event }
        } else if random.chance(plan.event) {
            let what = match random.of(0..3) {
                0 => What::Barrier,
                1 => What::Watermark,
                _ => What::Application(random.of(HEAD_BYTES as u64..1500) as usize),
            };
            let (sequence, bytes) = log.begin(what, of(target));
            let event = match what {
                What::Barrier => Event::Barrier(sequence as u64),
                What::Watermark => Event::Watermark(sequence as i64),
                _ => Event::Application(bytes.into()),
            };
            Doing::Event { target, sequence, event }
        } else {
            let most = if random.chance(60) { plan.large } else { plan.small };
            let len = match plan.layout {
                RecordLayout::Fixed(len) => len.get() as usize,
                RecordLayout::Lengths => random.of(HEAD_BYTES as u64..most + 1) as usize,
            };
            let is_broadcast = random.chance(plan.broadcast);
            let (sequence, bytes) = log.begin(What::Record(len), (!is_broadcast).then_some(one));
            if is_broadcast {
                Doing::Broadcast { sequence, rest: bytes.into() }
            } else if random.chance(300) {
                return self.try_write(one, sequence, &bytes, oracle);
            } else {
                Doing::Record { target: one, sequence, rest: bytes.into() }
            }
        };
        Ok(())
    }

    /// All or nothing.
    fn try_write(&mut self, target: u32, sequence: usize, bytes: &[u8], oracle: &mut Oracle) -> Verdict {
        let step = oracle.step;
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let log = oracle.log(self.task, self.attempt)?;
        let before = log.dropped();
        log.poll_one(sequence);
        let written = writer.try_write(target, bytes);
        log.polled(sequence, &before, step)?;
        match written {
            Ok(written) => done(log, sequence, written),
            Err(TryWriteError::Full) => {
                log.settle(sequence, Fate::NotMine);
                oracle.marks.note("full");
                Ok(())
            }
            Err(TryWriteError::Write(error)) => self.refused(&error, Some(sequence), oracle),
        }
    }

    pub(super) fn go_on(&mut self, oracle: &mut Oracle) -> Result<bool, String> {
        let step = oracle.step;
        let Some(writer) = &mut self.writer else { return Ok(false) };
        let mut cx = Context::from_waker(&self.waker);
        let log = oracle.log(self.task, self.attempt)?;
        let before = log.dropped();
        let sequence = match &self.doing {
            Doing::Nothing => return Ok(true),
            Doing::Over => return Ok(false),
            Doing::Record { sequence, .. }
            | Doing::Broadcast { sequence, .. }
            | Doing::Event { sequence, .. } => Some(*sequence),
            Doing::Priority { .. } | Doing::Finish => None,
        };
        if let Some(sequence) = sequence {
            log.poll_one(sequence);
        }
        let (moved, polled) = match &mut self.doing {
            Doing::Record { target, rest, .. } => {
                let left = rest.len();
                let written = writer.poll_write(&mut cx, *target, rest);
                (rest.len() != left, written.map_ok(|written| Some(counts(written))))
            }
            Doing::Broadcast { rest, .. } => {
                let left = rest.len();
                let reach = writer.poll_broadcast(&mut cx, rest);
                (rest.len() != left, reach.map_ok(|reach| Some((reach.queued, reach.dropped))))
            }
            Doing::Event { target, event, .. } => {
                let reach = writer.poll_event(&mut cx, *target, event);
                (false, reach.map_ok(|reach| Some((reach.queued, reach.dropped))))
            }
            Doing::Priority { target, event } => {
                (false, writer.poll_priority_event(&mut cx, *target, *event).map_ok(|_| None))
            }
            _ => (false, writer.poll_finish(&mut cx).map_ok(|()| None)),
        };
        if let Some(sequence) = sequence {
            log.polled(sequence, &before, step)?;
        }
        match polled {
            Poll::Pending => {
                oracle.marks.note("writer waits");
                Ok(moved)
            }
            Poll::Ready(Ok(reach)) => {
                if let (Some(sequence), Some(reach)) = (sequence, reach) {
                    log.settle(sequence, Fate::Queued);
                    if log.reach(sequence) != reach {
                        let found = log.reach(sequence);
                        return Err(format!(
                            "entry {sequence} reached {found:?} and is said to have {reach:?}"
                        ));
                    }
                }
                self.doing = match self.doing {
                    Doing::Finish => {
                        log.finished = true;
                        Doing::Over
                    }
                    _ => Doing::Nothing,
                };
                Ok(true)
            }
            Poll::Ready(Err(error)) => self.refused(&error, sequence, oracle).map(|()| true),
        }
    }

    fn refused(&mut self, error: &WriteError, sequence: Option<usize>, oracle: &mut Oracle) -> Verdict {
        let log = oracle.log(self.task, self.attempt)?;
        match error {
            WriteError::TooLong { .. } if log.replays => {
                if let Some(sequence) = sequence {
                    log.settle(sequence, Fate::NotMine);
                }
                oracle.marks.note("too long for a replay");
                self.doing = Doing::Nothing;
                Ok(())
            }
            WriteError::Closed { .. } => {
                log.closed = true;
                if let Some(sequence) = sequence {
                    log.settle(sequence, Fate::Unknown);
                }
                oracle.marks.note("closed under the writer");
                self.doing = Doing::Over;
                self.writer = None;
                Ok(())
            }
            other => Err(format!("refused to write: {other}")),
        }
    }

    /// Gives up what is under way.
    pub(super) fn give_up(&mut self, oracle: &mut Oracle) -> Verdict {
        let step = oracle.step;
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let log = oracle.log(self.task, self.attempt)?;
        let before = log.dropped();
        let (sequence, fate) = match std::mem::replace(&mut self.doing, Doing::Nothing) {
            Doing::Record { sequence, .. } => {
                writer.abort_record();
                (sequence, None)
            }
            Doing::Broadcast { sequence, .. } => {
                writer.abort_broadcast();
                (sequence, Some(Fate::Queued))
            }
            Doing::Event { sequence, .. } => {
                writer.abort_broadcast();
                (sequence, Some(Fate::Unknown))
            }
            Doing::Priority { .. } => {
                writer.abort_broadcast();
                return Ok(());
            }
            other => {
                self.doing = other;
                return Ok(());
            }
        };
        log.polled(sequence, &before, step)?;
        match fate {
            Some(fate) => log.settle(sequence, fate),
            // Nothing of it is anywhere: it counts as aborted.
            None if log.reach(sequence) != (0, 1) => {
                return Err(format!("entry {sequence} was given up and isn't counted"));
            }
            None => {}
        }
        Ok(())
    }
}

fn counts(written: Written) -> (u32, u32) {
    match written {
        Written::Queued => (1, 0),
        Written::Dropped => (0, 1),
    }
}

fn done(log: &mut Log, sequence: usize, written: Written) -> Verdict {
    log.settle(sequence, Fate::Queued);
    let (found, said) = (log.reach(sequence), counts(written));
    if found != said {
        return Err(format!("entry {sequence} reached {found:?} and is said to have {said:?}"));
    }
    Ok(())
}
