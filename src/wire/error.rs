//! Why bytes are no frame.

use super::Rule;
use thiserror::Error;

/// See the module's text. After any of these the connection's bytes can't be trusted any more: it is closed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum WireError {
    /// Refused before anything is read by the length.
    #[error("P-1: a frame of kind {kind} says that {bytes} bytes follow, at most {max} may")]
    TooLong { kind: u8, bytes: u32, max: u32 },
    /// Of a newer version, or no frame at all.
    #[error("P-2: there is no frame of kind {0}")]
    UnknownKind(u8),
    /// A frame with flags that its kind doesn't have.
    #[error("P-2: a frame of kind {kind} with flags {flags:#04x}")]
    Flags { kind: u8, flags: u8 },
    /// A frame with a count that its kind can't have.
    #[error("P-2: a frame of kind {kind} with a count of {count}, which must be {min} to {max}")]
    Count { kind: u8, count: u16, min: u16, max: u16 },
    /// The bytes end inside of something.
    #[error("P-3: {what} ends early: {needed} bytes are needed, {left} are left")]
    Short { what: &'static str, needed: usize, left: usize },
    /// Bytes are left behind the end.
    #[error("P-3: {bytes} bytes are left behind {what}")]
    Trailing { what: &'static str, bytes: usize },
    /// A number that the field can't have.
    #[error("P-3: {field} can't be {value}")]
    Value { field: &'static str, value: u64 },
    /// A text that is no UTF-8.
    #[error("P-3: {field} is no UTF-8")]
    Text { field: &'static str },
    /// The checksum is not that of the bytes: they were changed on their way.
    #[error("P-4: the checksum says {said:#010x}, the bytes have {found:#010x}")]
    Checksum { said: u32, found: u32 },
    /// A frame without checksum where one is agreed on, or the reverse.
    #[error("P-4: a frame of kind {kind} comes with checksum: {with}; agreed on: {agreed}")]
    Unagreed { kind: u8, with: bool, agreed: bool },
    /// Bytes of a HELLO that aren't Pirn's.
    #[error("P-5: these bytes don't begin a connection: {0:02x?}")]
    Magic([u8; 8]),
}

impl WireError {
    /// The rule that is broken.
    pub(crate) const fn rule(&self) -> Rule {
        match self {
            Self::TooLong { .. } => Rule::LENGTH,
            Self::UnknownKind(_) | Self::Flags { .. } | Self::Count { .. } => Rule::KIND,
            Self::Short { .. } | Self::Trailing { .. } | Self::Value { .. } | Self::Text { .. } => Rule::BODY,
            Self::Checksum { .. } | Self::Unagreed { .. } => Rule::CHECKSUM,
            Self::Magic(_) => Rule::OPENING,
        }
    }
}
