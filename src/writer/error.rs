//! Errors of the forms that don't wait, or wait for a limited time.

use crate::error::WriteError;
use std::time::Duration;
use thiserror::Error;

/// Why a record can't be written at once.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TryWriteError {
    /// There is no room for the record as a whole now; nothing of it was taken.
    #[error("no room for the whole record now; wait for it with one of the other forms")]
    Full,
    /// It can't be written at all.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Why waiting came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WaitError {
    /// It took longer than the caller wanted to wait.
    #[error("nothing came of it within {} ms; see `why_blocked`", waited.as_millis())]
    TimedOut {
        /// How long the call waited.
        waited: Duration,
    },
    /// It can't be done at all.
    #[error(transparent)]
    Write(#[from] WriteError),
}
