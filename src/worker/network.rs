//! The settings of a worker's network, and what doesn't fit together in them.

use crate::net::ShareLimits;
use crate::wire::Token;
use crate::worker::StartError;
use crate::worker::liveness::Periods;
use std::net::SocketAddr;
use std::time::Duration;

const DEAD_AFTER: Duration = Duration::from_secs(5);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
const HANDSHAKES_MAX: usize = 256;
const PEERS_MAX: usize = 4096;

/// The settings as they are given.
#[derive(Clone, Debug)]
pub(super) struct NetworkSettings {
    pub(super) listen: Option<SocketAddr>,
    pub(super) advertise: Option<SocketAddr>,
    pub(super) token: Option<Token>,
    pub(super) without_token: bool,
    pub(super) handshake_timeout: Duration,
    pub(super) handshakes_max: usize,
    pub(super) peers_max: usize,
    pub(super) share: ShareLimits,
    pub(super) dead_after: Duration,
    pub(super) heartbeat_interval: Option<Duration>,
}

/// The settings of a worker that listens, checked.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) listen: SocketAddr,
    /// Port 0 stands for the port that is listened at.
    pub(super) advertise: SocketAddr,
    pub(super) token: Option<Token>,
    pub(super) handshake_timeout: Duration,
    pub(super) handshakes_max: usize,
    pub(super) peers_max: usize,
    pub(super) share: ShareLimits,
    pub(super) periods: Periods,
}

impl Default for NetworkSettings {
    fn default() -> Self {
        Self {
            listen: None,
            advertise: None,
            token: None,
            without_token: false,
            handshake_timeout: HANDSHAKE_TIMEOUT,
            handshakes_max: HANDSHAKES_MAX,
            peers_max: PEERS_MAX,
            share: ShareLimits::default(),
            dead_after: DEAD_AFTER,
            heartbeat_interval: None,
        }
    }
}

impl NetworkSettings {
    /// `None` for a worker without a network.
    pub(super) fn check(&self) -> Result<Option<Network>, StartError> {
        let refuse = |what: &'static str| Err(StartError::Network { what });
        let Some(listen) = self.listen else {
            if self.advertise.is_some() || self.token.is_some() || self.without_token {
                return refuse("`advertise`, `cluster_token` and `insecure_without_token` need `listen`");
            }
            return Ok(None);
        };
        match (&self.token, self.without_token) {
            (None, false) => return Err(StartError::NoToken),
            (Some(_), true) => {
                return refuse("`cluster_token` and `insecure_without_token` exclude each other");
            }
            (Some(token), false) if token.0 == [0; 32] => {
                return refuse("a `cluster_token` of nothing but zeros is no secret");
            }
            _ => {}
        }
        let advertise = self.advertise.unwrap_or(listen);
        if advertise.ip().is_unspecified() {
            return refuse(
                "nobody can connect to an unspecified address; set `advertise` to one of this machine",
            );
        }
        if self.handshake_timeout < Duration::from_millis(1) {
            return refuse("`handshake_timeout` is less than 1 ms");
        }
        if self.handshakes_max == 0 || self.peers_max == 0 {
            return refuse("`handshakes_max` and `peers_max` are at least 1");
        }
        if self.share.connections == 0 || self.share.binds_waiting == 0 {
            return refuse("`connections_per_peer_max` and `binds_waiting_per_peer_max` are at least 1");
        }
        let interval = self.heartbeat_interval.unwrap_or(self.dead_after / 4);
        let Some(periods) = Periods::new(self.dead_after, interval) else {
            return refuse("`heartbeat_interval` is at least 1 ms and at most half of `dead_after`");
        };
        Ok(Some(Network {
            listen,
            advertise,
            token: self.token,
            handshake_timeout: self.handshake_timeout,
            handshakes_max: self.handshakes_max,
            peers_max: self.peers_max,
            share: self.share,
            periods,
        }))
    }
}
