//! One socket: what is on its way out, what is known of its readiness, and how far its end has come.

use super::super::sending::Sending;
use crate::clock::Moment;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Parts that one system call sends. More take a call more.
const SLICES: usize = 128;

#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    pub(super) sending: Option<Sending>,
    pub(super) phase: Phase,
    /// Something may be there to be received.
    pub(super) readable: bool,
    /// What is there to be received ends (with the end of the stream, or an error).
    pub(super) ends: bool,
    /// The end of the other's stream was received.
    pub(super) ended: bool,
    /// It stands in the list of those to be received from.
    pub(super) listed: bool,
}

/// Where a connection stands. Only ever from a line to one below, or away.
#[derive(Debug)]
pub(super) enum Phase {
    /// Sends and receives.
    Open,
    /// A send failed. What has come is received first: it may say why.
    Failing(io::Error),
    /// The failure was reported; nothing is sent or received.
    Broken,
    /// Closed by its owner: sends what is left. Nothing went forward since then.
    Finishing(Moment),
    /// Everything was sent, the end too. Waits for the other end's.
    Ending(Moment),
}

/// How sending went.
#[derive(Debug)]
pub(super) enum Sent {
    Whole,
    /// The socket takes no more for now; whether it took some.
    Partly(bool),
    Failed(io::Error),
}

/// How receiving went.
#[derive(Debug)]
pub(super) enum Received {
    /// So many bytes; more may be there if `readable` still says so.
    Bytes(usize),
    Nothing,
    End,
    Failed(io::Error),
}

impl Connection {
    /// Takes over a connected stream socket.
    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
        let (sending, phase) = (None, Phase::Open);
        Ok(Self { socket, sending, phase, readable: false, ends: false, ended: false, listed: false })
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Sends of what is left as much as the socket takes. Adds the system calls and bytes to the counts.
    pub(super) fn send(&mut self, calls: &mut u64, sent: &mut u64) -> Sent {
        let Some(sending) = &mut self.sending else { return Sent::Whole };
        let mut some = false;
        while sending.left() > 0 {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let used = sending.slices(&mut slices);
            let mut nothing = SendAncillaryBuffer::default();
            *calls += 1;
            match rustix::net::sendmsg(&self.socket, &slices[..used], &mut nothing, SendFlags::NOSIGNAL) {
                Ok(bytes) => {
                    sending.advance(bytes);
                    *sent += bytes as u64;
                    some = true;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Sent::Partly(some),
                Err(error) => return Sent::Failed(error.into()),
            }
        }
        Sent::Whole
    }

    /// One receive into `room`, which isn't empty.
    pub(super) fn receive(&mut self, room: &mut [u8], calls: &mut u64) -> Received {
        loop {
            *calls += 1;
            match rustix::net::recv(&self.socket, &mut *room, RecvFlags::empty()) {
                Ok((0, _)) => {
                    self.readable = false;
                    self.ended = true;
                    return Received::End;
                }
                Ok((bytes, _)) => {
                    // The socket is empty then, and what comes next is a change; but not what had come already
                    // when the last change was told.
                    self.readable = bytes == room.len() || self.ends;
                    return Received::Bytes(bytes);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.readable = false;
                    return Received::Nothing;
                }
                Err(error) => {
                    self.readable = false;
                    return Received::Failed(error.into());
                }
            }
        }
    }

    /// Says that nothing more will be sent.
    pub(super) fn send_end(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(&self.socket, Shutdown::Write)?)
    }

    /// The error that the socket has to tell, if any.
    pub(super) fn take_error(&self) -> Option<io::Error> {
        match rustix::net::sockopt::socket_error(&self.socket) {
            Ok(Ok(())) => None,
            Ok(Err(error)) | Err(error) => Some(error.into()),
        }
    }

    /// Closes it so that the other end sees a reset.
    pub(super) fn reset(self) {
        // A connected or broken stream socket takes this option. Were it refused, the other end would see the end
        // of the stream instead, behind part of a frame or without the words of parting.
        let set = rustix::net::sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO));
        debug_assert!(set.is_ok(), "{set:?}");
    }
}
