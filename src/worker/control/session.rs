//! Which words the handshakes of this worker say: `protocol::handshake` with this worker's own particulars.

use super::frames::FRAME_BYTES_MAX;
use super::handshake::{Failure, Origin};
use super::peers::Peers;
use super::port::Endpoints;
use crate::id::WorkerId;
use crate::protocol::{Agreed, Client, Host, Offer, Rejection};
use crate::wire::{Features, Frame, Purpose, Reject, Rule, Token};
use std::net::SocketAddr;

/// What this worker says of itself.
#[derive(Debug)]
pub(super) struct Identity {
    offer: Offer,
    advertised: SocketAddr,
}

/// One side of one handshake.
#[derive(Debug)]
pub(super) enum Half {
    Host(Host),
    Client(Client),
}

/// What of this worker decides whether a connection is taken.
#[derive(Clone, Copy)]
pub(super) struct Admission<'a> {
    pub(super) own: WorkerId,
    pub(super) endpoints: &'a Endpoints,
    pub(super) peers: &'a Peers,
}

impl Identity {
    pub(super) fn new(worker: WorkerId, token: Option<Token>, advertised: SocketAddr) -> Self {
        Self { offer: Offer::new(worker, token, advertised.to_string()), advertised }
    }

    pub(super) fn worker(&self) -> WorkerId {
        self.offer.worker
    }

    pub(super) fn advertised(&self) -> SocketAddr {
        self.advertised
    }

    pub(super) fn host(&self) -> Half {
        Half::Host(Host::new(self.offer.clone()))
    }

    /// The side that connects, and its HELLO.
    pub(super) fn client(&self, origin: &Origin) -> (Half, Vec<u8>) {
        let (purpose, endpoint) = match origin {
            Origin::Dialled(request) => (Purpose::Data, request.peer.endpoint),
            Origin::Accepted | Origin::Link(_) => (Purpose::Control, 0),
        };
        let mut hello = Vec::new();
        let client = Client::start(self.offer.clone(), purpose, endpoint, &mut hello);
        (Half::Client(client), hello)
    }
}

impl Half {
    /// How many bytes it takes at most, and how many fit into the frames of a control connection anyway.
    pub(super) fn wants(&self) -> usize {
        match self {
            Self::Host(host) => host.wants(),
            Self::Client(client) => client.wants(),
        }
        .min(FRAME_BYTES_MAX)
    }

    /// Bytes came. `Some` ends the handshake. `answer` gets what is to be sent, also with an error.
    pub(super) fn on_bytes(
        &mut self,
        bytes: &[u8],
        admission: Admission<'_>,
        answer: &mut Vec<u8>,
    ) -> Result<Option<Agreed>, Failure> {
        match self {
            Self::Client(client) => Ok(client.on_bytes(bytes)?),
            Self::Host(host) => {
                let agreed = host.on_bytes(bytes, |purpose, to| admission.has(purpose, to), answer)?;
                // Only now it is known who asks. The welcome isn't on its way yet: this is sent instead.
                if let Some(Err(failure)) = agreed.as_ref().map(|agreed| admission.has_room(agreed)) {
                    answer.clear();
                    let rule = failure.named();
                    let reject = Reject { rule, text: &failure.to_string() };
                    Frame::Reject(reject).encode(answer, Features::NONE);
                    return Err(failure);
                }
                Ok(agreed)
            }
        }
    }
}

impl Admission<'_> {
    fn has(&self, purpose: Purpose, endpoint: u16) -> bool {
        purpose == Purpose::Control || self.endpoints.serving(endpoint).is_some()
    }

    fn has_room(&self, agreed: &Agreed) -> Result<(), Failure> {
        if agreed.peer_worker != self.own && !self.peers.has_room_for(agreed.peer_worker) {
            return Err(too_many(self.peers));
        }
        // One that isn't known has none yet.
        let is_known = agreed.peer_worker == self.own || self.peers.get(agreed.peer_worker).is_some();
        let full = self.peers.share(agreed.peer_worker).is_full();
        match full.filter(|_| agreed.purpose == Purpose::Data && is_known) {
            Some(held) => Err(too_many_connections(held)),
            None => Ok(()),
        }
    }
}

/// The table of peers is full.
pub(super) fn too_many(peers: &Peers) -> Failure {
    let text = format!("{} other workers are known already; raise `peers_max`", peers.len());
    Failure::Refused { rule: "too many peers", text }
}

/// The worker has as many data connections as it may have.
pub(super) fn too_many_connections(held: u64) -> Failure {
    let text = format!("{held} data connections of this worker are here; raise `connections_per_peer_max`");
    Failure::Refused { rule: name(Rule::SHARE), text }
}

impl From<Rejection> for Failure {
    fn from(rejection: Rejection) -> Self {
        if rejection.by_peer {
            return Self::Rejected(rejection.text);
        }
        Self::Refused { rule: name(rejection.rule), text: rejection.text }
    }
}

/// Under which name a rule's refusals are counted.
pub(super) const fn name(rule: Rule) -> &'static str {
    match rule {
        Rule::LENGTH => "P-1 length",
        Rule::KIND => "P-2 kind",
        Rule::BODY => "P-3 body",
        Rule::CHECKSUM => "P-4 checksum",
        Rule::OPENING => "P-5 opening",
        Rule::VERSION => "P-6 version",
        Rule::TOKEN => "P-7 token",
        Rule::FEATURES => "P-8 features",
        Rule::ENDPOINT => "P-9 endpoint",
        Rule::SHARE => "P-28 share",
        _ => "another rule",
    }
}
