//! What a peer did against the rules.

use crate::wire::{Ended, ErrorFrame, Rule, StreamId, WireError};
use std::fmt;

/// What comes to its end by a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The stream alone; it may not be known at all.
    Stream(StreamId),
    /// Frames can't be told apart any more, or both sides would count streams differently from here on.
    Connection,
}

/// See the module's text. To be answered by [`Violation::frame`], unless the connection is of no use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) scope: Scope,
    pub(crate) rule: Rule,
    /// What was seen and what was expected, with numbers.
    pub(crate) text: String,
}

impl Violation {
    #[cold]
    pub(super) fn stream(stream: StreamId, rule: Rule, text: fmt::Arguments<'_>) -> Self {
        Self { scope: Scope::Stream(stream), rule, text: text.to_string() }
    }

    #[cold]
    pub(super) fn connection(rule: Rule, text: fmt::Arguments<'_>) -> Self {
        Self { scope: Scope::Connection, rule, text: text.to_string() }
    }

    /// So many bytes wait for a peer that doesn't read.
    #[cold]
    pub(crate) fn unread(bytes: usize, most: usize) -> Self {
        let text = format_args!("{bytes} bytes of answers wait to be read, {most} may");
        Self::connection(Rule::UNREAD, text)
    }

    /// A BIND says that an end was consumed which can't have been.
    #[cold]
    pub(crate) fn end_not_sent(stream: StreamId, ended: &Ended) -> Self {
        let Ended { epoch, consumed, .. } = ended;
        let text = format_args!("the end is consumed behind {consumed:?}, but {epoch} was not sent that");
        Self::stream(stream, Rule::ENDED, text)
    }

    /// What the peer is told.
    pub(crate) fn frame(&self) -> ErrorFrame<'_> {
        let stream = match self.scope {
            Scope::Stream(stream) => Some(stream),
            Scope::Connection => None,
        };
        ErrorFrame { rule: self.rule, stream, text: &self.text }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scope {
            Scope::Stream(stream) => write!(f, "{}: {stream}: {}", self.rule, self.text),
            Scope::Connection => write!(f, "{}: {}", self.rule, self.text),
        }
    }
}

impl From<WireError> for Violation {
    fn from(error: WireError) -> Self {
        let text = error.to_string();
        // The rule is a field of its own here.
        let text = text.split_once(": ").map_or(text.as_str(), |(_, text)| text);
        Self::connection(error.rule(), format_args!("{text}"))
    }
}
