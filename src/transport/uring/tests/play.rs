//! What scripts are made of: dice, streams that tell their place, sockets, and looks into entries.

use super::super::ring::Entry;
use std::os::fd::RawFd;
use std::sync::OnceLock;

/// Numbers by a seed (splitmix64).
#[derive(Debug, Clone)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.roll() % bound.max(1) as u64) as usize
    }

    /// True once in `of` times.
    pub(super) fn once_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// Bytes that tell their place in a stream; streams differ by `salt`.
pub(super) fn pattern(salt: usize, from: usize, bytes: usize) -> &'static [u8] {
    const PERIOD: usize = 65_521;
    static TABLE: OnceLock<Vec<u8>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let mut dice = Dice(7);
        let period: Vec<u8> = (0..PERIOD).map(|_| dice.roll() as u8).collect();
        period.iter().copied().cycle().take(PERIOD + 2_200_000).collect()
    });
    let start = (from + salt * 7919) % PERIOD;
    &table[start..start + bytes]
}

/// How a stream from the other end goes on when all its bytes have been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Eof,
    Reset,
    /// Nothing comes, until the socket is shut down.
    Silence,
}

/// A connection as the kernel has it.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) salt: usize,
    pub(super) incoming: usize,
    pub(super) end: End,
    /// Whether the other end is on this machine.
    pub(super) here: bool,
    /// The other end takes nothing more from that many bytes on.
    pub(super) takes: usize,
    /// Bytes of `incoming` that have been read, and bytes that were sent.
    pub(super) read: usize,
    pub(super) sent: usize,
    pub(super) shut: Option<bool>,
    pub(super) broken: bool,
    pub(super) low_water: usize,
}

pub(super) fn socket_of(entry: &Entry) -> Option<RawFd> {
    match *entry {
        Entry::Receive { socket }
        | Entry::ReceiveOnce { socket, .. }
        | Entry::Readable { socket }
        | Entry::Writable { socket }
        | Entry::Send { socket, .. }
        | Entry::CancelSocket { socket } => Some(socket),
        Entry::Nothing | Entry::Read { .. } | Entry::CancelAll => None,
    }
}

pub(super) fn stretches(entry: &Entry) -> Option<Vec<(usize, usize)>> {
    let Entry::Send { message, .. } = entry else { return None };
    // SAFETY: the transport under test promised that the description stays.
    let message = unsafe { &**message };
    // SAFETY: as above.
    let stretches = unsafe { std::slice::from_raw_parts(message.msg_iov, message.msg_iovlen) };
    Some(stretches.iter().map(|it| (it.iov_base.expose_provenance(), it.iov_len)).collect())
}

/// Empties the bell's counter; whether it had been rung.
pub(super) fn rings(file: RawFd) -> bool {
    let mut poll = libc::pollfd { fd: file, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry.
    if unsafe { libc::poll(&raw mut poll, 1, 0) } != 1 {
        return false;
    }
    let mut value = 0_u64;
    // SAFETY: eight bytes.
    unsafe { libc::read(file, (&raw mut value).cast(), 8) == 8 }
}
