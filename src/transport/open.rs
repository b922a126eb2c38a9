//! The choice among the transports.

use super::error::TransportError;
use super::uring::{Found, KernelRing, Uring, UringOptions};
use super::{Batch, Close, Completion, ConnectionId, Epoll, Transport, TransportCounts};
use crate::metrics::cold_event;
use std::io;
use std::os::fd::OwnedFd;
use std::task::Waker;
use std::time::Duration;

/// What moves the bytes between workers.
///
/// The examples take it from the environment: `PIRN_IO` is `auto`, `uring` or `epoll`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Io {
    /// io_uring, and epoll wherever the kernel refuses it: one log line says at which step and why. The default.
    #[default]
    Auto,
    /// io_uring, or an error that says at which step the kernel refused it and what to do.
    Uring,
    /// epoll and one system call for each send and receive.
    Epoll,
}

impl std::str::FromStr for Io {
    type Err = UnknownIo;

    /// `auto`, `uring` or `epoll`, in lower case.
    fn from_str(name: &str) -> Result<Self, UnknownIo> {
        match name {
            "auto" => Ok(Self::Auto),
            "uring" => Ok(Self::Uring),
            "epoll" => Ok(Self::Epoll),
            other => Err(UnknownIo(other.to_owned())),
        }
    }
}

/// No name of an [`Io`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no I/O back-end: auto, uring or epoll")]
pub struct UnknownIo(pub String);

/// One of the transports. By `match` and not by a table of functions: turns are the hot path.
#[derive(Debug)]
pub(crate) enum AnyTransport {
    Uring(Box<Uring<KernelRing>>),
    Epoll(Box<Epoll>),
}

/// Which transport it became, and why.
#[allow(dead_code, reason = "what stands in them was logged; tests look at it")]
#[derive(Debug)]
pub(crate) enum Opened {
    /// With what the kernel gives of it.
    Uring(Found),
    /// As asked.
    Epoll,
    /// Since io_uring was refused.
    FellBack(TransportError),
}

/// Makes the transport of the thread that calls.
///
/// # Errors
/// [`TransportError::Uring`] if that was asked for and is refused; [`TransportError::Epoll`] if even that can't
/// be had.
pub(crate) fn open(io: Io, options: UringOptions) -> Result<(AnyTransport, Opened), TransportError> {
    let pool = options.receive.clone();
    let epoll = || {
        let epoll = Epoll::new(pool).map_err(|source| TransportError::Epoll { source })?;
        Ok(AnyTransport::Epoll(Box::new(epoll)))
    };
    if io == Io::Epoll {
        return Ok((epoll()?, Opened::Epoll));
    }
    match Uring::open(options) {
        Ok((uring, found)) => {
            cold_event!(info, %found, "io_uring");
            Ok((AnyTransport::Uring(Box::new(uring)), Opened::Uring(found)))
        }
        Err((step, source)) => {
            let refusal = TransportError::uring(step, source);
            if io == Io::Uring {
                return Err(refusal);
            }
            let errno = refusal.errno();
            cold_event!(warn, step, errno, %refusal, "io_uring is refused: epoll moves the bytes");
            Ok((epoll()?, Opened::FellBack(refusal)))
        }
    }
}

macro_rules! each {
    ($transport:expr, $name:ident => $call:expr) => {
        match $transport {
            AnyTransport::Uring($name) => $call,
            AnyTransport::Epoll($name) => $call,
        }
    };
}

impl Transport for AnyTransport {
    fn attach(&mut self, socket: OwnedFd) -> io::Result<ConnectionId> {
        each!(self, it => it.attach(socket))
    }

    fn send(&mut self, connection: ConnectionId, batch: Box<Batch>) {
        each!(self, it => it.send(connection, batch));
    }

    fn close(&mut self, connection: ConnectionId, how: Close) {
        each!(self, it => it.close(connection, how));
    }

    fn turn(&mut self, timeout: Option<Duration>, done: &mut Vec<Completion>) -> io::Result<()> {
        each!(self, it => it.turn(timeout, done))
    }

    fn waker(&self) -> &Waker {
        each!(self, it => it.waker())
    }

    fn counts(&self) -> TransportCounts {
        each!(self, it => it.counts())
    }

    fn untouched_buffers(&self) -> u32 {
        each!(self, it => it.untouched_buffers())
    }
}
