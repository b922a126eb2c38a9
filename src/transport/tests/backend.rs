//! What the suite has to know of a transport.

use super::super::fake::{FakeNetwork, FakeTransport, Plan, Random};
use super::super::uring::{KernelRing, Rung, Uring};
use super::super::{AnyTransport, ArenaShare, Epoll, Io, Transport, UringOptions, ZeroCopy, open};
use crate::memory::{ReceivePool, SegmentPool};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A kind of transport.
pub(crate) trait Backend {
    type Transport: Transport;
    /// Whether its time goes on by itself when it waits for more than others do.
    const VIRTUAL_TIME: bool = false;
    /// What it counts, at least, when two connections find no receive buffer: each of them.
    const STARVED: u64 = 2;

    fn new(seed: u64) -> Self;

    /// A transport that receives into `pool` and sends from `arena`.
    fn transport(&mut self, pool: &ReceivePool, arena: &Arc<SegmentPool>) -> Self::Transport;

    /// Two connected sockets.
    fn pair(&mut self) -> (OwnedFd, OwnedFd) {
        tcp_pair()
    }
}

/// A TCP connection over the loopback interface.
pub(crate) fn tcp_pair() -> (OwnedFd, OwnedFd) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connected = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    (connected.into(), accepted.into())
}

pub(crate) struct EpollBackend;

impl Backend for EpollBackend {
    type Transport = Epoll;
    /// It stops looking when it has found one.
    const STARVED: u64 = 1;

    fn new(_seed: u64) -> Self {
        Self
    }

    fn transport(&mut self, pool: &ReceivePool, _arena: &Arc<SegmentPool>) -> Epoll {
        Epoll::new(pool.clone()).unwrap()
    }
}

/// A network that does its best.
pub(crate) struct CalmFake(FakeNetwork);

impl Backend for CalmFake {
    type Transport = FakeTransport;
    const VIRTUAL_TIME: bool = true;

    fn new(seed: u64) -> Self {
        Self(FakeNetwork::new(seed, Plan::calm()))
    }

    fn transport(&mut self, pool: &ReceivePool, _arena: &Arc<SegmentPool>) -> FakeTransport {
        self.0.transport(pool)
    }

    fn pair(&mut self) -> (OwnedFd, OwnedFd) {
        self.0.pair().unwrap().sockets
    }
}

/// A network that does all that it may.
pub(crate) struct RoughFake(pub(crate) FakeNetwork);

impl Backend for RoughFake {
    type Transport = FakeTransport;
    const VIRTUAL_TIME: bool = true;

    fn new(seed: u64) -> Self {
        Self(FakeNetwork::new(seed, Plan::rough(&mut Random::new(seed))))
    }

    fn transport(&mut self, pool: &ReceivePool, _arena: &Arc<SegmentPool>) -> FakeTransport {
        self.0.transport(pool)
    }

    fn pair(&mut self) -> (OwnedFd, OwnedFd) {
        self.0.pair().unwrap().sockets
    }
}

/// The ring of this kernel, with all that it gives.
pub(crate) struct UringBackend;

impl Backend for UringBackend {
    type Transport = AnyTransport;

    fn new(_seed: u64) -> Self {
        Self
    }

    fn transport(&mut self, pool: &ReceivePool, arena: &Arc<SegmentPool>) -> AnyTransport {
        open(Io::Uring, options(pool, arena, ZeroCopy::Auto)).unwrap().0
    }
}

/// The same with every send a zero-copy one.
pub(crate) struct ZeroCopyBackend;

impl Backend for ZeroCopyBackend {
    type Transport = AnyTransport;

    fn new(_seed: u64) -> Self {
        Self
    }

    fn transport(&mut self, pool: &ReceivePool, arena: &Arc<SegmentPool>) -> AnyTransport {
        open(Io::Uring, options(pool, arena, ZeroCopy::Always)).unwrap().0
    }
}

/// The ring as old kernels have it: no flags, no provided buffers.
pub(crate) struct OldUringBackend;

impl Backend for OldUringBackend {
    type Transport = Uring<KernelRing>;

    fn new(_seed: u64) -> Self {
        Self
    }

    fn transport(&mut self, pool: &ReceivePool, arena: &Arc<SegmentPool>) -> Uring<KernelRing> {
        Uring::open_from(Rung::Plain, false, options(pool, arena, ZeroCopy::Never)).unwrap().0
    }
}

fn options(pool: &ReceivePool, arena: &Arc<SegmentPool>, zero_copy: ZeroCopy) -> UringOptions {
    UringOptions {
        receive: pool.clone(),
        arena: Arc::clone(arena),
        share: Arc::new(ArenaShare::default()),
        zero_copy,
        lazy: true,
    }
}
