//! What the kernel really does, found by doing it: a filter may allow the set-up and refuse the rest, and a flag
//! may be unknown to an operation that is known.

use super::kernel::KernelRing;
use super::ring::{BUFFER, Cqe, Entry, Ring, Wait, ZeroCopySend};
use super::zero_copy::Ability;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::ptr::NonNull;
use std::time::Duration;

/// What was tried, and how it failed.
pub(super) type Refusal = (&'static str, io::Error);

/// How long any answer may take. Nothing in here waits for anything but the kernel itself.
const PATIENCE: Duration = Duration::from_secs(2);

/// What operations of the probe point to.
struct Scratch {
    byte: u8,
    stretch: libc::iovec,
    message: libc::msghdr,
    into: [u8; 64],
}

/// Tries a zero-copy send from the first registered region, which begins at `address`.
///
/// # Errors
/// The step that failed.
pub(super) fn send_from_region(ring: &mut KernelRing, address: usize) -> Result<(), Refusal> {
    let base = std::ptr::with_exposed_provenance_mut(address);
    with_scratch(ring, Some(base), |trial, scratch| {
        let (here, _there) = pair().map_err(|error| ("socket pair", error))?;
        // SAFETY: the scratch memory is valid until nothing is under way.
        let message = unsafe { &raw const (*scratch.as_ptr()).message };
        let zero_copy = Some(ZeroCopySend { region: Some(0), report: false });
        let entry = Entry::Send { socket: here.as_raw_fd(), message, zero_copy };
        let sent = trial.begin(entry).and_then(|op| trial.result(op));
        sent.map(drop).map_err(|error| ("SENDMSG_ZC from registered memory", error))
    })
}

/// Tries everything that the transport does. Afterwards nothing is under way.
///
/// # Errors
/// The step without which there is no transport over this ring.
pub(super) fn probe(ring: &mut KernelRing) -> Result<Ability, Refusal> {
    with_scratch(ring, None, try_all)
}

/// Runs a trial with memory of its own, and gives that back when nothing is under way any more. What is sent
/// is the byte at `from`, or one of the scratch memory.
fn with_scratch<T>(
    ring: &mut KernelRing,
    from: Option<*mut u8>,
    run: impl FnOnce(&mut Trial<'_>, NonNull<Scratch>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    // SAFETY: integers and pointers, for which zeros are 0 and null.
    let message = unsafe { std::mem::zeroed() };
    let stretch = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 1 };
    let mut scratch = Box::new(Scratch { byte: 1, stretch, message, into: [0; 64] });
    scratch.stretch.iov_base = from.unwrap_or(&raw mut scratch.byte).cast();
    scratch.message.msg_iov = &raw mut scratch.stretch;
    scratch.message.msg_iovlen = 1;
    // The kernel knows it by this address from here on.
    let scratch = NonNull::from(Box::leak(scratch));
    let mut trial = Trial { ring, seen: Vec::new() };
    let result = run(&mut trial, scratch);
    if trial.is_idle() {
        // SAFETY: it came from a box, and nothing is under way that could touch it.
        drop(unsafe { Box::from_raw(scratch.as_ptr()) });
    } else {
        // It stays with the kernel.
        trial.ring.leak();
    }
    result
}

fn try_all(trial: &mut Trial<'_>, scratch: NonNull<Scratch>) -> Result<Ability, Refusal> {
    let nothing = trial.begin(Entry::Nothing).map_err(|error| ("NOP", error))?;
    trial.result(nothing).map_err(|error| ("NOP", error))?;
    let (here, there) = pair().map_err(|error| ("socket pair", error))?;
    let (from, to) = (here.as_raw_fd(), there.as_raw_fd());
    // SAFETY: the scratch memory is valid until nothing is under way.
    let message = unsafe { &raw const (*scratch.as_ptr()).message };
    let send =
        |trial: &mut Trial<'_>, zero_copy| trial.begin(Entry::Send { socket: from, message, zero_copy });
    let plain = send(trial, None).and_then(|op| trial.result(op));
    plain.map_err(|error| ("SENDMSG", error))?;
    receive(trial, to, scratch)?;
    for (report, ability) in [(true, Ability::Reporting), (false, Ability::Silent)] {
        let how = Some(ZeroCopySend { region: None, report });
        match send(trial, how).and_then(|op| trial.result(op)) {
            Ok(_) => return Ok(ability),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(("SENDMSG_ZC", error)),
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOMEM | libc::ENOBUFS)) => {
                return Ok(Ability::Short);
            }
            Err(_) => {}
        }
    }
    Ok(Ability::None)
}

/// Receives the byte by the ring of provided buffers, or singly where that doesn't go.
fn receive(trial: &mut Trial<'_>, socket: i32, scratch: NonNull<Scratch>) -> Result<(), Refusal> {
    // SAFETY: the scratch memory is valid until nothing is under way.
    let into = NonNull::from(unsafe { &mut (*scratch.as_ptr()).into }).cast::<u8>();
    if trial.ring.register_buffers_ring().is_ok() {
        // SAFETY: the memory is the kernel's until the byte has come, or the buffers' ring is dropped below.
        unsafe { trial.ring.provide(0, into, 64) };
        let step = "RECV, multishot";
        let op = trial.begin(Entry::Receive { socket }).map_err(|error| (step, error))?;
        trial.until(|trial| !trial.seen[op].is_empty()).map_err(|error| (step, error))?;
        let came = trial.seen[op][0].result == 1 && trial.seen[op][0].flags & BUFFER != 0;
        if came && !trial.is_over(op) {
            let cancel =
                trial.begin(Entry::CancelSocket { socket }).map_err(|error| ("ASYNC_CANCEL", error))?;
            trial
                .until(|trial| trial.is_over(op) && trial.is_over(cancel))
                .map_err(|it| ("ASYNC_CANCEL", it))?;
        }
        // A buffer that is filled bit by bit is the kernel's still: that ring goes, and with it the scratch memory.
        trial.ring.drop_buffers_ring().map_err(|error| ("unregister the ring of buffers", error))?;
        if came {
            let again = trial.ring.register_buffers_ring();
            return again.map_err(|error| ("register the ring of buffers again", error));
        }
    }
    let readable = trial.begin(Entry::Readable { socket }).and_then(|op| trial.result(op));
    readable.map_err(|error| ("POLL_ADD", error))?;
    let entry = Entry::ReceiveOnce { socket, base: into, bytes: 64 };
    trial.begin(entry).and_then(|op| trial.result(op)).map_err(|error| ("RECV", error))?;
    Ok(())
}

/// Two connected sockets of the kind that is meant, or of another where this network has no loopback.
fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let tcp = || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let here = TcpStream::connect(listener.local_addr()?)?;
        // A stranger's connection would get a byte, and ours would wait in vain: compare.
        let (there, from) = listener.accept()?;
        if from != here.local_addr()? {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        Ok((here.into(), there.into()))
    };
    tcp().or_else(|_: io::Error| {
        let (here, there) = UnixStream::pair()?;
        Ok((here.into(), there.into()))
    })
}

/// Operations by number, and what came of them.
struct Trial<'a> {
    ring: &'a mut KernelRing,
    seen: Vec<Vec<Cqe>>,
}

impl Trial<'_> {
    fn begin(&mut self, entry: Entry) -> io::Result<usize> {
        self.seen.push(Vec::new());
        // 0 is no name.
        // SAFETY: all that entries point to is the scratch memory, valid until nothing is under way.
        if !unsafe { self.ring.push(&entry, self.seen.len() as u64) } {
            self.seen.pop();
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(self.seen.len() - 1)
    }

    fn is_over(&self, op: usize) -> bool {
        self.seen[op].last().is_some_and(|cqe| !cqe.has_more())
    }

    fn is_idle(&self) -> bool {
        (0..self.seen.len()).all(|op| self.is_over(op))
    }

    fn until(&mut self, reached: impl Fn(&Self) -> bool) -> io::Result<()> {
        let end = self.ring.now().plus(PATIENCE);
        loop {
            let mut cqes = [Cqe::default(); 8];
            let count = self.ring.reap(&mut cqes);
            for cqe in &cqes[..count] {
                if let Some(seen) = self.seen.get_mut((cqe.user_data as usize).wrapping_sub(1)) {
                    seen.push(*cqe);
                }
            }
            if reached(self) {
                return Ok(());
            }
            let left = end.since(self.ring.now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if count == 0 {
                self.ring.enter(Wait::For(left))?;
            }
        }
    }

    /// The first result of an operation, when it is over.
    fn result(&mut self, op: usize) -> io::Result<i32> {
        self.until(|trial| trial.is_over(op))?;
        let first = self.seen[op][0];
        first.errno().map_or(Ok(first.result), |errno| Err(io::Error::from_raw_os_error(errno)))
    }
}
