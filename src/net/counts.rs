//! Counters of one network thread: stored by it alone, read by anybody.

use crate::protocol::Counts;
use crate::sync::{AtomicU64, Ordering};
use crate::transport::TransportCounts;

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct NetCounts {
    by_uring: AtomicU64,
    by_epoll: AtomicU64,
    connections: AtomicU64,
    connections_lost: AtomicU64,
    frames_stale: AtomicU64,
    frames_unknown: AtomicU64,
    violations: AtomicU64,
    runs_copied: AtomicU64,
    ends_unsaid: AtomicU64,
    ends_told_again: AtomicU64,
    ends_given_up: AtomicU64,
    enters: AtomicU64,
    calls: AtomicU64,
    wakes: AtomicU64,
    bytes_sent: AtomicU64,
    bytes_received: AtomicU64,
    zero_copy_sends: AtomicU64,
    zero_copy_copied: AtomicU64,
    starved: AtomicU64,
    binds_over_share: AtomicU64,
}

/// A picture of the network threads of a worker, all together. Counts since their start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NetSnapshot {
    /// Network threads and reactors that move bytes by io_uring, or did until they ended.
    pub by_uring: u64,
    /// Network threads and reactors that move bytes by epoll, or did until they ended.
    pub by_epoll: u64,
    /// Connections that were taken over, in both directions.
    pub connections: u64,
    /// Connections that came to their end, in order or not.
    pub connections_lost: u64,
    /// Frames of an older bind epoch, which were dropped.
    pub frames_stale: u64,
    /// Frames of streams that were over, which were dropped.
    pub frames_unknown: u64,
    /// Rules of the protocol that peers broke.
    pub violations: u64,
    /// Runs of stream bytes that were copied out of receive buffers, since too few of these were free.
    pub runs_copied: u64,
    /// Ends of partitions that tasks here have consumed and that the producers' workers haven't confirmed yet: those
    /// there are, not those there were. Mostly none, and each for the time of one round trip.
    pub ends_unsaid: u64,
    /// Ends that were told by another connection, since the one they were read by was lost before they were confirmed.
    pub ends_told_again: u64,
    /// Ends that were given up unconfirmed: for ten seconds after their gate was dropped nobody was reached, or the
    /// producer's worker is dead; or this one is at its end, and what it has said in order arrives all the same, if
    /// the network doesn't fail just then.
    pub ends_given_up: u64,
    /// System calls that submit to the kernel or wait for it (`io_uring_enter`, `epoll_wait`).
    pub enters: u64,
    /// System calls that send or receive by themselves: none with io_uring.
    pub calls: u64,
    /// Network threads that had to be woken by another thread, each by a system call.
    pub wakes: u64,
    /// Bytes handed to sockets.
    pub bytes_sent: u64,
    /// Bytes taken from sockets.
    pub bytes_received: u64,
    /// Sends that asked for zero copies.
    pub zero_copy_sends: u64,
    /// Those of them that the kernel copied all the same.
    pub zero_copy_copied: u64,
    /// Times that no receive buffer was free.
    pub starved: u64,
    /// Binds that were refused since as many of the same worker waited as may:
    /// [`WorkerBuilder::binds_waiting_per_peer_max`](crate::WorkerBuilder::binds_waiting_per_peer_max).
    pub binds_over_share: u64,
}

/// One more; this thread alone stores it.
fn add(counter: &AtomicU64, more: u64) {
    // Relaxed: a statistic with one writer.
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

impl NetCounts {
    /// What its transport became.
    pub(crate) fn set_io(&self, is_uring: bool) {
        add(if is_uring { &self.by_uring } else { &self.by_epoll }, 1);
    }

    pub(super) fn new_connection(&self) {
        add(&self.connections, 1);
    }

    pub(super) fn lost_connection(&self) {
        add(&self.connections_lost, 1);
    }

    pub(super) fn add(&self, counts: &Counts) {
        if *counts != Counts::default() {
            add(&self.frames_stale, counts.stale);
            add(&self.frames_unknown, counts.unknown);
        }
    }

    pub(super) fn violated(&self) {
        add(&self.violations, 1);
    }

    pub(super) fn over_share(&self, binds: u64) {
        add(&self.binds_over_share, binds);
    }

    pub(super) fn copied_run(&self) {
        add(&self.runs_copied, 1);
    }

    /// So many ends aren't confirmed.
    pub(super) fn set_ends(&self, ends: usize) {
        self.ends_unsaid.store(ends as u64, Ordering::Relaxed); // Relaxed: a statistic
    }

    pub(super) fn told_end(&self) {
        add(&self.ends_told_again, 1);
    }

    pub(super) fn gave_up_end(&self) {
        add(&self.ends_given_up, 1);
    }

    pub(super) fn store(&self, counts: &TransportCounts) {
        let TransportCounts { enters, calls, wakes, sent, received, .. } = *counts;
        let pairs = [
            (&self.enters, enters),
            (&self.calls, calls),
            (&self.wakes, wakes),
            (&self.bytes_sent, sent),
            (&self.bytes_received, received),
            (&self.zero_copy_sends, counts.zero_copy_sends),
            (&self.zero_copy_copied, counts.zero_copy_copied),
            (&self.starved, counts.starved),
        ];
        for (counter, value) in pairs {
            counter.store(value, Ordering::Relaxed); // Relaxed: a statistic
        }
    }

    /// Adds what this thread has counted to a picture.
    pub(crate) fn add_to(&self, snapshot: &mut NetSnapshot) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed); // Relaxed: a statistic
        snapshot.by_uring += load(&self.by_uring);
        snapshot.by_epoll += load(&self.by_epoll);
        snapshot.connections += load(&self.connections);
        snapshot.connections_lost += load(&self.connections_lost);
        snapshot.frames_stale += load(&self.frames_stale);
        snapshot.frames_unknown += load(&self.frames_unknown);
        snapshot.violations += load(&self.violations);
        snapshot.runs_copied += load(&self.runs_copied);
        snapshot.ends_unsaid += load(&self.ends_unsaid);
        snapshot.ends_told_again += load(&self.ends_told_again);
        snapshot.ends_given_up += load(&self.ends_given_up);
        snapshot.enters += load(&self.enters);
        snapshot.calls += load(&self.calls);
        snapshot.wakes += load(&self.wakes);
        snapshot.bytes_sent += load(&self.bytes_sent);
        snapshot.bytes_received += load(&self.bytes_received);
        snapshot.zero_copy_sends += load(&self.zero_copy_sends);
        snapshot.zero_copy_copied += load(&self.zero_copy_copied);
        snapshot.starved += load(&self.starved);
        snapshot.binds_over_share += load(&self.binds_over_share);
    }
}
