//! What all hostile tests share: small workers, records that show when they are torn, the end of a test.

use pirn::{
    Attempt, BindSecret, DataSetId, GateConfig, Incarnation, JobId, MemoryConfig, PartitionConfig,
    PartitionId, Policies, RecordWriter, SegmentClass, WhenAbsent, Worker,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

/// Longer than anything here takes: whoever waits that long is stuck.
pub(crate) const STUCK: Duration = Duration::from_secs(20);
pub(crate) const SEGMENT: usize = 4096;

/// `small` or `full`, by `PIRN_TEST_SIZE`.
pub(crate) fn pick<T>(small: T, full: T) -> T {
    match std::env::var("PIRN_TEST_SIZE").as_deref() {
        Ok("full") => full,
        Ok("small") | Err(std::env::VarError::NotPresent) => small,
        other => panic!("PIRN_TEST_SIZE is small or full, not {other:?}"),
    }
}

pub(crate) fn id(index: u32) -> PartitionId {
    PartitionId { job: JobId(1), data_set: DataSetId(1), index }
}

pub(crate) fn worker(segments: u32) -> Worker {
    let memory = MemoryConfig::new().segments(SegmentClass::K32, 0).segments(SegmentClass::K4, segments);
    Worker::builder().memory(memory).start().unwrap()
}

/// Small segments, and one secret for all attempts.
pub(crate) fn config(subpartitions: u32, when_absent: WhenAbsent) -> PartitionConfig {
    PartitionConfig::new(subpartitions)
        .segment_class(SegmentClass::K4)
        .quota_segments(8)
        .policies(Policies { when_absent, ..Policies::default() })
        .secret(BindSecret::new(7))
}

/// A gate of `attempt` over one subpartition of each writer.
pub(crate) fn reads(attempt: u32, writer: &RecordWriter, target: u32) -> GateConfig {
    GateConfig::new(Attempt(attempt), Incarnation(u64::from(attempt))).channel(writer.descriptor(target))
}

/// A record that carries `number` and shows when a byte of it is another's.
pub(crate) fn record(number: u64, bytes: usize) -> Vec<u8> {
    let mut record = vec![number as u8 ^ bytes as u8; bytes.max(12)];
    record[..8].copy_from_slice(&number.to_le_bytes());
    record[8..12].copy_from_slice(&(bytes.max(12) as u32).to_le_bytes());
    record
}

/// The number of a record that is whole.
#[track_caller]
pub(crate) fn number(bytes: &[u8]) -> u64 {
    let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert_eq!(bytes, record(number, bytes.len()), "torn");
    number
}

/// Nothing is held, nothing is lost track of, and no wake-up had to be looked for.
#[track_caller]
pub(crate) fn end(worker: &Worker) {
    let last = worker.shutdown(Duration::ZERO);
    assert_eq!(last.lost_wakeups, 0);
    let until = Instant::now() + STUCK;
    loop {
        let census = worker.census();
        if census.is_whole() && census.held() == 0 {
            break;
        }
        assert!(Instant::now() < until, "{census:?}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
    assert!(worker.census().classes.iter().all(|class| class.cached == 0), "{:?}", worker.census());
}

/// Counts how often it is woken.
#[derive(Debug, Default)]
pub(crate) struct Counting(pub(crate) AtomicU64);

impl Counting {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Panics when it is woken, and counts it.
#[derive(Debug, Default)]
pub(crate) struct Panicking(pub(crate) AtomicU64);

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("a waker that panics");
    }
}

pub(crate) fn panicking() -> (Arc<Panicking>, Waker) {
    let count = Arc::new(Panicking::default());
    (count.clone(), Waker::from(count))
}

/// Waits until `what` is true.
#[track_caller]
pub(crate) fn until(mut what: impl FnMut() -> bool) {
    let deadline = Instant::now() + STUCK;
    while !what() {
        assert!(Instant::now() < deadline, "stuck");
        std::thread::park_timeout(Duration::from_micros(200));
    }
}
