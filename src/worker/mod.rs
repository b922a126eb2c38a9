//! A worker: one process's memory, partitions and control thread, from start to shutdown.
#![forbid(unsafe_code)]

mod clock;
mod control;
mod liveness;
mod network;
mod reactor;
mod settings;
mod snapshot;
#[cfg(all(test, not(loom)))]
mod tests;
mod threads;

pub use reactor::Reactor;
pub use snapshot::{NetworkSnapshot, PeerSnapshot, PeerState, WorkerSnapshot};
pub use threads::Driver;

use crate::clock::Clock;
use crate::error::Cause;
use crate::gate::{GateConfig, InputGate};
use crate::id::{Attempt, BindSecret, JobId, PartitionId};
use crate::memory::{Census, MemoryConfig, MemoryError, SegmentPool};
use crate::metrics::cold_event;
use crate::partition::{CreateError, Home, Manager, Network, PartitionConfig, WaitLimits};
use crate::sync::{Mutex, lock, parks};
use crate::transport::TransportError;
use crate::writer::RecordWriter;
use clock::WorkerClock;
use control::ControlHandle;
use network::NetworkSettings;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use thiserror::Error;
use threads::{Drive, Threads};

/// How long a shutdown sleeps between two looks at what still drains.
const DRAIN_LOOK: Duration = Duration::from_millis(1);
/// How long the network threads may take to say the last words to other workers.
const LAST_WORDS: Duration = Duration::from_millis(10);

/// Settings of a worker. Memory is bounded at start: nothing of the data path grows later.
#[derive(Clone, Debug, Default)]
pub struct WorkerBuilder {
    memory: MemoryConfig,
    waits: WaitLimits,
    network: NetworkSettings,
    drive: Drive,
}

/// Why a worker doesn't start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The arena.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The control thread.
    #[error("the control thread can't be started: {0}; raise the limit of threads")]
    Thread(std::io::Error),
    /// The address to listen at.
    #[error("can't listen at {address}: {error}; choose an address of this machine that is free, or port 0")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the operating system says.
        error: std::io::Error,
    },
    /// A worker that listens is open to everybody without a token.
    #[error(
        "a worker that listens needs `cluster_token`, or `insecure_without_token` where nobody else can connect"
    )]
    NoToken,
    /// Settings of the network that don't go together.
    #[error("the network settings don't fit: {what}")]
    Network {
        /// What doesn't fit, and what to do.
        what: &'static str,
    },
    /// The transport of a network thread.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// A thread turns one reactor at most.
    #[error("this thread has a reactor already; drop it first, or make the other one on another thread")]
    HasReactor,
    /// Reactors are for sockets.
    #[error("this worker has no network to turn a reactor for; give its builder an address with `listen`")]
    NoNetwork,
    /// What the control thread needs of the operating system.
    #[error("the control thread lacks what it needs: {0}; raise the limit of open files")]
    Poll(std::io::Error),
}

impl WorkerBuilder {
    /// Maps the arena and starts the control thread.
    ///
    /// # Errors
    /// The memory can't be mapped, a setting doesn't fit, the address can't be had, or there is no thread.
    pub fn start(self) -> Result<Worker, StartError> {
        let network = self.network.check()?;
        let pool = SegmentPool::new(&self.memory)?;
        for note in pool.notes() {
            cold_event!(info, note = *note, "arena");
        }
        let clock = WorkerClock::new();
        let manager = Manager::new(pool, clock.clone(), self.waits);
        let looked_after = Arc::downgrade(&manager);
        let look_after = move || {
            if let Some(manager) = looked_after.upgrade() {
                manager.housekeeping();
            }
        };
        let (network, thread) = match network {
            None => (None, clock.start(look_after).map_err(StartError::Thread)?),
            Some(network) => {
                let (handle, thread) = control::start(network, self.drive.io, &clock, look_after)?;
                (Some(handle), thread)
            }
        };
        let mut inner = Inner { manager, clock, network, threads: None, control: Mutex::new(Some(thread)) };
        // From here on dropping `inner` ends the control thread.
        if let Some(control) = &inner.network {
            inner.threads = Some(Threads::start(&inner.manager, control, self.drive)?);
            inner.manager.set_home(Home { socket: control.address(), endpoints: self.drive.threads() });
        }
        Ok(Worker(Arc::new(inner)))
    }
}

/// A running worker. Clones share it; it ends when the last is dropped, or by [`Worker::shutdown`].
#[derive(Clone, Debug)]
pub struct Worker(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    manager: Arc<Manager>,
    clock: Arc<WorkerClock>,
    network: Option<ControlHandle>,
    threads: Option<Threads>,
    control: Mutex<Option<JoinHandle<()>>>,
}

impl Worker {
    /// The settings of a worker to be started.
    #[must_use]
    pub fn builder() -> WorkerBuilder {
        WorkerBuilder::default()
    }

    /// Creates attempt `attempt` of a partition and gives its writer. An older attempt that is still here is
    /// closed, and its readers and writer are told.
    ///
    /// # Errors
    /// The memory isn't there (with needed, free and limit), the same or a newer attempt is, the
    /// configuration doesn't fit, or the job or the worker is at its end.
    pub fn create_partition(
        &self,
        partition: PartitionId,
        attempt: Attempt,
        config: PartitionConfig,
    ) -> Result<RecordWriter, CreateError> {
        let secret = match config.given_secret() {
            Some(secret) => secret,
            None => BindSecret::random()
                .map_err(|error| CreateError::Config { what: format!("no random secret: {error}") })?,
        };
        let own = self.0.threads.as_ref().and_then(|threads| threads.network().own());
        let endpoint = own.map(|endpoint| endpoint.number());
        let config = if endpoint.is_some() { config.for_a_sending_task() } else { config };
        let parts = self.0.manager.create_at(partition, attempt, config, secret, endpoint)?;
        Ok(RecordWriter::new(parts, self.0.manager.clock().clone()))
    }

    /// An input gate for one consumer task attempt. Channels are bound when the gate is first polled.
    #[must_use]
    pub fn input_gate(&self, config: GateConfig) -> InputGate {
        let network = self.0.threads.as_ref().map(|threads| threads.network() as Arc<dyn Network>);
        InputGate::with_network(self.0.manager.clone(), network, config)
    }

    /// A reactor for the calling thread, which turns it itself: by [`Reactor::turn`], and in every call of this
    /// library that blocks. While it lives, partitions that the thread creates are served by it, and its gates'
    /// remote channels are read by it, whatever the worker's [`Driver`].
    ///
    /// # Errors
    /// The worker doesn't listen, the thread has a reactor, or the transport or its memory can't be had.
    pub fn reactor(&self) -> Result<Reactor, StartError> {
        let (Some(control), Some(threads)) = (&self.0.network, &self.0.threads) else {
            return Err(StartError::NoNetwork);
        };
        let turned = threads.reactor(&self.0.manager, control)?;
        Ok(Reactor::new(turned, control.endpoints().clone()))
    }

    /// Ends an attempt of a partition at once. False if it isn't here.
    pub fn release_partition(&self, partition: PartitionId, attempt: Attempt) -> bool {
        self.0.manager.release(partition, attempt, Cause::Released)
    }

    /// Ends everything of a job: partitions at once, waiting binds with an answer. Returns how many
    /// partitions there were. The job can't create any more.
    pub fn release_job(&self, job: JobId) -> usize {
        self.0.manager.release_job(job)
    }

    /// A picture of everything that is here.
    #[must_use]
    pub fn snapshot(&self) -> WorkerSnapshot {
        let manager = &self.0.manager;
        WorkerSnapshot {
            partitions: manager.snapshot(),
            census: manager.pool().census(),
            binds_waiting: manager.waiting(),
            lost_wakeups: manager.counts.lost_wakeups(),
            parks: parks(),
            network: self.0.network.as_ref().map(ControlHandle::snapshot),
            net: self.0.threads.as_ref().map(Threads::snapshot).unwrap_or_default(),
        }
    }

    /// Where other workers reach this one: as advertised, with the port that is listened at. None without
    /// [`WorkerBuilder::listen`].
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.0.network.as_ref().map(ControlHandle::address)
    }

    /// Where the arena's segments are.
    #[must_use]
    pub fn census(&self) -> Census {
        self.0.manager.pool().census()
    }

    /// Takes no new partitions and binds, lets what is here come to its end for at most `deadline` (partitions, and
    /// ends that tasks have consumed and that the producers' workers haven't confirmed), then ends the rest. Blocks the calling thread; returns the last picture before the end.
    pub fn shutdown(&self, deadline: Duration) -> WorkerSnapshot {
        let clock = &self.0.clock;
        let until = clock.now().plus(deadline);
        self.0.manager.close_door();
        let is_done = || {
            let unsaid = self.0.threads.as_ref().map_or(0, |threads| threads.snapshot().ends_unsaid);
            self.0.manager.is_empty() && unsaid == 0
        };
        while !is_done() && clock.now() < until {
            std::thread::park_timeout(DRAIN_LOOK);
        }
        let last = self.snapshot();
        self.0.end();
        last
    }
}

impl Inner {
    fn end(&self) {
        self.manager.shutdown();
        if let Some(threads) = &self.threads {
            threads.stop(LAST_WORDS);
        }
        self.clock.stop();
        let control = lock(&self.control).take();
        // A worker that is dropped by a waker on its own control thread must not wait for itself.
        if let Some(control) = control
            && control.thread().id() != std::thread::current().id()
            && control.join().is_err()
        {
            cold_event!(error, "the control thread panicked");
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.end();
    }
}
