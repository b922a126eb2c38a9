//! The world of one seed: time, who may move next, and what is due.

use super::agenda::{Due, LinkOf};
use super::clock::SimClock;
use super::consumer::Consumer;
use super::engine::{ConsumerTask, ProducerTask};
use super::oracle::{Oracle, Verdict};
use super::plan::Plan;
use super::producer::Producer;
use super::trace::Trace;
use super::worker::{Turned, Worker};
use crate::clock::{Clock, Moment};
use crate::transport::fake::{FakeNetwork, Random};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Steps within one moment after which something spins.
const STEPS_A_MOMENT: u64 = 200_000;
/// What comes to its end does so within so long, once nothing goes wrong any more.
const END_WITHIN: Duration = Duration::from_secs(60);
/// How often a worker looks after things by itself.
const TICK: Duration = Duration::from_secs(1);

/// Whoever can make a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Actor {
    /// A core of a worker, by the worker's serial.
    Core(usize, usize),
    /// By their places in the world's lists.
    Producer(usize),
    Consumer(usize),
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) random: Random,
    pub(super) clock: Arc<SimClock>,
    pub(super) network: FakeNetwork,
    /// By their serials; those that have come to their end stay, for what they had.
    pub(super) workers: Vec<Worker>,
    /// The serial of each machine's present worker.
    pub(super) machines: Vec<Option<usize>>,
    /// All attempts of all tasks.
    pub(super) producers: Vec<Producer>,
    pub(super) consumers: Vec<Consumer>,
    pub(super) producing: Vec<ProducerTask>,
    pub(super) consuming: Vec<ConsumerTask>,
    pub(super) agenda: BTreeMap<(Moment, u64), Due>,
    pub(super) number: u64,
    /// Cores that found nothing to do since something moved.
    idle: BTreeSet<Actor>,
    pub(super) links: Vec<LinkOf>,
    /// Those that are cut silently, now or behind a byte.
    pub(super) silenced: Vec<LinkOf>,
    /// Connections break by themselves.
    pub(super) breaks: bool,
    /// Steps since time went on.
    steps_here: u64,
    /// Channels (producer, consumer) that something went wrong with.
    pub(super) touched: BTreeSet<(usize, usize)>,
    /// Those of workers that others were told are dead.
    pub(super) excused: BTreeSet<(usize, usize)>,
    pub(super) oracle: Oracle,
    pub(super) trace: Trace,
    pub(super) is_settling: bool,
}

impl World {
    pub(super) fn new(seed: u64, traces: bool) -> Result<Self, String> {
        let mut random = Random::new(seed);
        let plan = Plan::new(&mut random);
        Self::of(plan, random, traces)
    }

    /// A world by this plan.
    pub(super) fn of(plan: Plan, mut random: Random, traces: bool) -> Result<Self, String> {
        let network = FakeNetwork::new(random.next(), plan.network.clone());
        let mut world = Self {
            clock: Arc::default(),
            network,
            workers: Vec::new(),
            machines: vec![None; plan.machines.len()],
            producers: Vec::new(),
            consumers: Vec::new(),
            producing: plan.producers.iter().map(|plan| ProducerTask::new(plan.machine)).collect(),
            consuming: plan.consumers.iter().map(|plan| ConsumerTask::new(plan.machine)).collect(),
            agenda: BTreeMap::new(),
            number: 0,
            idle: BTreeSet::new(),
            links: Vec::new(),
            silenced: Vec::new(),
            breaks: plan.network.error > 0,
            steps_here: 0,
            touched: BTreeSet::new(),
            excused: BTreeSet::new(),
            oracle: Oracle::default(),
            trace: Trace::new(traces),
            is_settling: false,
            random,
            plan,
        };
        world.oracle.is_dishonest = world.plan.frames == super::plan::Frames::Broken;
        world.trace.note(|| format!("{:#?}", world.plan));
        for machine in 0..world.machines.len() {
            world.start(machine)?;
        }
        world.deploy_all();
        Ok(world)
    }

    pub(super) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// A machine's worker starts.
    pub(super) fn start(&mut self, machine: usize) -> Verdict {
        if self.machines[machine].is_some() {
            return Ok(());
        }
        let serial = self.workers.len();
        let worker = Worker::start(&self.plan, serial, machine, &self.clock, &self.network)?;
        self.trace.note(|| format!("worker {serial} starts on machine {machine}"));
        self.workers.push(worker);
        self.machines[machine] = Some(serial);
        self.at(self.now().plus(TICK), Due::Tick(serial));
        Ok(())
    }

    /// Whether the worker is the present one of its machine.
    pub(super) fn is_alive(&self, serial: usize) -> bool {
        self.workers.get(serial).is_some_and(|worker| self.machines[worker.machine] == Some(serial))
    }

    /// Everything from the first step to the last check.
    pub(super) fn run(&mut self) -> Verdict {
        for _ in 0..self.plan.steps {
            self.turn()?;
            let faults = self.plan.faults * 1000 / self.plan.steps.max(1) + u64::from(self.plan.faults > 0);
            if self.random.chance(faults) {
                self.fault()?;
            }
        }
        self.settle()?;
        let bound = self.now().plus(END_WITHIN);
        while !self.is_done() {
            if self.now() > bound {
                return Err(self.who_waits());
            }
            self.turn()?;
        }
        self.finish()
    }

    /// One step of somebody, or of time.
    pub(super) fn turn(&mut self) -> Verdict {
        self.trace.step += 1;
        self.oracle.step = self.trace.step;
        if self.random.chance(self.plan.drift) {
            let on = self.now().plus(Duration::from_micros(self.random.of(1..300)));
            self.advance_to(on)?;
        }
        self.steps_here += 1;
        if self.steps_here > STEPS_A_MOMENT {
            return Err("something spins".into());
        }
        let mut actors = self.actors();
        if actors.is_empty() {
            return self.quiet();
        }
        if self.random.chance(self.plan.spurious) {
            actors.extend(self.sleepers());
        }
        let actor = actors[self.random.of(0..actors.len() as u64) as usize];
        self.step(actor)
    }

    fn actors(&self) -> Vec<Actor> {
        let now = self.now();
        let mut actors = Vec::new();
        for worker in self.workers.iter() {
            for (index, core) in worker.cores.iter().enumerate().filter(|(_, core)| core.is_running()) {
                let actor = Actor::Core(worker.serial, index);
                if !self.idle.contains(&actor) || !core.endpoint.bell().is_silent() {
                    actors.push(actor);
                }
            }
        }
        let producers = self.producers.iter().enumerate().filter(|(_, task)| task.may_step(now));
        actors.extend(producers.map(|(index, _)| Actor::Producer(index)));
        let consumers = self.consumers.iter().enumerate().filter(|(_, task)| task.may_step(now));
        actors.extend(consumers.map(|(index, _)| Actor::Consumer(index)));
        actors
    }

    /// Tasks that nobody woke.
    fn sleepers(&self) -> Vec<Actor> {
        let now = self.now();
        let producers =
            self.producers.iter().enumerate().filter(|(_, task)| !task.is_over() && task.until <= now);
        let consumers =
            self.consumers.iter().enumerate().filter(|(_, task)| !task.is_over() && task.until <= now);
        let producers = producers.map(|(index, _)| Actor::Producer(index));
        producers.chain(consumers.map(|(index, _)| Actor::Consumer(index))).collect()
    }

    pub(super) fn step(&mut self, actor: Actor) -> Verdict {
        let moved = match actor {
            Actor::Core(serial, index) => {
                let turned = self.workers[serial].cores[index].turn()?;
                self.take_dials(serial);
                if turned == Turned::Idle {
                    self.idle.insert(actor);
                }
                turned != Turned::Idle
            }
            Actor::Producer(index) => {
                let now = self.now();
                let task = &mut self.producers[index];
                let plan = &self.plan.producers[task.task];
                let moved = task.step(plan, &mut self.oracle, &mut self.random, now)?;
                let until = task.until;
                self.sleep(until);
                moved
            }
            Actor::Consumer(index) => {
                let now = self.now();
                let task = &mut self.consumers[index];
                let (moved, news) = task.step(&mut self.oracle, &mut self.random, now)?;
                let (until, over) = (task.until, task.is_over().then_some(task.task));
                if let Some(task) = over {
                    self.look_at_end(task);
                }
                if let Some(news) = news {
                    self.hear(index, &news);
                }
                self.sleep(until);
                moved
            }
        };
        if moved {
            self.trace.note(|| format!("{actor:?}"));
            self.idle.clear();
        }
        Ok(())
    }

    fn sleep(&mut self, until: Moment) {
        if until > self.now() {
            self.at(until, Due::Wake);
        }
    }

    /// Nobody can do anything at this moment: what must hold then, and on to the next one.
    fn quiet(&mut self) -> Verdict {
        self.check_quiet()?;
        let cores = self.workers.iter().flat_map(|worker| &worker.cores);
        let wishes = cores.filter_map(|core| core.wake_after).min().map(|after| self.now().plus(after));
        let agenda = self.agenda.first_key_value().map(|((at, _), _)| *at);
        let next = [self.network.next_event(), self.clock.next_alarm(), wishes, agenda];
        match next.into_iter().flatten().min() {
            // What lies behind is done with; time goes on by the least there is.
            Some(at) => self.advance_to(at.max(self.now().plus(Duration::from_nanos(1)))),
            None => Err(self.who_waits()),
        }
    }

    pub(super) fn check_quiet(&mut self) -> Verdict {
        self.oracle.marks.note("quiet");
        let producers = &self.producers;
        let is_idle = |task, attempt| {
            let mut all = producers.iter();
            all.find(|other| (other.task, other.attempt) == (task, attempt)).is_none_or(Producer::is_idle)
        };
        self.oracle.check_accounts(is_idle)
    }

    fn advance_to(&mut self, at: Moment) -> Verdict {
        let moment = self.trace.now;
        self.idle.clear();
        self.network.advance_to(at);
        self.clock.advance_to(at);
        self.trace.now = at;
        if moment != at {
            self.steps_here = 0;
            self.oracle.marks.note("moment");
        }
        while let Some(first) = self.agenda.first_entry().filter(|first| first.key().0 <= at) {
            let due = first.remove();
            self.trace.note(|| due.to_string());
            self.due(due)?;
        }
        Ok(())
    }

    /// Turns cores and nothing else until they have come to their end, or for so long.
    pub(super) fn turn_cores(&mut self, longest: Duration) -> Verdict {
        let until = self.now().plus(longest);
        while self.now() <= until && self.workers.iter().any(|worker| !worker.is_over()) {
            self.steps_here += 1;
            if self.steps_here > STEPS_A_MOMENT {
                return Err("the cores don't come to rest".into());
            }
            let actors: Vec<_> =
                self.actors().into_iter().filter(|actor| matches!(actor, Actor::Core(..))).collect();
            if actors.is_empty() {
                self.quiet()?;
                continue;
            }
            let actor = actors[self.random.of(0..actors.len() as u64) as usize];
            self.step(actor)?;
        }
        Ok(())
    }

    pub(super) fn note(&mut self, what: &'static str, line: impl FnOnce() -> String) {
        self.oracle.marks.note(what);
        self.trace.note(line);
    }
}
