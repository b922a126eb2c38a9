//! Everything that this program asks of Pirn beside writers and gates, in one place.

use crate::common::network::Cluster;
use crate::common::{AnyError, clock};
use crate::options::{Driver, Path};
use pirn::{MemoryConfig, Reactor, SegmentClass, Worker};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Segments that a worker has at least: the default of the library.
const SEGMENTS_LEAST: u32 = 2048;

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

/// Starts the worker of one process, with `segments` for its partitions. Without a cluster it has no network.
pub(crate) fn start(path: &Path, cluster: Option<&Cluster>, segments: u32) -> Result<Worker, AnyError> {
    let memory = MemoryConfig::new().segments(SegmentClass::K32, segments.max(SEGMENTS_LEAST));
    let mut builder = Worker::builder().memory(memory);
    if let Some(cluster) = cluster {
        builder = cluster.join(builder).zero_copy(path.zero_copy.into());
        if path.driver == Driver::Caller {
            builder = builder.driver(pirn::Driver::Caller);
        }
    }
    Ok(builder.start()?)
}

/// The way by which the worker moves bytes.
pub(crate) fn io_name(path: &Path, worker: &Worker) -> String {
    let net = worker.snapshot().net;
    match (path.local, net.by_uring, net.by_epoll) {
        (true, ..) => "local".into(),
        (false, 1.., 0) => "uring".into(),
        (false, 0, 1..) => "epoll".into(),
        _ => path.io.to_string(),
    }
}

/// The counters of a worker that has a network.
pub(crate) fn counters(worker: &Worker) -> Option<Counters> {
    let snapshot = worker.snapshot();
    snapshot.network.map(|_| Counters {
        enters: snapshot.net.enters,
        // A thread that slept costs a call of its own and one of who woke it.
        wakes: snapshot.net.wakes + 2 * snapshot.parks,
        zero_copy_sends: snapshot.net.zero_copy_sends,
        zero_copy_copied: snapshot.net.zero_copy_copied,
    })
}

/// What a task's thread keeps while it reads or writes: the reactor that it turns, if it does that itself.
#[derive(Debug)]
pub(crate) struct Seat(Option<Reactor>);

impl Seat {
    /// On the task's own thread, before its partition or gate is made.
    pub(crate) fn take(worker: &Worker, path: &Path) -> Result<Self, AnyError> {
        let turns = !path.local && path.driver == Driver::Caller;
        Ok(Self(if turns { Some(worker.reactor()?) } else { None }))
    }

    /// Waits until the monotonic clock is at `at`, in nanoseconds.
    pub(crate) fn wait_until(&self, at: u64) -> Result<(), AnyError> {
        let Some(reactor) = &self.0 else {
            clock::sleep_until(at);
            return Ok(());
        };
        loop {
            match at.saturating_sub(clock::now()) {
                0 => return Ok(()),
                left => reactor.turn(Some(Duration::from_nanos(left)))?,
            }
        }
    }
}
