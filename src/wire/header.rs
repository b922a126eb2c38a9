//! The first bytes of every frame, the limits of its length, and its checksum.

use super::hello::Features;
use super::{
    ACK_BYTES, ACKS_MAX, CRC_BYTES, HEADER_BYTES, MESSAGE_BYTES_MAX, RUN_BYTES, RUNS_MAX, WireError,
};
use bytes::BufMut;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Kind {
    Hello = 1,
    Welcome = 2,
    Reject = 3,
    Bind = 4,
    Waiting = 5,
    Refused = 6,
    Bound = 7,
    Data = 8,
    Event = 9,
    Priority = 10,
    Ack = 11,
    Close = 12,
    Gone = 13,
    Error = 14,
    Ping = 15,
    Pong = 16,
    Goodbye = 17,
}

impl Kind {
    pub(crate) const ALL: [Self; 17] = [
        Self::Hello,
        Self::Welcome,
        Self::Reject,
        Self::Bind,
        Self::Waiting,
        Self::Refused,
        Self::Bound,
        Self::Data,
        Self::Event,
        Self::Priority,
        Self::Ack,
        Self::Close,
        Self::Gone,
        Self::Error,
        Self::Ping,
        Self::Pong,
        Self::Goodbye,
    ];

    fn of(byte: u8) -> Result<Self, WireError> {
        let at = usize::from(byte).wrapping_sub(1);
        Self::ALL.get(at).copied().ok_or(WireError::UnknownKind(byte))
    }

    /// Whether it belongs to the time before anything is agreed on.
    pub(crate) const fn is_handshake(self) -> bool {
        matches!(self, Self::Hello | Self::Welcome | Self::Reject)
    }

    /// As errors call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Hello => "HELLO",
            Self::Welcome => "WELCOME",
            Self::Reject => "REJECT",
            Self::Bind => "BIND",
            Self::Waiting => "WAITING",
            Self::Refused => "REFUSED",
            Self::Bound => "BOUND",
            Self::Data => "DATA",
            Self::Event => "EVENT",
            Self::Priority => "PRIORITY",
            Self::Ack => "ACK",
            Self::Close => "CLOSE",
            Self::Gone => "GONE",
            Self::Error => "ERROR",
            Self::Ping => "PING",
            Self::Pong => "PONG",
            Self::Goodbye => "GOODBYE",
        }
    }

    /// The least and most count of the header.
    const fn counts(self) -> (u16, u16) {
        match self {
            Self::Data => (1, RUNS_MAX as u16),
            Self::Ack => (1, ACKS_MAX as u16),
            _ => (0, 0),
        }
    }
}

/// How long frames may be at the hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limits {
    /// Only what belongs to a handshake has any length.
    Handshake,
    /// As agreed on.
    Session { payload_bytes_max: u32 },
}

const FLAG_CRC: u8 = 1;

/// A header whose kind, flags and count are known ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// Bytes of the body.
    pub(super) bytes: u32,
    pub(super) kind: Kind,
    pub(super) checked: bool,
    pub(super) count: u16,
}

impl Head {
    pub(super) fn get(header: &[u8; HEADER_BYTES]) -> Result<Self, WireError> {
        let [a, b, c, d, kind_byte, flags, e, f] = *header;
        let kind = Kind::of(kind_byte)?;
        if flags & !FLAG_CRC != 0 {
            return Err(WireError::Flags { kind: kind_byte, flags });
        }
        let count = u16::from_le_bytes([e, f]);
        let (min, max) = kind.counts();
        if !(min..=max).contains(&count) {
            return Err(WireError::Count { kind: kind_byte, count, min, max });
        }
        Ok(Self { bytes: u32::from_le_bytes([a, b, c, d]), kind, checked: flags == FLAG_CRC, count })
    }

    /// The most bytes that the body may have.
    fn bytes_max(self, limits: Limits) -> u32 {
        let crc = if self.checked { CRC_BYTES as u32 } else { 0 };
        let count = u32::from(self.count);
        match (self.kind, limits) {
            (kind, Limits::Handshake) if !kind.is_handshake() => 0,
            (Kind::Data, Limits::Session { payload_bytes_max }) => {
                payload_bytes_max.saturating_add(crc + count * RUN_BYTES as u32)
            }
            (Kind::Ack, _) => crc + count * ACK_BYTES as u32,
            _ => MESSAGE_BYTES_MAX,
        }
    }
}

/// Bytes of the whole frame, header included.
///
/// # Errors
/// The header isn't one, or the length is over its limit: nothing more of the connection can be understood.
pub(crate) fn frame_bytes(header: &[u8; HEADER_BYTES], limits: Limits) -> Result<usize, WireError> {
    let head = Head::get(header)?;
    let (bytes, max) = (head.bytes, head.bytes_max(limits));
    if bytes > max {
        return Err(WireError::TooLong { kind: head.kind as u8, bytes, max });
    }
    Ok(HEADER_BYTES + bytes as usize)
}

/// Appends a frame whose body `fill` appends.
pub(super) fn put_frame(
    out: &mut Vec<u8>,
    features: Features,
    kind: Kind,
    count: u16,
    fill: impl FnOnce(&mut Vec<u8>),
) {
    let features = if kind.is_handshake() { Features::NONE } else { features };
    let start = start_frame(out, features, kind, count);
    fill(out);
    let none: &mut dyn Iterator<Item = &[u8]> = &mut std::iter::empty();
    finish_frame(out, start, 0, features.has(Features::CRC).then_some(none));
}

/// The header without its length, and room for the checksum. Returns where the frame begins.
pub(super) fn start_frame(out: &mut Vec<u8>, features: Features, kind: Kind, count: u16) -> usize {
    let start = out.len();
    let crc = features.has(Features::CRC);
    out.put_u32_le(0);
    out.put_u8(kind as u8);
    out.put_u8(if crc { FLAG_CRC } else { 0 });
    out.put_u16_le(count);
    if crc {
        out.put_bytes(0, CRC_BYTES);
    }
    start
}

/// The length, which includes `elsewhere` bytes that aren't in `out`, and with `crc` (those bytes) the
/// checksum: over the header and all of the body behind the checksum.
pub(super) fn finish_frame(
    out: &mut [u8],
    start: usize,
    elsewhere: usize,
    crc: Option<&mut dyn Iterator<Item = &[u8]>>,
) {
    let frame = &mut out[start..];
    let bytes = (frame.len() - HEADER_BYTES + elsewhere) as u32;
    frame[..4].copy_from_slice(&bytes.to_le_bytes());
    if let Some(payloads) = crc {
        let (head, body) = frame.split_at(HEADER_BYTES);
        let own = crc32c::crc32c_append(crc32c::crc32c(head), &body[CRC_BYTES..]);
        let crc = payloads.fold(own, crc32c::crc32c_append);
        frame[HEADER_BYTES..HEADER_BYTES + CRC_BYTES].copy_from_slice(&crc.to_le_bytes());
    }
}
