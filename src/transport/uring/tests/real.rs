//! What this kernel does, on every rung of the ladder.

use super::super::Uring;
use super::super::arena::ArenaShare;
use super::super::kernel::Rung;
use super::super::start::UringOptions;
use super::super::zero_copy::ZeroCopy;
use crate::clock::Monotonic;
use crate::memory::{ReceivePool, SegmentPool};
use crate::transport::{Batch, Close, Completion, Part, Transport};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

pub(super) fn options(slots: u32, zero_copy: ZeroCopy) -> UringOptions {
    UringOptions {
        receive: ReceivePool::new(slots).unwrap(),
        arena: SegmentPool::with_geometry(&[(32 * 1024, 64)], 4096, 0).unwrap(),
        share: Arc::new(ArenaShare::default()),
        zero_copy,
        lazy: true,
    }
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (here, listener.accept().unwrap().0)
}

fn batch(bytes: &[u8]) -> Box<Batch> {
    let part = Part::Staged(0..bytes.len());
    Box::new(Batch { staging: bytes.to_vec(), parts: vec![part], bytes: bytes.len(), returns: Vec::new() })
}

/// Bytes that tell their place.
fn pattern(from: usize, bytes: usize) -> Vec<u8> {
    (from..from + bytes).map(|at| (at % 251) as u8).collect()
}

/// Streams `total` bytes from one connection to the other of the same transport, in batches of `each`.
pub(super) fn stream(uring: &mut impl Transport, total: usize, each: usize) {
    let (here, there) = pair();
    let from = uring.attach(here.into()).unwrap();
    let to = uring.attach(there.into()).unwrap();
    let (mut sent, mut received, mut recycled, mut batches) = (0, 0, 0, 0);
    let mut done = Vec::new();
    let mut may_send = true;
    let (mut ended, mut closed) = (false, 0);
    while closed < 2 {
        if may_send && sent < total {
            let bytes = each.min(total - sent);
            uring.send(from, batch(&pattern(sent, bytes)));
            (sent, may_send, batches) = (sent + bytes, false, batches + 1);
            if sent == total {
                uring.close(from, Close::Orderly);
            }
        }
        uring.turn(Some(Duration::from_secs(5)), &mut done).unwrap();
        assert!(!done.is_empty(), "something comes in time: {sent} {received} {recycled}");
        for completion in done.drain(..) {
            match completion {
                Completion::Received { connection, bytes } => {
                    assert_eq!(connection, to);
                    assert_eq!(*bytes, *pattern(received, bytes.len()));
                    received += bytes.len();
                }
                Completion::Sent { connection } => {
                    assert_eq!(connection, from);
                    may_send = true;
                }
                Completion::Recycled { batch } => {
                    assert!(batch.bytes <= each);
                    recycled += 1;
                }
                Completion::Eof { connection } => {
                    assert_eq!(connection, to);
                    assert_eq!(received, total);
                    ended = true;
                    uring.close(to, Close::Orderly);
                }
                Completion::Closed { .. } => closed += 1,
                Completion::Failed { error, .. } => panic!("{error}"),
            }
        }
    }
    while recycled < batches {
        uring.turn(Some(Duration::from_secs(5)), &mut done).unwrap();
        assert!(!done.is_empty(), "every batch is given back");
        recycled += done.drain(..).filter(|it| matches!(it, Completion::Recycled { .. })).count();
    }
    assert!(ended);
}

#[test]
fn bytes_stream_on_every_rung() {
    for rung in [Rung::NoIndex, Rung::Deferred, Rung::SingleIssuer, Rung::SubmitAll, Rung::Plain] {
        for takes_buffers in [true, false] {
            let options = options(4, ZeroCopy::Auto);
            let pool = options.receive.clone();
            let (mut uring, found) = Uring::open_from(rung, takes_buffers, options).unwrap();
            println!("{found}");
            stream(&mut uring, 8 << 20, 300_000);
            stream(&mut uring, 100_000, 100);
            assert_eq!(uring.counts().zero_copy_sends, 0, "loopback is copied anyway");
            assert_eq!(uring.counts().calls, 0);
            drop(uring);
            assert_eq!(pool.free(), 4);
        }
    }
}

/// Completions of deferred work come to light by an enter only: whoever never waits has to enter, too.
#[test]
fn who_never_waits_gets_everything_on_every_rung() {
    for rung in [Rung::NoIndex, Rung::Deferred, Rung::SingleIssuer, Rung::SubmitAll, Rung::Plain] {
        let (mut uring, found) = Uring::open_from(rung, true, options(4, ZeroCopy::Auto)).unwrap();
        let (here, there) = pair();
        let from = uring.attach(here.into()).unwrap();
        uring.attach(there.into()).unwrap();
        uring.send(from, batch(&pattern(0, 100_000)));
        let (clock, mut received, mut done) = (Monotonic::start(), 0, Vec::new());
        let start = clock.now();
        while received < 100_000 {
            assert!(clock.now().since(start) < Duration::from_secs(10), "{found}: {received} bytes came");
            uring.turn(Some(Duration::ZERO), &mut done).unwrap();
            received += done
                .drain(..)
                .map(|it| match it {
                    Completion::Received { bytes, .. } => bytes.len(),
                    _ => 0,
                })
                .sum::<usize>();
        }
    }
}

/// A process that forks has its ring and its memory to itself: a child that lives on disturbs nobody, and has neither.
#[test]
fn a_forked_child_disturbs_nobody() {
    let options = options(4, ZeroCopy::Always);
    let (arena, pool) = (options.arena.clone(), options.receive.clone());
    let (mut uring, _) = Uring::open(options).unwrap();
    stream(&mut uring, 100_000, 50_000);
    let page = std::ptr::with_exposed_provenance_mut::<libc::c_void>(arena.addresses().start);
    let mut ready = [0; 2];
    // SAFETY: room for two descriptors.
    assert_eq!(unsafe { libc::pipe2(ready.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    // SAFETY: the child makes no call that isn't safe behind a fork, and never returns.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let mut resident = 0_u8;
        // SAFETY: `mincore` writes one byte.
        let word = u8::from(unsafe { libc::mincore(page, 4096, &raw mut resident) } == -1);
        // SAFETY: one byte.
        unsafe { libc::write(ready[1], (&raw const word).cast(), 1) };
        loop {
            // SAFETY: a plain call.
            unsafe { libc::pause() };
        }
    }
    assert!(child > 0);
    let mut unmapped = 0_u8;
    // SAFETY: one byte.
    assert_eq!(unsafe { libc::read(ready[0], (&raw mut unmapped).cast(), 1) }, 1);
    assert_eq!(unmapped, 1, "the arena isn't the child's");
    stream(&mut uring, 4 << 20, 300_000);
    drop(uring);
    assert_eq!(pool.free(), 4);
    // SAFETY: a child of this test.
    unsafe { libc::kill(child, libc::SIGKILL) };
    // SAFETY: as above.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    for end in ready {
        // SAFETY: a descriptor of this test.
        unsafe { libc::close(end) };
    }
}

#[test]
fn zero_copy_sends_report_their_copies() {
    let options = options(4, ZeroCopy::Always);
    let pool = options.receive.clone();
    let (mut uring, found) = Uring::open(options).unwrap();
    println!("{found}");
    stream(&mut uring, 8 << 20, 300_000);
    let counts = uring.counts();
    assert!(counts.zero_copy_sends >= 28, "{counts:?}");
    assert_eq!(counts.zero_copy_copied, counts.zero_copy_sends, "loopback: {counts:?}");
    // This kernel takes registered memory in messages, or says that it doesn't.
    let arena = uring.arena.as_ref().unwrap();
    assert_eq!(arena.taken(), if arena.note().is_none() { counts.zero_copy_sends } else { 0 }, "{arena:?}");
    drop(uring);
    assert_eq!(pool.free(), 4);
}
