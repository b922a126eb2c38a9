//! The other end of a connection, word by word.

use super::turning::{is_turning, patiently, turn};
use super::{PATIENCE, id, secret};
use crate::error::{BindError, Cause};
use crate::id::{BindEpoch, Incarnation, RemoteAddress, WorkerId};
use crate::protocol::{Agreed, Client, Host, Offer};
use crate::wire::{
    self, Ack, Bind, Bound, Close, Consumed, EventFrame, Features, Frame, HEADER_BYTES, Limits,
    PAYLOAD_BYTES_MAX, Purpose, Run, StreamEvent, StreamId, StreamPosition, Token, decode, encode_acks,
    encode_data, frame_bytes,
};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

pub(super) const TOKEN: Token = Token(*b"the token of the cluster of test");

/// What a worker says.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    Bind(StreamId),
    /// A BIND that says that an end was consumed.
    Ended(StreamId, wire::Ended),
    Waiting(StreamId),
    Refused(StreamId, BindError),
    Bound(StreamId, BindEpoch),
    Data(Vec<(StreamId, u64)>),
    Event(StreamId),
    Acks(Vec<Ack>),
    Close(StreamId),
    Gone(StreamId, Cause),
    /// The rule, the stream, and what of it.
    Error(u16, Option<u32>, String),
    Goodbye,
    /// The connection is at its end.
    Closed,
    /// It was reset.
    Reset,
}

/// The stream, and the producer's incarnation of the bind that was granted last.
pub(super) struct Peer(pub(super) TcpStream, pub(super) Incarnation);

impl Peer {
    fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_nonblocking(is_turning()).unwrap();
        Self(stream, Incarnation(0))
    }

    fn read_exact(&mut self, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match patiently(|| self.0.read(bytes))? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                read => bytes = &mut std::mem::take(&mut bytes)[read..],
            }
        }
        Ok(())
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = patiently(|| self.0.write(bytes))?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// A binder, after a good handshake.
    pub(super) fn connect(address: SocketAddr) -> Self {
        let mut peer = Self::over(TcpStream::connect(address).unwrap());
        let mut hello = Vec::new();
        let mut client = Client::start(offer(), Purpose::Data, 0, &mut hello);
        peer.send(&hello);
        loop {
            let mut bytes = vec![0; client.wants()];
            peer.read_exact(&mut bytes).unwrap();
            if client.on_bytes(&bytes).unwrap().is_some() {
                return peer;
            }
        }
    }

    /// A binder with `streams` bound streams: 0 is subpartition 0, and so on.
    pub(super) fn bound(address: SocketAddr, index: u32, streams: u32) -> (Self, Vec<BindEpoch>) {
        let mut peer = Self::connect(address);
        peer.say(&Frame::Bind(Bind { count: streams, ..bind(index) }));
        let epochs = (0..streams).map(|stream| match peer.hear() {
            Heard::Bound(StreamId(heard), epoch) if heard == stream => epoch,
            other => panic!("{other:?}"),
        });
        let epochs = epochs.collect();
        (peer, epochs)
    }

    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.write_all(bytes).unwrap();
    }

    /// As much as the other side takes before it closes. Whether that was all.
    pub(super) fn send_some(&mut self, bytes: &[u8]) -> bool {
        turn();
        match self.write_all(bytes) {
            Ok(()) => true,
            Err(error) => {
                assert!(
                    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset),
                    "{error}"
                );
                false
            }
        }
    }

    pub(super) fn say(&mut self, frame: &Frame<'_>) {
        self.send(&encoded(frame));
    }

    /// The next frame.
    pub(super) fn hear(&mut self) -> Heard {
        let mut bytes = vec![0; HEADER_BYTES];
        match self.read_exact(&mut bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Heard::Closed,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Heard::Reset,
            Err(error) => panic!("{error}"),
        }
        let limits = Limits::Session { payload_bytes_max: PAYLOAD_BYTES_MAX };
        bytes.resize(frame_bytes(bytes[..].first_chunk().unwrap(), limits).unwrap(), 0);
        self.read_exact(&mut bytes[HEADER_BYTES..]).unwrap();
        match decode(&bytes, Features::NONE).unwrap() {
            Frame::Bind(Bind { stream, ended: Some(ended), .. }) => Heard::Ended(stream, ended),
            Frame::Bind(bind) => Heard::Bind(bind.stream),
            Frame::Waiting(waiting) => Heard::Waiting(waiting.stream),
            Frame::Refused(refused) => Heard::Refused(refused.stream, refused.error),
            Frame::Bound(bound) => {
                self.1 = bound.incarnation;
                Heard::Bound(bound.stream, bound.epoch)
            }
            Frame::Data(runs) => {
                Heard::Data(runs.iter().map(|(run, _)| (run.stream, u64::from(run.bytes))).collect())
            }
            Frame::Event(event) => Heard::Event(event.stream),
            Frame::Acks(acks) => Heard::Acks(acks.iter().collect()),
            Frame::Close(close) => Heard::Close(close.stream),
            Frame::Gone(gone) => Heard::Gone(gone.stream, gone.cause),
            Frame::Error(error) => {
                Heard::Error(error.rule.0, error.stream.map(|stream| stream.0), error.text.to_owned())
            }
            Frame::Goodbye => Heard::Goodbye,
            other => panic!("{other:?}"),
        }
    }

    /// The next frame that isn't an acknowledgement or data.
    pub(super) fn hear_news(&mut self) -> Heard {
        loop {
            match self.hear() {
                Heard::Acks(_) | Heard::Data(_) => {}
                news => return news,
            }
        }
    }

    /// The next frame is an error by this rule about this stream; then, without one, the end.
    pub(super) fn expect_error(&mut self, name: &str, rule: u16, stream: Option<u32>) {
        match self.hear_news() {
            Heard::Error(heard, about, text) => {
                assert_eq!((heard, about), (rule, stream), "{name}: {text}");
                assert!(!text.is_empty(), "{name}");
            }
            other => panic!("{name}: {other:?}"),
        }
        if stream.is_none() {
            let end = self.hear_news();
            assert!(matches!(end, Heard::Closed | Heard::Reset), "{name}: {end:?}");
        }
    }
}

/// A port where workers look for a producer's worker.
pub(super) struct Port {
    listener: TcpListener,
    /// Control connections: held, and silent.
    control: Vec<Peer>,
}

impl Port {
    pub(super) fn open() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(is_turning()).unwrap();
        Self { listener, control: Vec::new() }
    }

    pub(super) fn address(&self) -> RemoteAddress {
        RemoteAddress { socket: self.listener.local_addr().unwrap(), endpoint: 0 }
    }

    /// The next data connection, after a good handshake.
    pub(super) fn accept(&mut self) -> Peer {
        loop {
            let (peer, agreed) = self.accept_any();
            if agreed.purpose == Purpose::Data {
                return peer;
            }
            self.control.push(peer);
        }
    }

    pub(super) fn accept_any(&self) -> (Peer, Agreed) {
        let mut peer = Peer::over(patiently(|| self.listener.accept()).unwrap().0);
        let mut host = Host::new(offer());
        loop {
            let mut bytes = vec![0; host.wants()];
            peer.read_exact(&mut bytes).unwrap();
            let mut answer = Vec::new();
            let agreed = host.on_bytes(&bytes, |_, _| true, &mut answer).unwrap();
            peer.send(&answer);
            if let Some(agreed) = agreed {
                return (peer, agreed);
            }
        }
    }
}

fn offer() -> Offer {
    Offer::new(WorkerId(0xbad), Some(TOKEN), String::new())
}

pub(super) fn encoded(frame: &Frame<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes, Features::NONE);
    bytes
}

pub(super) const NOWHERE: StreamPosition = StreamPosition::new(0, 0);

/// Asks for subpartition 0 of a partition as stream 0.
pub(super) fn bind(index: u32) -> Bind {
    let (incarnation, limit) = (Incarnation(0xbad), StreamPosition::new(1 << 20, 64));
    Bind { incarnation, limit, ..Bind::of_first_attempts(0, id(index), secret()) }
}

pub(super) fn bound(stream: u32) -> Bound {
    Bound {
        stream: StreamId(stream),
        epoch: BindEpoch(5),
        incarnation: Incarnation(3),
        resumed: false,
        ended: false,
        ring_entries: 64,
        lost: Default::default(),
        in_doubt: wire::Amount::default(),
        writer_lost: wire::Amount::default(),
        barriers: crate::event::LostBarriers::default(),
    }
}

pub(super) fn ack(stream: u32, epoch: BindEpoch) -> Ack {
    Ack {
        stream: StreamId(stream),
        epoch,
        limit: StreamPosition::new(1 << 20, 64),
        received: NOWHERE,
        consumed: Consumed::default(),
        priority: 0,
    }
}

pub(super) fn acks(acks: &[Ack]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_acks(&mut bytes, Features::NONE, acks);
    bytes
}

pub(super) fn close(stream: u32, epoch: BindEpoch) -> Close {
    let (received, consumed, yielded) = (NOWHERE, Consumed::default(), wire::Amount::default());
    Close { stream: StreamId(stream), epoch, received, consumed, yielded }
}

/// Stream bytes in a frame of their own, from a server that has bound with [`bound`].
pub(super) fn data(stream: u32, at: u64, bytes: &[u8]) -> Vec<u8> {
    data_of(stream, BindEpoch(5), StreamPosition::new(at, 0), bytes)
}

pub(super) fn data_of(stream: u32, epoch: BindEpoch, position: StreamPosition, bytes: &[u8]) -> Vec<u8> {
    let run = Run { stream: StreamId(stream), epoch, position, bytes: bytes.len() as u32, uniform: u32::MAX };
    let mut frame = Vec::new();
    encode_data(&mut frame, &[run], None);
    frame.extend_from_slice(bytes);
    frame
}

/// Entry number `entries` of a stream.
pub(super) fn event(stream: u32, bytes: u64, entries: u64, event: StreamEvent<'_>) -> Vec<u8> {
    let (epoch, position) = (BindEpoch(5), StreamPosition::new(bytes, entries));
    encoded(&Frame::Event(EventFrame { stream: StreamId(stream), epoch, position, event }))
}

/// A record as it stands in a stream.
pub(super) fn record(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_le_bytes()[..], payload].concat()
}
