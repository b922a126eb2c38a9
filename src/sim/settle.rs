//! How a run comes to its end: nothing goes wrong any more, everybody finishes, and everything is given back.

use super::agenda::Due;
use super::consumer::Consumer;
use super::engine::ConsumerTask;
use super::oracle::Verdict;
use super::producer::Producer;
use super::worker::Worker;
use super::world::World;
use crate::transport::fake::{Cut, Plan};
use std::time::Duration;

/// How long workers may take to end in order.
const PATIENCE: Duration = Duration::from_millis(10);
/// How long their cores may take to be through with everything: two patient closes, one after the other.
const CORES_END_WITHIN: Duration = Duration::from_secs(5);

impl World {
    /// From now on nothing goes wrong that didn't before.
    pub(super) fn settle(&mut self) -> Verdict {
        self.trace.note(|| "everything comes to its end from here on".into());
        self.is_settling = true;
        let plan = Plan::rough(&mut self.random);
        self.network.set_plan(plan);
        let micros = self.plan.dead_after.as_micros() as u64;
        for link in std::mem::take(&mut self.silenced) {
            // A cut that was planned for later happens now, and both ends find out.
            self.network.cut(link.id, Cut::Reset);
            link.ends.iter().for_each(|of| self.soon(micros..micros * 2, Due::Dead { of: *of }));
        }
        self.producers.iter_mut().for_each(Producer::hurry);
        self.consumers.iter_mut().for_each(Consumer::hurry);
        Ok(())
    }

    /// Whether every consumer's newest attempt has read everything, and every producer knows.
    pub(super) fn is_done(&self) -> bool {
        let is_read = |(task, state): (usize, &ConsumerTask)| {
            let mut newest = self.consumers.iter();
            !state.is_coming
                && newest.any(|consumer| {
                    (consumer.task, consumer.attempt) == (task, state.newest) && consumer.is_over()
                })
        };
        self.consuming.iter().enumerate().all(is_read) && self.unfinished().is_empty()
    }

    /// Producer attempts whose consumers have all read to the end, and that don't know.
    fn unfinished(&self) -> Vec<(usize, u32)> {
        let logs = self.oracle.logs.values();
        let unaware = logs.filter(|log| {
            let is_read = log.finishing && log.ends.iter().all(|end| *end);
            is_read && !log.finished && !log.closed && log.partition.is_some() && self.may_know(log.producer)
        });
        unaware.map(|log| (log.producer, log.attempt)).collect()
    }

    /// Whether the acknowledgement of a producer's ends has to arrive, whatever is cut: what a worker has to tell another that it
    /// was told is dead, it keeps for itself.
    fn may_know(&self, producer: usize) -> bool {
        let excused = (0..self.consuming.len()).any(|consumer| self.excused.contains(&(producer, consumer)));
        !excused && !self.oracle.is_dishonest
    }

    /// Why it isn't done, for whoever has to find out.
    pub(super) fn who_waits(&self) -> String {
        let mut lines = vec!["somebody waits for ever".to_owned()];
        for consumer in self.consumers.iter().filter(|consumer| !consumer.is_over()) {
            let (task, attempt) = (consumer.task, consumer.attempt);
            lines.push(format!("consumer {task}, attempt {attempt}: {:?}", consumer.states()));
        }
        for producer in self.producers.iter().filter(|producer| !producer.is_over()) {
            let (task, attempt, doing) = (producer.task, producer.attempt, producer.doing());
            lines.push(format!("producer {task}, attempt {attempt}: {doing}"));
        }
        for (producer, attempt) in self.unfinished() {
            lines.push(format!("producer {producer}, attempt {attempt}: read to the end, and not finished"));
        }
        lines.push(format!("{:?} {:?}", self.producing, self.consuming));
        lines.join("\n")
    }

    /// The last checks: accounts, who was harmed, and the memory.
    pub(super) fn finish(&mut self) -> Verdict {
        self.check_quiet()?;
        self.check_untouched()?;
        let stale: u64 =
            self.workers.iter().flat_map(|worker| &worker.cores).map(|core| core.forged().0).sum();
        let broken: u64 =
            self.workers.iter().flat_map(|worker| &worker.cores).map(|core| core.forged().1).sum();
        self.oracle.marks.add("stale frame", stale);
        self.oracle.marks.add("broken frame", broken);
        self.agenda.clear();
        self.consumers.iter_mut().for_each(Consumer::end);
        for index in 0..self.producers.len() {
            self.producers[index].end(1, &mut self.oracle)?;
        }
        for machine in 0..self.machines.len() {
            if let Some(serial) = self.machines[machine].take() {
                self.workers[serial].leave(PATIENCE);
            }
        }
        for log in self.oracle.logs.values_mut() {
            log.closed = true;
        }
        self.turn_cores(CORES_END_WITHIN)?;
        if let Some(worker) = self.workers.iter().find(|worker| !worker.is_over()) {
            return Err(format!("the cores of worker {} don't end", worker.serial));
        }
        self.check_quiet()?;
        self.producers.clear();
        self.consumers.clear();
        for log in self.oracle.logs.values_mut() {
            log.partition = None;
        }
        self.workers.iter().try_for_each(Worker::check_memory)
    }

    /// A channel that nothing went wrong with has noticed nothing of the others.
    fn check_untouched(&mut self) -> Verdict {
        if self.breaks || self.oracle.is_dishonest {
            return Ok(());
        }
        for producer in 0..self.producing.len() {
            for consumer in 0..self.consuming.len() {
                if self.touched.contains(&(producer, consumer)) {
                    continue;
                }
                let reading = self.oracle.reading((consumer, 1, producer));
                if (reading.binds, reading.outages, reading.is_ended) != (1, 0, true) {
                    return Err(format!("producer {producer}, consumer {consumer}, untouched: {reading:?}"));
                }
                let log = self.oracle.log(producer, 1)?;
                let snapshot = log.partition.as_ref().map(|partition| partition.snapshot());
                if let Some(sub) = snapshot.as_ref().and_then(|all| all.subpartitions.get(consumer)) {
                    let lost = log.sums[consumer].dropped;
                    let account = &sub.account;
                    let (in_doubt, all_lost) = (account.in_doubt.records, account.lost.total().records);
                    if in_doubt > 0 || all_lost != lost {
                        return Err(format!(
                            "producer {producer}, consumer {consumer}, untouched: {account:?}"
                        ));
                    }
                }
                self.oracle.marks.note("untouched");
            }
        }
        Ok(())
    }
}
