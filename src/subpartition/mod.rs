//! What a task hands to whoever serves its consumer: the ring, the state word, the bind record, the account.
//!
//! One [`WriteHalf`] fills a subpartition, and one [`View`] at a time empties it: the newest. This module
//! holds what the two share and the transitions between views; `ring` says how the hand-over itself works.
//!
//! # Guarantees
//! - The newest attempt owns the view, whatever the order in which attempts bind; nobody waits for the old
//!   reader, not even one that never comes back.
//! - After a bind the first byte that the new view gets is the first byte of a record.
//! - Every record is accounted for: see `account`.
//!
//! # A bind, step by step (all under the mutex of the bind record)
//! 1. Compare attempts.
//! 2. Fence: bump `taken`, `released` and the priority ring to the new epoch.
//! 3. Settle the old view's account at the place it got to.
//! 4. Drain, keep or rewind by policy; move to a record start.
//! 5. Publish the state word.
//! 6. After the mutex: wake the writer (a fence in any case), list the new view's node.
//!
//! A change to Unavailable is the same fence with the same steps, under an epoch that no view has: a late
//! take or acknowledgement of the old reader fails from step 2 on.
//!
//! # Edges
//! `BIND_F1` (fences): the writer publishes, fences, loads the state word, rings the node of that epoch; the
//! binder publishes the word, fences (the writer's notification has the fence: `WAKE_F1.notifier`), lists its
//! own node. Either the writer rings the new node, or the new view's first look sees the publication. The
//! mutex orders transitions among themselves.

mod account;
mod bind;
mod ended;
mod local;
mod payload;
mod policy;
mod position;
pub(crate) mod priority;
mod reading;
pub(crate) mod ring;
mod settle;
pub(crate) mod slot;
mod source;
mod state;
mod view;
mod write;

pub use account::{Account, DroppedEvents, Losses};
#[allow(unused_imports, reason = "for tests and models")]
pub(crate) use bind::Ending;
pub(crate) use bind::{BindRequest, Grant, Refusal, Subpartition};
pub(crate) use ended::{Disbelief, LastWord};
pub(crate) use local::LocalReader;
pub use policy::{BeforeFirstBind, Flush, Policies, WhenAbsent, WhenFull, WhenRetained};
pub use position::Amount;
#[allow(unused_imports, reason = "for tests and models")]
pub(crate) use position::Position;
pub(crate) use reading::{Acked, Mark, Next, Stretch};
#[allow(unused_imports, reason = "on its way to `net`")]
pub(crate) use ring::Fenced;
#[allow(unused_imports, reason = "for tests and models")]
pub(crate) use slot::Kind;
#[allow(unused_imports, reason = "on its way to `net`")]
pub(crate) use source::{Consumed, HOLDS, Offer, Source, SourceEvent};
pub use state::Phase;
pub(crate) use view::View;
pub(crate) use write::{Append, Blocked, EndKind, SPLIT_SHARE, SharedPart, WriteHalf};

#[cfg(all(test, not(loom)))]
mod tests;
