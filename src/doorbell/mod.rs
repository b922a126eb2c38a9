//! The doorbell: how a writer tells the thread that serves a subpartition that there is something to take.
//!
//! # Guarantees
//! - A rung node is handed to the serving thread exactly once before its `listed` bit is clear again, in
//!   the order of ringing.
//! - What was published before [`ReadyNode::ring`] is seen by whoever serves the node after it.
//! - Ringing costs no lock and no syscall unless the serving thread sleeps.
//!
//! Not guaranteed: that a publication which nobody rings for is noticed. See `subpartition` for who rings
//! when (segment full, flush, event, first publish after quiet).
//!
//! # Layout
//! ```text
//!   Doorbell { head ──> node ──> node ──> null,  waiter }      one for each serving thread or gate
//!   ReadyNode { listed, silence, next, bell }                  one for each bind of a view
//! ```
//!
//! # Ownership
//! | field | writer | readers | protected by |
//! |---|---|---|---|
//! | `head` | ringers (push), server (takes all) | both | CAS / swap |
//! | `next` | the ringer that set `listed`; then the server until it clears it | same | `listed`, `head` |
//! | `listed` | ringers set, server clears, each by a swap | both | the word's own order |
//! | `silence` | server | the one writer | fences `DOOR_F1` |
//!
//! # Invariants
//! - I1 A node is in the list at most once: it is pushed by the swap that turned `listed` on, and `listed`
//!   is turned off only by the server after it took the node out.
//! - I2 The list owns one strong count of each node that is in it.
//! - I3 A node belongs to one bind. A reader that never comes back leaves its node listed for ever, and
//!   the next bind has another one, so nobody waits for that bit.
//! - I4 A closed bell's list stays empty: a server that goes away leaves no cycle of counts behind.
//!
//! # Edges
//! `DOOR_E1` listed (swap by ringer → swap by server): a ringer that found the bit set doesn't push; the
//! server that clears it afterwards sees what that ringer had published. And back (clear → next ringer):
//! the server's last touch of `next` comes before the ringer's. `DOOR_E2` head (push → take all): the
//! node's `next`. `DOOR_F1` quiet: see [`ReadyNode::is_quiet_after_publish`]. `WAKE_F1` of
//! `sync::Waiter`: list not empty against sleep.
//!
//! # Why nothing is lost
//! Ringer: publish, swap `listed` on, push if it was off, notify. Server: take, swap `listed` off, look at
//! the publication. If the ringer's swap found it on, that swap stands before the server's in the word's
//! order, and the server's look follows. If it found it off, the node is in the list, and the server finds
//! it, or the notify finds the server asleep.
//!
//! # One ring a silence
//! A server that looks by itself isn't rung for records; one that fell quiet is, once for each time that it fell
//! quiet ([`ReadyNode::owes_ring`]). What is published after that ring and before the server comes needs none:
//! before the server sleeps again it falls quiet anew, and either its last look sees the publication, or the
//! writer sees a new silence (`DOOR_F1`, once more) and rings for it.

use crate::sync::{
    AtomicBool, AtomicPtr, AtomicU32, Exclusive, Ordering, Waiter, fence_heavy, fence_light, sync,
};
use std::ptr;
use std::sync::Arc;
use std::task::Waker;

/// The list of nodes that ask to be served, and the place where the serving thread sleeps.
#[derive(Debug)]
pub(crate) struct Doorbell {
    head: AtomicPtr<ReadyNode>,
    waiter: Waiter,
    /// Times that the server came for the list.
    served: AtomicU32,
    /// `served` when a look found the server asleep with a list that isn't empty.
    suspected: AtomicU32,
}

/// One bind's entry in the ready list of the thread that serves it.
#[derive(Debug)]
pub(crate) struct ReadyNode {
    listed: AtomicBool,
    /// Odd while nobody looks by itself; each silence has a number of its own.
    silence: AtomicU32,
    /// While it isn't quiet, the server wants to be told of every so many full segments.
    patience: AtomicU32,
    next: Exclusive<Link>,
    bell: Arc<Doorbell>,
    token: u32,
}

/// The node behind this one in the list.
#[derive(Debug)]
struct Link(*mut ReadyNode);

// SAFETY: I1, I2: the pointer is only followed by the thread that has the list, and nodes are `Sync`.
unsafe impl Send for Link {}

/// The head of a bell that nobody serves any more. Never followed.
fn closed() -> *mut ReadyNode {
    ptr::without_provenance_mut(usize::MAX)
}

impl Doorbell {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            head: AtomicPtr::new(ptr::null_mut()),
            waiter: Waiter::new(),
            served: AtomicU32::new(1),
            suspected: AtomicU32::new(0),
        })
    }

    /// Takes all nodes that were rung, oldest first. `listed` stays set until [`ReadyNode::clear`], so a
    /// node in the server's hands isn't pushed again.
    pub(crate) fn take_all(&self, serve: impl FnMut(Arc<ReadyNode>)) {
        // A closed bell stays closed (I4). Relaxed: only the server closes it.
        if !self.is_silent() && self.head.load(Ordering::Relaxed) != closed() {
            // Relaxed: a statistic with one writer. 0 stands for "no suspicion".
            let served = self.served.load(Ordering::Relaxed).wrapping_add(1).max(1);
            self.served.store(served, Ordering::Relaxed);
            self.take_list(ptr::null_mut(), serve);
        }
    }

    /// Once a second: whether a wake-up got lost since the look before. If so the server is woken now.
    /// One look may fall between a ring and its wake-up; two with nothing served between them can't.
    pub(crate) fn rescan(&self) -> bool {
        let asleep = self.waiter.is_waiting() && !self.is_silent();
        // Relaxed: statistics, a second apart.
        let served = if asleep { self.served.load(Ordering::Relaxed) } else { 0 };
        let before = self.suspected.swap(served, Ordering::Relaxed);
        asleep && before == served && self.waiter.notify()
    }

    /// The server goes away: what is listed is let go, and rings come to nothing from now on.
    pub(crate) fn close(&self) {
        self.take_list(closed(), drop);
    }

    /// The server is awake, whatever woke it: rings cost no wake-up until it announces its sleep again.
    pub(crate) fn stay_awake(&self) {
        self.waiter.retract();
    }

    fn take_list(&self, leave: *mut ReadyNode, mut serve: impl FnMut(Arc<ReadyNode>)) {
        let mut node = self.head.swap(leave, sync!(DOOR_E2.take, Acquire));
        let mut oldest: *mut ReadyNode = ptr::null_mut();
        while !node.is_null() && node != closed() {
            // SAFETY: I2: the list's strong count keeps the node alive, and it is ours since the swap.
            let next = unsafe { &(*node).next };
            // SAFETY: I1: from the swap above until `clear` only this thread touches `next`.
            let following = unsafe { next.with_mut(|link| std::mem::replace(&mut link.0, oldest)) };
            oldest = node;
            node = following;
        }
        while !oldest.is_null() {
            // SAFETY: I2: this is the strong count that `ring` gave to the list; it is taken back once.
            let owned = unsafe { Arc::from_raw(oldest) };
            // SAFETY: I1: as above.
            oldest = unsafe { owned.next.with_mut(|link| link.0) };
            serve(owned);
        }
    }

    /// Whether nothing is listed right now.
    pub(crate) fn is_silent(&self) -> bool {
        // Relaxed: a hint, or a look that `announce`'s fence orders.
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Prepares to sleep; tells whether it is still silent, else the server goes on. The server may then
    /// return `Pending` to its executor: any ring from now on wakes `waker`.
    pub(crate) fn may_sleep(&self, waker: &Waker) -> bool {
        self.waiter.announce(waker);
        if self.is_silent() {
            return true;
        }
        self.waiter.retract();
        false
    }
}

impl Drop for Doorbell {
    fn drop(&mut self) {
        // A listed node holds an `Arc` of its bell, so a bell is dropped with an empty list only.
        debug_assert!(self.is_silent() || self.head.load(Ordering::Relaxed) == closed());
    }
}

impl ReadyNode {
    /// `token` is the server's name for what the node stands for.
    pub(crate) fn new(bell: &Arc<Doorbell>, token: u32) -> Arc<Self> {
        Arc::new(Self {
            listed: AtomicBool::new(false),
            silence: AtomicU32::new(0),
            patience: AtomicU32::new(1),
            next: Exclusive::new(Link(ptr::null_mut())),
            bell: bell.clone(),
            token,
        })
    }

    /// Whether whoever serves this bell gets to know when it is rung.
    pub(crate) fn is_of(&self, bell: &Arc<Doorbell>) -> bool {
        Arc::ptr_eq(&self.bell, bell)
    }

    pub(crate) fn token(&self) -> u32 {
        self.token
    }

    /// Server: while it looks by itself it wants to be told of every so many full segments.
    pub(crate) fn set_patience(&self, segments: u32) {
        self.patience.store(segments, Ordering::Relaxed); // Relaxed: advice; whoever reads an older one rings more
    }

    pub(crate) fn patience(&self) -> u32 {
        self.patience.load(Ordering::Relaxed) // Relaxed: as above
    }

    /// Lists the node and wakes the server if it sleeps. Tells whether a sleeper was woken.
    pub(crate) fn ring(self: &Arc<Self>) -> bool {
        if self.listed.swap(true, sync!(DOOR_E1.ring, AcqRel)) {
            return false;
        }
        let node = Arc::into_raw(self.clone()).cast_mut();
        // Relaxed: the compare-exchange below validates what it read.
        let mut head = self.bell.head.load(Ordering::Relaxed);
        loop {
            if head == closed() {
                // SAFETY: the count made above, which no list has taken.
                drop(unsafe { Arc::from_raw(node) });
                return false;
            }
            // SAFETY: I1: the swap above made `next` ours until the push below succeeds.
            unsafe { self.next.with_mut(|link| link.0 = head) };
            match self.bell.head.compare_exchange_weak(
                head,
                node,
                sync!(DOOR_E2.push, Release),
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        self.bell.waiter.notify()
    }

    /// The server is about to look at what the node stands for: from now on a ring lists it again. Must
    /// come before the look.
    pub(crate) fn clear(&self) {
        self.listed.swap(false, sync!(DOOR_E1.clear, AcqRel));
    }

    /// Before anybody else has the node: it begins quiet.
    pub(crate) fn begin_quiet(&self) {
        self.silence.store(1, Ordering::Relaxed); // Relaxed: whatever hands the node on orders it
    }

    /// Server: nothing was found, no timer will look again; the next publish has to ring. The server
    /// looks once more after this, and calls [`ReadyNode::stir`] if it finds something.
    pub(crate) fn fall_quiet(&self) {
        // Relaxed: the server's own word; the fence orders it before the last look.
        let before = self.silence.load(Ordering::Relaxed);
        self.silence.store(before.wrapping_add(1) | 1, Ordering::Relaxed);
        fence_heavy(sync!(DOOR_F1.quiet, SeqCst));
    }

    /// Server: it looks again by itself.
    pub(crate) fn stir(&self) {
        // Relaxed: a writer that still reads the silence rings once too often.
        let before = self.silence.load(Ordering::Relaxed);
        self.silence.store(before.wrapping_add(before & 1), Ordering::Relaxed);
    }

    /// Whether the server expects a ring for whatever comes, and none has come; a hint.
    pub(crate) fn awaits_ring(&self) -> bool {
        self.silence().is_some() && !self.listed.load(Ordering::Relaxed) // Relaxed: a hint
    }

    /// The silence that the server is in, if it is. To be noted before a ring, which serves that silence or none.
    #[inline]
    pub(crate) fn silence(&self) -> Option<u32> {
        Some(self.silence.load(Ordering::Relaxed)).filter(|silence| silence & 1 != 0) // Relaxed: see who asks
    }

    /// Writer, after a publish: whether the server won't look by itself. The fence pairs with the one in
    /// `fall_quiet`: either this look sees the silence, or the server's last look sees the publication.
    #[inline]
    pub(crate) fn is_quiet_after_publish(&self) -> bool {
        fence_light(sync!(DOOR_F1.publish, SeqCst));
        // Relaxed: ordered by the fence.
        self.silence().is_some()
    }

    /// The same, and `rung` is not this silence: the one that the writer has rung for.
    #[inline]
    pub(crate) fn owes_ring(&self, rung: Option<u32>) -> bool {
        fence_light(sync!(DOOR_F1.owed, SeqCst));
        // Relaxed: ordered by the fence.
        let silence = self.silence();
        silence.is_some() && silence != rung
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_closed_bell_stays_closed_and_keeps_nothing() {
        let bell = Doorbell::new();
        let node = ReadyNode::new(&bell, 3);
        node.ring();
        bell.close();
        bell.take_all(|_| panic!("nothing is listed"));
        node.clear();
        assert!(!node.ring());
        assert_eq!(Arc::strong_count(&node), 1);
    }

    #[test]
    fn a_rescan_finds_a_sleeper_with_a_list_on_the_second_look_only() {
        let bell = Doorbell::new();
        let node = ReadyNode::new(&bell, 0);
        assert!(bell.may_sleep(Waker::noop()));
        assert!(!bell.rescan(), "asleep, and nothing to do");
        // A ring whose wake-up got lost: listed, and announced again behind its back.
        node.ring();
        bell.waiter.announce(Waker::noop());
        assert!(!bell.rescan(), "one look may fall between a ring and its wake-up");
        assert!(bell.rescan(), "two can't");
        bell.close();
    }
}
