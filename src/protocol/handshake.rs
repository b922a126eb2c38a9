//! The begin of a connection: HELLO from the side that connected, WELCOME or REJECT from the other.
//!
//! Neither half asks for more bytes than the handshake has: what follows on the socket is left there for
//! whoever takes the connection over. Time limits are the caller's.
//!
//! ```text
//!   client: start -- HELLO --> host: on_bytes -- WELCOME --> client: on_bytes = Some(Agreed)
//!                              host: on_bytes = Some(Agreed)
//!                              host: Err(Rejection) -- REJECT (unless strange) --> client: Err(Rejection)
//! ```

use crate::id::WorkerId;
use crate::wire::{
    Features, Frame, HEADER_BYTES, Hello, Limits, PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MIN, Purpose, Reject,
    Rule, Token, VERSIONS, WireError, decode, frame_bytes, versions_of,
};
use std::fmt;

/// What a worker says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) worker: WorkerId,
    /// None: the worker is set to speak to anybody who shows none either.
    pub(crate) token: Option<Token>,
    pub(crate) features: Features,
    /// The most payload bytes of a DATA frame that it takes; at least [`PAYLOAD_BYTES_MIN`].
    pub(crate) payload_bytes_max: u32,
    /// Where it can be reached; at most 512 bytes, or empty.
    pub(crate) address: String,
}

impl Offer {
    /// Without optional features, with the usual limits.
    pub(crate) fn new(worker: WorkerId, token: Option<Token>, address: String) -> Self {
        Self { worker, token, features: Features::NONE, payload_bytes_max: PAYLOAD_BYTES_MAX, address }
    }

    fn hello(&self, purpose: Purpose, endpoint: u16) -> Hello<'_> {
        Hello {
            versions: VERSIONS,
            features: self.features.and(Features::KNOWN),
            payload_bytes_max: self.payload_bytes_max,
            purpose,
            endpoint,
            worker: self.worker,
            token: self.token,
            address: &self.address,
        }
    }

    /// Both have the same token, or both have none.
    fn check_token(&self, presented: Option<&Token>) -> Result<(), Rejection> {
        let said = match (&self.token, presented) {
            (None, None) => return Ok(()),
            (Some(mine), Some(its)) if mine.matches(its) => return Ok(()),
            (Some(_), Some(_)) => "another cluster token",
            (Some(_), None) => "no cluster token",
            (None, Some(_)) => "a cluster token, and this worker has none",
        };
        Err(Rejection::new(Rule::TOKEN, format_args!("the peer shows {said}; set the same on both workers")))
    }
}

/// What both sides know after the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) version: u16,
    pub(crate) features: Features,
    pub(crate) payload_bytes_max: u32,
    /// Who the other side is, and where it says it can be reached.
    pub(crate) peer_worker: WorkerId,
    pub(crate) peer_address: String,
    pub(crate) purpose: Purpose,
    /// Of the host: which of its network threads or reactors the connection is for.
    pub(crate) endpoint: u16,
}

impl Agreed {
    /// How long frames may be from here on.
    #[allow(dead_code, reason = "for tests")]
    pub(crate) const fn limits(&self) -> Limits {
        Limits::Session { payload_bytes_max: self.payload_bytes_max }
    }
}

/// The handshake failed. The connection is to be closed when what was to be sent is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) rule: Rule,
    pub(crate) text: String,
    /// The other side said so, in its words.
    pub(crate) by_peer: bool,
}

impl Rejection {
    #[cold]
    fn new(rule: Rule, text: fmt::Arguments<'_>) -> Self {
        Self { rule, text: text.to_string(), by_peer: false }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = if self.by_peer { "the peer rejects: " } else { "" };
        write!(f, "{}: {by}{}", self.rule, self.text)
    }
}

impl From<WireError> for Rejection {
    fn from(error: WireError) -> Self {
        let text = error.to_string();
        // The rule is a field of its own here.
        Self::new(error.rule(), format_args!("{}", text.split_once(": ").map_or(&*text, |(_, text)| text)))
    }
}

/// Gathers the one frame that a side waits for.
#[derive(Debug, Default)]
struct Gathering {
    bytes: Vec<u8>,
    /// Of the whole frame, once the header is there.
    length: Option<usize>,
}

impl Gathering {
    fn wants(&self) -> usize {
        self.length.unwrap_or(HEADER_BYTES) - self.bytes.len()
    }

    /// True when the frame is whole. What is more than wanted is an error of the caller and left out.
    fn push(&mut self, bytes: &[u8]) -> Result<bool, Rejection> {
        debug_assert!(bytes.len() <= self.wants(), "{} bytes, {} wanted", bytes.len(), self.wants());
        self.bytes.extend(bytes.iter().take(self.wants()));
        if let (None, Some(header)) = (self.length, self.bytes.first_chunk()) {
            let stranger = stranger(header);
            let length = frame_bytes(header, Limits::Handshake);
            self.length = Some(length.map_err(|error| match stranger {
                Some(stranger) => Rejection::new(Rule::OPENING, format_args!("{stranger}")),
                None => error.into(),
            })?);
        }
        Ok(self.wants() == 0)
    }
}

/// Who else connects to ports, by the first bytes that it sends.
fn stranger(header: &[u8; HEADER_BYTES]) -> Option<&'static str> {
    const METHODS: [&[u8]; 8] =
        [b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"OPTIONS ", b"CONNECT ", b"PRI * HT"];
    if METHODS.iter().any(|method| header.starts_with(method)) || header.starts_with(b"HTTP/") {
        return Some("the peer speaks HTTP; this is the data port of a Pirn worker");
    }
    if header.starts_with(&[0x16, 3]) {
        return Some("the peer speaks TLS; the data port of a Pirn worker takes none");
    }
    header.starts_with(b"SSH-").then_some("the peer speaks SSH; this is the data port of a Pirn worker")
}

/// The newest version that both speak.
fn common_version(versions: (u16, u16)) -> Result<u16, Rejection> {
    let (oldest, newest) = (versions.0.max(VERSIONS.0), versions.1.min(VERSIONS.1));
    if oldest > newest {
        let (its, mine) = (versions, VERSIONS);
        let text = format_args!(
            "the peer speaks versions {} to {}, this worker {} to {}; update the older one",
            its.0, its.1, mine.0, mine.1
        );
        return Err(Rejection::new(Rule::VERSION, text));
    }
    Ok(newest)
}

/// The side that connected.
#[derive(Debug)]
pub(crate) struct Client {
    offer: Offer,
    purpose: Purpose,
    endpoint: u16,
    gathering: Gathering,
}

impl Client {
    /// `out` gets the HELLO to send. `endpoint` is the other worker's that is meant.
    pub(crate) fn start(offer: Offer, purpose: Purpose, endpoint: u16, out: &mut Vec<u8>) -> Self {
        Frame::Hello(offer.hello(purpose, endpoint)).encode(out, Features::NONE);
        Self { offer, purpose, endpoint, gathering: Gathering::default() }
    }

    /// How many bytes to read at most; 0 when all is said.
    pub(crate) fn wants(&self) -> usize {
        self.gathering.wants()
    }

    /// Bytes came, at most [`Client::wants`]. `Some` ends the handshake.
    ///
    /// # Errors
    /// The other side rejects, or isn't whom we can speak to.
    pub(crate) fn on_bytes(&mut self, bytes: &[u8]) -> Result<Option<Agreed>, Rejection> {
        if !self.gathering.push(bytes)? {
            return Ok(None);
        }
        match decode(&self.gathering.bytes, Features::NONE)? {
            Frame::Welcome(welcome) => self.check(&welcome).map(Some),
            Frame::Reject(Reject { rule, text }) => {
                Err(Rejection { rule, text: text.to_owned(), by_peer: true })
            }
            other => {
                let name = other.kind().name();
                Err(Rejection::new(Rule::OPENING, format_args!("{name} instead of an answer to HELLO")))
            }
        }
    }

    fn check(&self, welcome: &Hello<'_>) -> Result<Agreed, Rejection> {
        self.offer.check_token(welcome.token.as_ref())?;
        let version = common_version(welcome.versions)?;
        if welcome.versions.0 != welcome.versions.1 {
            let text = format_args!("the answer leaves versions {:?} open", welcome.versions);
            return Err(Rejection::new(Rule::VERSION, text));
        }
        let payload = PAYLOAD_BYTES_MIN..=self.offer.payload_bytes_max;
        let mine = self.offer.features.and(Features::KNOWN);
        if !mine.has(welcome.features) || !payload.contains(&welcome.payload_bytes_max) {
            let (features, bytes) = (welcome.features.0, welcome.payload_bytes_max);
            let text = format_args!("the answer has features {features:#x} and payloads of {bytes} bytes");
            return Err(Rejection::new(Rule::FEATURES, text));
        }
        if (welcome.purpose, welcome.endpoint) != (self.purpose, self.endpoint) {
            let (purpose, endpoint) = (welcome.purpose, welcome.endpoint);
            let text = format_args!("the answer is from endpoint {endpoint} for {purpose:?}");
            return Err(Rejection::new(Rule::ENDPOINT, text));
        }
        Ok(Agreed {
            version,
            features: welcome.features,
            payload_bytes_max: welcome.payload_bytes_max,
            peer_worker: welcome.worker,
            peer_address: welcome.address.to_owned(),
            purpose: self.purpose,
            endpoint: self.endpoint,
        })
    }
}

/// The side that was connected to.
#[derive(Debug)]
pub(crate) struct Host {
    offer: Offer,
    gathering: Gathering,
}

impl Host {
    pub(crate) fn new(offer: Offer) -> Self {
        Self { offer, gathering: Gathering::default() }
    }

    /// How many bytes to read at most; 0 when all is said.
    pub(crate) fn wants(&self) -> usize {
        self.gathering.wants()
    }

    /// Bytes came, at most [`Host::wants`]. `Some` ends the handshake. `out` gets what is to be sent, also
    /// with an error: nothing to strangers. `has_endpoint` says whether a connection for this purpose and
    /// endpoint can be taken.
    ///
    /// # Errors
    /// The other side isn't whom we can speak to.
    pub(crate) fn on_bytes(
        &mut self,
        bytes: &[u8],
        has_endpoint: impl FnOnce(Purpose, u16) -> bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<Agreed>, Rejection> {
        if !self.gathering.push(bytes)? {
            return Ok(None);
        }
        let body = self.gathering.bytes.get(HEADER_BYTES..).unwrap_or(&[]);
        let Some(versions) = versions_of(body) else {
            // Whoever knows our frames but not our magic is told nothing either.
            let error = decode(&self.gathering.bytes, Features::NONE).err();
            let opening = Rejection::new(Rule::OPENING, format_args!("no HELLO comes first"));
            return Err(error.map_or(opening, Rejection::from));
        };
        let agreed = self.check(versions, has_endpoint);
        match &agreed {
            Ok(agreed) => Frame::Welcome(Hello {
                versions: (agreed.version, agreed.version),
                features: agreed.features,
                payload_bytes_max: agreed.payload_bytes_max,
                ..self.offer.hello(agreed.purpose, agreed.endpoint)
            })
            .encode(out, Features::NONE),
            Err(Rejection { rule, text, .. }) => {
                Frame::Reject(Reject { rule: *rule, text }).encode(out, Features::NONE);
            }
        }
        agreed.map(Some)
    }

    fn check(
        &self,
        versions: (u16, u16),
        has_endpoint: impl FnOnce(Purpose, u16) -> bool,
    ) -> Result<Agreed, Rejection> {
        // First of all, since of the rest nothing may be as we know it.
        let version = common_version(versions)?;
        let Frame::Hello(hello) = decode(&self.gathering.bytes, Features::NONE)? else {
            return Err(Rejection::new(Rule::OPENING, format_args!("no HELLO comes first")));
        };
        self.offer.check_token(hello.token.as_ref())?;
        if hello.payload_bytes_max < PAYLOAD_BYTES_MIN {
            let bytes = hello.payload_bytes_max;
            let text = format_args!("payloads of {bytes} bytes at most, which is under {PAYLOAD_BYTES_MIN}");
            return Err(Rejection::new(Rule::FEATURES, text));
        }
        if !has_endpoint(hello.purpose, hello.endpoint) {
            let (purpose, endpoint) = (hello.purpose, hello.endpoint);
            let text = format_args!("this worker has no endpoint {endpoint} for {purpose:?}");
            return Err(Rejection::new(Rule::ENDPOINT, text));
        }
        Ok(Agreed {
            version,
            features: hello.features.and(self.offer.features).and(Features::KNOWN),
            payload_bytes_max: hello.payload_bytes_max.min(self.offer.payload_bytes_max),
            peer_worker: hello.worker,
            peer_address: hello.address.to_owned(),
            purpose: hello.purpose,
            endpoint: hello.endpoint,
        })
    }
}
