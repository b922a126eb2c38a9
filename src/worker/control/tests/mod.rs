//! The control thread over real sockets.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that can't go on panics, and measures real time"
)]

mod dials;
mod garbage;
mod health;
mod load;

use super::port::DialRefused;
use super::*;
use crate::clock::Clock;
use crate::id::RemoteAddress;
use crate::wire::{
    Features, Frame, HEADER_BYTES, Hello, Limits, PAYLOAD_BYTES_MAX, Purpose, Token as Secret,
};
use crate::worker::network::NetworkSettings;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// How late a thread of a machine with other things to do may be.
const SLACK: Duration = Duration::from_secs(2);

const SECRET: Secret = Secret(*b"the token of the cluster of test");

/// An endpoint with a queue of so many places.
#[derive(Debug)]
struct Port(mpsc::SyncSender<News>);

impl EndpointPort for Port {
    fn tell(&self, news: News) -> Result<(), News> {
        match self.0.try_send(news) {
            Err(mpsc::TrySendError::Full(news)) => Err(news),
            Ok(()) | Err(mpsc::TrySendError::Disconnected(_)) => Ok(()),
        }
    }
}

/// Places of an endpoint that never is full.
const MANY: usize = 100_000;

/// A control thread with one endpoint, number 0.
struct Rig {
    clock: Arc<WorkerClock>,
    handle: ControlHandle,
    thread: Option<JoinHandle<()>>,
    told: mpsc::Receiver<News>,
}

fn settings() -> NetworkSettings {
    NetworkSettings {
        listen: Some((Ipv4Addr::LOCALHOST, 0).into()),
        token: Some(SECRET),
        ..NetworkSettings::default()
    }
}

impl Rig {
    fn start(settings: &NetworkSettings) -> Self {
        Self::start_with(settings, || {})
    }

    fn start_with(settings: &NetworkSettings, look_after: impl FnMut() + Send + 'static) -> Self {
        let clock = WorkerClock::new();
        let network = settings.check().unwrap().unwrap();
        let (handle, thread) = start(network, Io::Auto, &clock, look_after).unwrap();
        let (tell, told) = mpsc::sync_channel(MANY);
        assert_eq!(handle.endpoints().add(Arc::new(Port(tell))), Some(0));
        Self { clock, handle, thread: Some(thread), told }
    }

    fn remote(&self) -> RemoteAddress {
        RemoteAddress { socket: self.handle.address(), endpoint: 0 }
    }

    fn dial(&self, peer: RemoteAddress) {
        self.handle.dials().dial(peer, 0).unwrap();
    }

    fn told(&self) -> News {
        self.told.recv_timeout(PATIENCE).unwrap()
    }

    fn adopted(&self) -> Adopted {
        match self.told() {
            News::Adopt(adopted) => *adopted,
            other => panic!("not adopted: {other:?}"),
        }
    }

    fn dead(&self) -> (WorkerId, &'static str) {
        loop {
            match self.told() {
                News::PeerDead(worker, reason) => return (worker, reason),
                News::ControlLost(_) => {}
                other => panic!("not dead: {other:?}"),
            }
        }
    }

    /// Waits until the picture is as `wanted`.
    fn until(&self, what: &str, wanted: impl Fn(&NetworkSnapshot) -> bool) -> NetworkSnapshot {
        let start = Instant::now();
        loop {
            let picture = self.handle.snapshot();
            if wanted(&picture) {
                return picture;
            }
            assert!(start.elapsed() < PATIENCE, "never {what}: {picture:?}");
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }

    fn connect(&self) -> Raw {
        Raw::connect(self.handle.address())
    }

    fn stop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.clock.stop();
            thread.join().unwrap();
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The other end, frame by frame.
struct Raw(TcpStream);

/// A frame that came in.
#[derive(Debug, PartialEq)]
enum Came {
    Welcome(WorkerId),
    Hello(Purpose),
    Reject(u16, String),
    Ping(crate::wire::Ping),
    Pong(crate::wire::Ping),
    Goodbye,
    Closed,
}

impl Raw {
    fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).unwrap())
    }

    fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    fn say(&mut self, frame: &Frame<'_>) {
        self.send(&encoded(frame));
    }

    /// The next frame.
    fn hear(&mut self) -> Came {
        let mut bytes = vec![0; HEADER_BYTES];
        if self.0.read_exact(&mut bytes).is_err() {
            return Came::Closed;
        }
        let limits = Limits::Session { payload_bytes_max: PAYLOAD_BYTES_MAX };
        let whole = crate::wire::frame_bytes(bytes[..].first_chunk().unwrap(), limits).unwrap();
        bytes.resize(whole, 0);
        self.0.read_exact(&mut bytes[HEADER_BYTES..]).unwrap();
        let features = if bytes[5] == 1 { Features::CRC } else { Features::NONE };
        match crate::wire::decode(&bytes, features).unwrap() {
            Frame::Welcome(hello) => Came::Welcome(hello.worker),
            Frame::Hello(hello) => Came::Hello(hello.purpose),
            Frame::Reject(reject) => Came::Reject(reject.rule.0, reject.text.to_owned()),
            Frame::Ping(ping) => Came::Ping(ping),
            Frame::Pong(ping) => Came::Pong(ping),
            Frame::Goodbye => Came::Goodbye,
            other => panic!("{other:?}"),
        }
    }

    /// Reads until the connection is at its end; true if that was in order, not by a reset.
    fn drain(&mut self) -> (Vec<u8>, bool) {
        let mut bytes = Vec::new();
        let orderly = self.0.read_to_end(&mut bytes).is_ok();
        (bytes, orderly)
    }
}

fn encoded(frame: &Frame<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes, Features::NONE);
    bytes
}

/// A HELLO, or a WELCOME, of a worker that has no features, so that no frame has a checksum.
fn hello(worker: u64, purpose: Purpose) -> Hello<'static> {
    Hello {
        versions: crate::wire::VERSIONS,
        features: Features::NONE,
        payload_bytes_max: PAYLOAD_BYTES_MAX,
        purpose,
        endpoint: 0,
        worker: WorkerId(worker),
        token: Some(SECRET),
        address: "",
    }
}
