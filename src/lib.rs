//! Pirn, a shuffle data plane.

mod sync;
