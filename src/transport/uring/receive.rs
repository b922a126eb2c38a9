//! The receiving half: buffers out and back, and what each completion of a receive means.

use super::Uring;
use super::connection::Receiving;
use super::low_water::MARK;
use super::op::{Op, OpName};
use super::ring::{BUFFERS, Cqe, Entry, Ring};
use crate::clock::Moment;
use crate::memory::{Lent, ReceiveBuffer, ReceivePool};
use crate::transport::{Completion, ConnectionId};
use std::io;
use std::ptr::NonNull;

/// Buffers given to the kernel for each connection: one is filled while the one before is read.
const BUFFERS_EACH: usize = 2;

/// The fewest and the most buffers with the kernel.
const BUFFERS_MIN: usize = 2;

/// Receive buffers that are open: with the kernel, or partly filled and at hand.
#[derive(Debug)]
pub(super) struct Buffers {
    pool: ReceivePool,
    /// By the kernel's name for them; U3.
    provided: Vec<Option<ReceiveBuffer>>,
    names: Vec<u16>,
    /// Partly filled, for single receives.
    rests: Vec<ReceiveBuffer>,
}

impl Buffers {
    pub(super) fn new(pool: ReceivePool) -> Self {
        let provided = (0..BUFFERS).map(|_| None).collect();
        Self { pool, provided, names: (0..BUFFERS).rev().collect(), rests: Vec::new() }
    }

    fn given(&self) -> usize {
        usize::from(BUFFERS) - self.names.len()
    }

    /// Those with the kernel that it hasn't said anything of. Few enough to be looked at for each receive.
    pub(super) fn untouched(&self) -> u32 {
        let untouched = self.provided.iter().flatten().filter(|buffer| buffer.is_untouched()).count();
        u32::try_from(untouched).unwrap_or(u32::MAX)
    }

    /// A buffer for one receive: a rest, or a fresh one.
    fn take(&mut self) -> Option<ReceiveBuffer> {
        self.rests.pop().or_else(|| ReceiveBuffer::open(&self.pool))
    }

    fn put_rest(&mut self, buffer: ReceiveBuffer) {
        if !buffer.is_spent() {
            self.rests.push(buffer);
        }
    }

    /// Lets go of everything without giving its memory back: the kernel may still write there.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.provided));
    }
}

/// Where a receive may write, and how much.
fn spare(buffer: &mut ReceiveBuffer) -> (NonNull<u8>, u32) {
    let spare = buffer.spare();
    let bytes = u32::try_from(spare.len()).unwrap_or(u32::MAX);
    (NonNull::from(spare).cast(), bytes)
}

impl<R: Ring> Uring<R> {
    /// Receives from now on, if there is anything to be received.
    pub(super) fn arm(&mut self, id: ConnectionId) {
        if self.ring.takes_buffers() {
            self.provide_all();
        }
        let starves = self.ring.takes_buffers() && self.buffers.given() == 0;
        let Some(connection) = self.connections.get_mut(id) else { return };
        if connection.receiving == Receiving::Over {
            return;
        }
        if starves {
            self.starve(id);
            return;
        }
        connection.receiving = Receiving::Armed;
        let socket = connection.fd();
        if self.ring.takes_buffers() {
            self.submit_for(id, Entry::Receive { socket }, Op::Receive { connection: id });
        } else {
            // At rest no buffer is held: first wait for bytes, then take one.
            self.submit_for(id, Entry::Readable { socket }, Op::Readable { connection: id });
        }
    }

    /// There may be something to be received.
    pub(super) fn readable(&mut self, id: ConnectionId, cqe: &Cqe, done: &mut Vec<Completion>) {
        match cqe.errno() {
            // Cancelled by ourselves, and then it is over; else `arm` looks after it.
            Some(libc::ECANCELED)
                if self.connections.get(id).is_none_or(|it| it.is_cancelling() || it.failed) => {}
            Some(errno) if ![libc::ECANCELED, libc::EINTR, libc::EAGAIN].contains(&errno) => {
                self.fail(id, io::Error::from_raw_os_error(errno), done);
            }
            None if !self.ring.takes_buffers() => self.receive_once(id),
            _ => self.arm(id),
        }
    }

    fn receive_once(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if connection.receiving == Receiving::Over {
            return;
        }
        let socket = connection.fd();
        let Some(mut buffer) = self.buffers.take() else {
            self.starve(id);
            return;
        };
        let (base, bytes) = spare(&mut buffer);
        let entry = Entry::ReceiveOnce { socket, base, bytes };
        if let Some(connection) = self.connections.get_mut(id) {
            connection.receiving = Receiving::Armed;
        }
        self.submit_for(id, entry, Op::ReceiveOnce { connection: id, buffer });
    }

    fn starve(&mut self, id: ConnectionId) {
        self.counts.starved += 1;
        if let Some(connection) = self.connections.get_mut(id) {
            connection.receiving = Receiving::Starved;
            self.starved.push_back(id);
        }
    }

    /// Gives the kernel the buffers that it should have.
    fn provide_all(&mut self) {
        let wanted = (BUFFERS_EACH * self.attached).clamp(BUFFERS_MIN, usize::from(BUFFERS));
        while self.buffers.given() < wanted {
            let Some(buffer) = self.buffers.take() else { break };
            let Some(name) = self.buffers.names.pop() else { break };
            self.provide(name, buffer);
        }
    }

    fn provide(&mut self, name: u16, mut buffer: ReceiveBuffer) {
        let (base, bytes) = spare(&mut buffer);
        self.buffers.provided[usize::from(name)] = Some(buffer);
        // SAFETY: U3: the buffer lies there until a completion names it, and its write half is the one way
        // to these bytes.
        unsafe { self.ring.provide(name, base, bytes) };
    }

    /// Takes what buffers are free, and arms those that waited for one.
    pub(super) fn refill(&mut self) {
        if self.starved.is_empty() {
            return;
        }
        for announced in [false, true] {
            self.arm_starved();
            if self.starved.is_empty() {
                if announced {
                    self.buffers.pool.waiter().retract();
                }
                return;
            }
            if !announced {
                self.buffers.pool.waiter().announce(self.bell.waker());
            }
        }
    }

    /// Arms as many of the starved as there are buffers for, longest first.
    fn arm_starved(&mut self) {
        let gives = self.ring.takes_buffers();
        if gives {
            self.provide_all();
        }
        let mut count = if gives { self.buffers.given() } else { self.starved.len() };
        while count > 0 {
            if !gives {
                // Whoever is served takes a buffer, and there is one as long as this one comes and goes.
                let Some(buffer) = self.buffers.take() else { return };
                self.buffers.rests.push(buffer);
            }
            let Some(id) = self.starved.pop_front() else { return };
            let waits = self.connections.get_mut(id).is_some_and(|it| it.receiving == Receiving::Starved);
            if waits && gives {
                self.arm(id);
            } else if waits {
                self.receive_once(id);
            }
            count -= usize::from(waits);
        }
    }

    /// The bytes that a completion brought, if it names a buffer. The rest of that buffer is the kernel's still, or is
    /// provided again; for one that is full it gets another, the one that came back last, which is warm.
    pub(super) fn reclaim(&mut self, cqe: &Cqe) -> Option<Lent> {
        let name = cqe.buffer()?;
        let mut buffer = self.buffers.provided.get_mut(usize::from(name))?.take()?;
        let bytes = usize::try_from(cqe.result).ok().filter(|bytes| *bytes > 0);
        let lent = bytes.map(|bytes| buffer.received(bytes));
        if cqe.keeps_buffer() {
            self.buffers.provided[usize::from(name)] = Some(buffer);
        } else if buffer.is_spent() {
            self.buffers.names.push(name);
            self.provide_all();
        } else {
            self.provide(name, buffer);
        }
        lent
    }

    pub(super) fn received(&mut self, id: ConnectionId, name: OpName, cqe: &Cqe, done: &mut Vec<Completion>) {
        let lent = self.reclaim(cqe);
        let over = !cqe.has_more();
        if over {
            self.ended(id, name);
        }
        match (lent, cqe.errno()) {
            (Some(lent), _) => {
                self.deliver(id, lent, done);
                if over {
                    self.arm(id);
                }
            }
            (None, None) if cqe.result == 0 => self.end_of_stream(id, done),
            // No buffer was free. Nothing is lost: the bytes lie in the socket.
            (None, Some(libc::ENOBUFS)) if over => {
                if self.connections.get_mut(id).is_some_and(|it| it.receiving != Receiving::Over) {
                    self.starve(id);
                }
            }
            (None, Some(libc::EAGAIN)) if over => self.await_readable(id),
            (None, Some(libc::EINTR)) if over => self.arm(id),
            (None, Some(libc::ENOBUFS | libc::EAGAIN | libc::EINTR)) => {}
            (None, Some(errno)) => self.fail(id, io::Error::from_raw_os_error(errno), done),
            (None, None) => self.fail(id, io::ErrorKind::InvalidData.into(), done),
        }
        self.go_on_closing(id, done);
    }

    pub(super) fn received_once(
        &mut self,
        id: ConnectionId,
        name: OpName,
        cqe: &Cqe,
        done: &mut Vec<Completion>,
    ) {
        let Some(Op::ReceiveOnce { mut buffer, .. }) = self.ended(id, name) else { return };
        let bytes = usize::try_from(cqe.result).unwrap_or(0);
        let lent = (bytes > 0).then(|| buffer.received(bytes));
        self.buffers.put_rest(buffer);
        match (lent, cqe.errno()) {
            (Some(lent), _) => {
                self.deliver(id, lent, done);
                self.receive_once(id);
            }
            (None, None) => self.end_of_stream(id, done),
            (None, Some(libc::EAGAIN)) => self.arm(id),
            (None, Some(libc::EINTR)) => self.receive_once(id),
            (None, Some(errno)) => self.fail(id, io::Error::from_raw_os_error(errno), done),
        }
        self.go_on_closing(id, done);
    }

    /// The kernel gave up waiting (a socket that doesn't wait, or want of memory): it says when it is time.
    fn await_readable(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if connection.receiving != Receiving::Over {
            let socket = connection.fd();
            self.submit_for(id, Entry::Readable { socket }, Op::Readable { connection: id });
        }
    }

    fn deliver(&mut self, id: ConnectionId, lent: Lent, done: &mut Vec<Completion>) {
        let now = self.ring.now();
        let Some(connection) = self.connections.get_mut(id) else { return };
        self.counts.received += lent.len() as u64;
        if connection.receiving == Receiving::Over {
            return;
        }
        if connection.low_water.is_enabled() && connection.low_water.received(lent.len(), now) {
            match self.ring.set_low_water(connection.borrow(), MARK) {
                Ok(()) => {
                    connection.low_water.raise(now);
                    self.lazy.push(id);
                }
                Err(_) => connection.low_water.disable(),
            }
        }
        // In a close, bytes are read to find the end behind them.
        if connection.is_open() {
            done.push(Completion::Received { connection: id, bytes: lent });
        }
    }

    fn end_of_stream(&mut self, id: ConnectionId, done: &mut Vec<Completion>) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if connection.receiving == Receiving::Over {
            return;
        }
        connection.receiving = Receiving::Over;
        connection.ended = true;
        if connection.is_open() {
            done.push(Completion::Eof { connection: id });
        }
    }

    /// Puts every mark down whose deadline is past.
    pub(super) fn lower_due(&mut self, now: Moment) {
        for at in (0..self.lazy.len()).rev() {
            let id = self.lazy[at];
            let due =
                self.connections.get(id).is_none_or(|it| it.low_water.deadline().is_none_or(|at| at <= now));
            if due {
                self.lazy.swap_remove(at);
                self.lower(id, now);
            }
        }
    }

    pub(super) fn lower_all(&mut self, now: Moment) {
        while let Some(id) = self.lazy.pop() {
            self.lower(id, now);
        }
    }

    /// The kernel says at once if there is anything. It refuses no mark of 1 where it took a higher one; were it
    /// to, the connection could hang, so that is its end.
    fn lower(&mut self, id: ConnectionId, now: Moment) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if connection.low_water.deadline().is_none() {
            return;
        }
        connection.low_water.lower(now);
        if let Err(error) = self.ring.set_low_water(connection.borrow(), 1) {
            let mut ready = std::mem::take(&mut self.ready);
            self.fail(id, error, &mut ready);
            self.ready = ready;
        }
    }
}
