//! One measurement: producers here, consumers in a child process or here, a warm-up, a stretch that counts, and the
//! comparison of what was written with what was read.

use crate::common::child::{self, Child, Parent};
use crate::common::network::{self, Cluster};
use crate::common::{AnyError, clock};
use crate::consumers::{Consumers, Read, Sample};
use crate::options::{Latency, Path, Throughput};
use crate::plane;
use crate::producers::{self, Producers};
use crate::report::Bar;
use pirn::{ChannelDescriptor, Worker};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const WARM_UP: Duration = Duration::from_millis(600);
/// What a run may take beside warm-up and measurement.
const SLACK: Duration = Duration::from_secs(45);
const SHUTDOWN: Duration = Duration::from_secs(1);

/// What is measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Job {
    Throughput(Throughput),
    Latency(Latency),
}

/// The first message to the process of the consumers.
#[derive(Debug, Serialize, Deserialize)]
struct Begin {
    job: Job,
    cluster: Cluster,
    /// Each consumer's channels.
    channels: Vec<Vec<Vec<u8>>>,
}

/// What counts: from and until when, in nanoseconds of the monotonic clock.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Stretch {
    from: u64,
    until: u64,
}

/// What was done between two samples of one process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) begin: Sample,
    pub(crate) end: Sample,
}

/// A run that came to its end, with the same records on both sides.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Of each process; the one with the consumers is the last.
    pub(crate) processes: Vec<Done>,
    pub(crate) read: Read,
    pub(crate) io: String,
}

impl Job {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Throughput(options) => &options.path,
            Self::Latency(options) => &options.path,
        }
    }

    pub(crate) fn producers(&self) -> u32 {
        match self {
            Self::Throughput(options) => options.producers,
            Self::Latency(_) => 1,
        }
    }

    pub(crate) fn consumers(&self) -> u32 {
        match self {
            Self::Throughput(options) => options.consumers,
            Self::Latency(_) => 1,
        }
    }

    /// Subpartitions of each partition.
    pub(crate) fn subpartitions(&self) -> u32 {
        match self {
            Self::Throughput(options) => options.consumers * options.channels_per_consumer,
            Self::Latency(_) => 1,
        }
    }

    fn seconds(&self) -> Duration {
        match self {
            Self::Throughput(options) => options.seconds,
            Self::Latency(options) => options.seconds,
        }
    }
}

/// Runs a job to its end.
pub(crate) fn run(job: &Job) -> Result<Outcome, AnyError> {
    let cluster = if job.path().local { None } else { Some(Cluster::new(job.path().io)?) };
    let worker = plane::start(job.path(), cluster.as_ref(), producers::segments(job))?;
    limit(job, &worker);
    let (producers, channels) = Producers::start(&worker, job)?;
    let mut readers = Readers::start(&worker, job, cluster, channels)?;
    readers.wait_bound()?;

    let from = clock::now() + clock::span(WARM_UP);
    let stretch = Stretch { from, until: from + clock::span(job.seconds()) };
    readers.announce(stretch)?;
    let here = Done::watch(&worker, readers.here(), stretch, &Bar::new(stretch.from, stretch.until)?);
    let mut processes = vec![here];
    processes.extend(readers.there()?);

    let written = producers.finish()?;
    let read = readers.finish()?;
    if read.totals != written {
        return Err(format!("written {written:?}, read {:?}", read.totals).into());
    }
    let io = plane::io_name(job.path(), &worker);
    end(&worker)?;
    Ok(Outcome { processes, read, io })
}

/// The process of the consumers, from its first message to the end.
pub(crate) fn consume() -> Result<(), AnyError> {
    let parent = Parent::attach();
    let Begin { job, cluster, channels } = parent.receive()?;
    let channels = channels.iter().map(|channels| network::unpack(channels)).collect::<Result<_, _>>()?;
    let worker = plane::start(job.path(), Some(&cluster), 0)?;
    limit(&job, &worker);
    let consumers = Consumers::start(&worker, &job, channels);
    consumers.wait_bound();
    parent.send(&())?;

    let stretch: Stretch = parent.receive()?;
    consumers.announce(stretch.from, stretch.until);
    let Done { begin, end: last } = Done::watch(&worker, Some(&consumers), stretch, &Bar::hidden());
    parent.send(&(begin, last))?;
    parent.send(&consumers.finish()?)?;
    end(&worker)
}

fn limit(job: &Job, worker: &Worker) {
    let worker = worker.clone();
    child::limit(WARM_UP + job.seconds() + SLACK, move || format!("{:?}", worker.snapshot()));
}

fn end(worker: &Worker) -> Result<(), AnyError> {
    match worker.shutdown(SHUTDOWN).lost_wakeups {
        0 => Ok(()),
        lost => Err(format!("{lost} wake-ups got lost").into()),
    }
}

impl Done {
    fn watch(worker: &Worker, consumers: Option<&Consumers>, stretch: Stretch, bar: &Bar) -> Self {
        bar.sleep_until(stretch.from);
        let begin = Sample::take(worker, consumers);
        bar.sleep_until(stretch.until);
        Self { begin, end: Sample::take(worker, consumers) }
    }
}

/// The consumers, wherever they are.
#[derive(Debug)]
enum Readers {
    Here(Consumers),
    There(Child),
}

impl Readers {
    /// Without a cluster they are here.
    fn start(
        worker: &Worker,
        job: &Job,
        cluster: Option<Cluster>,
        channels: Vec<Vec<ChannelDescriptor>>,
    ) -> Result<Self, AnyError> {
        let Some(cluster) = cluster else {
            return Ok(Self::Here(Consumers::start(worker, job, channels)));
        };
        let channels = channels.iter().map(|channels| network::pack(channels)).collect();
        let mut child = Child::spawn("the process of the consumers", &["consume"])?;
        child.send(&Begin { job: job.clone(), cluster, channels })?;
        Ok(Self::There(child))
    }

    fn wait_bound(&mut self) -> Result<(), AnyError> {
        match self {
            Self::Here(consumers) => consumers.wait_bound(),
            Self::There(child) => child.receive()?,
        }
        Ok(())
    }

    fn announce(&mut self, stretch: Stretch) -> Result<(), AnyError> {
        match self {
            Self::Here(consumers) => {
                consumers.announce(stretch.from, stretch.until);
                Ok(())
            }
            Self::There(child) => child.send(&stretch),
        }
    }

    fn here(&self) -> Option<&Consumers> {
        match self {
            Self::Here(consumers) => Some(consumers),
            Self::There(_) => None,
        }
    }

    /// What their own process did, if they have one.
    fn there(&mut self) -> Result<Option<Done>, AnyError> {
        match self {
            Self::Here(_) => Ok(None),
            Self::There(child) => {
                let (begin, end) = child.receive()?;
                Ok(Some(Done { begin, end }))
            }
        }
    }

    fn finish(self) -> Result<Read, AnyError> {
        match self {
            Self::Here(consumers) => consumers.finish(),
            Self::There(mut child) => {
                let read = child.receive()?;
                child.wait()?;
                Ok(read)
            }
        }
    }
}
