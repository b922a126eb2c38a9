//! The sending half: one send of a connection at a time, until its batch is sent whole.

use super::Uring;
use super::op::{Op, OpName};
use super::ring::{COPIED, Cqe, Entry, Ring, ZeroCopySend};
use super::zero_copy::Ability;
use crate::transport::{Batch, Completion, ConnectionId};
use std::io;

/// What becomes of a batch after a result.
enum Next {
    /// The rest is sent.
    Rest,
    /// The rest is sent when the socket takes bytes again.
    Wait,
    /// All is sent.
    Whole,
    Fail(io::Error),
}

impl<R: Ring> Uring<R> {
    pub(super) fn send_batch(&mut self, id: ConnectionId, batch: Box<Batch>) {
        let place = self.outgoings.insert(id, batch);
        if let Some(connection) = self.connections.get_mut(id) {
            connection.sending = Some(place);
        }
        let mut ready = std::mem::take(&mut self.ready);
        self.send_rest(id, &mut ready);
        self.ready = ready;
    }

    /// Sends what is left of the connection's batch, unless the connection can't any more.
    pub(super) fn send_rest(&mut self, id: ConnectionId, done: &mut Vec<Completion>) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let Some(place) = connection.sending else { return };
        if connection.failed || connection.is_cancelling() {
            self.give_up(id, place, done);
            return;
        }
        if self.outgoings.get(place).left() == 0 {
            self.whole(id, place, done);
            return;
        }
        let (socket, zero_copy) = (connection.fd(), self.choose_zero_copy(id, place));
        let outgoing = self.outgoings.get(place);
        outgoing.ops += 1;
        let entry = Entry::Send { socket, message: outgoing.message(), zero_copy };
        let zero_copy = zero_copy.is_some();
        self.counts.zero_copy_sends += u64::from(zero_copy);
        let op = Op::Send { connection: id, outgoing: place, zero_copy, answered: false, notified: false };
        self.submit_for(id, entry, op);
    }

    fn choose_zero_copy(&mut self, id: ConnectionId, place: u32) -> Option<ZeroCopySend> {
        let now = self.ring.now();
        let connection = self.connections.get_mut(id)?;
        let outgoing = self.outgoings.get(place);
        if !connection.zero_copy.is_possible() || !connection.zero_copy.wants(outgoing.reach(), now) {
            return None;
        }
        // Pages that aren't registered count against the limit of locked memory, send by send: only if asked for.
        let region = self.arena.as_mut()?.take_in(outgoing);
        let report = self.settings.ability == Ability::Reporting;
        (region.is_some() || connection.zero_copy.is_always()).then_some(ZeroCopySend { region, report })
    }

    /// A completion of a send: its result, or the notification that its memory is free.
    pub(super) fn sent(&mut self, name: OpName, cqe: &Cqe, done: &mut Vec<Completion>) {
        let Some(Op::Send { connection, outgoing, zero_copy, answered, notified }) = self.ops.get(name)
        else {
            return;
        };
        let (id, place, zero_copy) = (*connection, *outgoing, *zero_copy);
        let is_result = !cqe.is_notification();
        let over;
        if is_result {
            *answered = true;
            over = !cqe.has_more() || *notified;
        } else {
            *notified = true;
            over = *answered;
        }
        if over {
            self.ops.remove(name);
            self.outgoings.get(place).ops -= 1;
        }
        if is_result {
            if let Some(connection) = self.connections.get_mut(id) {
                connection.ops -= 1;
            }
            self.result(id, place, zero_copy, cqe, done);
        } else {
            self.notified(id, cqe);
        }
        self.recycle(place, done);
        self.go_on_closing(id, done);
    }

    fn notified(&mut self, id: ConnectionId, cqe: &Cqe) {
        let copied = cqe.result as u32 & COPIED != 0;
        self.counts.zero_copy_copied += u64::from(copied);
        if self.settings.ability == Ability::Reporting {
            let now = self.ring.now();
            if let Some(connection) = self.connections.get_mut(id) {
                connection.zero_copy.reported(copied, now);
            }
        }
    }

    fn result(
        &mut self,
        id: ConnectionId,
        place: u32,
        zero_copy: bool,
        cqe: &Cqe,
        done: &mut Vec<Completion>,
    ) {
        let next = match cqe.errno() {
            None if cqe.result == 0 => Next::Fail(io::ErrorKind::WriteZero.into()),
            None => {
                let bytes = cqe.result as usize;
                self.counts.sent += bytes as u64;
                let outgoing = self.outgoings.get(place);
                outgoing.advance(bytes);
                // Short in spite of `MSG_WAITALL`: broken, mostly. The rest brings the reason to light.
                if outgoing.left() == 0 { Next::Whole } else { Next::Rest }
            }
            Some(libc::EINTR) => Next::Rest,
            Some(libc::EAGAIN) => Next::Wait,
            Some(errno) if zero_copy && self.refuses_zero_copy(id, errno) => Next::Rest,
            Some(errno) => Next::Fail(io::Error::from_raw_os_error(errno)),
        };
        match next {
            Next::Rest => self.send_rest(id, done),
            Next::Whole => self.whole(id, place, done),
            Next::Wait => match self.connections.get_mut(id) {
                Some(connection) if !connection.failed && !connection.is_cancelling() => {
                    let socket = connection.fd();
                    self.submit_for(id, Entry::Writable { socket }, Op::Writable { connection: id });
                }
                _ => self.give_up(id, place, done),
            },
            Next::Fail(error) => {
                self.give_up(id, place, done);
                self.fail(id, error, done);
            }
        }
    }

    /// Whether an errno says that the socket, or the memory, is none for zero copies. Nothing was sent then.
    fn refuses_zero_copy(&mut self, id: ConnectionId, errno: i32) -> bool {
        let for_good = [libc::EINVAL, libc::EOPNOTSUPP, libc::EFAULT].contains(&errno);
        let for_now = [libc::ENOMEM, libc::ENOBUFS].contains(&errno);
        if for_good || for_now {
            let now = self.ring.now();
            if let Some(connection) = self.connections.get_mut(id) {
                connection.zero_copy.refused(for_good, now);
            }
        }
        for_good || for_now
    }

    fn whole(&mut self, id: ConnectionId, place: u32, done: &mut Vec<Completion>) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.sending = None;
            if !connection.failed && !connection.is_cancelling() {
                done.push(Completion::Sent { connection: id });
            }
        }
        self.outgoings.get(place).over = true;
        self.recycle(place, done);
    }

    /// Nothing more of the batch is sent.
    fn give_up(&mut self, id: ConnectionId, place: u32, done: &mut Vec<Completion>) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.sending = None;
        }
        self.outgoings.get(place).over = true;
        self.recycle(place, done);
    }

    fn recycle(&mut self, place: u32, done: &mut Vec<Completion>) {
        if let Some(batch) = self.outgoings.unload(place) {
            done.push(Completion::Recycled { batch });
        }
    }
}
