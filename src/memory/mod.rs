//! Memory of a worker: one arena of segments, bounded at start, shared by counted holds.
//!
//! # Guarantees
//! Lock-free; nothing is allocated from the heap per segment. A segment is freed exactly once, by whoever
//! gives up the last part of it. A name of a former life never gets at a later one. What a partition
//! reserved is there whenever it asks; what its readers hold after its end is still counted. Not
//! guaranteed: fairness among the accounts that draw on one floating share.
//!
//! # Layout
//! ```text
//! arena    | segment 0 | segment 1 | ...            one mapping; classes one after the other
//! header   { generation 32 | open 1 | holders 31 }  charge*  next     one padded header a segment
//! class    free list: { tag 32 | top 32 } -> next -> next            account: reserved <= total
//! budget   guaranteed + floating of one partition    charge: used, limit of one subpartition
//! ```
//!
//! # Ownership
//! | what | writer | readers | protected by |
//! |---|---|---|---|
//! | bytes at or beyond `committed` | the one [`OpenSegment`] | the same | I2 |
//! | bytes below `committed` | nobody | holders that an edge of theirs reached | I1, I2 |
//! | bytes of a free segment | who freed it, until listed; who popped it | nobody | I4, E1, E2 |
//! | `word` | all, read-modify-writes only | all | I1 |
//! | `charge` | who opens, who frees, who holds and recharges | the same | I3, E1 |
//! | `next` | who pushes (has the segment alone) | who pops (may read it late: E6) | E2, E6 |
//!
//! # Invariants
//! - I1: who has a part (the open write half, or one of the holders) keeps the segment from becoming free,
//!   and its generation from changing.
//! - I2: `committed` grows only, in its one owner; bytes below it are not written before the segment is free,
//!   bytes beyond it are touched by that owner only.
//! - I3: `charge` is one strong count of an `Arc<Charge>` while the segment isn't free, null while it is.
//! - I4: a free segment is in the list or in a cache, or on its way there or to its opener in one thread's
//!   hands.
//! - I5: units taken equal units given back plus segments on the account; a budget's reservation ends when
//!   nothing stands on it.
//! - I6: less than 2^30 holders: each is an owned value or a ring entry of at least 16 bytes.
//! - I7: reservations never exceed the segments of a class. A unit of one is given back only when its
//!   segment is listed (or on another unit), so there are at least as many segments in the list as units
//!   without a segment, as seen by who takes one (E3, E4).
//!
//! # Edges
//! | id | release | acquire | what becomes visible | weakened |
//! |---|---|---|---|---|
//! | `MEM_E1` | `Header::leave`, not last (`leave`) | `Header::leave`, last (`last`) | all reads and writes of those who left before, the opener's and rechargers' `charge` | the next owner writes over a read |
//! | `MEM_E2` | `FreeList::push` (`push`) | `FreeList::pop` (`pop`) | the end of the former life, `next` | the same, by another thread; a broken list |
//! | `MEM_E3` | `Charge::sub` (`uncharge`), `Budget::give_floating` (`give`) | `Charge::add` (`charge`), `Budget::take_floating` (`take`) | the push of the segment that the unit had | a unit without a segment |
//! | `MEM_E4` | end of a `Budget` (`unreserve`) | `ClassAccount::reserve` (`reserve`) | the pushes of all its segments | the same |
//! | `MEM_E5` | - | `Header::try_hold` compares generations (`generation`) | - | a zombie in a later life |
//! | `MEM_E6` | `FreeList::push` moves the tag (`tag`) | the exchange in `FreeList::pop` | that `next` was read from this list, not an older one | a segment in use on top of the list |
//!
//! The holds themselves are relaxed: a count doesn't publish bytes, the ring's position does. All changes
//! of the list's head are read-modify-writes, so that a pop, though relaxed, passes on the pushes below it.
//!
//! # Nothing is lost
//! A free pushes, gives the unit back, then notifies the budget's waiter; a writer that was refused
//! announces itself, tries once more, then sleeps (`WAKE_F1`): its second try sees the unit, or the
//! notification sees it. A unit that is taken and given back without a segment (a move between accounts that
//! fails, a limit found late) is followed by a notification as well.

mod backing;
mod budget;
mod cache;
mod census;
mod config;
mod free_list;
mod hold;
mod open;
mod pool;
#[allow(dead_code, reason = "transports use it, which models don't know")]
mod receive;
mod segment;
#[cfg(all(test, not(loom)))]
mod tests;

#[allow(unused_imports, reason = "named by tests")]
pub(crate) use budget::Budget;
pub(crate) use budget::Charge;
pub(crate) use cache::SegmentCache;
pub use census::{Census, ClassCensus};
pub use config::{MemoryConfig, MemoryError, SegmentClass};
pub(crate) use hold::{Hold, Lent, Pin};
pub(crate) use open::{Appender, OpenSegment};
pub(crate) use pool::SegmentPool;
#[allow(unused_imports, reason = "transports use it, which models don't know")]
pub(crate) use receive::{RECEIVE_BYTES, RECEIVE_REST_MIN, RECEIVE_STRIDE, ReceiveBuffer, ReceivePool};
pub(crate) use segment::SegmentName;
