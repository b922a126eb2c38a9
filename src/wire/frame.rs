//! Whole frames: which message is inside.

use super::ack::Acks;
use super::bind::{Bind, Bound, Close, Gone, Refused, Waiting};
use super::body::{Body, put_text};
use super::data::Runs;
use super::event::{EventFrame, PriorityFrame};
use super::header::{Head, Kind, put_frame};
use super::hello::{Features, Hello, Reject};
use super::{HEADER_BYTES, NOTE_BYTES_MAX, Rule, StreamId, WireError};
use bytes::BufMut;

/// A frame, borrowed from its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    Hello(Hello<'a>),
    Welcome(Hello<'a>),
    Reject(Reject<'a>),
    Bind(Bind),
    Waiting(Waiting),
    Refused(Refused),
    Bound(Bound),
    Data(Runs<'a>),
    Event(EventFrame<'a>),
    Priority(PriorityFrame),
    Acks(Acks<'a>),
    Close(Close),
    Gone(Gone),
    Error(ErrorFrame<'a>),
    Ping(Ping),
    Pong(Ping),
    /// The sender leaves in order: this is its last frame.
    Goodbye,
}

/// Something went wrong with one stream, or with the connection, which is closed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ErrorFrame<'a> {
    pub(crate) rule: Rule,
    pub(crate) stream: Option<StreamId>,
    pub(crate) text: &'a str,
}

/// PING, and PONG, which says the same numbers back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ping {
    pub(crate) sequence: u64,
    /// The sender's clock, in nanoseconds; means nothing to the other side.
    pub(crate) nanos: u64,
}

/// `frame` is one whole frame, of as many bytes as [`frame_bytes`](super::frame_bytes) said. `features`: what is agreed on.
///
/// # Errors
/// It is none: see [`WireError`].
pub(crate) fn decode(frame: &[u8], features: Features) -> Result<Frame<'_>, WireError> {
    let short = WireError::Short { what: "a header", needed: HEADER_BYTES, left: frame.len() };
    let (header, body) = frame.split_first_chunk().ok_or(short)?;
    let Head { bytes, kind, checked, count } = Head::get(header)?;
    let what = kind.name();
    match (bytes as usize, body.len()) {
        (needed, left) if needed > left => return Err(WireError::Short { what, needed, left }),
        (said, left) if said < left => return Err(WireError::Trailing { what, bytes: left - said }),
        _ => {}
    }
    let agreed = features.has(Features::CRC) && !kind.is_handshake();
    if checked != agreed {
        return Err(WireError::Unagreed { kind: kind as u8, with: checked, agreed });
    }
    let mut body = Body::new(what, body);
    if checked {
        let said = body.u32()?;
        let mut rest = body;
        let found = crc32c::crc32c_append(crc32c::crc32c(header), rest.rest());
        if said != found {
            return Err(WireError::Checksum { said, found });
        }
    }
    let message = message(kind, count, checked, &mut body)?;
    body.end()?;
    Ok(message)
}

fn message<'a>(kind: Kind, count: u16, checked: bool, body: &mut Body<'a>) -> Result<Frame<'a>, WireError> {
    Ok(match kind {
        Kind::Hello => {
            let hello = Hello::get(body)?;
            // A newer version may say more before it knows whom it speaks to.
            body.rest();
            Frame::Hello(hello)
        }
        Kind::Welcome => Frame::Welcome(Hello::get(body)?),
        Kind::Reject => Frame::Reject(Reject::get(body)?),
        Kind::Bind => Frame::Bind(Bind::get(body)?),
        Kind::Waiting => Frame::Waiting(Waiting::get(body)?),
        Kind::Refused => Frame::Refused(Refused::get(body)?),
        Kind::Bound => Frame::Bound(Bound::get(body)?),
        Kind::Data => Frame::Data(Runs::get(body, count, checked)?),
        Kind::Event => Frame::Event(EventFrame::get(body)?),
        Kind::Priority => Frame::Priority(PriorityFrame::get(body)?),
        Kind::Ack => Frame::Acks(Acks::get(body, count)?),
        Kind::Close => Frame::Close(Close::get(body)?),
        Kind::Gone => Frame::Gone(Gone::get(body)?),
        Kind::Error => Frame::Error(ErrorFrame::get(body)?),
        Kind::Ping => Frame::Ping(Ping::get(body)?),
        Kind::Pong => Frame::Pong(Ping::get(body)?),
        Kind::Goodbye => Frame::Goodbye,
    })
}

impl Frame<'_> {
    pub(crate) const fn kind(&self) -> Kind {
        match self {
            Self::Hello(_) => Kind::Hello,
            Self::Welcome(_) => Kind::Welcome,
            Self::Reject(_) => Kind::Reject,
            Self::Bind(_) => Kind::Bind,
            Self::Waiting(_) => Kind::Waiting,
            Self::Refused(_) => Kind::Refused,
            Self::Bound(_) => Kind::Bound,
            Self::Data(_) => Kind::Data,
            Self::Event(_) => Kind::Event,
            Self::Priority(_) => Kind::Priority,
            Self::Acks(_) => Kind::Ack,
            Self::Close(_) => Kind::Close,
            Self::Gone(_) => Kind::Gone,
            Self::Error(_) => Kind::Error,
            Self::Ping(_) => Kind::Ping,
            Self::Pong(_) => Kind::Pong,
            Self::Goodbye => Kind::Goodbye,
        }
    }

    /// Appends the whole frame. For what goes out often there are [`encode_data`](super::encode_data) and
    /// [`encode_acks`](super::encode_acks). Texts that are too long are cut.
    pub(crate) fn encode(&self, out: &mut Vec<u8>, features: Features) {
        let count = match self {
            Self::Data(runs) => runs.count() as u16,
            Self::Acks(acks) => acks.count(),
            _ => 0,
        };
        put_frame(out, features, self.kind(), count, |out| match self {
            Self::Hello(hello) | Self::Welcome(hello) => hello.put(out),
            Self::Reject(reject) => reject.put(out),
            Self::Bind(bind) => bind.put(out),
            Self::Waiting(waiting) => waiting.put(out),
            Self::Refused(refused) => refused.put(out),
            Self::Bound(bound) => bound.put(out),
            Self::Data(runs) => {
                let (heads, payload) = runs.parts();
                out.put_slice(heads);
                out.put_slice(payload);
            }
            Self::Event(event) => event.put(out),
            Self::Priority(priority) => priority.put(out),
            Self::Acks(acks) => out.put_slice(acks.bytes()),
            Self::Close(close) => close.put(out),
            Self::Gone(gone) => gone.put(out),
            Self::Error(error) => error.put(out),
            Self::Ping(ping) | Self::Pong(ping) => ping.put(out),
            Self::Goodbye => {}
        });
    }
}

impl<'a> ErrorFrame<'a> {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u16_le(self.rule.0);
        out.put_u8(u8::from(self.stream.is_some()));
        out.put_u32_le(self.stream.map_or(0, |stream| stream.0));
        put_text(out, self.text, NOTE_BYTES_MAX);
    }

    fn get(body: &mut Body<'a>) -> Result<Self, WireError> {
        let rule = Rule(body.u16()?);
        let has_stream = body.bool("whether there is a stream")?;
        let stream = body.stream()?;
        let text = body.text("the text", NOTE_BYTES_MAX)?;
        Ok(Self { rule, stream: has_stream.then_some(stream), text })
    }
}

impl Ping {
    fn put(self, out: &mut Vec<u8>) {
        out.put_u64_le(self.sequence);
        out.put_u64_le(self.nanos);
    }

    fn get(body: &mut Body<'_>) -> Result<Self, WireError> {
        Ok(Self { sequence: body.u64()?, nanos: body.u64()? })
    }
}
