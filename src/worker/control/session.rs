//! Which words the handshakes of this worker say: `protocol::handshake` with this worker's own particulars.

use super::handshake::Origin;
use super::peers::Peers;
use super::port::Endpoints;
use crate::id::WorkerId;
use crate::protocol::handshake::Agreed;
use crate::wire::{Features, Frame, Hello, Purpose, Reject, Rule, Token, decode};
use std::net::SocketAddr;

/// What this worker says of itself.
#[derive(Debug)]
pub(super) struct Identity {
    worker: WorkerId,
    token: Option<Token>,
    advertised: SocketAddr,
    text: String,
}

#[derive(Debug)]
pub(super) struct Half {
    server: bool,
    worker: WorkerId,
    token: Option<Token>,
    text: String,
}

/// What the other side's frame leads to. The answer, if there is one, is in `answer`.
#[derive(Debug)]
pub(super) enum Turn {
    Agreed(Agreed),
    Refused { rule: &'static str, text: String },
    Rejected(String),
}

impl Identity {
    pub(super) fn new(worker: WorkerId, token: Option<Token>, advertised: SocketAddr) -> Self {
        Self { worker, token, advertised, text: advertised.to_string() }
    }

    pub(super) fn worker(&self) -> WorkerId {
        self.worker
    }

    pub(super) fn advertised(&self) -> SocketAddr {
        self.advertised
    }

    pub(super) fn server(&self) -> Half {
        Half { server: true, worker: self.worker, token: self.token, text: self.text.clone() }
    }

    pub(super) fn client(&self, origin: &Origin) -> (Half, Vec<u8>) {
        let half = Half { server: false, worker: self.worker, token: self.token, text: self.text.clone() };
        let mut out = Vec::new();
        let (purpose, endpoint) = match origin {
            Origin::Dialled(request) => (Purpose::Data, request.peer.endpoint),
            Origin::Accepted | Origin::Link(_) => (Purpose::Control, 0),
        };
        Frame::Hello(half.hello(purpose, endpoint)).encode(&mut out, Features::NONE);
        (half, out)
    }
}

impl Half {
    fn hello(&self, purpose: Purpose, endpoint: u16) -> Hello<'_> {
        Hello {
            versions: (1, 1),
            features: Features::KNOWN,
            payload_bytes_max: 65536,
            purpose,
            endpoint,
            worker: self.worker,
            token: self.token,
            address: &self.text,
        }
    }

    pub(super) fn on_bytes(
        &mut self,
        bytes: &[u8],
        admit: &dyn Fn(&Agreed) -> Result<(), (&'static str, String)>,
        out: &mut Vec<u8>,
    ) -> Turn {
        let refuse = |out: &mut Vec<u8>, rule, name, text: String| {
            Frame::Reject(Reject { rule, text: &text }).encode(out, Features::NONE);
            Turn::Refused { rule: name, text }
        };
        match decode(bytes, Features::NONE) {
            Ok(Frame::Hello(hello) | Frame::Welcome(hello)) => {
                let agreed = Agreed {
                    version: 1,
                    features: Features::KNOWN.and(hello.features),
                    payload_bytes_max: 65536,
                    peer_worker: hello.worker,
                    purpose: hello.purpose,
                    endpoint: hello.endpoint,
                };
                if hello.versions != (1, 1) {
                    return refuse(out, Rule::VERSION, "version", "version".into());
                }
                if hello.token != self.token {
                    return refuse(out, Rule::TOKEN, "token", "token".into());
                }
                if self.server {
                    if let Err((name, text)) = admit(&agreed) {
                        return refuse(out, Rule::ENDPOINT, name, text);
                    }
                    Frame::Welcome(self.hello(hello.purpose, hello.endpoint)).encode(out, Features::NONE);
                }
                Turn::Agreed(agreed)
            }
            Ok(Frame::Reject(reject)) => Turn::Rejected(reject.text.to_owned()),
            Ok(_) => refuse(out, Rule::ROLE, "role", "role".into()),
            Err(error) => refuse(out, error.rule(), "opening", error.to_string()),
        }
    }
}

/// Whether whoever said HELLO is let in: asked before it is welcomed.
pub(super) fn admit(
    hello: &Agreed,
    endpoints: &Endpoints,
    peers: &Peers,
    own: WorkerId,
) -> Result<(), (&'static str, String)> {
    if hello.purpose == Purpose::Data && endpoints.get(hello.endpoint).is_none() {
        return Err(("unknown endpoint", format!("there is no endpoint {} here", hello.endpoint)));
    }
    if hello.peer_worker != own && !peers.has_room_for(hello.peer_worker) {
        return Err(("too many peers", format!("{} peers are known already, the most allowed", peers.len())));
    }
    Ok(())
}
