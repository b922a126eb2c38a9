//! One attempt of a consumer task: reads, keeps records for a while, pauses channels, acknowledges.

use super::oracle::{Came, Oracle, Verdict};
use super::plan::ConsumerPlan;
use super::task::Flag;
use crate::clock::Moment;
use crate::error::{BindError, Cause};
use crate::gate::{ChannelState, GateError, InputGate, Item};
use crate::partition::ChannelDescriptor;
use crate::transport::fake::Random;
use bytes::Bytes;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) task: usize,
    pub(super) attempt: u32,
    /// The serial of its worker.
    pub(super) worker: usize,
    gate: Option<InputGate>,
    pub(super) flag: Arc<Flag>,
    waker: Waker,
    plan: ConsumerPlan,
    /// Its gate has something, or was told something by the task itself.
    is_stirred: bool,
    /// Records that are kept, and for how many more steps.
    kept: Vec<(Bytes, Vec<u8>)>,
    /// A newer attempt was deployed.
    pub(super) is_outdated: bool,
    /// It does nothing before.
    pub(super) until: Moment,
    is_over: bool,
    /// It keeps nothing and pauses nothing any more.
    hurries: bool,
}

/// What the engine learns of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// The channel's producer attempt is gone, for this reason.
    Unavailable { channel: usize, producer: u32, cause: Cause },
    /// The bind was refused; it may be tried again.
    Refused { channel: u32 },
}

impl Consumer {
    pub(super) fn new(task: usize, attempt: u32, worker: usize, plan: ConsumerPlan, gate: InputGate) -> Self {
        let (flag, waker) = Flag::new();
        Self {
            task,
            attempt,
            worker,
            gate: Some(gate),
            flag,
            waker,
            plan,
            is_stirred: true,
            kept: Vec::new(),
            is_outdated: false,
            until: Moment::default(),
            is_over: false,
            hurries: false,
        }
    }

    /// All channels have ended, or another attempt has them, or the task is gone.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(super) fn may_step(&self, now: Moment) -> bool {
        let has_more = self.is_stirred || self.flag.is_set() || !self.kept.is_empty();
        self.gate.is_some() && !self.is_over && self.until <= now && has_more
    }

    /// From now on it reads to the end.
    pub(super) fn hurry(&mut self) {
        self.hurries = true;
        self.until = Moment::default();
        self.is_stirred = true;
        let Some(gate) = &mut self.gate else { return };
        // Channels are numbered below.
        (0..gate.channels()).for_each(|channel| drop(gate.resume(channel)));
    }

    /// The task is gone: its gate closes in order, if its process is still there.
    pub(super) fn end(&mut self) {
        self.kept.clear();
        self.gate = None;
        self.is_over = true;
    }

    pub(super) fn update(&mut self, channel: usize, descriptor: ChannelDescriptor) {
        if let Some(gate) = &mut self.gate {
            // Whatever becomes of it shows in the items.
            drop(gate.update_channel(channel as u32, descriptor));
            self.is_stirred = true;
        }
    }

    pub(super) fn retry(&mut self, channel: u32) {
        if let Some(gate) = &mut self.gate {
            // False: it isn't refused any more.
            drop(gate.retry_bind(channel));
            self.is_stirred = true;
        }
    }

    /// The producer attempts that its channels name.
    pub(super) fn producers(&self) -> Vec<u32> {
        let snapshots = self.gate.as_ref().map(InputGate::snapshot).unwrap_or_default();
        snapshots.into_iter().map(|channel| channel.producer.0).collect()
    }

    pub(super) fn states(&self) -> Vec<ChannelState> {
        let snapshots = self.gate.as_ref().map(InputGate::snapshot).unwrap_or_default();
        snapshots.into_iter().map(|channel| channel.state).collect()
    }

    /// One step. Tells whether anything was done, and what the engine has to know.
    pub(super) fn step(
        &mut self,
        oracle: &mut Oracle,
        random: &mut Random,
        now: Moment,
    ) -> Result<(bool, Option<News>), String> {
        self.flag.take();
        self.is_stirred = false;
        self.let_go(random)?;
        let Some(gate) = &mut self.gate else { return Ok((false, None)) };
        if random.chance(self.plan.rest) && !self.hurries {
            self.until = now.plus(Duration::from_micros(random.of(1..5000)));
        }
        let mut cx = Context::from_waker(&self.waker);
        let polled = gate.poll_next(&mut cx);
        let reader = |channel: u32| (self.task, self.attempt, channel as usize);
        let (kept, mut paused, mut news, mut receipt) = (&mut self.kept, None, None, None);
        let run = (self.task, self.attempt);
        if !matches!(polled, Poll::Ready(Ok(Some(Item::AlignmentBroken { .. })))) {
            oracle.barriers.nothing_owed(run)?;
        }
        match polled {
            Poll::Pending => {
                if self.plan.explicit {
                    gate.acknowledge_all();
                }
                return Ok((false, None));
            }
            Poll::Ready(Ok(None)) => {
                oracle.marks.note("all ended");
                if self.plan.explicit {
                    gate.acknowledge_all();
                }
                self.is_over = true;
                return Ok((true, None));
            }
            Poll::Ready(Err(GateError::Fenced { newer, .. })) => {
                if newer.0 < self.attempt || !self.is_outdated {
                    return Err(format!(
                        "consumer {}, attempt {} is fenced by {newer}",
                        self.task, self.attempt
                    ));
                }
                self.is_over = true;
                return Ok((true, None));
            }
            Poll::Ready(Err(error)) => return Err(format!("a gate fails: {error}")),
            Poll::Ready(Ok(Some(item))) => match item {
                Item::Record(record) => {
                    let channel = record.channel();
                    oracle.came(reader(channel), &Came::Record(record.as_bytes()))?;
                    receipt = Some(record.receipt());
                    if random.chance(self.plan.keep) && !self.hurries {
                        let copy = record.as_bytes().to_vec();
                        kept.push((record.into_bytes(), copy));
                    }
                    paused = (random.chance(self.plan.pause) && !self.hurries).then_some(channel);
                }
                Item::Event { channel, event } => oracle.came(reader(channel), &Came::Event(&event))?,
                Item::Priority { channel, event } => {
                    let number = event.as_bytes().try_into().map(u64::from_le_bytes);
                    oracle.priority(reader(channel), number.map_err(|_| "a torn priority event")?)?;
                }
                Item::Available { channel, producer, epoch, loss } => {
                    oracle.available(reader(channel), producer.0, epoch.0, &loss)?;
                }
                Item::Loss { channel, lost, .. } => oracle.loss(reader(channel), lost.records)?,
                Item::Unavailable { channel, cause, .. } => {
                    oracle.unavailable(reader(channel), &cause)?;
                    news = Some((channel, cause));
                }
                Item::AlignmentBroken { barrier, channel } => {
                    oracle.barriers.told(run, channel as usize, barrier)?;
                    oracle.marks.note("alignment broken");
                }
                Item::EndOfData { .. } => {}
                Item::EndOfPartition { channel } => {
                    let producer = gate.channel_snapshot(channel).map_or(0, |channel| channel.producer.0);
                    oracle.ended(reader(channel), producer)?;
                }
                Item::BindFailed { channel, error } => {
                    oracle.refused(&error, !self.is_outdated)?;
                    self.is_stirred = true;
                    let again = is_retryable(&error).then_some(News::Refused { channel });
                    return Ok((true, again));
                }
            },
        }
        if receipt.is_some() && paused.is_none() && random.chance(300) {
            let most = random.of(1..20) as usize;
            let mut records = gate.records();
            let channel = records.channel().ok_or("a record came of no channel")?;
            for record in records.by_ref().take(most) {
                oracle.came(reader(channel), &Came::Record(record))?;
                oracle.marks.note("in a row");
            }
            receipt = records.receipt();
        }
        self.is_stirred = true;
        if let (true, Some(receipt)) = (self.plan.explicit && random.chance(500), receipt) {
            gate.acknowledge(receipt);
        }
        if let Some(channel) = paused {
            gate.pause(channel).map_err(|error| error.to_string())?;
            oracle.marks.note("paused");
        } else if self.plan.pause > 0 && random.chance(100) {
            let channel = random.of(0..u64::from(gate.channels())) as u32;
            gate.resume(channel).map_err(|error| error.to_string())?;
        }
        let news = news.map(|(channel, cause)| {
            let producer = gate.channel_snapshot(channel).map_or(0, |channel| channel.producer.0);
            News::Unavailable { channel: channel as usize, producer, cause }
        });
        Ok((true, news))
    }

    /// Lets go of some records that were kept, which have to be as they were.
    fn let_go(&mut self, random: &mut Random) -> Verdict {
        while let Some((bytes, copy)) = self.kept.first() {
            if bytes != copy {
                return Err("a record that was kept has changed".into());
            }
            if self.kept.len() < 4 && !self.hurries && random.chance(700) {
                return Ok(());
            }
            self.kept.remove(0);
        }
        Ok(())
    }
}

fn is_retryable(error: &BindError) -> bool {
    error.is_retryable()
}
