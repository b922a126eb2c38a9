//! Pirn, a shuffle data plane.

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
mod partition;
mod record;
mod subpartition;
mod sync;
#[cfg(all(test, not(loom)))]
mod test_size;
#[cfg(not(loom))]
mod worker;
mod writer;

pub use clock::{Clock, Moment};
pub use error::{BindError, Cause, WriteError};
pub use event::{Event, PriorityEvent};
pub use gate::{
    ChannelSnapshot, ChannelState, GateConfig, GateError, GateHandle, GateStream, HandleError, InputGate,
    Item, ItemOf, LossReport, Next, OwnedItem, OwnedRecord, Receipt, Record, TryNext, Update, WhyBlocked,
};
pub use id::{Attempt, BindEpoch, BindSecret, DataSetId, Incarnation, JobId, PartitionId};
pub use memory::{Census, ClassCensus, MemoryConfig, MemoryError, SegmentClass};
pub use partition::{
    ChannelDescriptor, CreateError, Location, PartitionConfig, PartitionSnapshot, SubpartitionSnapshot,
};
pub use record::{LayoutError, RecordLayout};
pub use subpartition::{
    Account, Amount, BeforeFirstBind, DroppedEvents, Flush, Losses, Phase, Policies, WhenAbsent, WhenFull,
    WhenRetained,
};
#[cfg(not(loom))]
pub use worker::{StartError, Worker, WorkerBuilder, WorkerSnapshot};
pub use writer::{
    Broadcast, Finish, Forward, Hash, Partitioner, Reach, RecordSink, RecordWriter, RoundRobin, SendEvent,
    Target, TryWriteError, WaitError, WhyBlocked as WhyWriterBlocked, Write, Written,
};
