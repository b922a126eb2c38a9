//! The end of a connection: nothing of it is under way any more when its descriptor is closed. Notifications of
//! zero-copy sends may come later: they need the memory, not the descriptor.

use super::connection::{Closing, Receiving};
use super::op::Op;
use super::ring::{Cqe, Entry, Ring};
use super::{Uring, wait_until};
use crate::clock::Moment;
use crate::metrics::cold_event;
use crate::transport::{CLOSE_PATIENCE, Close, Completion, ConnectionId};
use std::time::Duration;

/// How long operations may outlast their cancellation before the socket is shut down under them.
const CANCEL_PATIENCE: Duration = Duration::from_millis(100);

/// How long the end of a transport waits for the kernel's answers.
const DROP_PATIENCE: Duration = Duration::from_secs(1);

impl<R: Ring> Uring<R> {
    pub(super) fn begin_closing(&mut self, id: ConnectionId, how: Close) {
        let now = self.ring.now();
        let Some(connection) = self.connections.get_mut(id) else { return };
        match (connection.closing, how) {
            (Closing::No, Close::Orderly) if !connection.failed => {
                let seen = self.ring.acknowledged(connection.borrow());
                connection.closing = Closing::Sending { since: now, seen };
                self.leaving.push(id);
            }
            (Closing::Cancelling { .. }, _)
            | (Closing::Sending { .. } | Closing::Ended { .. }, Close::Orderly) => {}
            _ => self.begin_cancelling(id, true),
        }
        let mut ready = std::mem::take(&mut self.ready);
        self.go_on_closing(id, &mut ready);
        self.ready = ready;
    }

    /// Whatever is under way ends; then the descriptor is closed, with a reset if so asked.
    pub(super) fn begin_cancelling(&mut self, id: ConnectionId, abort: bool) {
        let now = self.ring.now();
        let Some(connection) = self.connections.get_mut(id) else { return };
        if connection.is_cancelling() {
            return;
        }
        if connection.is_open() || !self.leaving.contains(&id) {
            self.leaving.push(id);
        }
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.receiving = Receiving::Over;
        connection.closing = Closing::Cancelling { abort, since: now };
        if connection.ops > 0 {
            self.cancel(id);
        }
    }

    pub(super) fn cancel(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let socket = connection.fd();
        self.submit_for(id, Entry::CancelSocket { socket }, Op::Cancel { connection: Some(id) });
    }

    /// The answer to a cancellation. Had it found nothing, what is under way ends by the socket's own end.
    pub(super) fn cancelled(&mut self, id: ConnectionId, cqe: &Cqe, done: &mut Vec<Completion>) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.ops -= 1;
            if connection.ops > 0 && cqe.result <= 0 {
                self.ring.shut_down(connection.borrow(), true);
            }
        }
        self.go_on_closing(id, done);
    }

    /// The next step of a close, if it is time for one.
    pub(super) fn go_on_closing(&mut self, id: ConnectionId, done: &mut Vec<Completion>) {
        loop {
            let Some(connection) = self.connections.get_mut(id) else { return };
            match connection.closing {
                Closing::Sending { .. } if connection.sending.is_none() => {
                    self.ring.shut_down(connection.borrow(), false);
                    connection.closing = Closing::Ended { since: self.ring.now() };
                }
                Closing::Ended { .. } if connection.ended => self.begin_cancelling(id, false),
                Closing::Cancelling { abort, .. } if connection.ops == 0 => {
                    self.finish(id, abort, done);
                    return;
                }
                _ => return,
            }
        }
    }

    fn finish(&mut self, id: ConnectionId, abort: bool, done: &mut Vec<Completion>) {
        // A batch whose send was never submitted again is given back here.
        self.send_rest(id, done);
        let Some(connection) = self.connections.remove(id) else { return };
        self.attached -= 1;
        self.ring.close(connection.socket, abort);
        self.leaving.retain(|other| *other != id);
        self.lazy.retain(|other| *other != id);
        self.starved.retain(|other| *other != id);
        done.push(Completion::Closed { connection: id });
    }

    /// The next moment at which something has to be done without a completion.
    pub(super) fn deadline(&self) -> Option<Moment> {
        let connections = &self.connections;
        let lazy = self.lazy.iter().filter_map(|id| connections.get(*id)?.low_water.deadline()).min();
        let leaving =
            self.leaving.iter().filter_map(|id| closing_deadline(connections.get(*id)?.closing)).min();
        lazy.into_iter().chain(leaving).min()
    }

    pub(super) fn keep_deadlines(&mut self, now: Moment, done: &mut Vec<Completion>) {
        self.lower_due(now);
        for at in (0..self.leaving.len()).rev() {
            let Some(id) = self.leaving.get(at).copied() else { continue };
            let Some(connection) = self.connections.get_mut(id) else { continue };
            if closing_deadline(connection.closing).is_none_or(|deadline| deadline > now) {
                continue;
            }
            match connection.closing {
                Closing::Sending { seen, .. } => {
                    let acknowledged = self.ring.acknowledged(connection.borrow());
                    if acknowledged > seen {
                        connection.closing = Closing::Sending { since: now, seen: acknowledged };
                    } else {
                        self.begin_cancelling(id, true);
                    }
                }
                Closing::Ended { .. } => self.begin_cancelling(id, true),
                Closing::Cancelling { abort, .. } => {
                    self.ring.shut_down(connection.borrow(), true);
                    connection.closing = Closing::Cancelling { abort, since: now };
                }
                Closing::No => {}
            }
            self.go_on_closing(id, done);
        }
    }

    /// Ends everything that is under way. Tells whether the kernel has answered for all of it.
    fn end(&mut self) -> bool {
        self.ending = true;
        let mut done = Vec::new();
        let ids: Vec<ConnectionId> = self.connections.ids().collect();
        for id in ids {
            self.begin_closing(id, Close::Abortive);
        }
        self.submit(Entry::CancelAll, Op::Cancel { connection: None });
        let end = self.ring.now().plus(DROP_PATIENCE);
        loop {
            let now = self.ring.now();
            self.reap(&mut done);
            self.keep_deadlines(now, &mut done);
            done.clear();
            if self.ops.len() == 0 && self.outgoings.len() == 0 {
                return true;
            }
            if now >= end {
                return false;
            }
            let deadline = self.deadline().map_or(end, |deadline| deadline.min(end));
            let wait = wait_until(Some(deadline), now);
            if self.enter(wait).is_err() {
                return false;
            }
        }
    }
}

fn closing_deadline(closing: Closing) -> Option<Moment> {
    match closing {
        Closing::No => None,
        Closing::Sending { since, .. } | Closing::Ended { since } => Some(since.plus(CLOSE_PATIENCE)),
        Closing::Cancelling { since, .. } => Some(since.plus(CANCEL_PATIENCE)),
    }
}

impl<R: Ring> Drop for Uring<R> {
    /// Waits for the kernel's answers, about a second at most. What it then may still touch is leaked (U6).
    fn drop(&mut self) {
        if self.end() {
            return;
        }
        cold_event!(
            error,
            operations = self.ops.len(),
            batches = self.outgoings.len(),
            "the kernel didn't answer for all operations: their memory is leaked"
        );
        self.ops.leak();
        self.outgoings.leak();
        self.buffers.leak();
        self.bell.leak();
        self.ring.leak();
    }
}
