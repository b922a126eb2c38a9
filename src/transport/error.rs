//! Why a transport can't be had.

use std::io;

/// The system refused what a transport needs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// io_uring was asked for, and the kernel refuses it.
    #[error(
        "io_uring is refused at the step \"{step}\": {source}; {advice}, or ask for Io::Auto or Io::Epoll"
    )]
    Uring {
        /// What was tried when it was refused.
        step: &'static str,
        /// What to do about it.
        advice: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The epoll transport couldn't be made.
    #[error("the epoll transport failed at its start: {source}; raise the limit of open files if it is that")]
    Epoll {
        /// What the kernel said.
        source: io::Error,
    },
}

impl TransportError {
    /// What was tried when the system refused.
    #[must_use]
    pub fn step(&self) -> &'static str {
        match self {
            Self::Uring { step, .. } => step,
            Self::Epoll { .. } => "start",
        }
    }

    /// The number of the system's error, if it is the system's.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Uring { source, .. } | Self::Epoll { source } => source.raw_os_error(),
        }
    }

    /// A refusal of io_uring, with the advice that goes with its errno.
    pub(super) fn uring(step: &'static str, source: io::Error) -> Self {
        let advice = match source.raw_os_error() {
            Some(libc::ENOSYS) => "run on Linux 5.19 or newer, outside of sandboxes without io_uring",
            Some(libc::EPERM | libc::EACCES) => {
                "set the sysctl kernel.io_uring_disabled to 0 and allow the io_uring calls in the seccomp \
                 filter of the container"
            }
            Some(libc::ENOMEM) => "raise the limit of locked memory (RLIMIT_MEMLOCK) or of the control group",
            Some(libc::EMFILE | libc::ENFILE) => "raise the limit of open files (RLIMIT_NOFILE)",
            Some(libc::EINVAL | libc::EOPNOTSUPP) => "run on a newer kernel (5.19 or later)",
            _ => "look for what the system says of it",
        };
        Self::Uring { step, advice, source }
    }
}
