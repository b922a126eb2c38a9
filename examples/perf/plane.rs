//! Everything that this program asks of Pirn's network, in one place.

use crate::common::{AnyError, clock};
use crate::options::Path;
use pirn::{ChannelDescriptor, MemoryConfig, SegmentClass, Worker};
use serde::{Deserialize, Serialize};

/// What the network of one process did since its start.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Counters {
    /// Calls that submit to the kernel or wait in it.
    pub(crate) enters: u64,
    /// Wake-ups of threads, by futex or eventfd.
    pub(crate) wakes: u64,
    /// Sends that asked for no copy, and those of them that the kernel copied.
    pub(crate) zero_copy_sends: u64,
    pub(crate) zero_copy_copied: u64,
}

/// Starts the worker of one process, with `segments` for its partitions.
pub(crate) fn start(path: &Path, segments: u32) -> Result<Worker, AnyError> {
    let memory = MemoryConfig::new().segments(SegmentClass::K32, segments.max(2048));
    let builder = Worker::builder().memory(memory);
    if !path.local {
        return Err("records move within one process only so far: say --local".into());
    }
    Ok(builder.start()?)
}

/// The way by which the worker moves bytes.
pub(crate) fn io_name(_worker: &Worker) -> String {
    "local".into()
}

pub(crate) fn counters(_worker: &Worker) -> Option<Counters> {
    None
}

/// What a task's thread keeps while it reads or writes.
#[derive(Debug)]
pub(crate) struct Seat;

impl Seat {
    pub(crate) fn take(_worker: &Worker, _path: &Path) -> Result<Self, AnyError> {
        Ok(Self)
    }

    /// Waits until the monotonic clock is at `at`, in nanoseconds.
    pub(crate) fn wait_until(&mut self, at: u64) -> Result<(), AnyError> {
        clock::sleep_until(at);
        Ok(())
    }
}

/// A descriptor as bytes for another process.
pub(crate) fn pack(_descriptor: &ChannelDescriptor) -> Vec<u8> {
    Vec::new()
}

/// A descriptor of another process.
pub(crate) fn unpack(_bytes: &[u8]) -> Result<ChannelDescriptor, AnyError> {
    Err("records move within one process only so far".into())
}
