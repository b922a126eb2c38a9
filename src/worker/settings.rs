//! The settings of a worker that its builder takes.

use super::WorkerBuilder;
use crate::memory::MemoryConfig;
use crate::transport::{Io, ZeroCopy};
use crate::wire::Token;
use crate::worker::threads::{Driver, RECEIVE_BUFFERS_LEAST};
use std::net::SocketAddr;
use std::time::Duration;

impl WorkerBuilder {
    /// The arena. Default: 2,048 segments of 32 KiB, 64 MiB.
    #[must_use]
    pub fn memory(mut self, memory: MemoryConfig) -> Self {
        self.memory = memory;
        self
    }

    /// How long a bind waits for a partition that isn't there yet. Default: 10 s.
    #[must_use]
    pub fn bind_wait(mut self, longest: Duration) -> Self {
        self.waits.longest = longest;
        self
    }

    /// How many binds may wait at a time. Default: 10,000.
    #[must_use]
    pub fn binds_waiting_max(mut self, most: usize) -> Self {
        self.waits.most = most;
        self
    }

    /// Listens at this address for other workers. Port 0 lets the operating system choose: see
    /// [`Worker::address`](crate::Worker::address). Default: none, a worker without a network.
    ///
    /// Needs [`cluster_token`](Self::cluster_token) or [`insecure_without_token`](Self::insecure_without_token).
    /// Costs a descriptor for the socket, and three for the poll and its wake-up. With the feature `tokio-uring` the
    /// control thread, which looks after them, sleeps in a runtime of tokio-uring, unless [`io`](Self::io) is
    /// [`Io::Epoll`] or the kernel refuses io_uring, which is logged; alarms may be a millisecond later then.
    #[must_use]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.network.listen = Some(address);
        self
    }

    /// Under which address other workers reach this one, if it is another than the one listened at. Port 0 stands
    /// for the port that is listened at. Default: the address listened at, which must be a definite one then.
    #[must_use]
    pub fn advertise(mut self, address: SocketAddr) -> Self {
        self.network.advertise = Some(address);
        self
    }

    /// The secret that all workers of a cluster share: 32 random bytes. Whoever doesn't show it is turned away. It
    /// keeps strangers and other clusters out; it travels as it is, so it is no protection from who can listen
    /// on the network. No default.
    #[must_use]
    pub fn cluster_token(mut self, token: [u8; 32]) -> Self {
        self.network.token = Some(Token(token));
        self
    }

    /// Lets everybody in who can connect, and logs that once. For tests, and networks where that is nobody else.
    #[must_use]
    pub fn insecure_without_token(mut self) -> Self {
        self.network.without_token = true;
        self
    }

    /// How long a handshake may take, and a dial together with its handshake. At least 1 ms. Default: 5 s.
    ///
    /// While a connection is silent it holds one of the places of [`handshakes_max`](Self::handshakes_max) for that
    /// long.
    #[must_use]
    pub fn handshake_timeout(mut self, longest: Duration) -> Self {
        self.network.handshake_timeout = longest;
        self
    }

    /// How many handshakes may go on at a time, and as many dials again. Others wait: in the kernel's queue of the
    /// listener, or in the queue of dials. Each costs a descriptor and at most 4 KiB. Default: 256.
    #[must_use]
    pub fn handshakes_max(mut self, most: usize) -> Self {
        self.network.handshakes_max = most;
        self
    }

    /// What moves the bytes. Default: [`Io::Auto`].
    #[must_use]
    pub fn io(mut self, io: Io) -> Self {
        self.drive.io = io;
        self
    }

    /// Whether the kernel may send from segments where they lie. Only with io_uring. Default: [`ZeroCopy::Auto`].
    #[must_use]
    pub fn zero_copy(mut self, zero_copy: ZeroCopy) -> Self {
        self.drive.zero_copy = zero_copy;
        self
    }

    /// Who turns the sockets. Default: [`Driver::Threads`] with one for every four cores, at least one.
    #[must_use]
    pub fn driver(mut self, driver: Driver) -> Self {
        self.drive.driver = driver;
        self
    }

    /// How many receive buffers each network thread or reactor has, of 528 KiB each; at least 4. Default: 16. Pages become
    /// resident when they are first used, and as few buffers are used as serve.
    ///
    /// Records are read where they lie until half of the buffers hold some; what comes beyond that is
    /// copied, at most the windows of the channels ([`GateConfig::receive_bytes_max`](crate::GateConfig::receive_bytes_max)).
    #[must_use]
    pub fn receive_buffers(mut self, buffers: u32) -> Self {
        self.drive.receive_buffers = buffers.max(RECEIVE_BUFFERS_LEAST);
        self
    }

    /// How many other workers may be known at a time; more are turned away. Each costs a descriptor, about 500
    /// bytes, and a heartbeat each way every [`heartbeat_interval`](Self::heartbeat_interval). Default: 4,096.
    #[must_use]
    pub fn peers_max(mut self, most: usize) -> Self {
        self.network.peers_max = most;
        self
    }

    /// How many data connections one other worker may have here, over all network threads and reactors; more are
    /// turned away. At least 1. Default: 512.
    ///
    /// It has one for each pair of a network thread or reactor there that reads and one here that serves it. Each
    /// costs a descriptor and, while something is under way, up to 1 MiB.
    #[must_use]
    pub fn connections_per_peer_max(mut self, most: u32) -> Self {
        self.network.share.connections = u64::from(most);
        self
    }

    /// How many binds of one other worker may wait for partitions at a time, of all that
    /// [`binds_waiting_max`](Self::binds_waiting_max) allows; more are refused with
    /// [`BindError::TooManyWaiting`](crate::BindError::TooManyWaiting). At least 1. Default: 2,500.
    #[must_use]
    pub fn binds_waiting_per_peer_max(mut self, most: u32) -> Self {
        self.network.share.binds_waiting = u64::from(most);
        self
    }

    /// How long another worker may be silent until it counts as dead and its connections are ended. At least
    /// twice the heartbeat interval. Default: 5 s.
    ///
    /// A process that ends is found at once by its connections; this is for machines that vanish, networks that
    /// are cut, processes that are stopped. Short values accuse who only pauses for so long.
    #[must_use]
    pub fn dead_after(mut self, silence: Duration) -> Self {
        self.network.dead_after = silence;
        self
    }

    /// How often a heartbeat is sent to every known worker, and each is judged. At least 1 ms. Default: a quarter
    /// of [`dead_after`](Self::dead_after). A death is found at most this long after `dead_after`.
    #[must_use]
    pub fn heartbeat_interval(mut self, interval: Duration) -> Self {
        self.network.heartbeat_interval = Some(interval);
        self
    }
}
