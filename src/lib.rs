//! Pirn, a shuffle data plane.

mod memory;
mod sync;

pub use memory::{Census, ClassCensus, MemoryConfig, MemoryError, SegmentClass};
