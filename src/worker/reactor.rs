//! The handle of a reactor that a task's thread turns.

use super::control::Endpoints as Ports;
use crate::net::Turned;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Turns the sockets of the calling thread's tasks: made by [`Worker::reactor`](crate::Worker::reactor), not `Send`.
///
/// Blocking calls of gates and writers on this thread turn it while they wait. A task that does neither for long
/// calls [`Reactor::turn`] in between: while it doesn't, nothing is received and nothing is sent, and the other ends
/// of its connections see a peer that is slow.
///
/// What comes is acknowledged within a millisecond only while the thread turns the reactor: by hand at every turn,
/// inside of calls that block when it is due. A task that computes for long between two of them acknowledges late. A
/// quarter of the window is acknowledged in the turn that brings it.
///
/// What a gate was given last, the end of a partition included, is acknowledged by the next turn: a thread that has
/// read its last end and goes on to something else turns once more or drops the reactor, or a producer that waits in
/// [`finish`](crate::RecordWriter::finish) waits for it. When the connection is lost before that is confirmed it is told
/// again by the next one, while the reactor is turned: [`NetSnapshot::ends_unsaid`](crate::NetSnapshot::ends_unsaid)
/// says whether there is such an end. Dropping the reactor gives it up.
///
/// Dropping it closes its channels in order and its connections: at once, or, if it is dropped by what its own turn
/// has woken, at the end of that turn.
#[derive(Debug)]
pub struct Reactor {
    turned: Turned,
    ports: Arc<Ports>,
}

impl Reactor {
    pub(super) fn new(turned: Turned, ports: Arc<Ports>) -> Self {
        Self { turned, ports }
    }

    /// Sends what there is to send, receives what has come, and waits for more until something comes or `timeout`
    /// is over; not at all with zero, and without limit with `None`.
    ///
    /// # Errors
    /// The transport can't go on: the reactor is of no use any more.
    pub fn turn(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.turned.turn(timeout).map(drop)
    }

    /// Which of the worker's endpoints this is: descriptors of the thread's partitions name it.
    #[must_use]
    pub fn endpoint(&self) -> u16 {
        self.turned.endpoint().number()
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        // Nothing comes to it any more. The rest is done by the end of what it holds.
        self.ports.remove(self.turned.endpoint().number());
    }
}
