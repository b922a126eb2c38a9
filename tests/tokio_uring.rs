//! The feature `tokio-uring`: control threads that sleep in a runtime, and applications that run in one.
//!
//! Rings are counted in the whole process, so that the tests of this file run one at a time.
#![cfg(feature = "tokio-uring")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that can't go on panics, and measures real time"
)]

use pirn::{
    Attempt, Driver, Flush, GateConfig, Incarnation, InputGate, Io, Item, PartitionConfig, PartitionId,
    Policies, RecordWriter, Worker,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Rings of this process.
fn rings() -> usize {
    let files = std::fs::read_dir("/proc/self/fd").unwrap();
    let names = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
    names.filter(|name| name.to_string_lossy().contains("io_uring")).count()
}

fn until(what: &str, mut wanted: impl FnMut() -> bool) {
    let start = Instant::now();
    while !wanted() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        thread::park_timeout(Duration::from_millis(1));
    }
}

fn worker(io: Io, driver: Driver) -> Worker {
    let builder = Worker::builder().listen("127.0.0.1:0".parse().unwrap()).cluster_token([7; 32]);
    builder.io(io).driver(driver).start().unwrap()
}

fn channel(here: &Worker, there: &Worker, flush: Flush) -> (RecordWriter, InputGate) {
    let policies = Policies { flush, ..Policies::default() };
    let config = PartitionConfig::new(1).policies(policies);
    let writer = here.create_partition(PartitionId::default(), Attempt(1), config).unwrap();
    let config = GateConfig::new(Attempt(1), Incarnation::random().unwrap()).channel(writer.descriptor(0));
    // Narrow, so that both sides wait often.
    (writer, there.input_gate(config.receive_bytes_max(64 << 10)))
}

/// Every record is waited for before the next is written, and goes out by the alarm of its flush alone.
fn by_alarms(here: &Worker, there: &Worker) {
    let (mut writer, mut gate) = channel(here, there, Flush::default());
    let reader = thread::spawn(move || {
        let mut numbers = Vec::new();
        while let Some(item) = gate.next_blocking().unwrap() {
            if let Item::Record(record) = item {
                numbers.push(u64::from_le_bytes(record.as_bytes().try_into().unwrap()));
            }
        }
        numbers
    });
    let start = Instant::now();
    for number in 0..50_u64 {
        writer.write_blocking(0, &number.to_le_bytes()).unwrap();
        until("the record is consumed", || {
            let partition = &here.snapshot().partitions[0];
            partition.subpartitions[0].account.delivered.records > number
        });
    }
    // A control thread that slept through would wake by its tick, once a second.
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    writer.finish_blocking_timeout(PATIENCE).unwrap();
    assert_eq!(reader.join().unwrap(), (0..50).collect::<Vec<_>>());
}

/// Without network threads the only ring of a worker is that of its control thread's runtime.
#[test]
fn the_control_thread_has_a_ring_unless_epoll_is_asked_for() {
    let _alone = alone();
    for _ in 0..3 {
        let worker = worker(Io::Auto, Driver::Caller);
        until("there is a ring", || rings() == 1);
        drop(worker);
        assert_eq!(rings(), 0);
    }
    let ringless = worker(Io::Epoll, Driver::Threads(1));
    let other = worker(Io::Epoll, Driver::Threads(1));
    by_alarms(&ringless, &other);
    assert_eq!(rings(), 0);
}

#[test]
fn alarms_and_hand_overs_end_the_sleep() {
    let _alone = alone();
    let (here, there) = (worker(Io::Auto, Driver::Threads(1)), worker(Io::Auto, Driver::Threads(1)));
    // One of each network thread, one of each control thread.
    until("there are all rings", || rings() == 4);
    by_alarms(&here, &there);
    for worker in [here, there] {
        let asked = Instant::now();
        assert_eq!(worker.shutdown(PATIENCE).lost_wakeups, 0);
        assert!(asked.elapsed() < Duration::from_millis(900), "the stop ends the sleep, and not the tick");
    }
}

/// Runs on a thread that `call` is refused to, and so to all threads that it starts.
fn refused(call: i64, errno: i32, run: impl FnOnce() + Send + 'static) {
    let thread = thread::spawn(move || {
        let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
        let rules = BTreeMap::from([(call, Vec::new())]);
        let refusal = SeccompAction::Errno(errno as u32);
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, arch).unwrap();
        apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
        run();
    });
    thread.join().unwrap();
}

#[test]
fn where_io_uring_is_refused_the_control_thread_goes_without() {
    let _alone = alone();
    for (call, errno) in [
        (libc::SYS_io_uring_setup, libc::EPERM),
        (libc::SYS_io_uring_setup, libc::ENOSYS),
        (libc::SYS_io_uring_enter, libc::EPERM),
    ] {
        refused(call, errno, || {
            let (here, there) = (worker(Io::Auto, Driver::Threads(1)), worker(Io::Auto, Driver::Threads(1)));
            by_alarms(&here, &there);
            assert_eq!(rings(), 0);
            for worker in [here, there] {
                assert_eq!(worker.shutdown(PATIENCE).lost_wakeups, 0);
            }
        });
    }
}

async fn produce(mut writer: RecordWriter, records: u64, bytes: usize) {
    let mut record = vec![0; bytes];
    for number in 0..records {
        record[..8].copy_from_slice(&number.to_le_bytes());
        writer.write(0, &record[..]).await.unwrap();
    }
    writer.finish().await.unwrap();
}

/// Counts records, which come in order, and does an operation of the runtime's own now and then.
async fn consume(mut gate: InputGate) -> u64 {
    let mut count = 0_u64;
    while let Some(item) = gate.next().await.unwrap() {
        if let Item::Record(record) = item {
            assert_eq!(record.as_bytes()[..8], count.to_le_bytes());
            count += 1;
            if count.is_multiple_of(1_000) {
                tokio_uring::no_op().await.unwrap();
            }
        }
    }
    count
}

/// Producer and consumer share a thread: each goes on only when the other awaits.
#[test]
fn tasks_of_a_runtime_await_writers_and_gates() {
    let _alone = alone();
    for (io, records, bytes, flush) in [
        (Io::Auto, 50_000, 100, Flush::default()),
        (Io::Epoll, 50_000, 100, Flush::default()),
        (Io::Auto, 2_000, 8, Flush::EveryRecord),
        (Io::Auto, 50, 200_000, Flush::WhenFull),
    ] {
        let (here, there) = (worker(io, Driver::Threads(1)), worker(io, Driver::Threads(1)));
        let (writer, gate) = channel(&here, &there, flush);
        tokio_uring::start(async {
            let producer = tokio_uring::spawn(produce(writer, records, bytes));
            let consumer = tokio_uring::spawn(consume(gate));
            producer.await.unwrap();
            assert_eq!(consumer.await.unwrap(), records);
        });
        for worker in [here, there] {
            assert_eq!(worker.shutdown(PATIENCE).lost_wakeups, 0);
        }
    }
}
