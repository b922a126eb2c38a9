//! Memory of a worker: one arena of segments, bounded at start, shared by counted holds.

mod backing;
mod budget;
mod cache;
mod census;
mod config;
mod free_list;
mod hold;
mod open;
mod pool;
mod segment;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use budget::{Budget, Charge, Exhausted};
pub(crate) use cache::SegmentCache;
pub use census::{Census, ClassCensus};
pub use config::{MemoryConfig, MemoryError, SegmentClass};
pub(crate) use hold::{Hold, Lent};
pub(crate) use open::OpenSegment;
pub(crate) use pool::SegmentPool;
pub(crate) use segment::SegmentName;
