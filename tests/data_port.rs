//! The data port against whoever finds it: nothing that strangers do is left behind in the worker.
//!
//! Descriptors and memory are those of the whole process, so that the tests of this file run one at a time.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that can't go on panics, and measures real time"
)]
#![cfg(target_os = "linux")]

use pirn::{StartError, Worker, WorkerBuilder};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Set in the child process that has few descriptors.
const FEW_FILES: &str = "PIRN_TEST_FEW_FILES";

fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn full() -> bool {
    std::env::var("PIRN_TEST_SIZE").is_ok_and(|size| size == "full")
}

fn any_port() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn listening() -> WorkerBuilder {
    Worker::builder().listen(any_port()).cluster_token([7; 32])
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Memory of the process that is in use, in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Waits until `wanted` is true.
fn until(what: &str, mut wanted: impl FnMut() -> bool) {
    let start = Instant::now();
    while !wanted() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Says something that no worker says, and reads the answer to its end.
fn stranger(address: SocketAddr, kind: usize) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let bytes: &[u8] = match kind % 4 {
        0 => b"GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n",
        1 => &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0, 0, 0, 0, 0],
        2 => &[0xff; 4096],
        _ => &[],
    };
    stream.write_all(bytes).unwrap();
    if kind % 4 != 3 {
        // Strangers get no answer that could be meant for them, but they see the end.
        let told = stream.read_to_end(&mut Vec::new());
        assert!(matches!(told, Ok(0)), "kind {kind}: {told:?}");
    }
}

#[test]
fn thousands_of_bad_connections_leave_nothing_behind() {
    let _alone = alone();
    let worker = listening().start().unwrap();
    let address = worker.address().unwrap();
    let count = if full() { 10_000 } else { 1_000 };
    let strangers = |count: usize| {
        let before = worker.snapshot().network.unwrap().accepted;
        (0..count).for_each(|kind| stranger(address, kind));
        until("all are done with", || {
            let network = worker.snapshot().network.unwrap();
            let refused: u64 = network.refused.values().sum();
            network.accepted == before + count as u64
                && network.handshakes == 0
                && refused == network.accepted
        });
    };
    strangers(200);
    let before = (descriptors(), resident_kib());
    strangers(count);
    let after = (descriptors(), resident_kib());
    assert_eq!(after.0, before.0, "descriptors");
    // A leak of a frame's 4 KiB a connection would be 4 MiB of the small size, 40 MiB of the full one.
    assert!(after.1 < before.1 + 2048, "KiB resident before and after: {} {}", before.1, after.1);
}

#[test]
fn a_worker_gives_back_its_port_descriptors_and_thread() {
    let _alone = alone();
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    drop(listening().start().unwrap());
    let before = (descriptors(), threads());
    for _ in 0..20 {
        let worker = listening().start().unwrap();
        let address = worker.address().unwrap();
        let _silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
        let start = Instant::now();
        drop(worker);
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        drop(TcpListener::bind(address).unwrap());
    }
    until("the last threads are gone", || (descriptors(), threads()) == before);
}

#[test]
fn without_descriptors_the_port_waits_and_goes_on_later() {
    let _alone = alone();
    if std::env::var_os(FEW_FILES).is_some() {
        return few_files();
    }
    // Only the shell can set a limit without unsafe code.
    let this = std::env::current_exe().unwrap();
    let name = "without_descriptors_the_port_waits_and_goes_on_later";
    let child = Command::new("sh")
        .args(["-c", "ulimit -n 100; exec \"$0\" --exact \"$1\" --nocapture"])
        .arg(this)
        .arg(name)
        .env(FEW_FILES, "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && told.contains("1 passed"),
        "{told}{}",
        String::from_utf8_lossy(&child.stderr)
    );
}

fn few_files() {
    let worker = listening().start().unwrap();
    let address = worker.address().unwrap();
    let failed = || worker.snapshot().network.unwrap().refused.get("accept failed").copied().unwrap_or(0);
    let mut files = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
        assert!(files.len() < 200, "the limit is not in force");
    }
    // The one that is given back is the stranger's own.
    files.pop();
    let mut waiting = TcpStream::connect(address).unwrap();
    until("refused", || failed() > 0);
    let (start, before) = (Instant::now(), failed());
    std::thread::sleep(Duration::from_millis(500));
    let (often, rounds) = (failed() - before, start.elapsed().as_millis() as u64 / 50);
    assert!(often <= rounds + 1, "{often} attempts in {rounds} rounds: it spins");
    assert_eq!(worker.snapshot().network.unwrap().accepted, 0);
    drop(files);
    waiting.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(waiting.read_to_end(&mut Vec::new()).unwrap(), 0, "served as soon as there are descriptors");
    until("counted", || worker.snapshot().network.unwrap().refused.get("P-5 opening") == Some(&1));
}

#[test]
fn settings_that_do_not_fit_say_what_to_do() {
    let _alone = alone();
    let refused = |builder: WorkerBuilder| builder.start().map(|_| ()).unwrap_err();
    assert!(matches!(refused(Worker::builder().listen(any_port())), StartError::NoToken));
    let taken = TcpListener::bind(any_port()).unwrap().local_addr().unwrap();
    let holder = TcpListener::bind(taken).unwrap();
    let listen = refused(Worker::builder().listen(taken).cluster_token([7; 32]));
    let StartError::Listen { address, error } = listen else { panic!("{listen}") };
    assert_eq!((address, error.kind()), (taken, std::io::ErrorKind::AddrInUse));
    drop(holder);
    let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    for (builder, word) in [
        (Worker::builder().cluster_token([7; 32]), "listen"),
        (Worker::builder().insecure_without_token(), "listen"),
        (Worker::builder().advertise(any_port()), "listen"),
        (listening().insecure_without_token(), "exclude"),
        (Worker::builder().listen(any_port()).cluster_token([0; 32]), "zeros"),
        (listening().listen(everywhere), "advertise"),
        (listening().advertise((Ipv6Addr::UNSPECIFIED, 1).into()), "advertise"),
        (listening().handshake_timeout(Duration::ZERO), "handshake_timeout"),
        (listening().handshakes_max(0), "handshakes_max"),
        (listening().peers_max(0), "peers_max"),
        (listening().connections_per_peer_max(0), "connections_per_peer_max"),
        (listening().binds_waiting_per_peer_max(0), "binds_waiting_per_peer_max"),
        (listening().dead_after(Duration::ZERO), "heartbeat_interval"),
        (listening().heartbeat_interval(Duration::ZERO), "heartbeat_interval"),
        (listening().heartbeat_interval(Duration::from_secs(4)), "dead_after"),
    ] {
        let error = refused(builder);
        assert!(matches!(error, StartError::Network { .. }) && error.to_string().contains(word), "{error}");
    }
}

#[test]
fn a_worker_tells_where_it_is_reached() {
    let _alone = alone();
    assert_eq!(Worker::builder().start().unwrap().address(), None);
    let open = Worker::builder().listen(any_port()).insecure_without_token().start().unwrap();
    let network = open.snapshot().network.unwrap();
    assert_eq!((open.address(), open.address()), (Some(network.address), Some(network.listening)));
    let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let advertised = listening().listen(everywhere).advertise(any_port()).start().unwrap();
    let address = advertised.address().unwrap();
    assert_eq!(address.ip(), Ipv4Addr::LOCALHOST);
    drop(TcpStream::connect(address).unwrap());
    let named = listening().advertise((Ipv4Addr::new(192, 0, 2, 1), 4000).into()).start().unwrap();
    assert_eq!(named.address(), Some((Ipv4Addr::new(192, 0, 2, 1), 4000).into()));
}
