//! What an engine does: deploys tasks, tells consumers of new producer attempts, and reacts to what fails.

use super::agenda::Due;
use super::consumer::{Consumer, News};
use super::log::Log;
use super::oracle::Verdict;
use super::producer::Producer;
use super::worker::socket_of;
use super::world::World;
use crate::error::Cause;
use crate::gate::{GateConfig, InputGate};
use crate::id::{Attempt, BindSecret, DataSetId, Incarnation, JobId, PartitionId};
use crate::partition::{ChannelDescriptor, CreateError, Home, Network};
use crate::writer::RecordWriter;
use std::sync::Arc;

/// A producer task, whatever its attempts.
#[derive(Debug)]
pub(super) struct ProducerTask {
    /// The newest attempt; 0 before the first.
    pub(super) newest: u32,
    /// Where the newest runs, or will.
    pub(super) machine: usize,
    /// A deployment is on its way.
    pub(super) is_coming: bool,
}

/// A consumer task, whatever its attempts.
#[derive(Debug)]
pub(super) struct ConsumerTask {
    pub(super) newest: u32,
    pub(super) machine: usize,
    pub(super) is_coming: bool,
}

impl ProducerTask {
    pub(super) fn new(machine: usize) -> Self {
        Self { newest: 0, machine, is_coming: false }
    }
}

impl ConsumerTask {
    pub(super) fn new(machine: usize) -> Self {
        Self { newest: 0, machine, is_coming: false }
    }
}

pub(super) fn partition_id(task: usize) -> PartitionId {
    PartitionId { job: JobId(1), data_set: DataSetId(2), index: task as u32 }
}

/// The same for all attempts: consumers may come before their producers.
fn secret(task: usize) -> BindSecret {
    BindSecret::new(0xABCD_0000 + task as u128)
}

impl World {
    pub(super) fn deploy_all(&mut self) {
        for task in 0..self.producing.len() {
            self.redeploy_producer(task, None);
        }
        for task in 0..self.consuming.len() {
            self.redeploy_consumer(task, None);
        }
    }

    /// The descriptor of a producer attempt that runs, or will run, on this machine.
    fn descriptor(&self, task: usize, attempt: u32, consumer: usize) -> ChannelDescriptor {
        let machine = self.producing[task].machine;
        let home = Home { socket: socket_of(machine), endpoints: self.plan.machines[machine] };
        ChannelDescriptor {
            partition: partition_id(task),
            producer_attempt: Attempt(attempt),
            subpartition: consumer as u32,
            location: home.of(partition_id(task), None),
            secret: secret(task),
            layout: self.plan.producers[task].layout,
        }
    }

    /// A new attempt of a producer, here or elsewhere.
    pub(super) fn redeploy_producer(&mut self, task: usize, machine: Option<usize>) {
        if std::mem::replace(&mut self.producing[task].is_coming, true) {
            return;
        }
        if let Some(machine) = machine {
            self.producing[task].machine = machine;
        }
        self.producing[task].newest += 1;
        self.soon(0..self.plan.deployment, Due::Produce { task });
        if self.producing[task].newest > 1 {
            (0..self.consuming.len()).for_each(|consumer| self.touch(task, consumer));
            self.tell_consumers(task);
        }
    }

    pub(super) fn redeploy_consumer(&mut self, task: usize, machine: Option<usize>) {
        if std::mem::replace(&mut self.consuming[task].is_coming, true) {
            return;
        }
        if let Some(machine) = machine {
            self.consuming[task].machine = machine;
        }
        self.consuming[task].newest += 1;
        if self.consuming[task].newest > 1 {
            (0..self.producing.len()).for_each(|producer| self.touch(producer, task));
        }
        self.soon(0..self.plan.deployment, Due::Consume { task });
    }

    pub(super) fn touch(&mut self, producer: usize, consumer: usize) {
        self.touched.insert((producer, consumer));
    }

    /// Tells all consumers of the newest attempt of a producer; some twice, some of an older one afterwards.
    fn tell_consumers(&mut self, task: usize) {
        let newest = self.producing[task].newest;
        for consumer in 0..self.consuming.len() {
            let descriptor = self.descriptor(task, newest, consumer);
            if self.random.chance(200) {
                let mut older = descriptor.clone();
                older.producer_attempt = Attempt(newest - 1);
                self.soon(0..60_000, Due::Update { task: consumer, channel: task, descriptor: older });
            }
            self.soon(0..40_000, Due::Update { task: consumer, channel: task, descriptor });
        }
    }

    /// The attempt that was decided upon starts, if its machine is there.
    pub(super) fn produce(&mut self, task: usize) -> Verdict {
        let (attempt, machine) = (self.producing[task].newest, self.producing[task].machine);
        let Some(serial) = self.machines[machine].filter(|serial| !self.workers[*serial].is_leaving) else {
            self.soon(1000..5000, Due::Produce { task });
            return Ok(());
        };
        let manager = self.workers[serial].manager.clone();
        let plan = &self.plan.producers[task];
        let (config, operations) = (plan.config.clone(), plan.operations);
        let parts = match manager.create_at(partition_id(task), Attempt(attempt), config, secret(task), None)
        {
            Ok(parts) => parts,
            Err(CreateError::Memory(error)) => {
                self.note("no memory for a partition", || error.to_string());
                self.soon(1000..5000, Due::Produce { task });
                return Ok(());
            }
            Err(error) => return Err(format!("producer {task}, attempt {attempt}: {error}")),
        };
        self.note("producer starts", || format!("producer {task}, attempt {attempt}, in worker {serial}"));
        self.oracle.logs.insert((task, attempt), Log::new(task, parts.partition.clone()));
        let writer = RecordWriter::new(parts, manager.clock().clone());
        let operations = if self.is_settling { operations.min(20) } else { operations };
        self.producers.push(Producer::new(task, attempt, serial, writer, operations));
        self.producing[task].is_coming = false;
        (0..self.consuming.len()).for_each(|consumer| self.look_at_end(consumer));
        if attempt > 1 {
            self.soon(0..50_000, Due::Retire { task, attempt: attempt - 1 });
        }
        Ok(())
    }

    /// The same for a consumer. The attempt before may go on for a while: nobody waits for it.
    pub(super) fn consume(&mut self, task: usize) -> Verdict {
        let (attempt, machine) = (self.consuming[task].newest, self.consuming[task].machine);
        let Some(serial) = self.machines[machine].filter(|serial| !self.workers[*serial].is_leaving) else {
            self.soon(1000..5000, Due::Consume { task });
            return Ok(());
        };
        let plan = self.plan.consumers[task];
        let incarnation = Incarnation(self.random.next());
        let channels: Vec<_> = (0..self.producing.len())
            .map(|producer| self.descriptor(producer, self.producing[producer].newest.max(1), task))
            .collect();
        let config = GateConfig::new(Attempt(attempt), incarnation)
            .channels(channels)
            .half_record_bytes_max(plan.half_record_bytes)
            .receive_bytes_max(plan.receive_bytes)
            .explicit_acknowledge(plan.explicit);
        let worker = &self.workers[serial];
        let network: Arc<dyn Network> = worker.network.clone();
        let gate = InputGate::with_network(worker.manager.clone(), Some(network), config);
        self.note("consumer starts", || format!("consumer {task}, attempt {attempt}, in worker {serial}"));
        let older = self.consumers.iter_mut().filter(|other| other.task == task);
        older.for_each(|older| older.is_outdated = true);
        let mut consumer = Consumer::new(task, attempt, serial, plan, gate);
        if self.is_settling {
            consumer.hurry();
        }
        self.consumers.push(consumer);
        self.consuming[task].is_coming = false;
        if attempt > 1 {
            self.soon(0..50_000, Due::Withdraw { task, attempt: attempt - 1 });
        }
        Ok(())
    }

    /// A consumer that has read everything, of which a producer has another attempt since, is deployed anew: or
    /// that one would write for nobody.
    pub(super) fn look_at_end(&mut self, task: usize) {
        let newest = self.consuming[task].newest;
        let mut all = self.consumers.iter();
        let Some(consumer) = all.find(|other| (other.task, other.attempt) == (task, newest)) else { return };
        let producers = consumer.producers();
        let is_missing = producers.iter().zip(&self.producing).any(|(read, task)| *read < task.newest);
        if consumer.is_over() && is_missing {
            self.redeploy_consumer(task, None);
        }
    }

    /// What a consumer's step has told.
    pub(super) fn hear(&mut self, index: usize, news: &News) {
        let consumer = &self.consumers[index];
        let (task, attempt) = (consumer.task, consumer.attempt);
        self.trace.note(|| format!("consumer {task}, attempt {attempt}: {news:?}"));
        if consumer.is_outdated {
            return;
        }
        match news {
            News::Refused { channel } => {
                self.soon(100..20_000, Due::Retry { task, attempt, channel: *channel });
            }
            // The gate tries again by itself.
            News::Unavailable { cause: Cause::ConnectionLost { .. } | Cause::Fenced { .. }, .. } => {}
            News::Unavailable { channel, producer, .. } => {
                let newest = self.producing[*channel].newest;
                if *producer >= newest && self.producing[*channel].is_coming {
                    // A consumer was told that it won't: the one that comes is another.
                    self.producing[*channel].newest += 1;
                    (0..self.consuming.len()).for_each(|consumer| self.touch(*channel, consumer));
                    self.tell_consumers(*channel);
                } else if *producer >= newest {
                    self.redeploy_producer(*channel, None);
                } else {
                    let descriptor = self.descriptor(*channel, newest, task);
                    self.soon(0..20_000, Due::Update { task, channel: *channel, descriptor });
                }
            }
        }
    }
}
