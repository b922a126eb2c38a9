//! The listening socket: takes connections in bounded helpings, and backs off when the machine has no more to give.

use crate::clock::Moment;
use mio::net::{TcpListener, TcpStream};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

/// How many connections are taken in one turn of the loop: alarms and heartbeats come in between.
const ACCEPTS_A_TURN: usize = 64;

/// How long nothing is taken after the machine was out of descriptors or memory. The connections wait in the
/// kernel's queue; asking again at once would only burn the processor.
const BACK_OFF: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Listener {
    socket: TcpListener,
    /// Set by the poll's edge, cleared by `WouldBlock` alone.
    ready: bool,
    /// None is taken before.
    not_before: Moment,
    taken: u64,
}

/// What one call of [`Listener::accept`] gives.
#[derive(Debug)]
pub(super) enum Accepted {
    Connection(TcpStream, SocketAddr),
    /// This one came to nothing, others may.
    Failed(io::Error),
    /// Nothing more in this turn.
    Nothing,
}

impl Listener {
    pub(super) fn new(socket: TcpListener) -> Self {
        // The poll's first edge may have been before the registration was seen; looking once is harmless.
        Self { socket, ready: true, not_before: Moment::default(), taken: 0 }
    }

    pub(super) fn is_ready(&mut self) {
        self.ready = true;
    }

    /// Begins a turn's helping.
    pub(super) fn begin(&mut self) {
        self.taken = 0;
    }

    /// When there may be something to take; `None` as long as the poll says nothing.
    pub(super) fn due(&self) -> Option<Moment> {
        self.ready.then_some(self.not_before)
    }

    pub(super) fn accept(&mut self, now: Moment) -> Accepted {
        if !self.ready || now < self.not_before || self.taken >= ACCEPTS_A_TURN as u64 {
            return Accepted::Nothing;
        }
        self.taken += 1;
        match self.socket.accept() {
            Ok((stream, peer)) => Accepted::Connection(stream, peer),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.ready = false;
                Accepted::Nothing
            }
            Err(error) => {
                // The peer's own change of mind, or a signal, says nothing about the next one. Of all else
                // (descriptors, memory) there is no more until somebody gives some back.
                if !matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) {
                    self.not_before = now.plus(BACK_OFF);
                }
                Accepted::Failed(error)
            }
        }
    }
}
