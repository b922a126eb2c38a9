//! One handshake over one socket: the bytes of `protocol::handshake`, read and written as the socket allows.

use super::frames::{FrameStream, Reading};
use super::port::{DialError, DialRequest};
use super::session::{Half, Turn};
use crate::clock::Moment;
use crate::id::WorkerId;
use crate::protocol::handshake::Agreed;
use mio::net::TcpStream;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

/// How a connection came about.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    /// Another worker made it, or whoever found the port.
    Accepted,
    /// An endpoint asked for it.
    Dialled(DialRequest),
    /// A control connection to this worker.
    Link(WorkerId),
}

#[derive(Debug)]
pub(super) struct Handshake {
    pub(super) frames: FrameStream,
    pub(super) origin: Origin,
    pub(super) peer: SocketAddr,
    pub(super) deadline: Moment,
    half: Half,
    connected: bool,
    agreed: Option<Agreed>,
}

/// How far a handshake is.
#[derive(Debug)]
pub(super) enum Step {
    Pending,
    Agreed(Agreed),
    Failed(Failure),
}

/// Why a handshake fails.
#[derive(Debug)]
pub(super) enum Failure {
    /// This side refuses: by this rule, for this reason.
    Refused {
        rule: &'static str,
        text: String,
    },
    /// The other side refused, in its own words.
    Rejected(String),
    Io(io::Error),
    TimedOut(Duration),
}

impl Failure {
    /// The rule by which it is counted.
    pub(super) fn rule(&self) -> &'static str {
        match self {
            Self::Refused { rule, .. } => rule,
            Self::Rejected(_) => "rejected by the peer",
            Self::Io(_) => "connection lost in the handshake",
            Self::TimedOut(_) => "handshake timed out",
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused { text, .. } | Self::Rejected(text) => f.write_str(text),
            Self::Io(error) => error.fmt(f),
            Self::TimedOut(after) => write!(f, "not finished within {after:?}"),
        }
    }
}

impl From<Failure> for DialError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused { text, .. } => Self::Protocol(text),
            Failure::Rejected(text) => Self::Rejected(text),
            Failure::Io(error) => Self::Io(error),
            Failure::TimedOut(after) => Self::TimedOut(after),
        }
    }
}

impl Handshake {
    /// The serving side, over a connection that stands.
    pub(super) fn accepted(stream: TcpStream, peer: SocketAddr, half: Half, deadline: Moment) -> Self {
        let frames = FrameStream::new(stream);
        Self { frames, origin: Origin::Accepted, peer, deadline, half, connected: true, agreed: None }
    }

    /// The dialling side, over a socket that is being connected; `hello` is sent when it is.
    pub(super) fn dialled(
        stream: TcpStream,
        (peer, origin): (SocketAddr, Origin),
        (half, hello): (Half, Vec<u8>),
        deadline: Moment,
    ) -> Self {
        let mut frames = FrameStream::new(stream);
        // An empty queue has room for one frame.
        frames.queue(&hello);
        Self { frames, origin, peer, deadline, half, connected: false, agreed: None }
    }

    /// Goes on as far as the socket allows.
    pub(super) fn advance(&mut self, admit: &dyn Fn(&Agreed) -> Result<(), (&'static str, String)>) -> Step {
        match self.try_advance(admit) {
            Ok(step) => step,
            Err(error) => Step::Failed(Failure::Io(error)),
        }
    }

    fn try_advance(
        &mut self,
        admit: &dyn Fn(&Agreed) -> Result<(), (&'static str, String)>,
    ) -> io::Result<Step> {
        if !self.connected {
            if !self.is_connected()? {
                return Ok(Step::Pending);
            }
            self.connected = true;
        }
        if !self.frames.flush()? {
            return Ok(Step::Pending);
        }
        if let Some(agreed) = self.agreed.take() {
            return Ok(Step::Agreed(agreed));
        }
        match self.frames.read()? {
            Reading::Partial => return Ok(Step::Pending),
            Reading::Ended if self.frames.has_begun() => {
                return Ok(Step::Failed(Failure::Io(ErrorKind::UnexpectedEof.into())));
            }
            Reading::Ended => {
                return Ok(Step::Failed(Failure::Io(io::Error::new(
                    ErrorKind::UnexpectedEof,
                    "closed before a word was said",
                ))));
            }
            Reading::Whole | Reading::Malformed(_) => {}
        }
        let mut answer = Vec::new();
        let turn = self.half.on_bytes(self.frames.frame(), admit, &mut answer);
        self.frames.consume();
        self.frames.queue(&answer);
        match turn {
            Turn::Agreed(agreed) => {
                if self.frames.flush()? {
                    return Ok(Step::Agreed(agreed));
                }
                self.agreed = Some(agreed);
                Ok(Step::Pending)
            }
            Turn::Refused { rule, text } => Ok(Step::Failed(Failure::Refused { rule, text })),
            Turn::Rejected(text) => Ok(Step::Failed(Failure::Rejected(text))),
        }
    }

    /// Whether the dial has come through. The way that works on every system: an error of the socket first, then
    /// whether it has another end.
    fn is_connected(&mut self) -> io::Result<bool> {
        if let Some(error) = self.frames.stream().take_error()? {
            return Err(error);
        }
        match self.frames.stream().peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }
}
