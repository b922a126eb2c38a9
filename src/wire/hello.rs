//! The first frames of a connection: who speaks, what it can do, and that it belongs to the cluster.
//!
//! The first 12 bytes of the body (magic and versions) stay where they are in every version to come, so that
//! a worker of any version can say what it doesn't understand.

use super::body::{Body, put_text};
use super::{NOTE_BYTES_MAX, Rule, WireError};
use crate::id::WorkerId;
use bytes::BufMut;
use std::fmt;

/// The first bytes of a HELLO's body.
pub(crate) const MAGIC: [u8; 8] = *b"\x89PIRN\r\n\x1a";

/// Abilities that two workers may agree on, one bit each. A bit that only one side knows is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Features(pub(crate) u64);

impl Features {
    pub(crate) const NONE: Self = Self(0);
    /// Every frame after the handshake has a CRC32C.
    pub(crate) const CRC: Self = Self(1);
    /// All that this version can do.
    pub(crate) const KNOWN: Self = Self::CRC;

    pub(crate) const fn has(self, feature: Self) -> bool {
        self.0 & feature.0 == feature.0
    }

    /// What both have.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    /// Streams between two endpoints.
    Data,
    /// Heartbeats between two workers.
    Control,
}

/// What the workers of a cluster share, so that strangers are kept out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) [u8; 32]);

impl Token {
    /// Compares in a time that doesn't depend on where the two differ.
    pub(crate) fn matches(&self, presented: &Self) -> bool {
        // All differences gathered in one byte before the one comparison: no early exit.
        let differences = self.0.iter().zip(presented.0).fold(0, |seen, (mine, its)| seen | (mine ^ its));
        std::hint::black_box(differences) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// HELLO, and WELCOME, which answers it with the choices: one version, and features and limits of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello<'a> {
    /// The oldest and the newest version that the sender speaks.
    pub(crate) versions: (u16, u16),
    pub(crate) features: Features,
    /// The most payload bytes of a DATA frame that the sender takes.
    pub(crate) payload_bytes_max: u32,
    pub(crate) purpose: Purpose,
    /// Which network thread or reactor of the worker that is asked.
    pub(crate) endpoint: u16,
    /// The sender.
    pub(crate) worker: WorkerId,
    pub(crate) token: Option<Token>,
    /// Where the sender can be reached, or nothing.
    pub(crate) address: &'a str,
}

impl<'a> Hello<'a> {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.put_slice(&MAGIC);
        out.put_u16_le(self.versions.0);
        out.put_u16_le(self.versions.1);
        out.put_u8(match self.purpose {
            Purpose::Data => 0,
            Purpose::Control => 1,
        });
        out.put_u8(u8::from(self.token.is_some()));
        out.put_u16_le(self.endpoint);
        out.put_u64_le(self.features.0);
        out.put_u64_le(self.worker.0);
        out.put_u32_le(self.payload_bytes_max);
        out.put_slice(&self.token.map_or([0; 32], |token| token.0));
        put_text(out, self.address, NOTE_BYTES_MAX);
    }

    pub(super) fn get(body: &mut Body<'a>) -> Result<Self, WireError> {
        let magic = body.array()?;
        if magic != MAGIC {
            return Err(WireError::Magic(magic));
        }
        let versions = (body.u16()?, body.u16()?);
        let purpose = match body.u8()? {
            0 => Purpose::Data,
            1 => Purpose::Control,
            value => return Err(WireError::Value { field: "the purpose", value: u64::from(value) }),
        };
        let has_token = body.bool("whether there is a token")?;
        let endpoint = body.u16()?;
        let features = Features(body.u64()?);
        let worker = WorkerId(body.u64()?);
        let payload_bytes_max = body.u32()?;
        let token = if has_token {
            Some(Token(body.array()?))
        } else {
            body.zeros(32)?;
            None
        };
        let address = body.text("the address", NOTE_BYTES_MAX)?;
        Ok(Self { versions, features, payload_bytes_max, purpose, endpoint, worker, token, address })
    }
}

/// The versions that a HELLO's body names, whatever its version; `None` if it is no HELLO.
pub(crate) fn versions_of(body: &[u8]) -> Option<(u16, u16)> {
    let rest = body.strip_prefix(&MAGIC)?;
    let (min, rest) = rest.split_first_chunk()?;
    Some((u16::from_le_bytes(*min), u16::from_le_bytes(*rest.first_chunk()?)))
}

/// The handshake fails; the connection is closed behind this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reject<'a> {
    pub(crate) rule: Rule,
    pub(crate) text: &'a str,
}

impl<'a> Reject<'a> {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.put_u16_le(self.rule.0);
        put_text(out, self.text, NOTE_BYTES_MAX);
    }

    pub(super) fn get(body: &mut Body<'a>) -> Result<Self, WireError> {
        Ok(Self { rule: Rule(body.u16()?), text: body.text("the text", NOTE_BYTES_MAX)? })
    }
}
