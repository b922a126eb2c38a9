//! The two processes of a launch, as they see themselves.
//!
//! Both talk with the process that started them by lines on standard input and output: it tells the [`Job`], when to
//! begin and when to stop, and hears samples and totals. The peer works in a thread of its own meanwhile.

use crate::common::child::{self, Parent};
use crate::common::{AnyError, clock};
use crate::peers::{self, Peer};
use crate::work::{Progress, Stage, Totals};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often a consumer looks whether its first records came.
const LOOK: Duration = Duration::from_millis(1);
/// Time of a launch beside what is measured, until its processes end themselves.
const SLACK: Duration = Duration::from_secs(20);

/// What a launch does: the first message to both processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) peer: String,
    pub(crate) record_bytes: usize,
    pub(crate) seconds: Duration,
}

/// What counts: from and until when, in nanoseconds of the monotonic clock.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Stretch {
    pub(crate) from: u64,
    pub(crate) until: u64,
}

/// A point of a run: what there was so far.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Nanoseconds of the monotonic clock.
    pub(crate) at: u64,
    /// Records read by this process.
    pub(crate) records: u64,
    /// Processor time of this process, in nanoseconds.
    pub(crate) processor: u64,
}

/// What one process found at both ends of a stretch.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) begin: Sample,
    pub(crate) end: Sample,
}

impl Job {
    /// How long the whole launch may take.
    pub(crate) fn limit(&self) -> Duration {
        self.seconds + SLACK
    }

    fn peer(&self) -> Result<&'static dyn Peer, AnyError> {
        let found = peers::ALL.iter().copied().find(|peer| peer.name() == self.peer);
        found.ok_or_else(|| format!("there is no peer {}", self.peer).into())
    }
}

impl Stretch {
    /// Sleeps through the stretch.
    fn measure(self, progress: &Progress) -> Measured {
        clock::sleep_until(self.from);
        let begin = Sample::take(progress);
        clock::sleep_until(self.until);
        Measured { begin, end: Sample::take(progress) }
    }
}

impl Sample {
    fn take(progress: &Progress) -> Self {
        Self { at: clock::now(), records: progress.records(), processor: clock::processor_time() }
    }
}

/// The process of the producer, from its first message to the end.
pub(crate) fn produce() -> Result<(), AnyError> {
    let parent = Parent::attach();
    let job: Job = parent.receive()?;
    limit(&job);
    let peer = job.peer()?;
    let (stage, offered) = Stage::new();
    let stage = Arc::new(stage);
    let task = {
        let stage = stage.clone();
        task(move || peer.produce(job.record_bytes, &stage))
    };
    parent.send(&offered.recv()?)?;

    let stretch: Stretch = parent.receive()?;
    parent.send(&stretch.measure(&Progress::default()))?;
    let () = parent.receive()?;
    stage.stop();
    parent.send(&end(task)?)
}

/// The process of the consumer.
pub(crate) fn consume() -> Result<(), AnyError> {
    let parent = Parent::attach();
    let (job, offer): (Job, Value) = parent.receive()?;
    limit(&job);
    let peer = job.peer()?;
    let progress = Arc::new(Progress::default());
    let task = {
        let progress = progress.clone();
        task(move || peer.consume(job.record_bytes, offer, &progress))
    };
    while progress.records() == 0 {
        thread::sleep(LOOK);
    }
    parent.send(&())?;

    let stretch: Stretch = parent.receive()?;
    parent.send(&stretch.measure(&progress))?;
    parent.send(&end(task)?)
}

fn limit(job: &Job) {
    let peer = job.peer.clone();
    child::limit(job.limit(), move || peer);
}

/// The peer's thread. Its error ends the process: nobody may be waiting for the thread yet.
fn task(work: impl FnOnce() -> Result<Totals, AnyError> + Send + 'static) -> JoinHandle<Totals> {
    thread::spawn(|| work().unwrap_or_else(|error| child::fail(error)))
}

fn end(task: JoinHandle<Totals>) -> Result<Totals, AnyError> {
    task.join().map_err(|_| "the peer panicked".into())
}
