//! A control connection: PING, PONG and GOODBYE, and nothing else.

use super::frames::{FrameStream, Reading};
use crate::clock::Moment;
use crate::id::WorkerId;
use crate::protocol::Heartbeat;
use crate::wire::{self, Features, Frame};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// How many frames of one link are read before others have their turn.
const FRAMES_A_TURN: usize = 16;

#[derive(Debug)]
pub(super) struct Link {
    pub(super) frames: FrameStream,
    pub(super) worker: WorkerId,
    pub(super) peer: SocketAddr,
    /// As agreed on in its handshake.
    features: Features,
    heartbeat: Heartbeat,
}

/// What a link's turn gives.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Whether there was a frame at all.
    pub(super) anything: bool,
    /// The newest round trip.
    pub(super) round_trip: Option<Duration>,
    /// The peer said that it ends.
    pub(super) goodbye: bool,
    /// There may be more than this turn has read.
    pub(super) more: bool,
    /// The connection is at its end.
    pub(super) end: Option<End>,
}

#[derive(Debug)]
pub(super) enum End {
    /// The peer's kernel closed it.
    Closed,
    Broken(io::Error),
    /// The peer sent what doesn't belong here.
    Violation(String),
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("closed by the peer"),
            Self::Broken(error) => error.fmt(f),
            Self::Violation(text) => f.write_str(text),
        }
    }
}

impl Link {
    pub(super) fn new(frames: FrameStream, worker: WorkerId, peer: SocketAddr, features: Features) -> Self {
        Self { frames, worker, peer, features, heartbeat: Heartbeat::default() }
    }

    /// Reads what has come and answers it.
    pub(super) fn turn(&mut self, now: Moment) -> Heard {
        let mut heard = Heard::default();
        for _ in 0..FRAMES_A_TURN {
            match self.frames.read() {
                Ok(Reading::Whole) => {}
                Ok(Reading::Partial) => return self.flushed(heard),
                Ok(Reading::Ended) => heard.end = Some(End::Closed),
                Ok(Reading::Malformed(error)) => heard.end = Some(End::Violation(error.to_string())),
                Err(error) => heard.end = Some(End::Broken(error)),
            }
            if heard.end.is_some() {
                return heard;
            }
            self.on_frame(now, &mut heard);
            self.frames.consume();
            if heard.end.is_some() || heard.goodbye {
                return heard;
            }
        }
        heard.more = true;
        self.flushed(heard)
    }

    /// Sends a heartbeat. An error shows at the next turn as well.
    pub(super) fn ping(&mut self, now: Moment) -> Option<End> {
        // Where so much waits already, the peer doesn't read: one heartbeat more would be no news to it.
        let ping = self.heartbeat.ping(now);
        self.say(&Frame::Ping(ping));
        self.frames.flush().err().map(End::Broken)
    }

    /// Says that this worker ends, and closes the connection.
    pub(super) fn goodbye(mut self) {
        self.say(&Frame::Goodbye);
        self.frames.close();
    }

    fn say(&mut self, frame: &Frame<'_>) {
        let mut bytes = Vec::with_capacity(64);
        frame.encode(&mut bytes, self.features);
        self.frames.queue(&bytes);
    }

    fn flushed(&mut self, mut heard: Heard) -> Heard {
        heard.end = self.frames.flush().err().map(End::Broken);
        heard
    }

    fn on_frame(&mut self, now: Moment, heard: &mut Heard) {
        match wire::decode(self.frames.frame(), self.features) {
            Ok(Frame::Ping(ping)) => self.say(&Frame::Pong(ping)),
            Ok(Frame::Pong(pong)) => match self.heartbeat.on_pong(&pong, now) {
                Ok(round_trip) => heard.round_trip = Some(round_trip),
                Err(violation) => heard.end = Some(End::Violation(violation.to_string())),
            },
            Ok(Frame::Goodbye) => heard.goodbye = true,
            Ok(frame) => {
                let text = format!("{} on a control connection", frame.kind().name());
                heard.end = Some(End::Violation(text));
            }
            Err(error) => heard.end = Some(End::Violation(error.to_string())),
        }
        heard.anything |= heard.end.is_none();
    }
}
