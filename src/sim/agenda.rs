//! What is due at which moment, and what is done about it then.

use super::consumer::Consumer;
use super::engine::partition_id;
use super::oracle::Verdict;
use super::world::World;
use crate::clock::Moment;
use crate::error::Cause;
use crate::id::{Attempt, RemoteAddress};
use crate::net::Command;
use crate::partition::ChannelDescriptor;
use crate::transport::fake::LinkId;
use std::fmt;
use std::time::Duration;

/// What is due at some moment.
#[derive(Debug)]
pub(super) enum Due {
    /// A machine's worker starts.
    Start(usize),
    Tick(usize),
    Dial {
        from: usize,
        endpoint: u16,
        peer: RemoteAddress,
    },
    Tell {
        worker: usize,
        endpoint: u16,
        command: Command,
    },
    Dead {
        of: usize,
    },
    Produce {
        task: usize,
    },
    Consume {
        task: usize,
    },
    Update {
        task: usize,
        channel: usize,
        descriptor: ChannelDescriptor,
    },
    Retry {
        task: usize,
        attempt: u32,
        channel: u32,
    },
    /// An older producer attempt ends, and its partition.
    Retire {
        task: usize,
        attempt: u32,
    },
    /// An older consumer attempt ends.
    Withdraw {
        task: usize,
        attempt: u32,
    },
    /// Somebody who sleeps goes on.
    Wake,
}

impl fmt::Display for Due {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Update { task, channel, descriptor } => {
                write!(f, "consumer {task} hears of producer {channel}, {}", descriptor.producer_attempt)
            }
            // The numbers of descriptors are chance.
            Self::Tell { worker, endpoint, command: Command::Adopt(adopted) } => {
                write!(
                    f,
                    "worker {worker}, endpoint {endpoint} has a connection, dialled: {:?}",
                    adopted.dialled
                )
            }
            due => write!(f, "{due:?}"),
        }
    }
}

/// A connection, and the serials of the workers at its ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkOf {
    pub(super) id: LinkId,
    pub(super) ends: [usize; 2],
}

impl World {
    pub(super) fn at(&mut self, at: Moment, due: Due) {
        self.number += 1;
        self.agenda.insert((at, self.number), due);
    }

    /// Within so many microseconds.
    pub(super) fn soon(&mut self, micros: std::ops::Range<u64>, due: Due) {
        let after = Duration::from_micros(self.random.of(micros));
        self.at(self.now().plus(after), due);
    }

    /// An older consumer attempt ends.
    pub(super) fn withdraw(&mut self, task: usize, attempt: u32) {
        let old =
            self.consumers.iter_mut().filter(|consumer| consumer.task == task && consumer.attempt <= attempt);
        old.for_each(Consumer::end);
    }

    /// An older producer attempt ends, and what it left is released.
    fn retire(&mut self, task: usize, attempt: u32) -> Verdict {
        for index in 0..self.producers.len() {
            let producer = &mut self.producers[index];
            if producer.task != task || producer.attempt > attempt {
                continue;
            }
            let (number, serial) = (producer.attempt, producer.worker);
            if !producer.is_over() {
                producer.end(1, &mut self.oracle)?;
            }
            self.oracle.log(task, number)?.closed = true;
            self.workers[serial].manager.release(partition_id(task), Attempt(number), Cause::Released);
        }
        Ok(())
    }

    pub(super) fn due(&mut self, due: Due) -> Verdict {
        match due {
            Due::Start(machine) => self.start(machine)?,
            Due::Tick(serial) => {
                if self.is_alive(serial) {
                    self.workers[serial].manager.housekeeping();
                    self.at(self.now().plus(Duration::from_secs(1)), Due::Tick(serial));
                }
            }
            Due::Dial { from, endpoint, peer } => self.dial(from, endpoint, peer)?,
            Due::Tell { worker, endpoint, command } => {
                if let Some(core) = self.workers[worker].cores.get(usize::from(endpoint)) {
                    // Its thread has ended: a socket is closed, and an answer is nobody's.
                    drop(core.endpoint.send(command));
                }
            }
            Due::Dead { of } => {
                let id = self.workers[of].id;
                self.oracle.marks.note("found dead");
                self.workers.iter().for_each(|worker| {
                    worker.tell_all(|| Command::PeerDead(id, "it is silent"));
                });
                self.touch_all_of(of);
            }
            Due::Produce { task } => self.produce(task)?,
            Due::Consume { task } => self.consume(task)?,
            Due::Update { task, channel, descriptor } => {
                let newest = self.consuming[task].newest;
                let consumers = self.consumers.iter_mut();
                let consumers =
                    consumers.filter(|consumer| consumer.task == task && consumer.attempt <= newest);
                consumers.for_each(|consumer| consumer.update(channel, descriptor.clone()));
            }
            Due::Retry { task, attempt, channel } => {
                let consumers = self.consumers.iter_mut();
                let mine = consumers.filter(|consumer| (consumer.task, consumer.attempt) == (task, attempt));
                mine.for_each(|consumer| consumer.retry(channel));
            }
            Due::Retire { task, attempt } => self.retire(task, attempt)?,
            Due::Withdraw { task, attempt } => self.withdraw(task, attempt),
            Due::Wake => {}
        }
        Ok(())
    }

    fn excuse(&mut self, producer: usize, consumer: usize) {
        self.touch(producer, consumer);
        self.excused.insert((producer, consumer));
    }

    fn touch_all_of(&mut self, serial: usize) {
        let producers = self.producers.iter().filter(|task| task.worker == serial).map(|task| task.task);
        let consumers = self.consumers.iter().filter(|task| task.worker == serial).map(|task| task.task);
        let (producers, consumers): (Vec<_>, Vec<_>) = (producers.collect(), consumers.collect());
        for producer in producers {
            (0..self.consuming.len()).for_each(|consumer| self.excuse(producer, consumer));
        }
        for consumer in consumers {
            (0..self.producing.len()).for_each(|producer| self.excuse(producer, consumer));
        }
    }
}
