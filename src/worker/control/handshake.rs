//! One handshake over one socket: the bytes of `protocol::handshake`, read and written as the socket allows.

use super::frames::{FRAME_BYTES_MAX, FrameStream};
use super::port::{DialError, DialRequest};
use super::session::{Admission, Half, name};
use crate::clock::Moment;
use crate::id::WorkerId;
use crate::protocol::Agreed;
use crate::wire::Rule;
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
    /// Whether the other side has said anything.
    begun: bool,
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
    /// The rule that the other side is told.
    pub(super) fn named(&self) -> Rule {
        match self {
            Self::Refused { rule, .. } if *rule == name(Rule::SHARE) => Rule::SHARE,
            _ => Rule::NONE,
        }
    }

    /// The rule by which it is counted.
    pub(super) fn rule(&self, origin: &Origin) -> &'static str {
        match (self, origin) {
            (Self::Refused { rule, .. }, _) => rule,
            (Self::Rejected(_), _) => "rejected by the peer",
            (Self::Io(_), Origin::Accepted) => "connection lost in the handshake",
            (Self::Io(_), _) => "dial failed",
            (Self::TimedOut(_), Origin::Accepted) => "handshake timed out",
            (Self::TimedOut(_), _) => "dial timed out",
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
        Self {
            frames,
            origin: Origin::Accepted,
            peer,
            deadline,
            half,
            connected: true,
            begun: false,
            agreed: None,
        }
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
        Self { frames, origin, peer, deadline, half, connected: false, begun: false, agreed: None }
    }

    /// Goes on as far as the socket allows.
    pub(super) fn advance(&mut self, admission: Admission<'_>) -> Step {
        match self.try_advance(admission) {
            Ok(Some(agreed)) => Step::Agreed(agreed),
            Ok(None) => Step::Pending,
            Err(failure) => Step::Failed(failure),
        }
    }

    fn try_advance(&mut self, admission: Admission<'_>) -> Result<Option<Agreed>, Failure> {
        if !self.connected {
            if !self.is_connected()? {
                return Ok(None);
            }
            self.connected = true;
        }
        let mut chunk = [0; FRAME_BYTES_MAX];
        while self.frames.flush()? {
            if self.agreed.is_some() {
                return Ok(self.agreed.take());
            }
            // Never more than the handshake has: what is behind it is for who gets the socket.
            let wanted = self.half.wants().min(FRAME_BYTES_MAX);
            let count = match self.frames.receive(&mut chunk[..wanted])? {
                None => return Ok(None),
                Some(0) => return Err(closed(self.begun).into()),
                Some(count) => count.min(wanted),
            };
            self.begun = true;
            let mut answer = Vec::new();
            let agreed = self.half.on_bytes(&chunk[..count], admission, &mut answer);
            // It is the first frame of this side or the second: there is room. Behind a failure it is sent by
            // the close.
            self.frames.queue(&answer);
            self.agreed = agreed?;
        }
        Ok(None)
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

fn closed(begun: bool) -> io::Error {
    let when = if begun { "closed in the middle of the handshake" } else { "closed before a word was said" };
    io::Error::new(ErrorKind::UnexpectedEof, when)
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
