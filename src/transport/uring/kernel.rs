//! The real ring: entries as the kernel has them, and the calls on sockets around it.

use super::arena::{Arena, ArenaSource};
use super::ring::{BUFFERS, Cqe, Entry, Ring, Wait};
use crate::clock::{Moment, Monotonic};
use crate::sync::publish_to_kernel;
use io_uring::types::{BufRingEntry, CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{Builder, IoUring, opcode, squeue};
use memmap2::{Advice, MmapOptions, MmapRaw};
use rustix::net::Shutdown;
use rustix::net::sockopt::set_socket_linger;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::time::Duration;

/// Places of the submission and the completion queue; what comes beyond waits here or is kept by the kernel. The
/// smaller ones are for users with little locked memory, against which the queues count.
const QUEUES: [(u32, u32); 3] = [(256, 4096), (64, 512), (16, 64)];
/// The group of provided buffers; a ring has one.
const GROUP: u16 = 1;
/// `IOU_PBUF_RING_INC`: buffers are filled bit by bit; since 6.12.
const FILLS_ON: u16 = 2;
/// `IORING_SEND_ZC_REPORT_USAGE`.
const REPORT_USAGE: u16 = 1 << 3;
/// `IORING_ENTER_GETEVENTS`, `IORING_ENTER_EXT_ARG`.
const GET_EVENTS: u32 = 1;
const EXTENDED: u32 = 1 << 3;

/// Which of the set-up flags are asked for: each step down drops what an older kernel doesn't know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rung {
    /// Everything; since 6.6.
    NoIndex,
    /// Without `NO_SQARRAY`; since 6.1.
    Deferred,
    /// Without `DEFER_TASKRUN` and `TASKRUN_FLAG`; since 6.0.
    SingleIssuer,
    /// Without `SINGLE_ISSUER`; since 5.18.
    SubmitAll,
    /// Sizes only.
    Plain,
}

impl Rung {
    const ALL: [Self; 5] = [Self::NoIndex, Self::Deferred, Self::SingleIssuer, Self::SubmitAll, Self::Plain];

    fn builder(self, completions: u32) -> Builder {
        let mut builder = IoUring::builder();
        builder.dontfork().setup_cqsize(completions).setup_clamp();
        if self <= Self::SubmitAll {
            builder.setup_submit_all();
        }
        if self <= Self::SingleIssuer {
            builder.setup_single_issuer();
        }
        if self <= Self::Deferred {
            builder.setup_defer_taskrun().setup_taskrun_flag();
        }
        if self <= Self::NoIndex {
            builder.setup_no_sqarray();
        }
        builder
    }
}

/// The ring of one thread.
pub(crate) struct KernelRing {
    /// Before the buffers' entries: closing the ring ends the kernel's use of them.
    ring: ManuallyDrop<IoUring>,
    buffers: Option<BufferRing>,
    rung: Rung,
    clock: Monotonic,
    arena: Option<ArenaSource>,
    /// Another thread's enter would be refused, and closing from there would be late.
    _one_thread: PhantomData<*mut ()>,
}

impl KernelRing {
    /// Climbs down from the newest flags until the kernel takes them.
    #[allow(dead_code, reason = "for tests")]
    pub(super) fn new() -> Result<Self, (&'static str, io::Error)> {
        Self::from_rung(Rung::NoIndex)
    }

    pub(super) fn from_rung(first: Rung) -> Result<Self, (&'static str, io::Error)> {
        let mut refusal = io::Error::from_raw_os_error(libc::EINVAL);
        for (submissions, completions) in QUEUES {
            for rung in Rung::ALL.into_iter().filter(|rung| *rung >= first) {
                match rung.builder(completions).build(submissions) {
                    Ok(ring) => return Self::with(ring, rung),
                    Err(error) => refusal = error,
                }
                // An unknown flag is answered by `EINVAL`; any other errno would be the same one step below.
                if refusal.raw_os_error() != Some(libc::EINVAL) {
                    break;
                }
            }
            if refusal.raw_os_error() != Some(libc::ENOMEM) {
                break;
            }
        }
        Err(("io_uring_setup", refusal))
    }

    fn with(ring: IoUring, rung: Rung) -> Result<Self, (&'static str, io::Error)> {
        let params = ring.params();
        let complete =
            params.is_feature_nodrop() && params.is_feature_ext_arg() && params.is_feature_fast_poll();
        if !complete {
            let source = io::Error::from_raw_os_error(libc::EOPNOTSUPP);
            return Err(("features of io_uring (NODROP, FAST_POLL, EXT_ARG)", source));
        }
        let clock = Monotonic::start();
        let ring = ManuallyDrop::new(ring);
        Ok(Self { ring, buffers: None, rung, clock, arena: None, _one_thread: PhantomData })
    }

    pub(super) fn rung(&self) -> Rung {
        self.rung
    }

    /// Places of the completion queue.
    pub(super) fn completions(&self) -> u32 {
        self.ring.params().cq_entries()
    }

    /// Sets up the ring of provided buffers.
    pub(super) fn register_buffers_ring(&mut self) -> io::Result<()> {
        let buffers = BufferRing::new()?;
        // A buffer that is filled bit by bit is warm, and frames lie in one piece. What is filled is told in its order
        // where this thread does the kernel's work itself.
        let fills_on = (self.rung <= Rung::Deferred).then_some(FILLS_ON);
        let mut registered = Err(io::ErrorKind::Unsupported.into());
        for flags in fills_on.into_iter().chain([0]) {
            let submitter = self.ring.submitter();
            // SAFETY: the entries lie in a mapping of whole pages, which lives until the ring is closed.
            registered =
                unsafe { submitter.register_buf_ring_with_flags(buffers.address(), BUFFERS, GROUP, flags) };
            if registered.is_ok() {
                break;
            }
        }
        registered?;
        self.buffers = Some(buffers);
        Ok(())
    }

    /// Receives are single ones from now on.
    pub(super) fn drop_buffers_ring(&mut self) -> io::Result<()> {
        if self.buffers.is_some() {
            self.ring.submitter().unregister_buf_ring(GROUP)?;
            self.buffers = None;
        }
        Ok(())
    }

    /// What [`Ring::register_arena`] registers.
    pub(super) fn set_arena(&mut self, arena: ArenaSource) {
        self.arena = Some(arena);
    }

    pub(super) fn submitter(&self) -> io_uring::Submitter<'_> {
        self.ring.submitter()
    }
}

impl fmt::Debug for KernelRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelRing").field("rung", &self.rung).finish_non_exhaustive()
    }
}

fn build(entry: &Entry) -> squeue::Entry {
    match *entry {
        Entry::Nothing => opcode::Nop::new().build(),
        Entry::Receive { socket } => opcode::RecvMulti::new(Fd(socket), GROUP).build(),
        Entry::ReceiveOnce { socket, base, bytes } => {
            opcode::Recv::new(Fd(socket), base.as_ptr(), bytes).flags(libc::MSG_DONTWAIT).build()
        }
        Entry::Readable { socket } => {
            let events = libc::POLLIN | libc::POLLRDHUP | libc::POLLERR | libc::POLLHUP;
            opcode::PollAdd::new(Fd(socket), events as u32).build()
        }
        Entry::Writable { socket } => {
            let events = libc::POLLOUT | libc::POLLERR | libc::POLLHUP;
            opcode::PollAdd::new(Fd(socket), events as u32).build()
        }
        Entry::Send { socket, message, zero_copy } => {
            let flags = (libc::MSG_NOSIGNAL | libc::MSG_WAITALL) as u32;
            match zero_copy {
                None => opcode::SendMsg::new(Fd(socket), message).flags(flags).build(),
                Some(how) => opcode::SendMsgZc::new(Fd(socket), message)
                    .flags(flags)
                    .ioprio(if how.report { REPORT_USAGE } else { 0 })
                    .buf_index(how.region)
                    .build(),
            }
        }
        Entry::Read { file, into } => opcode::Read::new(Fd(file), into.as_ptr().cast(), 8).build(),
        Entry::CancelSocket { socket } => {
            opcode::AsyncCancel2::new(CancelBuilder::fd(Fd(socket)).all()).build()
        }
        Entry::CancelAll => opcode::AsyncCancel2::new(CancelBuilder::any()).build(),
    }
}

impl Ring for KernelRing {
    unsafe fn push(&mut self, entry: &Entry, user_data: u64) -> bool {
        let entry = build(entry).user_data(user_data);
        // SAFETY: the caller's promise.
        unsafe { self.ring.submission().push(&entry) }.is_ok()
    }

    fn queued(&self) -> usize {
        // SAFETY: the queue is used by this thread alone, and by no other handle while this one lives.
        unsafe { self.ring.submission_shared() }.len()
    }

    fn is_due(&self) -> bool {
        // SAFETY: as above.
        let queue = unsafe { self.ring.submission_shared() };
        queue.taskrun() || queue.cq_overflow()
    }

    fn enter(&mut self, wait: Wait) -> io::Result<()> {
        let queued = self.ring.submission().len() as u32;
        let time;
        let mut args = SubmitArgs::new();
        let mut want = 1;
        match wait {
            Wait::No => want = 0,
            Wait::For(duration) => {
                time = Timespec::from(duration);
                args = args.timespec(&time);
            }
            Wait::Forever => {}
        }
        // `GETEVENTS` also where nothing is waited for: it is what runs deferred work.
        // SAFETY: the arguments are of the type that `EXT_ARG` means, and live until the call returns.
        let result = unsafe { self.ring.submitter().enter(queued, want, GET_EVENTS | EXTENDED, Some(&args)) };
        match result {
            Ok(_) => Ok(()),
            // The wait is over, or completions have to be reaped first. An entry that the kernel took is gone
            // from the queue, whatever the call says.
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(()),
                _ => Err(error),
            },
        }
    }

    fn reap(&mut self, into: &mut [Cqe]) -> usize {
        let mut queue = self.ring.completion();
        let mut count = 0;
        for (place, cqe) in into.iter_mut().zip(&mut queue) {
            *place = Cqe { user_data: cqe.user_data(), result: cqe.result(), flags: cqe.flags() };
            count += 1;
        }
        count
    }

    fn takes_buffers(&self) -> bool {
        self.buffers.is_some()
    }

    unsafe fn provide(&mut self, buffer: u16, base: NonNull<u8>, bytes: u32) {
        if let Some(buffers) = &mut self.buffers {
            buffers.add(buffer, base, bytes);
        }
    }

    fn adopt(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        // A socket that doesn't wait would hand its `EAGAIN` through.
        rustix::io::ioctl_fionbio(socket, false)?;
        let ip = |address: rustix::net::SocketAddrAny| {
            SocketAddr::try_from(address).ok().map(|address| address.ip().to_canonical())
        };
        let peer = rustix::net::getpeername(socket)?.and_then(ip);
        let own = ip(rustix::net::getsockname(socket)?);
        Ok(peer.is_none_or(|peer| peer.is_loopback()) || peer == own)
    }

    fn shut_down(&mut self, socket: BorrowedFd<'_>, both: bool) {
        let how = if both { Shutdown::Both } else { Shutdown::Write };
        // Refused only where the connection is gone, and then there is nothing to end.
        let _ = rustix::net::shutdown(socket, how);
    }

    fn acknowledged(&mut self, socket: BorrowedFd<'_>) -> u64 {
        acknowledged(socket.as_raw_fd()).unwrap_or(0)
    }

    fn set_low_water(&mut self, socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
        let value = bytes as libc::c_int;
        let size = size_of_val(&value) as libc::socklen_t;
        // SAFETY: `value` is valid for reads of its size.
        let result = unsafe {
            let value = (&raw const value).cast();
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, value, size)
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn close(&mut self, socket: OwnedFd, abort: bool) {
        if abort {
            // Refused on what is no TCP socket: it is closed all the same.
            let _ = set_socket_linger(&socket, Some(Duration::ZERO));
        }
        drop(socket);
    }

    fn now(&self) -> Moment {
        self.clock.now()
    }

    fn register_arena(&mut self) -> Arena {
        self.arena.take().map_or_else(Arena::default, |arena| arena.register(self))
    }

    fn leak(&mut self) {
        mem::forget(self.buffers.take());
    }
}

impl Drop for KernelRing {
    fn drop(&mut self) {
        // A ring that leaks is closed as well: the kernel ends by itself what is under way.
        // SAFETY: dropped once, here.
        unsafe { ManuallyDrop::drop(&mut self.ring) };
    }
}

/// `tcpi_bytes_acked` of `TCP_INFO`; 4.1 and newer have it at this place.
fn acknowledged(socket: RawFd) -> Option<u64> {
    const AT: usize = 120;
    let mut info = [0_u8; AT + 8];
    let mut bytes = info.len() as libc::socklen_t;
    // SAFETY: `info` is valid for writes of so many bytes, and `bytes` for a write.
    let result = unsafe {
        libc::getsockopt(socket, libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut bytes)
    };
    let whole = result == 0 && bytes as usize == info.len();
    whole.then(|| u64::from_ne_bytes(info[AT..].try_into().unwrap_or_default()))
}

/// The ring in which buffers are given to the kernel: `BUFFERS` entries, and a tail that lies in the first one.
#[derive(Debug)]
struct BufferRing {
    entries: MmapRaw,
    tail: u16,
}

impl BufferRing {
    fn new() -> io::Result<Self> {
        let bytes = usize::from(BUFFERS) * size_of::<BufRingEntry>();
        let entries = MmapRaw::from(MmapOptions::new().len(bytes).map_anon()?);
        // Refused, it costs a child that forks a copy of one page.
        drop(entries.advise(Advice::DontFork));
        Ok(Self { entries, tail: 0 })
    }

    fn address(&self) -> u64 {
        self.entries.as_mut_ptr().addr() as u64
    }

    fn add(&mut self, name: u16, base: NonNull<u8>, bytes: u32) {
        let first = self.entries.as_mut_ptr().cast::<BufRingEntry>();
        let at = usize::from(self.tail & (BUFFERS - 1));
        // SAFETY: `at` is below `BUFFERS`, for which the mapping has room.
        let place = unsafe { first.add(at) };
        // SAFETY: the mapping is aligned to pages, zeroed, and lives; the kernel only reads this entry, and not
        // before the tail has passed it. Its fourth field is the tail and stays untouched.
        let entry = unsafe { &mut *place };
        entry.set_addr(base.as_ptr().expose_provenance() as u64);
        entry.set_len(bytes);
        entry.set_bid(name);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the first entry is valid, as above.
        let tail = unsafe { BufRingEntry::tail(first) }.cast_mut();
        if let Some(tail) = NonNull::new(tail) {
            // SAFETY: two bytes of the mapping, aligned, written here only, and read by the kernel.
            unsafe { publish_to_kernel(tail, self.tail) };
        }
    }
}
