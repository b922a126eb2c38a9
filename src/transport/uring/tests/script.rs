//! A kernel by dice: any order of completions, any errno, short results, successors or none, late notifications,
//! no buffers, full queues. It checks whatever it is asked to do.

use super::super::arena::Arena;
use super::super::ring::{BUFFER, BUFFER_KEPT, COPIED, Cqe, Entry, MORE, NOTIFICATION, Ring, Wait};
use super::play::{Dice, End, Socket, pattern, rings, socket_of, stretches};
use crate::clock::Moment;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::time::Duration;

#[derive(Debug)]
struct Op {
    entry: Entry,
    user_data: u64,
}

/// A notification that is owed, the memory that it is about, and what lay there.
#[derive(Debug)]
struct Owed {
    user_data: u64,
    memory: Vec<(usize, usize)>,
    salt: usize,
    from: usize,
    lead: Option<Cqe>,
}

#[derive(Debug)]
pub(super) struct Script {
    pub(super) dice: Dice,
    pub(super) sockets: HashMap<RawFd, Socket>,
    /// Sockets that were closed: `(salt, aborted, bytes sent)`.
    pub(super) closed: Vec<(usize, bool, usize)>,
    pub(super) gives_buffers: bool,
    /// A buffer is kept until it is full.
    pub(super) fills_on: bool,
    /// Cancellations do nothing, and sends are never answered.
    pub(super) deaf: bool,
    /// Notifications of zero-copy sends don't come.
    pub(super) keeps_notifications: bool,
    pub(super) leaked: bool,
    /// The dice are put away: everything that can be done is done, in order.
    pub(super) calm: bool,
    time: Moment,
    room: usize,
    submissions: VecDeque<Op>,
    ops: Vec<Op>,
    owed: Vec<Owed>,
    completions: VecDeque<Cqe>,
    visible: usize,
    buffers: VecDeque<(u16, usize, usize)>,
    past: Vec<u64>,
}

impl Script {
    pub(super) fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let (room, visible) = (1 + dice.below(8), 1 + dice.below(8));
        let (gives_buffers, fills_on) = (!dice.once_in(3), dice.once_in(2));
        Self {
            dice,
            sockets: HashMap::new(),
            closed: Vec::new(),
            gives_buffers,
            fills_on,
            deaf: false,
            keeps_notifications: false,
            leaked: false,
            calm: false,
            time: Moment::from_nanos(1),
            room,
            submissions: VecDeque::new(),
            ops: Vec::new(),
            owed: Vec::new(),
            completions: VecDeque::new(),
            visible,
            buffers: VecDeque::new(),
            past: Vec::new(),
        }
    }

    /// Whether the kernel may still look at memory between these addresses.
    pub(super) fn reads(&self, memory: &std::ops::Range<usize>) -> bool {
        let hits = |stretches: &[(usize, usize)]| {
            stretches.iter().any(|(base, len)| *base < memory.end && memory.start < base + len)
        };
        let sends = self.ops.iter().chain(&self.submissions);
        sends.filter_map(|op| stretches(&op.entry)).any(|it| hits(&it))
            || self.owed.iter().any(|it| hits(&it.memory))
    }

    pub(super) fn time(&self) -> Moment {
        self.time
    }

    fn chance(&mut self, of: usize) -> bool {
        !self.calm && self.dice.once_in(of)
    }

    fn post(&mut self, user_data: u64, result: i32, flags: u32) {
        self.completions.push_back(Cqe { user_data, result, flags });
        if flags & MORE == 0 {
            self.past.push(user_data);
        }
    }

    /// One step of one operation; whether it could go forward. It is gone if its last completion was posted.
    fn step(&mut self, at: usize) -> bool {
        let Op { entry, user_data } = Op { ..self.ops[at] };
        let last = |this: &mut Self, result: i32| {
            this.ops.swap_remove(at);
            this.post(user_data, result, 0);
            true
        };
        match entry {
            Entry::Nothing => last(self, 0),
            Entry::Read { file, .. } => {
                if !rings(file) {
                    return false;
                }
                last(self, 8)
            }
            Entry::CancelSocket { socket } => {
                self.ops.swap_remove(at);
                let count = self.cancel(Some(socket));
                self.post(user_data, count, 0);
                true
            }
            Entry::CancelAll => {
                self.ops.swap_remove(at);
                let count = self.cancel(None);
                self.post(user_data, count, 0);
                true
            }
            Entry::Writable { socket } => {
                assert!(self.sockets.contains_key(&socket), "an operation on a closed descriptor");
                last(self, i32::from(libc::POLLOUT))
            }
            Entry::Readable { socket } => {
                if !self.is_readable(socket) && !self.chance(20) {
                    return false;
                }
                last(self, i32::from(libc::POLLIN))
            }
            Entry::ReceiveOnce { socket, base, bytes } => {
                let result = self.receive(socket, base.as_ptr().addr(), bytes as usize);
                last(self, result.unwrap_or(-libc::EAGAIN))
            }
            Entry::Receive { socket } => self.step_receive(at, socket, user_data),
            Entry::Send { socket, zero_copy, .. } => {
                self.step_send(at, socket, zero_copy.is_some(), user_data)
            }
        }
    }

    fn is_readable(&self, socket: RawFd) -> bool {
        let socket = self.sockets.get(&socket).expect("an operation on a closed descriptor");
        let there = socket.incoming - socket.read;
        let over = there == 0 && socket.end != End::Silence;
        let marked = there >= socket.low_water;
        socket.broken || socket.shut == Some(true) || over || there > 0 && marked
    }

    /// What a read of the socket would return; `None` if it would wait.
    fn receive(&mut self, socket: RawFd, base: usize, bytes: usize) -> Option<i32> {
        let calm = self.calm;
        let socket = self.sockets.get_mut(&socket).expect("an operation on a closed descriptor");
        if socket.broken {
            return Some(-libc::ECONNRESET);
        }
        let there = socket.incoming - socket.read;
        if there == 0 {
            return match (socket.end, socket.shut) {
                (End::Eof, _) | (_, Some(true)) => Some(0),
                (End::Reset, _) => {
                    socket.broken = true;
                    Some(-libc::ECONNRESET)
                }
                (End::Silence, _) => None,
            };
        }
        let most = there.min(bytes);
        let count = if calm || self.dice.once_in(3) { most } else { 1 + self.dice.below(most.min(5000)) };
        let bytes = pattern(socket.salt, socket.read, count);
        socket.read += count;
        let into = std::ptr::with_exposed_provenance_mut::<u8>(base);
        // SAFETY: the transport under test promised that the memory is the kernel's.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), into, count) };
        Some(count as i32)
    }

    fn step_receive(&mut self, at: usize, socket: RawFd, user_data: u64) -> bool {
        if self.chance(15) {
            let errno = self.dice.pick(&[libc::EAGAIN, libc::EINTR, libc::ENOBUFS]);
            // A buffer may be named by an error too.
            let named = if self.dice.once_in(2) { self.buffers.pop_front() } else { None };
            let flags = named.map_or(0, |(name, ..)| BUFFER | u32::from(name) << 16);
            self.ops.swap_remove(at);
            self.post(user_data, -errno, flags);
            return true;
        }
        if !self.is_readable(socket) {
            return false;
        }
        let there = self.sockets[&socket].incoming - self.sockets[&socket].read;
        if there == 0 || self.sockets[&socket].broken {
            let result = self.receive(socket, 0, 0).unwrap_or(0);
            self.ops.swap_remove(at);
            // As seen: the end of a stream says that more is there.
            self.post(user_data, result, if result == 0 { 1 << 2 } else { 0 });
            return true;
        }
        let which = if self.calm { 0 } else { self.dice.below(self.buffers.len()) };
        let Some((name, base, bytes)) = self.buffers.remove(which) else {
            self.ops.swap_remove(at);
            self.post(user_data, -libc::ENOBUFS, 0);
            return true;
        };
        let result = self.receive(socket, base, bytes).unwrap_or(0);
        let filled = usize::try_from(result).unwrap_or(0);
        let is_kept = self.fills_on && filled < bytes;
        if is_kept {
            self.buffers.insert(which, (name, base + filled, bytes - filled));
        }
        let kept = if is_kept { BUFFER_KEPT } else { 0 };
        let more = if self.chance(5) { 0 } else { MORE };
        if more == 0 {
            self.ops.swap_remove(at);
        }
        self.post(user_data, result, BUFFER | u32::from(name) << 16 | more | kept);
        true
    }

    fn step_send(&mut self, at: usize, fd: RawFd, zero_copy: bool, user_data: u64) -> bool {
        let memory = stretches(&self.ops[at].entry).unwrap_or_default();
        let total: usize = memory.iter().map(|(_, len)| len).sum();
        assert!(total > 0, "an empty send");
        let chances = !self.calm;
        let socket = self.sockets.get_mut(&fd).expect("an operation on a closed descriptor");
        assert_ne!(socket.shut, Some(false), "a send behind the end of the stream");
        let (salt, from) = (socket.salt, socket.sent);
        let room = socket.takes - socket.sent;
        let result = if socket.broken || socket.shut.is_some() {
            -libc::EPIPE
        } else if chances && self.dice.once_in(12) {
            -self.dice.pick(&[libc::EAGAIN, libc::EINTR])
        } else if zero_copy && chances && self.dice.once_in(6) {
            -self.dice.pick(&[libc::ENOMEM, libc::EINVAL, libc::EOPNOTSUPP, libc::EFAULT])
        } else if room == 0 || self.deaf {
            return false;
        } else {
            let most = total.min(room);
            let count = if !chances || !self.dice.once_in(4) { most } else { 1 + self.dice.below(most) };
            self.check_sent(&memory, salt, from, count);
            if let Some(socket) = self.sockets.get_mut(&fd) {
                socket.sent += count;
            }
            count as i32
        };
        let sent = usize::try_from(result).unwrap_or(0);
        self.answer_send(at, user_data, zero_copy, result, (memory, sent), salt, from);
        true
    }

    fn check_sent(&self, memory: &[(usize, usize)], salt: usize, from: usize, count: usize) {
        let mut at = from;
        for (base, len) in memory {
            let len = (*len).min(from + count - at);
            let bytes = std::ptr::with_exposed_provenance::<u8>(*base);
            // SAFETY: the transport under test promised that the memory stays; recycled batches are kept.
            let bytes = unsafe { std::slice::from_raw_parts(bytes, len) };
            assert!(bytes == pattern(salt, at, len), "foreign bytes are sent at {at}");
            at += len;
        }
    }

    #[allow(clippy::too_many_arguments, reason = "one send, told once")]
    fn answer_send(
        &mut self,
        at: usize,
        user_data: u64,
        zero_copy: bool,
        result: i32,
        (memory, sent): (Vec<(usize, usize)>, usize),
        salt: usize,
        from: usize,
    ) {
        self.ops.swap_remove(at);
        if !zero_copy || self.chance(8) {
            self.post(user_data, result, 0);
            return;
        }
        let mut left = sent;
        let memory = memory.into_iter().map(|(base, len)| {
            let here = len.min(left);
            left -= here;
            (base, here)
        });
        let owed = Owed { user_data, memory: memory.filter(|it| it.1 > 0).collect(), salt, from, lead: None };
        let cqe = Cqe { user_data, result, flags: MORE };
        if self.chance(10) {
            // The notification overtakes the result.
            self.owed.push(Owed { lead: Some(cqe), ..owed });
        } else {
            self.completions.push_back(cqe);
            self.owed.push(owed);
        }
    }

    fn notify(&mut self, at: usize) {
        let owed = self.owed.swap_remove(at);
        let count = owed.memory.iter().map(|it| it.1).sum();
        self.check_sent(&owed.memory, owed.salt, owed.from, count);
        let result = if self.dice.once_in(2) { COPIED as i32 } else { 0 };
        self.post(owed.user_data, result, NOTIFICATION);
        self.completions.extend(owed.lead);
    }

    /// Cancels what is under way on a socket, or everything.
    fn cancel(&mut self, socket: Option<RawFd>) -> i32 {
        if self.deaf {
            return -libc::EALREADY;
        }
        if socket.is_some() && self.chance(10) {
            return -self.dice.pick(&[libc::ENOENT, libc::EALREADY, libc::EINVAL]);
        }
        let mut count = 0;
        for at in (0..self.ops.len()).rev() {
            let entry = &self.ops[at].entry;
            let other = socket.is_some() && socket_of(entry) != socket;
            if other || matches!(entry, Entry::CancelSocket { .. } | Entry::CancelAll) {
                continue;
            }
            // One that has just succeeded isn't cancelled.
            if self.chance(4) && self.step(at) {
                continue;
            }
            let Op { entry, user_data } = self.ops.swap_remove(at);
            count += 1;
            match entry {
                Entry::Send { zero_copy: Some(_), .. } if !self.dice.once_in(3) => {
                    self.completions.push_back(Cqe { user_data, result: -libc::ECANCELED, flags: MORE });
                    let memory = Vec::new();
                    self.owed.push(Owed { user_data, memory, salt: 0, from: 0, lead: None });
                }
                _ => self.post(user_data, -libc::ECANCELED, 0),
            }
        }
        if count == 0 { -libc::ENOENT } else { count }
    }

    /// One step of anything; whether there was one.
    fn move_on(&mut self) -> bool {
        let owed = if self.keeps_notifications { 0 } else { self.owed.len() };
        let ops = self.ops.len();
        let first = self.dice.below(ops + owed);
        for step in 0..ops + owed {
            let at = (first + step) % (ops + owed);
            if at >= ops {
                self.notify(at - ops);
                return true;
            }
            if self.step(at) {
                return true;
            }
        }
        false
    }
}

impl Ring for Script {
    unsafe fn push(&mut self, entry: &Entry, user_data: u64) -> bool {
        assert!(user_data != 0 && user_data != u64::MAX, "no name");
        if let Entry::ReceiveOnce { base, .. } = entry {
            base.as_ptr().expose_provenance();
        }
        let fits = self.submissions.len() < self.room;
        if fits {
            self.submissions.push_back(Op { entry: *entry, user_data });
        }
        fits
    }

    fn queued(&self) -> usize {
        self.submissions.len()
    }

    fn is_due(&self) -> bool {
        let ready = |op: &Op| match op.entry {
            Entry::Receive { socket } | Entry::Readable { socket } => self.is_readable(socket),
            Entry::Writable { .. } | Entry::Send { .. } => true,
            _ => false,
        };
        let owes = !self.owed.is_empty() && !self.keeps_notifications;
        self.completions.len() > self.visible || owes || self.ops.iter().any(ready)
    }

    fn enter(&mut self, wait: Wait) -> io::Result<()> {
        let time = Duration::from_nanos(1 + self.dice.roll() % 60_000);
        self.time = self.time.plus(time);
        // Busy, or interrupted: nothing was taken.
        if self.chance(12) {
            return Ok(());
        }
        self.ops.extend(self.submissions.drain(..));
        if self.chance(25) && !self.past.is_empty() {
            // A completion of an operation that is long over.
            let user_data = self.dice.pick(&self.past);
            let named = if self.dice.once_in(2) { self.buffers.pop_front() } else { None };
            let flags = named.map_or(0, |(name, ..)| BUFFER | u32::from(name) << 16);
            let result = if named.is_some() { -libc::ECANCELED } else { 1 };
            self.completions.push_back(Cqe { user_data, result, flags });
        }
        let steps = if self.calm { 4 } else { self.dice.below(4) };
        let moved = (0..steps).filter(|_| self.move_on()).count();
        if moved == 0 && self.completions.is_empty() && wait != Wait::No && !self.move_on() {
            match wait {
                Wait::For(time) => self.time = self.time.plus(time),
                _ => panic!("waits for ever: {self:?}"),
            }
        }
        self.visible = if self.calm { 64 } else { 1 + self.dice.below(8) };
        Ok(())
    }

    fn reap(&mut self, into: &mut [Cqe]) -> usize {
        // What didn't fit the queue comes to light by an enter only.
        let count = self.completions.len().min(self.visible).min(into.len());
        self.visible -= count;
        for (place, cqe) in into.iter_mut().zip(self.completions.drain(..count)) {
            *place = cqe;
        }
        count
    }

    fn takes_buffers(&self) -> bool {
        self.gives_buffers
    }

    unsafe fn provide(&mut self, buffer: u16, base: NonNull<u8>, bytes: u32) {
        assert!(self.buffers.iter().all(|(name, ..)| *name != buffer), "a buffer is given once");
        self.buffers.push_back((buffer, base.as_ptr().expose_provenance(), bytes as usize));
    }

    fn adopt(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        Ok(self.sockets[&socket.as_raw_fd()].here)
    }

    fn shut_down(&mut self, socket: BorrowedFd<'_>, both: bool) {
        let socket = self.sockets.get_mut(&socket.as_raw_fd()).expect("an open socket");
        socket.shut = Some(both || socket.shut == Some(true));
    }

    fn acknowledged(&mut self, socket: BorrowedFd<'_>) -> u64 {
        self.sockets[&socket.as_raw_fd()].sent as u64
    }

    fn set_low_water(&mut self, socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
        if bytes > 1 && self.chance(10) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let socket = self.sockets.get_mut(&socket.as_raw_fd()).expect("an open socket");
        socket.low_water = bytes as usize;
        Ok(())
    }

    fn close(&mut self, socket: OwnedFd, abort: bool) {
        let fd = socket.as_raw_fd();
        let named = |op: &Op| socket_of(&op.entry) == Some(fd);
        assert!(!self.ops.iter().chain(&self.submissions).any(named), "closed under an operation");
        let socket = self.sockets.remove(&fd).expect("closed once");
        self.closed.push((socket.salt, abort, socket.sent));
    }

    fn now(&self) -> Moment {
        self.time
    }

    fn register_arena(&mut self) -> Arena {
        Arena::default()
    }

    fn leak(&mut self) {
        self.leaked = true;
    }
}
