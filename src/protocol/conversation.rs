//! Who may send what on a connection, and the heartbeat of a control connection.

use super::Violation;
use crate::clock::Moment;
use crate::wire::{Kind, Ping, Purpose, Rule};
use std::time::Duration;

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Connected, and asks for subpartitions.
    Binder,
    /// Was connected to, and has them.
    Server,
}

/// What the peer may say, after the handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conversation {
    peer: Role,
    purpose: Purpose,
    /// The peer has said its last word.
    over: bool,
}

impl Conversation {
    /// `peer`: the other end's role.
    pub(crate) const fn new(peer: Role, purpose: Purpose) -> Self {
        Self { peer, purpose, over: false }
    }

    /// Whether the peer has said its last word.
    pub(crate) const fn is_over(&self) -> bool {
        self.over
    }

    /// The peer sends a frame of this kind. To be asked before a frame is acted upon.
    ///
    /// # Errors
    /// It may not, on this connection or now. The connection is given up: a peer that mistakes its role
    /// would do so with every frame.
    pub(crate) fn admit(&mut self, kind: Kind) -> Result<(), Violation> {
        if self.over {
            let text = format_args!("{} after GOODBYE", kind.name());
            return Err(Violation::connection(Rule::ROLE, text));
        }
        let may = match kind {
            Kind::Hello | Kind::Welcome | Kind::Reject => false,
            Kind::Bind | Kind::Ack | Kind::Close => self.is(Role::Binder),
            Kind::Waiting | Kind::Refused | Kind::Bound | Kind::Gone => self.is(Role::Server),
            Kind::Data | Kind::Event | Kind::Priority => self.is(Role::Server),
            Kind::Ping | Kind::Pong => self.purpose == Purpose::Control,
            Kind::Error | Kind::Goodbye => true,
        };
        if !may {
            let (name, peer, purpose) = (kind.name(), self.peer, self.purpose);
            let text = format_args!("{name} from the {peer:?} of a connection for {purpose:?}");
            return Err(Violation::connection(Rule::ROLE, text));
        }
        self.over = kind == Kind::Goodbye;
        Ok(())
    }

    fn is(&self, role: Role) -> bool {
        self.purpose == Purpose::Data && self.peer == role
    }
}

/// One end of a control connection's heartbeat. When to ping, and when silence is too long, is the caller's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heartbeat {
    /// The newest PING sent, and the newest that was answered; counted from 1.
    sent: u64,
    answered: u64,
}

impl Heartbeat {
    /// The next PING.
    pub(crate) fn ping(&mut self, now: Moment) -> Ping {
        self.sent += 1;
        Ping { sequence: self.sent, nanos: now.as_nanos() }
    }

    /// How many PINGs have no answer yet.
    pub(crate) const fn unanswered(&self) -> u64 {
        self.sent - self.answered
    }

    /// A PONG came. Returns how long ago its PING was sent.
    ///
    /// # Errors
    /// It answers no PING, or one that was answered.
    pub(crate) fn on_pong(&mut self, pong: &Ping, now: Moment) -> Result<Duration, Violation> {
        let sent = Moment::from_nanos(pong.nanos);
        if pong.sequence <= self.answered || pong.sequence > self.sent || sent > now {
            let (sequence, from, to) = (pong.sequence, self.answered, self.sent);
            let text = format_args!("PONG {sequence} while PINGs {from} (answered) to {to} were sent");
            return Err(Violation::connection(Rule::HEARTBEAT, text));
        }
        self.answered = pong.sequence;
        Ok(now.since(sent))
    }
}
