//! The transport for where io_uring is refused: readiness from epoll, one system call a send or receive.
//!
//! # How it works
//! Sends are tried at once, in the call that asks for them; what the socket doesn't take goes on when it is
//! ready again. Readiness is told once per change (edge-triggered), so that connections with bytes left are
//! kept in a list, and a turn receives at most [`RECEIVE_BYTES`] of one before the next has its turn. All
//! connections receive into one open buffer, one behind the other. Nothing is allocated per send or receive.
//!
//! # Invariants
//! - E1: the waker's descriptor is open for as long as a waker is.
//! - E2: a connection whose `readable` is set and that is to be received from stands in `ready`, once.
//! - E3: a turn waits only if no connection in `ready` could go on, and `backlog` is empty.
//! - E4: `starved` is set while connections wait for a receive buffer. Before a wait the transport announces
//!   itself to the pool and looks once more: a buffer that comes free is seen, or the waker is woken.
//!
//! There is no `unsafe` here: the bytes of a buffer beyond what is committed are borrowed from their segment
//! for the length of one system call.

mod connection;
mod readiness;

use super::sending::Sending;
use super::table::Table;
use super::{Batch, CLOSE_PATIENCE, Close, Completion, ConnectionId, Transport, TransportCounts};
use crate::clock::{Moment, Monotonic};
use crate::memory::{RECEIVE_BYTES, RECEIVE_REST_MIN, ReceiveBuffer, ReceivePool};
use connection::{Connection, Phase, Received, Sent};
use readiness::{Change, EVENTS, Readiness};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::task::Waker;
use std::time::Duration;

/// All that one turn receives: then what came is seen to, and sends have their turn.
const TURN_BYTES: usize = 4 * RECEIVE_BYTES;

/// Where the bytes go that nobody wants any more.
const DISCARD_BYTES: usize = 64 * 1024;

/// A transport over epoll.
#[derive(Debug)]
pub(crate) struct Epoll {
    readiness: Readiness,
    table: Table<Connection>,
    /// Whom to receive from (E2).
    ready: VecDeque<ConnectionId>,
    /// What became of things outside of a turn.
    backlog: Vec<Completion>,
    pool: ReceivePool,
    buffer: Option<ReceiveBuffer>,
    starved: bool,
    discard: Box<[u8]>,
    /// Connections on their way to an orderly end, and some that were.
    closings: Vec<ConnectionId>,
    /// No patience ends before this.
    closings_at: Option<Moment>,
    clock: Monotonic,
    counts: TransportCounts,
    changes: Vec<Change>,
}

impl Epoll {
    /// A transport that receives into `pool`, which is its own.
    pub(crate) fn new(pool: ReceivePool) -> io::Result<Self> {
        Ok(Self {
            readiness: Readiness::new()?,
            table: Table::new(),
            ready: VecDeque::new(),
            backlog: Vec::new(),
            pool,
            buffer: None,
            starved: false,
            discard: vec![0; DISCARD_BYTES].into(),
            closings: Vec::new(),
            closings_at: None,
            clock: Monotonic::start(),
            counts: TransportCounts::default(),
            changes: Vec::with_capacity(EVENTS),
        })
    }

    /// Sends on, and sees to what follows from it.
    fn go_on(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.sending.is_none() {
            return;
        }
        match connection.send(&mut self.counts.calls, &mut self.counts.sent) {
            Sent::Partly(some) => {
                if let Phase::Finishing(since) = &mut connection.phase
                    && some
                {
                    *since = self.clock.now();
                }
            }
            Sent::Whole => {
                let open = matches!(connection.phase, Phase::Open);
                self.recycle(id);
                if open {
                    self.backlog.push(Completion::Sent { connection: id });
                } else {
                    self.end(id);
                }
            }
            Sent::Failed(error) => {
                let open = matches!(connection.phase, Phase::Open);
                self.recycle(id);
                if open {
                    self.fail_after_receiving(id, error);
                } else {
                    self.finish(id);
                }
            }
        }
    }

    fn recycle(&mut self, id: ConnectionId) {
        let sending = self.table.get_mut(id).and_then(|connection| connection.sending.take());
        self.backlog.extend(sending.map(|sending| Completion::Recycled { batch: sending.into_batch() }));
    }

    fn fail_after_receiving(&mut self, id: ConnectionId, error: io::Error) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.ended {
            connection.phase = Phase::Broken;
            self.backlog.push(Completion::Failed { connection: id, error });
        } else {
            connection.phase = Phase::Failing(error);
            connection.readable = true;
            self.list(id);
        }
    }

    /// Everything was sent: the other end is told, and waited for.
    fn end(&mut self, id: ConnectionId) {
        let now = self.clock.now();
        let Some(connection) = self.table.get_mut(id) else { return };
        connection.phase = Phase::Ending(now);
        // A connection that is broken by now has no end to send.
        if connection.send_end().is_err() || connection.ended {
            return self.finish(id);
        }
        self.look_after_at(now.plus(CLOSE_PATIENCE));
    }

    fn look_after_at(&mut self, at: Moment) {
        self.closings_at = Some(self.closings_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Closes the descriptor, whatever state it is in, by a reset if not everything was sent.
    fn finish(&mut self, id: ConnectionId) {
        self.recycle(id);
        let Some(connection) = self.table.remove(id) else { return };
        match connection.phase {
            Phase::Ending(_) => drop(connection),
            _ => connection.reset(),
        }
        self.backlog.push(Completion::Closed { connection: id });
    }

    /// Puts a connection that is to be received from at the end of the list (E2).
    fn list(&mut self, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id)
            && connection.readable
            && !connection.listed
            && !matches!(connection.phase, Phase::Broken)
        {
            connection.listed = true;
            self.ready.push_back(id);
        }
    }

    fn change(&mut self, change: Change) {
        let Some(id) = self.table.at(change.index) else { return };
        if let Some(connection) = self.table.get_mut(id) {
            connection.ends |= change.ends;
            connection.readable |= change.readable && !connection.ended;
            if change.error && connection.ended && matches!(connection.phase, Phase::Open) {
                // No receive would tell it any more.
                if let Some(error) = connection.take_error() {
                    self.recycle(id);
                    return self.fail_after_receiving(id, error);
                }
            }
        }
        if change.writable {
            self.go_on(id);
        }
        self.list(id);
    }

    /// Receives from those that are listed, each at most once.
    fn receive(&mut self, done: &mut Vec<Completion>) {
        let mut left = TURN_BYTES;
        for _ in 0..self.ready.len() {
            if left < RECEIVE_REST_MIN {
                break;
            }
            let Some(id) = self.ready.pop_front() else { break };
            let Some(connection) = self.table.get_mut(id) else { continue };
            connection.listed = false;
            left = left.saturating_sub(match connection.phase {
                Phase::Open | Phase::Failing(_) => self.receive_from(id, done),
                Phase::Finishing(_) | Phase::Ending(_) => self.discard_from(id),
                Phase::Broken => 0,
            });
            self.list(id);
        }
    }

    /// Receives what one connection has, as far as its turn goes. Says how many bytes came.
    fn receive_from(&mut self, id: ConnectionId, done: &mut Vec<Completion>) -> usize {
        let mut total = 0;
        while let Some(connection) = self.table.get_mut(id) {
            if self.buffer.as_ref().is_none_or(ReceiveBuffer::is_spent) {
                // The spent one first: it may be the one that comes free.
                self.buffer = None;
                self.buffer = ReceiveBuffer::open(&self.pool);
            }
            let Some(buffer) = &mut self.buffer else {
                self.counts.starved += u64::from(!self.starved);
                self.starved = true;
                if let Phase::Failing(_) = connection.phase {
                    self.fail(id, None, done);
                }
                break;
            };
            self.starved = false;
            let spare = buffer.spare();
            let room = spare.len().min(RECEIVE_BYTES - total);
            match connection.receive(&mut spare[..room], &mut self.counts.calls) {
                Received::Bytes(bytes) => {
                    total += bytes;
                    self.counts.received += bytes as u64;
                    done.push(Completion::Received { connection: id, bytes: buffer.received(bytes) });
                    if !connection.readable || RECEIVE_BYTES - total < RECEIVE_REST_MIN {
                        break;
                    }
                }
                Received::Nothing => {
                    if let Phase::Failing(_) = connection.phase {
                        self.fail(id, None, done);
                    }
                    break;
                }
                Received::End => {
                    match connection.phase {
                        Phase::Failing(_) => self.fail(id, None, done),
                        _ => done.push(Completion::Eof { connection: id }),
                    }
                    break;
                }
                Received::Failed(error) => {
                    self.fail(id, Some(error), done);
                    break;
                }
            }
        }
        total
    }

    /// Reports the failure of a send that came before, or else `error`.
    fn fail(&mut self, id: ConnectionId, error: Option<io::Error>, done: &mut Vec<Completion>) {
        self.recycle(id);
        let Some(connection) = self.table.get_mut(id) else { return };
        connection.readable = false;
        let error = match std::mem::replace(&mut connection.phase, Phase::Broken) {
            Phase::Failing(first) => Some(first),
            _ => error,
        };
        done.extend(error.map(|error| Completion::Failed { connection: id, error }));
    }

    /// Receives what nobody wants any more, to get at the end of it.
    fn discard_from(&mut self, id: ConnectionId) -> usize {
        let mut total = 0;
        while total < RECEIVE_BYTES {
            let Some(connection) = self.table.get_mut(id) else { break };
            match connection.receive(&mut self.discard, &mut self.counts.calls) {
                Received::Bytes(bytes) if connection.readable => total += bytes,
                Received::Bytes(_) | Received::Nothing => break,
                // Half of the way: what is left is still sent.
                Received::End if matches!(connection.phase, Phase::Finishing(_)) => break,
                Received::End | Received::Failed(_) => {
                    self.finish(id);
                    break;
                }
            }
        }
        total
    }

    /// Ends those whose other end has stood still for too long.
    fn look_after_closings(&mut self) {
        let Some(at) = self.closings_at else { return };
        let now = self.clock.now();
        if now < at {
            return;
        }
        self.closings_at = None;
        let mut closings = std::mem::take(&mut self.closings);
        closings.retain(|id| {
            let Some(connection) = self.table.get_mut(*id) else { return false };
            let (Phase::Finishing(since) | Phase::Ending(since)) = connection.phase else { return false };
            let until = since.plus(CLOSE_PATIENCE);
            if until <= now {
                self.finish(*id);
                return false;
            }
            self.look_after_at(until);
            true
        });
        self.closings = closings;
    }

    /// Whether a listed connection wouldn't just go back to the list.
    fn can_go_on(&self, id: ConnectionId) -> bool {
        let connection = self.table.get(id);
        connection.is_some_and(|connection| !self.starved || !matches!(connection.phase, Phase::Open))
    }

    /// How long the wait may be that comes next (E3, E4).
    fn patience(&mut self, timeout: Option<Duration>, done: bool) -> Option<Duration> {
        if self.starved {
            self.pool.waiter().announce(self.readiness.waker());
            if self.pool.free() > 0 {
                self.pool.waiter().retract();
                self.starved = false;
            }
        }
        if done || self.ready.iter().any(|id| self.can_go_on(*id)) {
            return Some(Duration::ZERO);
        }
        let closings = self.closings_at.map(|at| at.since(self.clock.now()));
        match (timeout, closings) {
            (Some(timeout), Some(closings)) => Some(timeout.min(closings)),
            (timeout, closings) => timeout.or(closings),
        }
    }
}

impl Transport for Epoll {
    fn attach(&mut self, socket: OwnedFd) -> io::Result<ConnectionId> {
        let connection = Connection::new(socket)?;
        let refused = || io::Error::other("no names are left for connections");
        let id = self.table.insert(connection).ok_or_else(refused)?;
        let connection = self.table.get(id).ok_or_else(refused)?;
        if let Err(error) = self.readiness.register(connection.socket(), id.index as usize) {
            self.table.remove(id);
            return Err(error);
        }
        Ok(id)
    }

    fn send(&mut self, connection: ConnectionId, batch: Box<Batch>) {
        match self.table.get_mut(connection) {
            Some(open) if matches!(open.phase, Phase::Open) => {
                debug_assert!(open.sending.is_none(), "one batch at a time");
                open.sending = Some(Sending::new(batch));
                self.go_on(connection);
            }
            _ => self.backlog.push(Completion::Recycled { batch }),
        }
    }

    fn close(&mut self, connection: ConnectionId, how: Close) {
        let now = self.clock.now();
        let Some(closed) = self.table.get_mut(connection) else { return };
        match (how, &closed.phase) {
            (Close::Orderly, Phase::Open) => {
                closed.phase = Phase::Finishing(now);
                let sending = closed.sending.is_some();
                self.closings.push(connection);
                self.look_after_at(now.plus(CLOSE_PATIENCE));
                if !sending {
                    self.end(connection);
                }
            }
            (Close::Orderly, Phase::Finishing(_) | Phase::Ending(_)) => {}
            (Close::Orderly, _) => self.finish(connection),
            (Close::Abortive, _) => {
                closed.phase = Phase::Broken;
                self.finish(connection);
            }
        }
    }

    fn turn(&mut self, timeout: Option<Duration>, done: &mut Vec<Completion>) -> io::Result<()> {
        let patience = self.patience(timeout, !self.backlog.is_empty());
        let mut changes = std::mem::take(&mut self.changes);
        let waited = self.readiness.wait(patience, &mut changes);
        done.append(&mut self.backlog);
        self.changes = changes;
        self.counts.enters += waited?;
        for at in 0..self.changes.len() {
            self.change(self.changes[at]);
        }
        self.receive(done);
        self.look_after_closings();
        done.append(&mut self.backlog);
        Ok(())
    }

    fn waker(&self) -> &Waker {
        self.readiness.waker()
    }

    fn counts(&self) -> TransportCounts {
        TransportCounts { wakes: self.readiness.rings(), ..self.counts }
    }

    fn untouched_buffers(&self) -> u32 {
        u32::from(self.buffer.as_ref().is_some_and(ReceiveBuffer::is_untouched))
    }
}

impl Drop for Epoll {
    fn drop(&mut self) {
        // Nobody is left who could say more: the other ends see that nothing was finished.
        let ids: Vec<_> = self.table.ids().collect();
        for id in ids {
            if let Some(connection) = self.table.remove(id)
                && !matches!(connection.phase, Phase::Ending(_))
            {
                connection.reset();
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
