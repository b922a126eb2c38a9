//! The tasks that write, each with its partition.

use crate::common::{AnyError, child};
use crate::options::FlushChoice;
use crate::pace;
use crate::plane::Seat;
use crate::records::{self, Totals};
use crate::run::Job;
use pirn::{
    Attempt, ChannelDescriptor, DataSetId, JobId, PartitionConfig, PartitionId, Policies, RecordWriter,
    Worker,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Segments that subpartitions share, for each of a few: several full sends, and as many on their way.
const FLOATING_SEGMENTS_EACH: u32 = 128;
/// Segments that all partitions of the job share like that, at most: more doesn't fit into the caches.
const FLOATING_SEGMENTS_MOST: u32 = 512;
/// Segments of a partition beside those: for broadcasts.
const OTHER_SEGMENTS: u32 = 4;
/// Segments that the worker keeps beside its partitions.
const SPARE_SEGMENTS: u32 = 128;
/// How long consumers may take to read the rest.
const FINISH_LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Producers {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Totals>>,
}

impl Producers {
    /// Starts the tasks, which write at once as far as there is room; gives each consumer's channels.
    pub(crate) fn start(worker: &Worker, job: &Job) -> Result<(Self, Vec<Vec<ChannelDescriptor>>), AnyError> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = Vec::new();
        let mut channels = vec![Vec::new(); job.consumers() as usize];
        for index in 0..job.producers() {
            let (sender, described) = mpsc::sync_channel(1);
            let (worker, job, stop) = (worker.clone(), job.clone(), stop.clone());
            tasks.push(thread::spawn(move || {
                task(&worker, &job, index, &stop, &sender).unwrap_or_else(|error| child::fail(error))
            }));
            let descriptors = described.recv()?;
            // A consumer's channels of one partition are neighbours.
            let parts = descriptors.chunks(descriptors.len() / channels.len());
            for (channels, part) in channels.iter_mut().zip(parts) {
                channels.extend_from_slice(part);
            }
        }
        Ok((Self { stop, tasks }, channels))
    }

    /// Tells the tasks to stop, and waits until their consumers have read all.
    pub(crate) fn finish(self) -> Result<Totals, AnyError> {
        self.stop.store(true, Ordering::Relaxed); // Relaxed: no data goes with it
        let totals = self.tasks.into_iter().map(|task| task.join().map_err(|_| "a producer panicked"));
        Ok(totals.collect::<Result<Vec<_>, _>>()?.into_iter().sum())
    }
}

/// Segments that all partitions of a job take.
pub(crate) fn segments(job: &Job) -> u32 {
    let one = job.subpartitions() + floating(job) + OTHER_SEGMENTS;
    one.saturating_mul(job.producers()).saturating_add(SPARE_SEGMENTS)
}

fn floating(job: &Job) -> u32 {
    let most = (FLOATING_SEGMENTS_MOST / job.producers()).max(FLOATING_SEGMENTS_EACH);
    job.subpartitions().saturating_mul(FLOATING_SEGMENTS_EACH).min(most)
}

/// One producer task. The network of a caller-driven task is its thread's, so that the partition is created here.
fn task(
    worker: &Worker,
    job: &Job,
    index: u32,
    stop: &AtomicBool,
    described: &mpsc::SyncSender<Vec<ChannelDescriptor>>,
) -> Result<Totals, AnyError> {
    let seat = Seat::take(worker, job.path())?;
    let mut writer = create(worker, job, index)?;
    described.send(writer.descriptors())?;
    let bytes = job.path().record_bytes as usize;
    let totals = match job {
        Job::Throughput(_) => records::produce(&mut writer, bytes, stop)?,
        Job::Latency(options) => pace::produce(&mut writer, options, stop, &seat)?,
    };
    writer.finish_blocking_timeout(FINISH_LIMIT)?;
    Ok(totals)
}

fn create(worker: &Worker, job: &Job, index: u32) -> Result<RecordWriter, AnyError> {
    let partition = PartitionId { job: JobId(1), data_set: DataSetId(1), index };
    let flush = match job {
        Job::Throughput(options) => options.flush,
        Job::Latency(_) => FlushChoice::Every,
    };
    let policies = Policies { flush: flush.into(), ..Policies::default() };
    let config = PartitionConfig::new(job.subpartitions())
        .layout(job.path().record_layout())
        .policies(policies)
        .floating_segments(floating(job));
    Ok(worker.create_partition(partition, Attempt(1), config)?)
}
