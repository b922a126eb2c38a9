//! Whether a connection's sends ask for zero copies: decided by what the kernel reports of them.
//!
//! A send over loopback, and over many virtual devices, is copied by the kernel in the end, and costs more
//! than a plain one. Where it isn't copied, large sends gain.

use crate::clock::Moment;
use std::time::Duration;

/// Whether sends ask the kernel to take the bytes from where they lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZeroCopy {
    /// Large sends to other machines, for as long as the kernel reports that it doesn't copy them.
    #[default]
    Auto,
    /// Every send that the kernel takes so, whatever it reports.
    Always,
    /// None.
    Never,
}

/// What the kernel can do, as the start-up probe found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ability {
    /// No zero-copy sends.
    None,
    /// Zero-copy sends, but the user's processes have used up the memory that they may lock.
    Short,
    /// Sends, without a report of what became of them.
    Silent,
    /// Sends, and reports.
    Reporting,
}

impl Ability {
    fn sends(self) -> bool {
        matches!(self, Self::Silent | Self::Reporting)
    }
}

/// Smaller sends gain nothing.
pub(super) const BYTES_MIN: usize = 16 * 1024;
/// Reports that are looked at together.
const SAMPLE: u32 = 16;
/// How long a connection sends plainly before it tries again.
pub(super) const PAUSE: Duration = Duration::from_secs(30);

/// The decision for one connection.
#[derive(Debug)]
pub(super) struct Decision {
    choice: ZeroCopy,
    /// Plain sends until then; `None`: zero-copy sends now.
    plain_until: Option<Moment>,
    reports: u32,
    copied: u32,
}

/// No try will come.
const NEVER: Moment = Moment::from_nanos(u64::MAX);

impl Decision {
    /// `here`: the other end is on this machine.
    pub(super) fn new(choice: ZeroCopy, ability: Ability, here: bool) -> Self {
        let never = match choice {
            ZeroCopy::Never => true,
            ZeroCopy::Always => !ability.sends(),
            ZeroCopy::Auto => !ability.sends() || here,
        };
        Self { choice, plain_until: never.then_some(NEVER), reports: 0, copied: 0 }
    }

    /// Whether any send may ever ask for zero copies.
    pub(super) fn is_possible(&self) -> bool {
        self.plain_until != Some(NEVER)
    }

    pub(super) fn is_always(&self) -> bool {
        self.choice == ZeroCopy::Always
    }

    /// Whether a send of so many bytes shall ask for zero copies.
    pub(super) fn wants(&mut self, bytes: usize, now: Moment) -> bool {
        if self.choice == ZeroCopy::Auto && bytes < BYTES_MIN {
            return false;
        }
        match self.plain_until {
            Some(until) if now < until => false,
            Some(_) => {
                (self.plain_until, self.reports, self.copied) = (None, 0, 0);
                true
            }
            None => true,
        }
    }

    /// A notification reported.
    pub(super) fn reported(&mut self, copied: bool, now: Moment) {
        self.reports += 1;
        self.copied += u32::from(copied);
        if self.reports < SAMPLE {
            return;
        }
        if self.choice == ZeroCopy::Auto && self.copied * 2 > self.reports && self.plain_until.is_none() {
            self.plain_until = Some(now.plus(PAUSE));
        }
        (self.reports, self.copied) = (0, 0);
    }

    /// The kernel refused a zero-copy send on this socket: for good, or for want of memory.
    pub(super) fn refused(&mut self, for_good: bool, now: Moment) {
        self.plain_until = Some(if for_good { NEVER } else { now.plus(PAUSE) });
    }
}
