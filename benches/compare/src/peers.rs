//! The peers, one file each.

mod monoio;
mod pirn;
mod raw;
mod timely;
mod tokio;
mod tonic;

use crate::common::AnyError;
use crate::work::{Progress, Stage, Totals};
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

/// A way to move records from one process to another.
pub(crate) trait Peer: Sync {
    fn name(&self) -> &'static str;

    /// What it is, in a line.
    fn about(&self) -> &'static str;

    /// The package that it is about, if there is one.
    fn package(&self) -> Option<&'static str> {
        None
    }

    /// An error if it can't run on this machine.
    fn check(&self) -> Result<(), AnyError> {
        Ok(())
    }

    /// Makes an offer, then makes and sends records until it is told to stop; returns when the consumer has all.
    /// On a thread of its own.
    fn produce(&self, record_bytes: usize, stage: &Stage) -> Result<Totals, AnyError>;

    /// Reads the records of the producer who made the offer until their end. On a thread of its own.
    fn consume(&self, record_bytes: usize, offer: Value, progress: &Progress) -> Result<Totals, AnyError>;
}

/// All of them, in the order of the table; the ratios are to the first.
pub(crate) const ALL: &[&dyn Peer] = &[
    &raw::Raw::PLAIN,
    &raw::Raw::TUNED,
    &tokio::Tokio,
    &timely::Timely,
    &monoio::Monoio,
    &tonic::Tonic,
    &pirn::Pirn::THREADS,
    &pirn::Pirn::CALLER,
];

/// Offers an address, and waits for the consumer to connect.
fn accept(stage: &Stage) -> Result<TcpStream, AnyError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    stage.offer(&listener.local_addr()?)?;
    let (socket, _) = listener.accept()?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// Connects to the address offered.
fn connect(offer: Value) -> Result<TcpStream, AnyError> {
    let address: SocketAddr = serde_json::from_value(offer)?;
    let socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    Ok(socket)
}
