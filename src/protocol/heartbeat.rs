//! One end of a control connection's heartbeat. When to ping, and when silence is too long, is the caller's.

use super::Violation;
use crate::clock::Moment;
use crate::wire::{Ping, Rule};
use std::time::Duration;

/// See the module's text. The other side's PING is answered with the same numbers in a PONG.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heartbeat {
    /// The newest PING that was sent, and the newest that was answered; counted from 1.
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
    #[allow(dead_code, reason = "for tests")]
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
            let (sequence, answered, newest) = (pong.sequence, self.answered, self.sent);
            let text = format_args!("PONG {sequence}, while {answered} is answered and {newest} the newest");
            return Err(Violation::connection(Rule::HEARTBEAT, text));
        }
        self.answered = pong.sequence;
        Ok(now.since(sent))
    }
}
