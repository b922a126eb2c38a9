//! Kernels that refuse: filters as containers have them, and little locked memory.

use super::super::Uring;
use super::super::arena::ArenaShare;
use super::super::start::UringOptions;
use super::super::zero_copy::ZeroCopy;
use super::real::{options, stream};
use crate::memory::{ReceivePool, SegmentPool};
use crate::sync::thread;
use crate::transport::Transport;
use crate::transport::TransportError;
use crate::transport::uring::KernelRing;
use crate::transport::{Io, Opened, open};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Answers `call` with `errno` on this thread, for as long as it lives.
fn refuse(call: i64, errno: i32) {
    let rules = BTreeMap::from([(call, Vec::new())]);
    let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno as u32), arch).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    apply_filter(&program).unwrap();
}

/// Runs on a thread that `call` is refused to.
fn refused<T: Send + 'static>(call: i64, errno: i32, run: impl FnOnce() -> T + Send + 'static) -> T {
    thread::spawn(move || {
        refuse(call, errno);
        run()
    })
    .join()
    .unwrap()
}

fn falls_back(call: i64, errno: i32, step: &'static str) {
    refused(call, errno, move || {
        let error = open(Io::Uring, options(4, ZeroCopy::Auto)).unwrap_err();
        assert_eq!((error.step(), error.errno()), (step, Some(errno)), "{error}");
        assert!(matches!(error, TransportError::Uring { .. }));
        #[cfg(feature = "tokio-uring")]
        {
            let (here, _there) = std::os::unix::net::UnixStream::pair().unwrap();
            let error = crate::transport::RuntimeSleep::open(std::os::fd::AsFd::as_fd(&here)).unwrap_err();
            assert_eq!((error.step(), error.errno()), (step, Some(errno)), "{error}");
        }
        let text = error.to_string();
        assert!(text.contains(step) && text.contains("Io::Epoll"), "{text}");
        let (mut transport, opened) = open(Io::Auto, options(4, ZeroCopy::Auto)).unwrap();
        let Opened::FellBack(refusal) = opened else { panic!("{opened:?}") };
        assert_eq!((refusal.step(), refusal.errno()), (step, Some(errno)));
        stream(&mut transport, 1 << 20, 100_000);
        assert!(transport.counts().calls > 0, "by calls of epoll");
    });
}

#[test]
fn a_filter_that_forbids_the_setup() {
    falls_back(libc::SYS_io_uring_setup, libc::EPERM, "io_uring_setup");
}

#[test]
fn a_sandbox_that_knows_no_setup() {
    falls_back(libc::SYS_io_uring_setup, libc::ENOSYS, "io_uring_setup");
}

#[test]
fn a_filter_that_allows_the_setup_and_forbids_the_rest() {
    falls_back(libc::SYS_io_uring_enter, libc::EPERM, "NOP");
}

#[test]
fn an_errno_that_nobody_expects() {
    falls_back(libc::SYS_io_uring_setup, libc::EOPNOTSUPP, "io_uring_setup");
}

/// Without registrations there are single receives and plain memory.
#[test]
fn a_filter_that_forbids_registrations() {
    refused(libc::SYS_io_uring_register, libc::EPERM, || {
        let (mut uring, found) = Uring::open(options(4, ZeroCopy::Always)).unwrap();
        assert!(found.to_string().contains("single receives"), "{found}");
        stream(&mut uring, 1 << 20, 100_000);
        let note = uring.arena.as_ref().and_then(|arena| arena.note()).unwrap();
        assert!(note.contains("not registered"), "{note}");
    });
}

#[test]
fn the_choice_is_obeyed() {
    let (mut transport, opened) = open(Io::Epoll, options(4, ZeroCopy::Auto)).unwrap();
    assert!(matches!(opened, Opened::Epoll));
    stream(&mut transport, 1 << 20, 100_000);
    let (mut transport, opened) = open(Io::Uring, options(4, ZeroCopy::Auto)).unwrap();
    assert!(matches!(opened, Opened::Uring(_)));
    stream(&mut transport, 1 << 20, 100_000);
    let names = ["auto", "uring", "epoll"].map(|name| name.parse::<Io>().unwrap());
    assert_eq!(names, [Io::Auto, Io::Uring, Io::Epoll]);
    assert_eq!(
        "kqueue".parse::<Io>().unwrap_err().to_string(),
        "`kqueue` is no I/O back-end: auto, uring or epoll"
    );
}

/// Names the child's part of the test below.
const CHILD: &str = "PIRN_TEST_LOCKED_MEMORY";

/// Behind this the child prints what the transports of one worker have to say.
const ONE_WORKER: &str = "the transports of one worker";

/// As an ordinary user whose locked memory is limited to `limit` bytes.
fn with_locked_memory(limit: u32) {
    let limit = limit.to_string();
    let child = Command::new("setpriv")
        .args([
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            "--inh-caps=-all",
            "--bounding-set=-all",
        ])
        .args(["prlimit", &format!("--memlock={limit}:{limit}")])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "transport::uring::tests::refused::little_locked_memory"])
        .env(CHILD, &limit)
        .output();
    match child {
        Err(error) => println!("not tried: setpriv: {error}"),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
            let (_, of_one_worker) = said.split_once(ONE_WORKER).unwrap();
            let lines = of_one_worker.matches("RLIMIT_MEMLOCK").count();
            assert_eq!(lines, usize::from(cfg!(feature = "tracing")), "one line a worker: {said}");
        }
    }
}

/// A ring that is closed gives its locked memory back a little later: the kernel takes it down behind its user's back.
fn open_in_turn(options: &UringOptions) -> Uring<KernelRing> {
    for _ in 0..10_000 {
        match Uring::open(options.clone()) {
            Ok((uring, _)) => return uring,
            Err((_, error)) if error.raw_os_error() == Some(libc::ENOMEM) => {
                thread::park_timeout(Duration::from_millis(1));
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("ten seconds later there is no memory for a ring, either");
}

#[test]
fn little_locked_memory() {
    let Ok(limit) = std::env::var(CHILD) else {
        if rustix::process::geteuid().is_root() {
            with_locked_memory(64 * 1024);
            with_locked_memory(8 * 1024 * 1024);
        } else {
            println!("not tried: only root may become another user");
        }
        return;
    };
    let limit: usize = limit.parse().unwrap();
    assert_eq!(rustix::process::geteuid().as_raw(), 65534);
    let options = |segments| UringOptions {
        receive: ReceivePool::new(4).unwrap(),
        arena: SegmentPool::with_geometry(&[(32 * 1024, segments)], 4096, 0).unwrap(),
        share: Arc::new(ArenaShare::default()),
        zero_copy: ZeroCopy::Always,
        lazy: true,
    };
    // 16 MiB are too much in either case, 256 KiB in one.
    for (segments, fits) in [(512, false), (8, limit > 1 << 20)] {
        let mut uring = open_in_turn(&options(segments));
        stream(&mut uring, 4 << 20, 300_000);
        let arena = uring.arena.as_ref().unwrap();
        assert_eq!(arena.is_registered(), fits, "{arena:?}");
        if let Some(note) = arena.note() {
            let missing = (segments as usize * 32 * 1024 - limit).to_string();
            assert!(note.contains("RLIMIT_MEMLOCK") && note.contains(&missing), "{note}");
        }
        assert_eq!(arena.note().is_none(), fits);
    }
    println!("{ONE_WORKER}");
    tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::WARN).init();
    let shared = options(512);
    for _ in 0..3 {
        let mut uring = open_in_turn(&shared);
        stream(&mut uring, 1 << 20, 100_000);
    }
}
