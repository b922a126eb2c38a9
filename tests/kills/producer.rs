//! The producer: writes at a steady pace, and logs what came of every record when the call returned.

use crate::common::{SUBPARTITIONS, fill, now, producer_log, sleep};
use crate::log::Log;
use pirn::{RecordWriter, TryWriteError, Written};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What a log holds of a record that was queued.
pub(crate) const QUEUED: u8 = 1;
/// The same of one that the policy dropped.
pub(crate) const DROPPED: u8 = 2;

/// The most that a subpartition that lags gets in one round: the others wait so long.
const BURST: u64 = 128;
/// Between two rounds.
const REST: Duration = Duration::from_micros(500);

/// The producer task's thread.
pub(crate) struct Producer {
    stop: Arc<AtomicBool>,
    logs: Arc<Vec<Log>>,
    thread: JoinHandle<Produced>,
}

/// What the producer leaves.
pub(crate) struct Produced {
    pub(crate) writer: RecordWriter,
    /// Records written to each subpartition.
    pub(crate) written: Vec<u64>,
    /// Rounds in which a subpartition had no room.
    pub(crate) full: Vec<u64>,
}

impl Producer {
    /// Writes `rate` records a second to all subpartitions together.
    pub(crate) fn start(mut writer: RecordWriter, folder: &Path, rate: u64) -> Self {
        let open = |index| Log::open(&producer_log(folder, index)).unwrap();
        let logs: Arc<Vec<Log>> = Arc::new((0..SUBPARTITIONS).map(open).collect());
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, log) = (stop.clone(), logs.clone());
        let thread = thread::spawn(move || {
            let mut written = vec![0; log.len()];
            let mut full = vec![0; log.len()];
            let mut record = Vec::new();
            let mut queued_before = run_queue_nanos();
            let start = now();
            while !stopped.load(Ordering::SeqCst) {
                let due = (now() - start) * rate / u64::from(SUBPARTITIONS) / 1_000_000_000;
                for (index, log) in log.iter().enumerate() {
                    let next: &mut u64 = &mut written[index];
                    let until = due.min(*next + BURST);
                    while *next < until {
                        fill(&mut record, index as u32, *next);
                        match writer.try_write(index as u32, &record) {
                            Ok(Written::Queued) => log.note(*next, QUEUED),
                            Ok(_) => log.note(*next, DROPPED),
                            Err(TryWriteError::Full) => {
                                full[index] += 1;
                                break;
                            }
                            Err(error) => panic!("record {next} to {index}: {error}"),
                        };
                        *next += 1;
                    }
                    log.tick(now());
                }
                let lies_down = now();
                sleep(REST);
                let overslept = (now() - lies_down).saturating_sub(REST.as_nanos() as u64);
                // In the middle of a round the machine can stall this thread as well.
                let queued = run_queue_nanos();
                let stalled = overslept.max(queued - queued_before);
                queued_before = queued;
                log.iter().for_each(|log| log.stall(stalled));
            }
            Produced { writer, written, full }
        });
        Self { stop, logs, thread }
    }

    /// The longest time between two rounds in `stretch`, in nanoseconds.
    pub(crate) fn longest_gap(&self, stretch: u64) -> u64 {
        self.logs[0].longest_gap(stretch, now())
    }

    pub(crate) fn begin_stretch(&self, stretch: u64) {
        self.logs.iter().for_each(|log| log.begin_stretch(stretch, now()));
    }

    /// The logs of all subpartitions.
    pub(crate) fn logs(&self) -> &[Log] {
        &self.logs
    }

    pub(crate) fn stop(self) -> (Produced, Arc<Vec<Log>>) {
        self.stop.store(true, Ordering::SeqCst);
        (self.thread.join().expect("the producer's faults are told"), self.logs)
    }
}

/// How long the calling thread has been ready to run and didn't, all in all. 0 where the kernel doesn't count it.
fn run_queue_nanos() -> u64 {
    let counts = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    counts.split(' ').nth(1).and_then(|nanos| nanos.parse().ok()).unwrap_or_default()
}
