//! The numbers of the protocol's rules, as errors name them.

use std::fmt;

/// A rule of `docs/PROTOCOL.md`. Carried by REJECT and ERROR; one that this version doesn't know is a number
/// like any other. 0 stands for no rule: the sender has a reason of its own and says it in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Rule(pub(crate) u16);

impl Rule {
    pub(crate) const NONE: Self = Self(0);
    /// A frame's length is within the limit of its kind.
    pub(crate) const LENGTH: Self = Self(1);
    /// Kind, flags and count are known ones.
    pub(crate) const KIND: Self = Self(2);
    /// The body is what its kind says, to the byte.
    pub(crate) const BODY: Self = Self(3);
    /// The checksum is there exactly if agreed on, and right.
    pub(crate) const CHECKSUM: Self = Self(4);
    /// A connection begins with HELLO, and the answer is WELCOME or REJECT.
    pub(crate) const OPENING: Self = Self(5);
    /// There is a version that both speak.
    pub(crate) const VERSION: Self = Self(6);
    /// Both show the cluster's token.
    pub(crate) const TOKEN: Self = Self(7);
    /// Features and limits are those that both can do.
    pub(crate) const FEATURES: Self = Self(8);
    /// The endpoint that is meant exists, and the answer says the same purpose and endpoint.
    pub(crate) const ENDPOINT: Self = Self(9);
    /// Each side sends what its role, the connection's purpose and the hour allow.
    pub(crate) const ROLE: Self = Self(10);
    /// Stream ids are given in order and never twice.
    pub(crate) const STREAM: Self = Self(11);
    /// A BIND names a range that may be bound.
    pub(crate) const RANGE: Self = Self(12);
    /// A bind is answered once, and nothing comes before the answer.
    pub(crate) const ANSWER: Self = Self(13);
    /// A frame of another epoch is dropped and counted.
    #[allow(dead_code, reason = "the page of the protocol and tests name it")]
    pub(crate) const EPOCH: Self = Self(14);
    /// A stream goes on exactly where it stands.
    pub(crate) const POSITION: Self = Self(15);
    /// No byte beyond the credit.
    pub(crate) const CREDIT: Self = Self(16);
    /// What is acknowledged or granted never goes back.
    pub(crate) const MONOTONE: Self = Self(17);
    /// Nothing is acknowledged that wasn't sent, or consumed that wasn't received.
    pub(crate) const SENT: Self = Self(18);
    /// Events in the queue of a channel are bounded in number and bytes.
    pub(crate) const EVENTS: Self = Self(19);
    /// Priority events come in sequence, and no more than their ring holds.
    pub(crate) const PRIORITY: Self = Self(20);
    /// Nothing follows the end of a stream.
    pub(crate) const END: Self = Self(21);
    /// Acknowledgements come in time.
    #[allow(dead_code, reason = "the page of the protocol and tests name it")]
    pub(crate) const DUE: Self = Self(22);
    /// A stream is resumed only as it was asked to be.
    pub(crate) const RESUME: Self = Self(23);
    /// After CLOSE or GONE its sender is done with the stream.
    #[allow(dead_code, reason = "the page of the protocol and tests name it")]
    pub(crate) const CLOSE: Self = Self(24);
    /// An error is about one stream, unless frames can't be told apart any more; it is never answered.
    #[allow(dead_code, reason = "the page of the protocol and tests name it")]
    pub(crate) const ERROR: Self = Self(25);
    /// PONG answers a PING.
    pub(crate) const HEARTBEAT: Self = Self(26);
    /// Answers are read.
    pub(crate) const UNREAD: Self = Self(27);
    /// A worker holds no more of another than that one lets each hold.
    pub(crate) const SHARE: Self = Self(28);
    /// A consumed end is told until it is answered, and only one that was sent.
    pub(crate) const ENDED: Self = Self(29);
    /// The newest.
    #[cfg(all(test, not(loom)))]
    pub(crate) const LAST: Self = Self::ENDED;
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NONE => f.write_str("no rule"),
            Self(number) => write!(f, "P-{number}"),
        }
    }
}
