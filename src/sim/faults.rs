//! What goes wrong, and what follows from it at its time.

use super::agenda::Due;
use super::consumer::Consumer;
use super::oracle::Verdict;
use super::plan::rough;
use super::producer::Producer;
use super::world::World;
use crate::transport::fake::Cut;
use std::time::Duration;

impl World {
    /// Something goes wrong.
    pub(super) fn fault(&mut self) -> Verdict {
        match self.random.of(0..14) {
            0..=3 => self.cut(),
            4 => self.hold(),
            5 => self.vanish(true)?,
            6 => self.vanish(false)?,
            7 => self.leave(),
            8 | 9 => {
                let task = self.random.of(0..self.consuming.len() as u64) as usize;
                let machine = self.random.of(0..self.machines.len() as u64) as usize;
                let at_once = self.random.chance(300);
                let newest = self.consuming[task].newest;
                self.note("consumer redeployed", || {
                    format!("consumer {task} is redeployed on machine {machine}")
                });
                self.redeploy_consumer(task, Some(machine));
                if at_once {
                    self.withdraw(task, newest);
                }
            }
            10 | 11 => self.end_producer()?,
            12 => self.hang(),
            _ => {
                let plan = rough(&mut self.random);
                self.note("another network", || format!("{plan:?}"));
                self.breaks |= plan.error > 0;
                self.network.set_plan(plan);
            }
        }
        Ok(())
    }

    /// Everything between two workers' machines, now or to come, is touched by what happens to a connection of theirs.
    fn touch_between(&mut self, ends: [usize; 2]) {
        let ends = ends.map(|serial| self.workers[serial].machine);
        for producer in 0..self.producing.len() {
            for consumer in 0..self.consuming.len() {
                let pair = [self.producing[producer].machine, self.consuming[consumer].machine];
                if pair == ends || pair == [ends[1], ends[0]] {
                    self.touch(producer, consumer);
                }
            }
        }
    }

    fn cut(&mut self) {
        if self.links.is_empty() {
            return;
        }
        let recent = self.links.len().saturating_sub(6) as u64;
        let link = self.links[self.random.of(recent..self.links.len() as u64) as usize];
        let how = if self.random.chance(600) { Cut::Reset } else { Cut::Silence };
        self.touch_between(link.ends);
        if self.random.chance(500) {
            self.note("cut", || format!("{link:?} is cut: {how:?}"));
            self.network.cut(link.id, how);
        } else {
            let (side, bytes) = (self.random.of(0..2) as usize, 1 << self.random.of(6..18));
            let bytes = self.random.of(0..bytes);
            self.note("cut at a byte", || {
                format!("{link:?} will be cut after {bytes} of side {side}: {how:?}")
            });
            self.network.cut_after(link.id, side, bytes, how);
        }
        if how == Cut::Silence {
            self.silenced.push(link);
            // The heartbeats fail as well, and each finds the other dead; sooner or later than the cut.
            let micros = self.plan.dead_after.as_micros() as u64;
            link.ends.iter().for_each(|of| self.soon(micros..micros * 2, Due::Dead { of: *of }));
        }
    }

    fn hold(&mut self) {
        if self.links.is_empty() {
            return;
        }
        let link = self.links[self.random.of(0..self.links.len() as u64) as usize];
        let until = self.now().plus(Duration::from_micros(self.random.of(100..300_000)));
        let side = self.random.of(0..2) as usize;
        self.note("held", || format!("{link:?} holds side {side} until {until:?}"));
        self.network.hold(link.id, side, until);
    }

    /// Tasks of this worker are touched, and are to be deployed anew.
    fn lose_tasks(&mut self, serial: usize) {
        for index in 0..self.producers.len() {
            let (task, attempt, worker) =
                (self.producers[index].task, self.producers[index].attempt, self.producers[index].worker);
            if worker == serial && attempt == self.producing[task].newest {
                let machine = self.random.of(0..self.machines.len() as u64) as usize;
                self.redeploy_producer(task, Some(machine));
            }
        }
        for index in 0..self.consumers.len() {
            let (task, attempt, worker) =
                (self.consumers[index].task, self.consumers[index].attempt, self.consumers[index].worker);
            if worker == serial && attempt == self.consuming[task].newest {
                let machine = self.random.of(0..self.machines.len() as u64) as usize;
                self.redeploy_consumer(task, Some(machine));
            }
        }
    }

    /// A worker's process is gone: killed, or with its machine.
    fn vanish(&mut self, silently: bool) -> Verdict {
        let machine = self.random.of(0..self.machines.len() as u64) as usize;
        let Some(serial) = self.machines[machine].take() else { return Ok(()) };
        self.note(if silently { "machine gone" } else { "worker killed" }, || {
            format!("worker {serial} is gone")
        });
        if silently {
            for link in self.links.clone().iter().filter(|link| link.ends.contains(&serial)) {
                self.network.cut(link.id, Cut::Silence);
            }
            let micros = self.plan.dead_after.as_micros() as u64;
            self.soon(micros..micros * 2, Due::Dead { of: serial });
        }
        self.workers[serial].vanish();
        self.producers.iter_mut().filter(|task| task.worker == serial).for_each(Producer::vanish);
        self.consumers.iter_mut().filter(|task| task.worker == serial).for_each(Consumer::end);
        for producer in self.producers.iter().filter(|task| task.worker == serial) {
            self.oracle.log(producer.task, producer.attempt)?.partition = None;
        }
        self.workers[serial].manager.shutdown();
        self.lose_tasks(serial);
        self.soon(1000..200_000, Due::Start(machine));
        Ok(())
    }

    /// A worker ends in order. Its tasks go on somewhere else.
    fn leave(&mut self) {
        let machine = self.random.of(0..self.machines.len() as u64) as usize;
        let Some(serial) = self.machines[machine].take() else { return };
        self.note("worker leaves", || format!("worker {serial} leaves"));
        for index in 0..self.consumers.len() {
            if self.consumers[index].worker == serial && self.random.chance(500) {
                self.consumers[index].end();
            }
        }
        self.workers[serial].leave(Duration::from_millis(10));
        for log in self.oracle.logs.values_mut() {
            let here = |task: &Producer| {
                (task.task, task.attempt, task.worker) == (log.producer, log.attempt, serial)
            };
            log.closed |= self.producers.iter().any(here);
        }
        self.consumers
            .iter_mut()
            .filter(|task| task.worker == serial)
            .for_each(|task| task.is_outdated = true);
        self.lose_tasks(serial);
        self.soon(30_000..200_000, Due::Start(machine));
    }

    fn end_producer(&mut self) -> Verdict {
        if self.producers.is_empty() {
            return Ok(());
        }
        let index = self.random.of(0..self.producers.len() as u64) as usize;
        let (task, attempt) = (self.producers[index].task, self.producers[index].attempt);
        if self.producers[index].is_over() || attempt != self.producing[task].newest {
            return Ok(());
        }
        (0..self.consuming.len()).for_each(|consumer| self.touch(task, consumer));
        let how = self.random.of(0..4);
        self.note("producer ends badly", || format!("producer {task}, attempt {attempt} ends: {how}"));
        if how < 3 {
            self.producers[index].end(how, &mut self.oracle)?;
        }
        // Else a newer one comes while it writes on.
        let machine = self.random.of(0..self.machines.len() as u64) as usize;
        self.redeploy_producer(task, Some(machine));
        Ok(())
    }

    fn hang(&mut self) {
        let until = self.now().plus(Duration::from_micros(self.random.of(1000..400_000)));
        let consumers = self.consumers.len() as u64;
        let all = consumers + self.producers.len() as u64;
        if all == 0 {
            return;
        }
        let index = self.random.of(0..all);
        self.note("hangs", || {
            format!("task {index} of {consumers} consumers and others hangs until {until:?}")
        });
        match self.producers.get_mut(index.wrapping_sub(consumers) as usize) {
            Some(producer) if index >= consumers => producer.until = until,
            _ => self.consumers[index as usize].until = until,
        }
        self.at(until, Due::Wake);
    }
}
