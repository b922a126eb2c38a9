//! The transport over io_uring.
//!
//! One ring, made, entered and dropped by one thread. Sends take vectors of memory where it lies; receives
//! fill buffers of a pool that all connections share, and never wait for one another: a connection at rest
//! holds no buffer.
//!
//! Zero-copy sends come from the registered arena: what a batch has outside of it is copied into segments of the
//! arena first. Where the arena can't be registered, sends are plain ones, unless zero copies are asked for always.
//!
//! # Ownership
//! | what | owner | until |
//! |---|---|---|
//! | a batch and its description (`Outgoing`) | the kernel reads, nobody writes | the last completion of each operation that names it, notifications included |
//! | the rest of a receive buffer, provided or in a single receive | the kernel writes | the completion that names it |
//! | bytes received | nobody writes; whoever holds the `Lent` reads | it is dropped |
//! | a socket's descriptor | its connection | no operation that names it is under way |
//! | the eight bytes of the bell | the kernel writes, nobody reads | its read is over |
//!
//! # Invariants
//! - U1 An operation has its slot in the table from before its submission until its last completion, the one
//!   without `F_MORE` (of a zero-copy send: when also its result has come). Completions that name no
//!   operation in flight touch nothing.
//! - U2 What an operation points to lives as long as its slot: in the slot itself, in a boxed `Outgoing` that
//!   counts it, or in the `Bell`.
//! - U3 A provided buffer lies in `buffers` from when it is given to the kernel until a completion names it and
//!   doesn't say that it is kept.
//! - U4 Submission queue full: entries wait in `backlog`, in order; nothing is dropped.
//! - U5 A connection has at most one operation that receives and one send without a result.
//! - U6 When the transport is dropped and the kernel hasn't answered for everything by a deadline, all memory
//!   of U1 to U3 is leaked, with an error line; it is never freed.
//!
//! # Why nothing waits for ever
//! A receive that ends for whatever reason is armed again, unless the stream is over; one that found no buffer
//! stands in `starved` until one is free, which the pool's waiter tells by the bell. A raised low-water mark
//! has a deadline at which it goes down. A close cancels and then, if something hangs on, shuts the socket
//! down, which ends it.

mod arena;
mod bell;
mod close;
mod connection;
mod kernel;
mod low_water;
mod op;
mod outgoing;
mod probe;
mod receive;
mod ring;
mod send;
mod start;
#[cfg(all(test, not(loom)))]
mod tests;
mod zero_copy;

use self::arena::Arena;
use self::bell::Bell;
use self::connection::{Closing, Connection, Receiving};
use self::low_water::LowWater;
use self::op::{Op, OpName, OpTable};
use self::outgoing::Outgoings;
use self::receive::Buffers;
use self::ring::{Cqe, Entry, Ring, Wait};
use self::zero_copy::{Ability, Decision};
use super::table::Table;
use super::{Batch, Close, Completion, ConnectionId, Transport, TransportCounts};
use crate::clock::Moment;
use crate::memory::ReceivePool;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::Waker;
use std::time::Duration;

pub(crate) use self::arena::ArenaShare;
pub(crate) use self::kernel::KernelRing;
#[cfg(all(test, not(loom)))]
pub(crate) use self::kernel::Rung;
pub(crate) use self::start::{Found, UringOptions};
pub use self::zero_copy::ZeroCopy;

/// Completions that are moved out of the ring at once.
const BATCH: usize = 128;

/// Completions of one turn, about: then its caller has its turn.
const TURN_MAX: usize = 1024;

/// How the ring is used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(super) zero_copy: ZeroCopy,
    /// What the kernel can do of it.
    pub(super) ability: Ability,
    /// Low-water marks under load.
    pub(super) lazy: bool,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Uring<R: Ring> {
    ring: R,
    settings: Settings,
    ops: OpTable,
    /// Boxed: a place that is free stays small.
    connections: Table<Box<Connection>>,
    /// How many there are.
    attached: usize,
    outgoings: Outgoings,
    buffers: Buffers,
    /// Entries that the submission queue had no room for, oldest first.
    backlog: VecDeque<(Entry, OpName)>,
    /// What came up outside of a turn.
    ready: Vec<Completion>,
    /// Connections that wait for a buffer, longest first.
    starved: VecDeque<ConnectionId>,
    /// Connections whose low-water mark is up.
    lazy: Vec<ConnectionId>,
    /// Connections in an orderly close, which has deadlines.
    leaving: Vec<ConnectionId>,
    bell: Bell,
    /// The bell rang since the last turn ended.
    rung: bool,
    /// The transport is being dropped.
    ending: bool,
    /// What zero-copy sends may come from, once a connection asked for them.
    arena: Option<Arena>,
    counts: TransportCounts,
}

impl<R: Ring> Uring<R> {
    pub(super) fn new(ring: R, pool: ReceivePool, settings: Settings) -> io::Result<Self> {
        let bell = Bell::new()?;
        let mut uring = Self {
            ring,
            settings,
            ops: OpTable::default(),
            connections: Table::new(),
            attached: 0,
            outgoings: Outgoings::default(),
            buffers: Buffers::new(pool),
            backlog: VecDeque::new(),
            ready: Vec::new(),
            starved: VecDeque::new(),
            lazy: Vec::new(),
            leaving: Vec::new(),
            bell,
            rung: false,
            ending: false,
            arena: None,
            counts: TransportCounts::default(),
        };
        uring.arm_bell();
        Ok(uring)
    }

    fn arm_bell(&mut self) {
        let entry = Entry::Read { file: self.bell.file(), into: self.bell.value() };
        self.submit(entry, Op::Bell);
    }

    /// An operation begins. Everything that `entry` points to is kept by `op` or counted by the caller (U2).
    fn submit(&mut self, entry: Entry, op: Op) {
        let name = self.ops.insert(op);
        // SAFETY: U1, U2: the slot keeps what the entry points to until its last completion.
        if !self.backlog.is_empty() || !unsafe { self.ring.push(&entry, name.0) } {
            self.backlog.push_back((entry, name));
        }
    }

    /// An operation on a connection's socket begins.
    fn submit_for(&mut self, id: ConnectionId, entry: Entry, op: Op) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.ops += 1;
            self.submit(entry, op);
        }
    }

    /// Moves what waits into the submission queue, as far as there is room.
    fn push_backlog(&mut self) {
        while let Some((entry, name)) = self.backlog.front() {
            // SAFETY: U1, U2: its slot was taken when the operation began.
            if !unsafe { self.ring.push(entry, name.0) } {
                break;
            }
            self.backlog.pop_front();
        }
    }

    /// Submits everything, and waits as `wait` says if it could all be submitted.
    fn enter(&mut self, wait: Wait) -> io::Result<()> {
        loop {
            self.push_backlog();
            let last = self.backlog.is_empty();
            self.counts.enters += 1;
            self.ring.enter(if last { wait } else { Wait::No })?;
            // A queue that stays full waits for completions to be reaped.
            if last || self.ring.queued() > 0 {
                return Ok(());
            }
        }
    }

    /// Handles the completions that are there; says how many.
    fn reap(&mut self, done: &mut Vec<Completion>) -> usize {
        let mut cqes = [Cqe::default(); BATCH];
        let mut total = 0;
        while total < TURN_MAX {
            // Out of the ring first, so that the kernel has its room back while they are handled.
            let count = self.ring.reap(&mut cqes);
            for cqe in &cqes[..count] {
                self.complete(cqe, done);
            }
            total += count;
            if count < BATCH {
                break;
            }
        }
        total
    }

    fn complete(&mut self, cqe: &Cqe, done: &mut Vec<Completion>) {
        let name = OpName(cqe.user_data);
        let Some(op) = self.ops.get(name) else {
            // A buffer is a buffer, whoever took it (U3).
            self.reclaim(cqe);
            return;
        };
        match *op {
            Op::Bell => {
                self.ops.remove(name);
                self.rung = true;
                if !self.ending {
                    self.arm_bell();
                }
            }
            Op::Receive { connection } => self.received(connection, name, cqe, done),
            Op::ReceiveOnce { connection, .. } => self.received_once(connection, name, cqe, done),
            Op::Readable { connection } => {
                self.ended(connection, name);
                self.readable(connection, cqe, done);
                self.go_on_closing(connection, done);
            }
            Op::Writable { connection } => {
                self.ended(connection, name);
                self.send_rest(connection, done);
                self.go_on_closing(connection, done);
            }
            Op::Send { .. } => self.sent(name, cqe, done),
            Op::Cancel { connection } => {
                self.ops.remove(name);
                if let Some(connection) = connection {
                    self.cancelled(connection, cqe, done);
                }
            }
        }
    }

    /// The last completion of an operation on a connection's socket has come.
    fn ended(&mut self, id: ConnectionId, name: OpName) -> Option<Op> {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.ops -= 1;
        }
        self.ops.remove(name)
    }

    /// The connection is broken: its owner is told, once, and whatever is under way ends.
    fn fail(&mut self, id: ConnectionId, error: io::Error, done: &mut Vec<Completion>) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.receiving = Receiving::Over;
        if connection.failed || connection.is_cancelling() {
            return;
        }
        connection.failed = true;
        if connection.is_open() {
            done.push(Completion::Failed { connection: id, error });
            if connection.ops > 0 {
                self.cancel(id);
            }
        } else {
            self.begin_cancelling(id, true);
        }
    }
}

/// How long a wait may last: not past what has a deadline.
fn wait_until(deadline: Option<Moment>, now: Moment) -> Wait {
    match deadline {
        Some(deadline) if deadline <= now => Wait::No,
        Some(deadline) => Wait::For(deadline.since(now)),
        None => Wait::Forever,
    }
}

impl<R: Ring> Transport for Uring<R> {
    fn attach(&mut self, socket: OwnedFd) -> io::Result<ConnectionId> {
        let here = self.ring.adopt(socket.as_fd())?;
        let now = self.ring.now();
        let settings = self.settings;
        let zero_copy = Decision::new(settings.zero_copy, settings.ability, here);
        if zero_copy.is_possible() && self.arena.is_none() {
            self.arena = Some(self.ring.register_arena());
        }
        let connection = Connection {
            socket,
            ops: 0,
            receiving: Receiving::Armed,
            ended: false,
            sending: None,
            failed: false,
            closing: Closing::No,
            zero_copy,
            low_water: LowWater::new(settings.lazy, now),
        };
        let id = self.connections.insert(Box::new(connection)).ok_or(io::ErrorKind::StorageFull)?;
        self.attached += 1;
        self.arm(id);
        Ok(id)
    }

    fn send(&mut self, id: ConnectionId, batch: Box<Batch>) {
        match self.connections.get_mut(id) {
            Some(connection) if connection.is_open() && !connection.failed => {
                assert!(connection.sending.is_none(), "the next batch comes after `Sent`");
                self.send_batch(id, batch);
            }
            _ => self.ready.push(Completion::Recycled { batch }),
        }
    }

    fn close(&mut self, id: ConnectionId, how: Close) {
        self.begin_closing(id, how);
    }

    fn turn(&mut self, timeout: Option<Duration>, done: &mut Vec<Completion>) -> io::Result<()> {
        let before = done.len();
        let polls = timeout == Some(Duration::ZERO);
        let mut now = self.ring.now();
        let end = timeout.map(|timeout| now.plus(timeout));
        let mut reaped = self.reap(done);
        loop {
            self.refill();
            self.keep_deadlines(now, done);
            done.append(&mut self.ready);
            let goes_on = polls || self.rung || done.len() > before;
            if goes_on && self.backlog.is_empty() && self.ring.queued() == 0 && !self.ring.is_due() {
                break;
            }
            let wait = if goes_on {
                Wait::No
            } else {
                let deadline = self.deadline();
                wait_until(end.into_iter().chain(deadline).min(), now)
            };
            self.enter(wait)?;
            reaped += self.reap(done);
            now = self.ring.now();
            if polls || self.rung || done.len() > before || end.is_some_and(|end| end <= now) {
                self.keep_deadlines(now, done);
                break;
            }
        }
        if polls && reaped == 0 {
            // No wait has a time limit here: what the kernel keeps below a mark, it has to tell by itself.
            self.lower_all(now);
        }
        self.rung = false;
        Ok(())
    }

    fn waker(&self) -> &Waker {
        self.bell.waker()
    }

    fn counts(&self) -> TransportCounts {
        TransportCounts { wakes: self.bell.rings(), ..self.counts }
    }

    fn untouched_buffers(&self) -> u32 {
        self.buffers.untouched()
    }
}
