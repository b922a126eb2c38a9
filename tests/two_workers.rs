//! Records from one worker to another over real sockets.
#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

use pirn::{
    Attempt, Driver, Flush, GateConfig, Incarnation, Io, Item, PartitionConfig, PartitionId, Policies, Worker,
};
use std::error::Error;
use std::thread;
use std::time::Duration;

fn worker(io: Io) -> Worker {
    let builder = Worker::builder().listen("127.0.0.1:0".parse().unwrap()).cluster_token([7; 32]).io(io);
    builder.start().expect("the worker starts")
}

/// The count and sum of what a gate yields until its end.
fn read_all(mut gate: pirn::InputGate) -> (u64, u64) {
    let (mut count, mut sum) = (0, 0_u64);
    while let Some(item) = gate.next_blocking().expect("no channel fails") {
        if let Item::Record(record) = item {
            count += 1;
            let head = record.as_bytes().first_chunk::<8>().expect("a record has 8 bytes at least");
            sum = sum.wrapping_add(u64::from_le_bytes(*head));
        }
    }
    (count, sum)
}

fn pass(io: Io, records: u64, bytes: usize, consumers: u32, flush: Flush) -> Result<(), Box<dyn Error>> {
    let (here, there) = (worker(io), worker(io));
    let policies = Policies { flush, ..Policies::default() };
    let config = PartitionConfig::new(consumers).policies(policies);
    let mut writer = here.create_partition(PartitionId::default(), Attempt(1), config)?;
    let readers: Vec<_> = writer
        .descriptors()
        .into_iter()
        .map(|descriptor| {
            let config = GateConfig::new(Attempt(1), Incarnation::random().unwrap()).channel(descriptor);
            let gate = there.input_gate(config);
            thread::spawn(move || read_all(gate))
        })
        .collect();
    let mut record = vec![0; bytes];
    for number in 0..records {
        record[..8].copy_from_slice(&number.to_le_bytes());
        writer.write_blocking((number % u64::from(consumers)) as u32, &record)?;
    }
    writer.finish_blocking_timeout(Duration::from_secs(20))?;
    let (mut count, mut sum) = (0, 0);
    for reader in readers {
        let (some, part) = reader.join().expect("no panic");
        count += some;
        sum += part;
    }
    assert_eq!((count, sum), (records, records * records.saturating_sub(1) / 2));
    for worker in [here, there] {
        let last = worker.shutdown(Duration::from_secs(1));
        assert_eq!(last.lost_wakeups, 0);
    }
    Ok(())
}

/// Windows so small that every record needs credit several times: what is consumed is told before anybody sleeps.
#[test]
fn records_arrive_through_a_narrow_window() -> Result<(), Box<dyn Error>> {
    for io in [Io::Epoll, Io::Auto] {
        let (here, there) = (worker(io), worker(io));
        let mut writer =
            here.create_partition(PartitionId::default(), Attempt(1), PartitionConfig::new(1))?;
        let config = GateConfig::new(Attempt(1), Incarnation::random()?).receive_bytes_max(8 << 10);
        let gate = there.input_gate(config.channel(writer.descriptor(0)));
        let reader = thread::spawn(move || read_all(gate));
        for number in 0..20_u64 {
            let mut record = vec![0; 100_000];
            record[..8].copy_from_slice(&number.to_le_bytes());
            writer.write_blocking_timeout(0, &record, Duration::from_secs(20))?;
        }
        writer.finish_blocking_timeout(Duration::from_secs(20))?;
        assert_eq!(reader.join().expect("no panic"), (20, 190));
    }
    Ok(())
}

#[test]
fn records_arrive_over_epoll() -> Result<(), Box<dyn Error>> {
    pass(Io::Epoll, 100_000, 100, 1, Flush::default())?;
    pass(Io::Epoll, 20_000, 8, 4, Flush::EveryRecord)?;
    pass(Io::Epoll, 300, 200_000, 2, Flush::WhenFull)
}

#[test]
fn records_arrive_over_whatever_the_kernel_has() -> Result<(), Box<dyn Error>> {
    pass(Io::Auto, 100_000, 100, 1, Flush::default())?;
    pass(Io::Auto, 20_000, 8, 4, Flush::EveryRecord)?;
    pass(Io::Auto, 300, 200_000, 2, Flush::WhenFull)
}

/// Both tasks turn the sockets themselves, each on its own thread.
fn pass_by_reactors(
    io: Io,
    records: u64,
    bytes: usize,
    flush: Flush,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let start = || {
        let builder = Worker::builder().listen("127.0.0.1:0".parse().unwrap()).cluster_token([7; 32]);
        builder.io(io).driver(Driver::Caller).start().expect("the worker starts")
    };
    let (here, there) = (start(), start());
    let (tell, told) = std::sync::mpsc::channel();
    let producer = thread::spawn(move || -> Result<(), Box<dyn Error + Send + Sync>> {
        let reactor = here.reactor()?;
        let config = PartitionConfig::new(1).policies(Policies { flush, ..Policies::default() });
        let mut writer = here.create_partition(PartitionId::default(), Attempt(1), config)?;
        tell.send(writer.descriptor(0).to_bytes())?;
        let mut record = vec![0; bytes];
        for number in 0..records {
            record[..8].copy_from_slice(&number.to_le_bytes());
            writer.write_blocking(0, &record)?;
        }
        writer.finish_blocking_timeout(Duration::from_secs(20))?;
        drop(reactor);
        assert_eq!(here.shutdown(Duration::from_secs(1)).lost_wakeups, 0);
        Ok(())
    });
    let reactor = there.reactor()?;
    assert!(there.reactor().is_err(), "one reactor a thread");
    let descriptor = pirn::ChannelDescriptor::from_bytes(&told.recv()?)?;
    let config = GateConfig::new(Attempt(1), Incarnation::random()?).channel(descriptor);
    let sums = read_all(there.input_gate(config));
    assert_eq!(sums, (records, records * records.saturating_sub(1) / 2));
    // The gate has closed its channel: what is to be said of that goes out.
    reactor.turn(Some(Duration::ZERO))?;
    producer.join().expect("no panic")?;
    let received = there.snapshot().net.bytes_received;
    assert!(received > records * bytes as u64);
    drop(reactor);
    let net = there.snapshot().net;
    assert!(net.bytes_received >= received, "what a reactor counted goes on counting: {net:?}");
    assert_eq!(net.by_uring + net.by_epoll, 1, "how it moved its bytes is still told");
    assert_eq!(there.shutdown(Duration::from_secs(1)).lost_wakeups, 0);
    Ok(())
}

#[test]
fn tasks_turn_their_own_sockets() -> Result<(), Box<dyn Error + Send + Sync>> {
    for io in [Io::Epoll, Io::Auto] {
        pass_by_reactors(io, 100_000, 100, Flush::default())?;
        pass_by_reactors(io, 5_000, 8, Flush::EveryRecord)?;
        pass_by_reactors(io, 100, 200_000, Flush::WhenFull)?;
    }
    Ok(())
}

/// Runs on a thread, and on the threads that it starts, to which the kernel answers `call` with `errno`.
fn refused(call: i64, errno: i32, run: impl FnOnce() + Send + 'static) {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};
    let refusing = thread::spawn(move || {
        let rules = std::collections::BTreeMap::from([(call, Vec::new())]);
        let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
        let action = SeccompAction::Errno(errno.unsigned_abs());
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch).unwrap();
        apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
        run();
    });
    refusing.join().expect("no panic");
}

#[test]
fn records_arrive_where_the_kernel_refuses_io_uring() {
    let refusals = [
        (libc::SYS_io_uring_setup, libc::EPERM),
        (libc::SYS_io_uring_setup, libc::ENOSYS),
        (libc::SYS_io_uring_enter, libc::EPERM),
    ];
    for (call, errno) in refusals {
        refused(call, errno, || {
            let fallen_back = worker(Io::Auto);
            let net = fallen_back.snapshot().net;
            assert_eq!(net.by_uring, 0);
            assert!(net.by_epoll > 0);
            pass(Io::Auto, 20_000, 100, 2, Flush::default()).unwrap();
            pass_by_reactors(Io::Auto, 5_000, 100, Flush::default()).unwrap();
            let builder = Worker::builder().listen("127.0.0.1:0".parse().unwrap()).cluster_token([7; 32]);
            let refusal = builder.io(Io::Uring).start().expect_err("it was asked for and is refused");
            assert!(refusal.to_string().contains("Io::Epoll"), "says what to do: {refusal}");
        });
    }
}

#[test]
fn a_thread_without_a_reactor_is_told_what_it_lacks() -> Result<(), Box<dyn Error>> {
    let here = worker(Io::Auto);
    let builder = Worker::builder().listen("127.0.0.1:0".parse()?).cluster_token([7; 32]);
    let there = builder.driver(Driver::Caller).start()?;
    let writer = here.create_partition(PartitionId::default(), Attempt(1), PartitionConfig::new(1))?;
    let config = GateConfig::new(Attempt(1), Incarnation::random()?).channel(writer.descriptor(0));
    let mut gate = there.input_gate(config);
    let item = gate.next_blocking()?;
    let Some(Item::BindFailed { error, .. }) = item else { panic!("{item:?}") };
    assert!(matches!(error, pirn::BindError::NoNetwork { .. }), "{error}");
    assert!(error.to_string().contains("reactor"), "{error}");
    Ok(())
}
