//! What must hold, whatever happens: checked at every item that a gate yields.
//!
//! - Order, and no gap: within a bind every entry that is queued comes, in order; what is left out was dropped by
//!   its writer, and the loss was told before.
//! - Whole: a payload is what was written, and meant for this channel.
//! - Once: no entry comes twice within a bind, and under policies other than `Replay` not even to two attempts.
//! - One reader, the newest: an epoch has one attempt, newer epochs newer attempts, and what was written under an
//!   epoch is read by no older one.
//! - Notices stand between binds; nothing follows the end.
//! - A barrier that one channel brought and another can't be counted on for is told: see `barriers`.

use super::barriers::Barriers;
use super::log::{Fate, Log, What, payload, sequence_of};
use super::trace::Marks;
use crate::error::{BindError, Cause};
use crate::event::Event;
use crate::gate::LossReport;
use std::collections::BTreeMap;

/// What is wrong, if something is.
pub(super) type Verdict = Result<(), String>;

/// Names a run of a consumer task's channel: task, attempt, channel.
pub(super) type Reader = (usize, u32, usize);

/// Where one channel of one consumer attempt stands.
#[derive(Debug, Default)]
pub(super) struct Reading {
    bound: Option<Bind>,
    /// The last epoch of each producer attempt.
    epochs: BTreeMap<u32, u32>,
    pub(super) is_ended: bool,
    pub(super) binds: u32,
    pub(super) outages: u32,
}

#[derive(Debug)]
struct Bind {
    producer: u32,
    epoch: u32,
    /// When the gate told of it.
    since: u64,
    /// The next entry that may come; `None` while that isn't known.
    next: Option<usize>,
    /// Records told as lost since the last entry.
    lost: u64,
    priority: Option<u64>,
}

/// Something that travels among the records, as it came.
#[derive(Clone, Debug)]
pub(super) enum Came<'a> {
    Record(&'a [u8]),
    Event(&'a Event),
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    pub(super) logs: BTreeMap<(usize, u32), Log>,
    readings: BTreeMap<Reader, Reading>,
    /// Which consumer attempt has which epoch, by producer task and attempt, and subpartition.
    grants: BTreeMap<(usize, u32, usize), BTreeMap<u32, u32>>,
    pub(super) barriers: Barriers,
    /// Streams may end for a rule that was broken.
    pub(super) is_dishonest: bool,
    pub(super) marks: Marks,
    pub(super) step: u64,
}

impl Oracle {
    pub(super) fn reading(&mut self, reader: Reader) -> &mut Reading {
        self.readings.entry(reader).or_default()
    }

    pub(super) fn log(&mut self, producer: usize, attempt: u32) -> Result<&mut Log, String> {
        self.logs
            .get_mut(&(producer, attempt))
            .ok_or_else(|| format!("no attempt {attempt} of producer {producer}"))
    }

    pub(super) fn available(
        &mut self,
        reader: Reader,
        producer: u32,
        epoch: u32,
        loss: &LossReport,
    ) -> Verdict {
        let (consumer, attempt, channel) = reader;
        let step = self.step;
        self.barriers.available((consumer, attempt), channel, producer);
        let sums = &mut self.log(channel, producer)?.sums[consumer];
        sums.told_lost += loss.lost.total().records;
        if sums.newest < epoch {
            (sums.newest, sums.told_since) = (epoch, 0);
        }
        sums.told_doubt += loss.in_doubt.records;
        let reading = self.readings.entry(reader).or_default();
        if reading.bound.is_some() || reading.is_ended {
            return Err(format!("available in the middle of {reading:?}"));
        }
        if reading.epochs.get(&producer).is_some_and(|before| *before >= epoch) {
            return Err(format!("epoch {epoch} after {:?}", reading.epochs));
        }
        if reading.epochs.keys().next_back().is_some_and(|newest| *newest > producer) {
            return Err(format!("attempt {producer} of the producer after {:?}", reading.epochs));
        }
        reading.epochs.insert(producer, epoch);
        reading.binds += 1;
        let next = (epoch == 1).then_some(0);
        reading.bound = Some(Bind { producer, epoch, since: step, next, lost: 0, priority: None });
        let grants = self.grants.entry((channel, producer, consumer)).or_default();
        if let Some(other) = grants.insert(epoch, attempt) {
            return Err(format!("epoch {epoch} is attempt {other}'s and attempt {attempt}'s"));
        }
        let older = grants.range(..epoch).any(|(_, other)| *other > attempt);
        let newer = grants.range(epoch..).any(|(_, other)| *other < attempt);
        if older || newer {
            return Err(format!("epochs and attempts are out of order: {grants:?}"));
        }
        self.marks.note(if epoch == 1 { "bound first" } else { "bound anew" });
        Ok(())
    }

    pub(super) fn came(&mut self, reader: Reader, came: &Came<'_>) -> Verdict {
        let (consumer, attempt, channel) = reader;
        if let Came::Event(Event::Barrier(id)) = came {
            self.barriers.came((consumer, attempt), channel, *id);
        }
        let reading = self.readings.entry(reader).or_default();
        let Some(bind) = &mut reading.bound else {
            return Err("something comes while nothing is bound".into());
        };
        let key = (channel, bind.producer);
        let Some(log) = self.logs.get_mut(&key) else { return Err(format!("there is no producer {key:?}")) };
        let sequence = identify(log, came)?;
        let entry = &log.entries[sequence];
        let what = || format!("entry {sequence} ({:?}) of producer {key:?} in {bind:?}", entry.what);
        let fate = entry.fates[consumer];
        match fate {
            Fate::Queued | Fate::Unknown => {}
            Fate::Open if entry.is_shared => {}
            _ => return Err(format!("{} comes, and is {fate:?}", what())),
        }
        if bind.next.is_some_and(|next| next > sequence) {
            return Err(format!("{} comes late or twice", what()));
        }
        if let Some(missing) = bind.next.and_then(|next| log.first_queued(consumer, next..sequence)) {
            return Err(format!("{} comes before entry {missing}", what()));
        }
        if entry.epochs[consumer] > bind.epoch {
            return Err(format!("{} was written under epoch {}", what(), entry.epochs[consumer]));
        }
        if entry.yielded[consumer] > 0 && !log.replays {
            return Err(format!("{} comes a second time", what()));
        }
        if let Some(next) = bind.next {
            let (all, later) = log.dropped_between(consumer, next..sequence, bind.since);
            // What was dropped before the notice may be in its report.
            if bind.lost > all || bind.lost < later {
                let lost = bind.lost;
                return Err(format!("{} comes after {lost} lost of {later} to {all}", what()));
            }
        }
        let again = entry.yielded[consumer] > 0;
        (bind.next, bind.lost) = (Some(sequence + 1), 0);
        log.entries[sequence].yielded[consumer] += 1;
        if let Some(amount) = log.amount(sequence) {
            let sums = &mut log.sums[consumer];
            sums.yields += amount;
            if !again {
                sums.distinct += amount;
            }
        }
        self.marks.note(match came {
            Came::Record(_) if again => "record replayed",
            Came::Record(bytes) if bytes.len() > 4096 => "record longer than a segment",
            Came::Record(_) => "record",
            Came::Event(_) => "event",
        });
        Ok(())
    }

    pub(super) fn priority(&mut self, reader: Reader, number: u64) -> Verdict {
        let (consumer, _, channel) = reader;
        let reading = self.readings.entry(reader).or_default();
        let Some(bind) = &mut reading.bound else {
            return Err("a priority event while nothing is bound".into());
        };
        let sent = self.logs.get(&(channel, bind.producer)).map_or(0, |log| log.priorities[consumer]);
        if number >= sent || bind.priority.is_some_and(|before| before >= number) {
            return Err(format!("priority event {number} of {sent} after {:?}", bind.priority));
        }
        bind.priority = Some(number);
        self.marks.note("priority event");
        Ok(())
    }

    pub(super) fn loss(&mut self, reader: Reader, records: u64) -> Verdict {
        let (consumer, _, channel) = reader;
        let reading = self.readings.entry(reader).or_default();
        let Some(bind) = &mut reading.bound else { return Err("a loss while nothing is bound".into()) };
        bind.lost += records;
        let (producer, epoch) = (bind.producer, bind.epoch);
        let sums = &mut self.log(channel, producer)?.sums[consumer];
        // What an older bind was told comes again with the report of the next.
        sums.told_since += if sums.newest == epoch { records } else { 0 };
        self.marks.note("loss told");
        Ok(())
    }

    pub(super) fn unavailable(&mut self, reader: Reader, cause: &Cause) -> Verdict {
        let (consumer, attempt, channel) = reader;
        self.barriers.away((consumer, attempt), channel);
        let reading = self.readings.entry(reader).or_default();
        reading.outages += 1;
        let bound = reading.bound.take();
        match cause {
            Cause::Failed(_) => {
                if let Some(bind) = &bound {
                    self.all_came(consumer, channel, bind)?;
                }
                self.marks.note("failed");
            }
            Cause::Fenced { newer } if newer.0 < attempt => {
                return Err(format!("attempt {attempt} is fenced by {newer}"));
            }
            Cause::Protocol(text) if !self.is_dishonest => {
                return Err(format!("a rule was broken: {text}"));
            }
            Cause::Protocol(_) => self.marks.note("protocol"),
            Cause::Fenced { .. } => self.marks.note("fenced"),
            Cause::ConnectionLost { .. } => self.marks.note("connection lost"),
            Cause::Superseded { .. } => self.marks.note("superseded"),
            _ => self.marks.note("unavailable otherwise"),
        }
        Ok(())
    }

    /// The end: `producer` is the attempt that the channel names.
    pub(super) fn ended(&mut self, reader: Reader, producer: u32) -> Verdict {
        let (consumer, attempt, channel) = reader;
        self.barriers.ended((consumer, attempt), channel);
        let reading = self.readings.entry(reader).or_default();
        if std::mem::replace(&mut reading.is_ended, true) {
            return Err("the end comes twice".into());
        }
        let bound = reading.bound.take();
        let log = self.log(channel, producer)?;
        if !log.finishing {
            return Err(format!("the end of producer {channel}, attempt {producer}, which didn't finish"));
        }
        let ended_before = std::mem::replace(&mut log.ends[consumer], true);
        match bound {
            None if !ended_before => Err("the end of what was never read to its end".into()),
            Some(bind) if !ended_before => {
                self.marks.note("end");
                self.all_came(consumer, channel, &bind)
            }
            _ => {
                self.marks.note("end again");
                Ok(())
            }
        }
    }

    /// Nothing that is queued is left behind what came.
    fn all_came(&self, consumer: usize, channel: usize, bind: &Bind) -> Verdict {
        let Some(log) = self.logs.get(&(channel, bind.producer)) else { return Ok(()) };
        let missing = bind.next.and_then(|next| log.first_queued(consumer, next..log.entries.len()));
        match missing {
            Some(missing) => Err(format!("the end comes before entry {missing} in {bind:?}")),
            None => Ok(()),
        }
    }

    /// A bind was refused. `is_newest`: it is of the consumer's newest attempt.
    pub(super) fn refused(&mut self, error: &BindError, is_newest: bool) -> Verdict {
        let outdated = matches!(
            error,
            BindError::Stale { .. } | BindError::DuplicateAttempt { .. } | BindError::Superseded { .. }
        );
        match error {
            _ if outdated && is_newest => Err(format!("the newest attempt is refused: {error}")),
            _ if outdated => {
                self.marks.note("outdated");
                Ok(())
            }
            BindError::TimedOut { .. } | BindError::TooManyWaiting { .. } => {
                self.marks.note("waited in vain");
                Ok(())
            }
            _ => Err(format!("refused: {error}")),
        }
    }
}

/// Which entry of the log it is: all of it has to be as it was written.
fn identify(log: &Log, came: &Came<'_>) -> Result<usize, String> {
    let (sequence, is_as_written) = match came {
        Came::Record(bytes) => {
            let sequence = sequence_of(bytes).ok_or("a record without its head")?;
            let written = payload(log.producer, log.attempt, sequence, bytes.len());
            (sequence, (written == *bytes).then_some(What::Record(bytes.len())))
        }
        Came::Event(Event::Barrier(id)) => (*id as usize, Some(What::Barrier)),
        Came::Event(Event::Watermark(time)) => (*time as usize, Some(What::Watermark)),
        Came::Event(Event::Application(bytes)) => {
            let sequence = sequence_of(bytes).ok_or("an event without its head")?;
            let written = payload(log.producer, log.attempt, sequence, bytes.len());
            (sequence, (written == *bytes).then_some(What::Application(bytes.len())))
        }
    };
    match (log.entries.get(sequence), is_as_written) {
        (Some(entry), Some(what)) if entry.what == what => Ok(sequence),
        (entry, _) => {
            let written = entry.map(|entry| entry.what);
            Err(format!("torn: entry {sequence}, written as {written:?}, comes as {came:.60?}"))
        }
    }
}
