//! Everything that the examples ask of Pirn to get from one process to another on this machine.

use super::AnyError;
use clap::ValueEnum;
use pirn::{ChannelDescriptor, WorkerBuilder};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

/// How the kernel is asked to move bytes.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Io {
    /// io_uring, and epoll where io_uring is refused.
    #[default]
    Auto,
    /// io_uring or an error.
    Uring,
    /// epoll.
    Epoll,
}

impl From<Io> for pirn::Io {
    fn from(io: Io) -> Self {
        match io {
            Io::Auto => Self::Auto,
            Io::Uring => Self::Uring,
            Io::Epoll => Self::Epoll,
        }
    }
}

/// Whether the kernel may send from where the bytes lie.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ZeroCopy {
    /// To other machines, where that is reported to save a copy.
    #[default]
    Auto,
    /// Also where the kernel copies in the end, as within one machine.
    Always,
    /// Nowhere.
    Never,
}

impl From<ZeroCopy> for pirn::ZeroCopy {
    fn from(choice: ZeroCopy) -> Self {
        match choice {
            ZeroCopy::Auto => Self::Auto,
            ZeroCopy::Always => Self::Always,
            ZeroCopy::Never => Self::Never,
        }
    }
}

impl fmt::Display for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Uring => "uring",
            Self::Epoll => "epoll",
        })
    }
}

/// What the processes of one run have in common. The parent makes it, its children get it by a pipe.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Cluster {
    /// How its workers move bytes.
    pub(crate) io: Io,
    token: [u8; 32],
}

impl Cluster {
    /// A cluster of which nobody else knows the token.
    pub(crate) fn new(io: Io) -> Result<Self, AnyError> {
        let mut token = [0; 32];
        getrandom::fill(&mut token)?;
        Ok(Self { io, token })
    }

    /// A worker that listens for the others on a free port of the loopback.
    pub(crate) fn join(&self, builder: WorkerBuilder) -> WorkerBuilder {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        builder.listen(any_port).cluster_token(self.token).io(self.io.into())
    }
}

/// Descriptors as bytes for another process.
pub(crate) fn pack(channels: &[ChannelDescriptor]) -> Vec<Vec<u8>> {
    channels.iter().map(ChannelDescriptor::to_bytes).collect()
}

/// Descriptors that another process gave.
pub(crate) fn unpack(channels: &[Vec<u8>]) -> Result<Vec<ChannelDescriptor>, AnyError> {
    Ok(channels.iter().map(|channel| ChannelDescriptor::from_bytes(channel)).collect::<Result<_, _>>()?)
}
