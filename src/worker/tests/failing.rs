//! Transports that can't go on: other network threads go on for theirs, and whoever is concerned is told.
//!
//! The kernel is made to refuse one thread's wait by a filter on that descriptor. Filters stay: each case has a process
//! of its own.

#![allow(clippy::disallowed_methods, reason = "tests of processes measure real time")]

use super::ends::{Said, expect_record, gate, next, place, writer};
use crate::error::{BindError, Cause};
use crate::transport::Io;
use crate::worker::{Driver, Worker};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter_all_threads,
};
use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::process::Command;
use std::time::{Duration, Instant};

const CASE: &str = "PIRN_TEST_FAILING_TRANSPORT";
/// The line of a thread that ends so.
const LINE: &str = "a network thread ends: its transport can't go on";
const STUCK: Duration = Duration::from_secs(30);

fn worker(io: Io, threads: u16) -> Worker {
    let builder = Worker::builder().listen("127.0.0.1:0".parse().unwrap()).cluster_token([7; 32]);
    builder.io(io).driver(Driver::Threads(threads)).receive_buffers(4).start().unwrap()
}

/// The network threads of this process by number: several workers may have one of a number.
fn threads(endpoint: u16) -> Vec<u64> {
    let all = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let named = all.filter(|task| {
        let name = read_to_string(task.join("comm")).unwrap_or_default();
        name.trim() == format!("pirn-net-{endpoint}")
    });
    named.map(|task| task.file_name().unwrap().to_str().unwrap().parse().unwrap()).collect()
}

/// What a thread sleeps in: the number of the call, and the descriptor that is its first argument.
fn sleeps_in(thread: u64) -> (i64, u64) {
    let start = Instant::now();
    loop {
        let call = read_to_string(format!("/proc/self/task/{thread}/syscall")).unwrap();
        let mut words = call.split(' ');
        if let Some(number) = words.next().and_then(|number| number.parse().ok())
            && [libc::SYS_io_uring_enter, libc::SYS_epoll_wait, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2]
                .contains(&number)
        {
            let descriptor = words.next().unwrap().trim_start_matches("0x");
            return (number, u64::from_str_radix(descriptor, 16).unwrap());
        }
        assert!(start.elapsed() < STUCK, "thread {thread} doesn't sleep: {call}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// From now on that thread's transport can't wait any more: it notices when it wakes up.
fn break_transport(thread: u64) {
    let (call, descriptor) = sleeps_in(thread);
    let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, descriptor).unwrap();
    let rules = BTreeMap::from([(call, vec![SeccompRule::new(vec![condition]).unwrap()])]);
    let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let refuse = SeccompAction::Errno(libc::EIO.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).unwrap();
    apply_filter_all_threads(&BpfProgram::try_from(filter).unwrap()).unwrap();
}

/// The reader's threads fail one after the other, or the one that serves.
fn case(io: Io, who: &str) {
    let (producer, consumer) = if who == "reader" { (1, 2) } else { (2, 1) };
    let producer = worker(io, producer);
    let before: Vec<u64> = (0..2).flat_map(threads).collect();
    let consumer = worker(io, consumer);
    let mut writer = writer(&producer, 0);
    let mut gate = gate(&consumer, &writer);
    assert_eq!(next(&mut gate), Said::Available);
    expect_record(&mut writer, &mut gate);
    let peer = place(&writer);
    let thread = || {
        if who == "reader" {
            let endpoints = consumer.0.threads.as_ref().unwrap().network();
            let number = endpoints.of(&peer).unwrap().number();
            threads(number).into_iter().find(|thread| !before.contains(thread)).unwrap()
        } else {
            threads(peer.endpoint).into_iter().find(|thread| before.contains(thread)).unwrap()
        }
    };
    break_transport(thread());
    // Wakes it; whether the record is still delivered is left open.
    let _ = writer.write_blocking_timeout(0, &[7; 100][..], STUCK).unwrap();
    let said = next(&mut gate);
    assert!(matches!(said, Said::Unavailable(Cause::ConnectionLost { .. })), "{said:?}");
    assert_eq!(next(&mut gate), Said::Available);
    expect_record(&mut writer, &mut gate);
    if who == "reader" {
        break_transport(thread());
        let _ = writer.write_blocking_timeout(0, &[7; 100][..], STUCK).unwrap();
        let said = next(&mut gate);
        assert!(matches!(said, Said::Unavailable(Cause::ConnectionLost { .. })), "{said:?}");
        // It was the last one.
        assert_eq!(next(&mut gate), Said::BindFailed(BindError::NoNetwork { peer }));
    }
    drop((gate, writer));
    let start = Instant::now();
    for worker in [consumer, producer] {
        assert_eq!(worker.shutdown(Duration::ZERO).lost_wakeups, 0);
        let census = worker.census();
        assert!(census.is_whole() && census.held() == 0, "{census:?}");
    }
    assert!(start.elapsed() < Duration::from_secs(5), "ended after {:?}", start.elapsed());
}

#[test]
fn a_transport_that_fails_is_as_a_thread_that_dies() {
    if let Ok(name) = std::env::var(CASE) {
        tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::WARN).init();
        let (io, who) = name.split_once(' ').unwrap();
        return case(io.parse().unwrap(), who);
    }
    let name = "worker::tests::failing::a_transport_that_fails_is_as_a_thread_that_dies";
    for (case, failures) in
        [("epoll reader", 2), ("epoll server", 1), ("uring reader", 2), ("uring server", 1)]
    {
        let mut child = Command::new(std::env::current_exe().unwrap());
        let child = child.args(["--exact", name, "--nocapture"]).env(CASE, case).output().unwrap();
        let (told, log) = (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
        assert!(child.status.success() && told.contains("1 passed"), "{case}: {told}{log}");
        assert_eq!(told.matches(LINE).count(), failures, "{case}: one line for each: {told}");
    }
}
