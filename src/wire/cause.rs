//! Causes and refusals as bytes: a tag, then the fields in their order.

use super::bind::{get_partition, put_partition};
use super::body::{Body, put_text};
use super::{TEXT_BYTES_MAX, WireError};
use crate::error::{BindError, Cause};
use crate::id::{Attempt, RemoteAddress};
use bytes::BufMut;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::Arc;

const FAILED: u8 = 0;
const DROPPED: u8 = 1;
const PANICKED: u8 = 2;
const RELEASED: u8 = 3;
const JOB_RELEASED: u8 = 4;
const CONSUMED: u8 = 5;
const SUPERSEDED: u8 = 6;
const SHUTDOWN: u8 = 7;
const CONNECTION_LOST: u8 = 8;
const PROTOCOL: u8 = 9;
const FENCED: u8 = 10;

fn put_tagged(out: &mut Vec<u8>, tag: u8, text: &str) {
    out.put_u8(tag);
    put_text(out, text, TEXT_BYTES_MAX);
}

pub(super) fn put_cause(out: &mut Vec<u8>, cause: &Cause) {
    match cause {
        Cause::Failed(text) => put_tagged(out, FAILED, text),
        Cause::Dropped => out.put_u8(DROPPED),
        Cause::Panicked => out.put_u8(PANICKED),
        Cause::Released => out.put_u8(RELEASED),
        Cause::JobReleased => out.put_u8(JOB_RELEASED),
        Cause::Consumed => out.put_u8(CONSUMED),
        Cause::Superseded { newer } => {
            out.put_u8(SUPERSEDED);
            out.put_u32_le(newer.0);
        }
        Cause::Shutdown => out.put_u8(SHUTDOWN),
        Cause::ConnectionLost { peer, reason } => {
            put_tagged(out, CONNECTION_LOST, reason);
            put_address(out, *peer);
        }
        Cause::Protocol(text) => put_tagged(out, PROTOCOL, text),
        Cause::Fenced { newer } => {
            out.put_u8(FENCED);
            out.put_u32_le(newer.0);
        }
    }
}

fn get_text(body: &mut Body<'_>) -> Result<Arc<str>, WireError> {
    Ok(Arc::from(body.text("a cause's text", TEXT_BYTES_MAX)?))
}

pub(super) fn get_cause(body: &mut Body<'_>) -> Result<Cause, WireError> {
    Ok(match body.u8()? {
        FAILED => Cause::Failed(get_text(body)?),
        DROPPED => Cause::Dropped,
        PANICKED => Cause::Panicked,
        RELEASED => Cause::Released,
        JOB_RELEASED => Cause::JobReleased,
        CONSUMED => Cause::Consumed,
        SUPERSEDED => Cause::Superseded { newer: Attempt(body.u32()?) },
        SHUTDOWN => Cause::Shutdown,
        CONNECTION_LOST => {
            let reason = get_text(body)?;
            Cause::ConnectionLost { peer: get_address(body)?, reason }
        }
        PROTOCOL => Cause::Protocol(get_text(body)?),
        FENCED => Cause::Fenced { newer: Attempt(body.u32()?) },
        value => return Err(WireError::Value { field: "the kind of a cause", value: u64::from(value) }),
    })
}

const V4: u8 = 4;
const V6: u8 = 6;

pub(super) fn put_address(out: &mut Vec<u8>, address: RemoteAddress) {
    match address.socket {
        SocketAddr::V4(socket) => {
            out.put_u8(V4);
            out.put_slice(&socket.ip().octets());
        }
        SocketAddr::V6(socket) => {
            out.put_u8(V6);
            out.put_slice(&socket.ip().octets());
            out.put_u32_le(socket.flowinfo());
            out.put_u32_le(socket.scope_id());
        }
    }
    out.put_u16_le(address.socket.port());
    out.put_u16_le(address.endpoint);
}

pub(super) fn get_address(body: &mut Body<'_>) -> Result<RemoteAddress, WireError> {
    let (ip, flow, scope) = match body.u8()? {
        V4 => (IpAddr::V4(Ipv4Addr::from(body.array::<4>()?)), 0, 0),
        V6 => (IpAddr::V6(Ipv6Addr::from(body.array::<16>()?)), body.u32()?, body.u32()?),
        value => return Err(WireError::Value { field: "the kind of an address", value: u64::from(value) }),
    };
    let port = body.u16()?;
    let socket = match ip {
        IpAddr::V4(_) => SocketAddr::new(ip, port),
        IpAddr::V6(ip) => SocketAddr::V6(SocketAddrV6::new(ip, port, flow, scope)),
    };
    Ok(RemoteAddress { socket, endpoint: body.u16()? })
}

const BIND_STALE: u8 = 0;
const BIND_STALE_PRODUCER: u8 = 1;
const BIND_DUPLICATE: u8 = 2;
const BIND_NOT_FOUND: u8 = 3;
const BIND_TIMED_OUT: u8 = 4;
const BIND_TOO_MANY: u8 = 5;
const BIND_SUPERSEDED: u8 = 6;
const BIND_RELEASED: u8 = 7;
const BIND_LAYOUT: u8 = 8;
const BIND_NO_NETWORK: u8 = 9;

/// What a partition and a descriptor may differ in; one that isn't listed arrives as the last.
const DIFFERENCES: [&str; 3] = ["record layout", "number of subpartitions", "description"];

fn put_attempts(out: &mut Vec<u8>, tag: u8, attempts: &[Attempt]) {
    out.put_u8(tag);
    attempts.iter().for_each(|attempt| out.put_u32_le(attempt.0));
}

pub(super) fn put_bind_error(out: &mut Vec<u8>, error: &BindError) {
    match error {
        BindError::Stale { presented, current } => put_attempts(out, BIND_STALE, &[*presented, *current]),
        BindError::StaleProducer { presented, current } => {
            put_attempts(out, BIND_STALE_PRODUCER, &[*presented, *current]);
        }
        BindError::DuplicateAttempt { attempt } => put_attempts(out, BIND_DUPLICATE, &[*attempt]),
        BindError::NotFound { partition } => {
            out.put_u8(BIND_NOT_FOUND);
            put_partition(out, *partition);
        }
        BindError::TimedOut { partition, waited_ms } => {
            out.put_u8(BIND_TIMED_OUT);
            put_partition(out, *partition);
            out.put_u64_le(*waited_ms);
        }
        BindError::TooManyWaiting { waiting } => {
            out.put_u8(BIND_TOO_MANY);
            out.put_u64_le(*waiting as u64);
        }
        BindError::Superseded { newer } => put_attempts(out, BIND_SUPERSEDED, &[*newer]),
        BindError::Released { cause } => {
            out.put_u8(BIND_RELEASED);
            put_cause(out, cause);
        }
        BindError::NoNetwork { peer } => {
            out.put_u8(BIND_NO_NETWORK);
            put_address(out, *peer);
        }
        BindError::Layout { what, partition, descriptor } => {
            out.put_u8(BIND_LAYOUT);
            let known = DIFFERENCES.iter().position(|difference| difference == what);
            out.put_u8(known.unwrap_or(DIFFERENCES.len() - 1) as u8);
            put_text(out, partition, TEXT_BYTES_MAX);
            put_text(out, descriptor, TEXT_BYTES_MAX);
        }
    }
}

pub(super) fn get_bind_error(body: &mut Body<'_>) -> Result<BindError, WireError> {
    Ok(match body.u8()? {
        BIND_STALE => BindError::Stale { presented: Attempt(body.u32()?), current: Attempt(body.u32()?) },
        BIND_STALE_PRODUCER => {
            BindError::StaleProducer { presented: Attempt(body.u32()?), current: Attempt(body.u32()?) }
        }
        BIND_DUPLICATE => BindError::DuplicateAttempt { attempt: Attempt(body.u32()?) },
        BIND_NOT_FOUND => BindError::NotFound { partition: get_partition(body)? },
        BIND_TIMED_OUT => BindError::TimedOut { partition: get_partition(body)?, waited_ms: body.u64()? },
        // A count that doesn't fit is told as the largest that does.
        BIND_TOO_MANY => {
            BindError::TooManyWaiting { waiting: usize::try_from(body.u64()?).unwrap_or(usize::MAX) }
        }
        BIND_SUPERSEDED => BindError::Superseded { newer: Attempt(body.u32()?) },
        BIND_RELEASED => BindError::Released { cause: get_cause(body)? },
        BIND_LAYOUT => {
            let code = body.u8()?;
            let field = "what differs";
            let value = u64::from(code);
            let what = DIFFERENCES.get(usize::from(code)).ok_or(WireError::Value { field, value })?;
            let mut text = || Ok(body.text("a layout", TEXT_BYTES_MAX)?.to_owned());
            BindError::Layout { what, partition: text()?, descriptor: text()? }
        }
        BIND_NO_NETWORK => BindError::NoNetwork { peer: get_address(body)? },
        value => return Err(WireError::Value { field: "the kind of a refusal", value: u64::from(value) }),
    })
}
