//! How records lie in bytes: written in pieces, found again in the middle, put together at the reader.
//!
//! The stream of a subpartition is cut into entries, contiguous ranges of at most
//! [`walk::ENTRY_BYTES_MAX`] bytes, and a record goes on from one to the next where it doesn't fit:
//!
//! ```text
//!  entry k  first = 0                 entry k+1  first = NONE   entry k+2  first = 5
//!  +----+-------+----+-----------+    +------------------+      +-------+----+------+---
//!  | 11 | ...   | 90 | ...       | -> | ...              |  ->  | ...   |  6 | ...  |
//!  +----+-------+----+-----------+    +------------------+      +-------+----+------+---
//!  u32 length, payload                no record starts here      5 bytes left of the long one
//! ```
//!
//! Three rules make every entry readable without the one before it, which is what a view needs that is
//! bound in mid-stream and must deliver whole records only:
//!
//! 1. A length prefix is never split. A writer with fewer than 4 bytes of room closes the entry, so that
//!    the end of an entry is a record end or lies in a payload (or right before one).
//! 2. [`First`] says, from the moment the entry is opened, where the first record starts in it.
//! 3. What is published of an open entry ends at a record end; only a finished entry ends elsewhere.
//!
//! An ABORT breaks a record off: the rest of it never comes and the next entry starts with a record.
//!
//! Everything here is arithmetic over bytes lent by the caller: no I/O, no clock, no atomics. Bytes are
//! not trusted. A length that can't be true is answered with [`Boundary::Beyond`] or a [`Refused`], never
//! with a panic, a loop, or memory taken on its word.

#![forbid(unsafe_code)]

mod assemble;
mod layout;
mod run;
mod walk;
mod write;

#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use assemble::{Admission, Assembler, Found, Refused};
pub use layout::RecordLayout;
pub(crate) use layout::{LayoutError, RECORD_BYTES_LEAST};
pub(crate) use run::{Run, Steps};
pub(crate) use walk::{Boundary, EntryFacts, First, UNIFORM_NONE, boundary_at_or_after, ends_until};
pub(crate) use write::RecordCursor;
