//! The tasks that read, each a gate over its channels of all partitions.

use crate::common::{AnyError, child, clock};
use crate::latency::{Quantiles, Window};
use crate::plane::Seat;
use crate::records::{self, Progress, Totals};
use crate::run::Job;
use pirn::{Attempt, ChannelDescriptor, GateConfig, Incarnation, Worker};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often the binds are looked at.
const BIND_LOOK: Duration = Duration::from_millis(1);

/// What consumers found in a whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Read {
    pub(crate) totals: Totals,
    pub(crate) quantiles: Option<Quantiles>,
}

#[derive(Debug)]
pub(crate) struct Consumers {
    progress: Vec<Arc<Progress>>,
    window: Arc<Window>,
    channels: u32,
    tasks: Vec<JoinHandle<(Totals, Option<Quantiles>)>>,
}

impl Consumers {
    /// Starts a task for each list of channels.
    pub(crate) fn start(worker: &Worker, job: &Job, channels: Vec<Vec<ChannelDescriptor>>) -> Self {
        let window = Arc::new(Window::default());
        let count = channels.iter().map(|channels| channels.len() as u32).sum();
        let progress: Vec<_> = channels.iter().map(|_| Arc::new(Progress::default())).collect();
        let tasks = channels
            .into_iter()
            .zip(&progress)
            .map(|(channels, progress)| {
                let (worker, job, progress, window) =
                    (worker.clone(), job.clone(), progress.clone(), window.clone());
                thread::spawn(move || {
                    task(&worker, &job, channels, &progress, &window)
                        .unwrap_or_else(|error| child::fail(error))
                })
            })
            .collect();
        Self { progress, window, channels: count, tasks }
    }

    /// Waits until every channel is bound: nothing is measured before.
    pub(crate) fn wait_bound(&self) {
        // Relaxed: nothing hangs on it but the begin of the warm-up.
        while self.progress.iter().map(|one| one.bound.load(Ordering::Relaxed)).sum::<u32>() < self.channels {
            thread::sleep(BIND_LOOK);
        }
    }

    /// The stretch in which latencies count, in nanoseconds of the monotonic clock.
    pub(crate) fn announce(&self, from: u64, until: u64) {
        self.window.set(from, until);
    }

    /// Records read so far.
    pub(crate) fn records(&self) -> u64 {
        self.progress.iter().map(|one| one.records.load(Ordering::Relaxed)).sum() // Relaxed: a statistic
    }

    /// Waits for the ends of all channels.
    pub(crate) fn finish(self) -> Result<Read, AnyError> {
        let (mut totals, mut quantiles) = (Vec::new(), None);
        for task in self.tasks {
            let (part, found) = task.join().map_err(|_| "a consumer panicked")?;
            totals.push(part);
            quantiles = quantiles.or(found);
        }
        Ok(Read { totals: totals.into_iter().sum(), quantiles })
    }
}

/// One consumer task. The network of a caller-driven task is its thread's, so that the gate is made here.
fn task(
    worker: &Worker,
    job: &Job,
    channels: Vec<ChannelDescriptor>,
    progress: &Progress,
    window: &Window,
) -> Result<(Totals, Option<Quantiles>), AnyError> {
    let _seat = Seat::take(worker, job.path())?;
    let config = GateConfig::new(Attempt(1), Incarnation::random()?).channels(channels);
    let mut gate = worker.input_gate(config);
    let bytes = job.path().record_bytes as usize;
    match job {
        Job::Throughput(_) => {
            let totals = records::consume(&mut gate, bytes, progress)?;
            Ok((totals, None))
        }
        Job::Latency(_) => {
            let (totals, quantiles) = window.consume(&mut gate, progress)?;
            Ok((totals, Some(quantiles)))
        }
    }
}

/// A point of a run: what there was so far.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) at: u64,
    /// Read by the consumers of this process.
    pub(crate) records: u64,
    /// Processor time of this process.
    pub(crate) processor: u64,
    pub(crate) network: Option<crate::plane::Counters>,
}

impl Sample {
    pub(crate) fn take(worker: &Worker, consumers: Option<&Consumers>) -> Self {
        Self {
            at: clock::now(),
            records: consumers.map_or(0, Consumers::records),
            processor: clock::processor_time(),
            network: crate::plane::counters(worker),
        }
    }
}
