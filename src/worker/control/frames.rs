//! Whole frames over a non-blocking socket, and never a byte beyond the frame that is asked for.
//!
//! Reading exactly one frame is what makes a socket fit to be handed over: whatever comes behind the handshake stays
//! in the kernel, for who reads there next.

use crate::wire::{self, CRC_BYTES, HEADER_BYTES, Limits, MESSAGE_BYTES_MAX, WireError};
use mio::net::TcpStream;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;

/// The longest frame of a handshake or a control connection, header included.
pub(super) const FRAME_BYTES_MAX: usize = HEADER_BYTES + CRC_BYTES + MESSAGE_BYTES_MAX as usize;

/// The most that waits to be sent on one connection: who doesn't read doesn't make us collect.
const OUT_BYTES_MAX: usize = FRAME_BYTES_MAX;

/// Control connections carry no data.
const LIMITS: Limits = Limits::Session { payload_bytes_max: 0 };

#[derive(Debug)]
pub(super) struct FrameStream {
    stream: TcpStream,
    /// What has come of the frame that is being read; at most one frame.
    received: Vec<u8>,
    out: Vec<u8>,
}

/// How far a frame has come.
#[derive(Debug)]
pub(super) enum Reading {
    /// It is whole: [`FrameStream::frame`], until [`FrameStream::consume`].
    Whole,
    /// More has to come.
    Partial,
    /// The other end sends no more.
    Ended,
    /// These bytes are no frame of a control connection.
    Malformed(WireError),
}

impl FrameStream {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, received: Vec::new(), out: Vec::new() }
    }

    pub(super) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Reads on in the current frame of a control connection.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn read(&mut self) -> io::Result<Reading> {
        loop {
            let need = match self.received.first_chunk::<HEADER_BYTES>() {
                None => HEADER_BYTES,
                Some(header) => match wire::frame_bytes(header, LIMITS) {
                    Ok(whole) if whole <= FRAME_BYTES_MAX => whole,
                    Ok(whole) => return Ok(Reading::Malformed(too_long(header[4], whole))),
                    Err(error) => return Ok(Reading::Malformed(error)),
                },
            };
            let missing = need.saturating_sub(self.received.len());
            if missing == 0 {
                return Ok(Reading::Whole);
            }
            let mut chunk = [0; FRAME_BYTES_MAX];
            let room = missing.min(FRAME_BYTES_MAX);
            match self.receive(&mut chunk[..room])? {
                None => return Ok(Reading::Partial),
                Some(0) => return Ok(Reading::Ended),
                Some(count) => self.received.extend_from_slice(&chunk[..count.min(room)]),
            }
        }
    }

    /// Reads what has come, at most as much as fits into `bytes`. None if nothing has; 0 at the end.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn receive(&mut self, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.stream.read(bytes) {
                Ok(count) => return Ok(Some(count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The bytes of the frame that is being read.
    pub(super) fn frame(&self) -> &[u8] {
        &self.received
    }

    /// Goes on to the next frame.
    pub(super) fn consume(&mut self) {
        self.received.clear();
    }

    /// Appends a frame to what is to be sent. False, and nothing is appended, if too much waits already.
    pub(super) fn queue(&mut self, frame: &[u8]) -> bool {
        let fits = self.out.len() + frame.len() <= OUT_BYTES_MAX;
        if fits {
            self.out.extend_from_slice(frame);
        }
        fits
    }

    /// Sends what is queued as far as the kernel takes it. True if nothing is left.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => drop(self.out.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Closes the connection so that what was queued arrives, if the other end is willing. Waits for nothing.
    pub(super) fn close(mut self) {
        // The end of the stream goes ahead of the reset that the kernel sends where bytes were left unread: the
        // other end reads what was said, and then the end. What can't be said any more isn't.
        if self.flush().is_ok_and(|all| all) {
            // It fails where the peer was first, to whom nothing can be said then.
            drop(self.stream.shutdown(Shutdown::Write));
        }
    }
}

/// No frame of a control connection is that long.
fn too_long(kind: u8, whole: usize) -> WireError {
    let bytes = u32::try_from(whole - HEADER_BYTES).unwrap_or(u32::MAX);
    WireError::TooLong { kind, bytes, max: (FRAME_BYTES_MAX - HEADER_BYTES) as u32 }
}
