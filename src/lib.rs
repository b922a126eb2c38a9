//! A shuffle data plane: moves records from the subpartitions of producer tasks to the input channels of
//! consumer tasks, for engines that embed it.
//!
//! A [`Worker`] owns the memory of one process, and its sockets if it listens: io_uring, or epoll where that is
//! refused, turned by network threads or by the tasks themselves ([`Driver`], [`Reactor`]). A producer task gets a
//! [`RecordWriter`] for its partition, a consumer task an [`InputGate`] over the subpartitions that it reads.
//! Between them lies a lock-free ring of segments for each pair, and a connection if they are of two processes. A
//! failed task is an event of its own channels, never of the job: healthy tasks go on, the replacement is fenced in
//! by its attempt number, and every record is accounted for.
//!
//! # Guarantees
//!
//! 1. **Order**: records of one writer to one subpartition are yielded in the order written, whole.
//! 2. **Once**: a record is handed to at most one reader of an attempt, and under `Discard` and `Retain` to at
//!    most one reader at all. Under `Replay` it arrives at least once while its writer lives.
//! 3. **The newest attempt reads.** Whatever the order in which attempts bind, the newest ends up as the
//!    reader; older ones are refused ([`BindError::Stale`]) or fenced. Nobody waits for the old one.
//! 4. **No torn record**: after a bind the first byte yielded is the first byte of a record.
//! 5. **The account**: `written = delivered + lost + in doubt + queued`, in records and bytes, exactly at every
//!    quiet point ([`Account`]). Losses say their cause.
//! 6. **Bounded memory**: the arena is mapped at start; a partition reserves its part or isn't created. One
//!    absent consumer never takes the memory of its siblings.
//! 7. **No waiting in `poll_*`**: nothing blocks but the calls whose names say so.
//!
//! # Not here
//!
//! Scheduling, checkpoints, state, serialisation: they are the engine's. Events carry the engine's barriers
//! and watermarks in order; nothing blocks on them by itself. A connection that is lost ends the binds that it
//! carried, which begin anew by the next one: what was under way is told as lost or in doubt. Persistent partitions
//! and a control layer are to come.
//!
//! # Map
//!
//! [`Worker`] → [`PartitionConfig`], [`RecordWriter`], [`ChannelDescriptor`] → [`GateConfig`], [`InputGate`],
//! [`Item`]. Policies: [`Policies`]. Numbers: [`Worker::snapshot`]. `docs/ARCHITECTURE.md` has the picture.

#![cfg_attr(
    loom,
    allow(dead_code, unused_imports, reason = "models drive what lies below workers and sockets")
)]

mod clock;
mod doorbell;
mod error;
mod event;
mod gate;
mod id;
mod inbox;
mod memory;
mod metrics;
#[cfg(loom)]
#[doc(hidden)]
pub mod model;
#[cfg(not(loom))]
mod net;
mod partition;
#[cfg(not(loom))]
mod protocol;
mod record;
mod rules;
#[cfg(all(test, not(loom)))]
mod sim;
mod subpartition;
mod sync;
#[cfg(all(test, not(loom)))]
mod test_size;
#[cfg(not(loom))]
mod transport;
mod wire;
#[cfg(not(loom))]
mod worker;
mod writer;

pub use clock::{Clock, Moment};
pub use error::{BindError, Cause, WriteError};
pub use event::{Event, PriorityEvent};
pub use gate::{
    ChannelSnapshot, ChannelState, GateConfig, GateError, GateHandle, GateStream, HandleError, InputGate,
    Item, ItemOf, LossReport, Next, OwnedItem, OwnedRecord, ProducerTail, Receipt, Record, Records, TryNext,
    Update, WhyBlocked,
};
pub use id::{
    Attempt, BindEpoch, BindSecret, DataSetId, Incarnation, JobId, PartitionId, RemoteAddress, WorkerId,
};
pub use memory::{Census, ClassCensus, MemoryConfig, MemoryError, SegmentClass};
#[cfg(not(loom))]
pub use net::NetSnapshot;
pub use partition::{
    ChannelDescriptor, CreateError, DescriptorError, Location, PartitionConfig, PartitionSnapshot,
    SubpartitionSnapshot,
};
pub use record::RecordLayout;
pub use subpartition::{
    Account, Amount, BeforeFirstBind, DroppedEvents, Flush, Losses, Phase, Policies, WhenAbsent, WhenFull,
    WhenRetained,
};
#[cfg(not(loom))]
pub use transport::{Io, TransportError, UnknownIo, ZeroCopy};
#[cfg(not(loom))]
pub use worker::{
    Driver, NetworkSnapshot, PeerSnapshot, PeerState, Reactor, StartError, Worker, WorkerBuilder,
    WorkerSnapshot,
};
pub use writer::{
    BatchWritten, Broadcast, Finish, Forward, Hash, Partitioner, Reach, RecordSink, RecordWriter, RoundRobin,
    SendEvent, Target, TryWriteError, WaitError, Write, WriteBatch, WriterBlocked, Written,
};

/// The README's program, compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[derive(Debug)]
pub struct Readme;
