//! Many channels between two workers, and what they cost.

use crate::stage::{Got, STUCK, assert_whole, builder, id, next, record, until};
use pirn::{
    Attempt, Flush, GateConfig, Incarnation, Io, MemoryConfig, PartitionConfig, Policies, SegmentClass,
};
use std::thread;
use std::time::Duration;

const CHANNELS: u32 = 2000;
/// Each channel's part of the 32 MiB that may be under way to a gate.
const WINDOW: u64 = (32 << 20) / CHANNELS as u64;

fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
}

/// Two thousand channels share one connection: each record comes, and the memory beside the arena is what the
/// documentation says. In a process of its own, where nothing else takes memory.
#[test]
fn two_thousand_channels_share_one_connection() {
    const ALONE: &str = "PIRN_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = "scale::two_thousand_channels_share_one_connection";
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&child.stdout);
        let log = String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success() && told.contains("1 passed"), "{told}{log}");
        println!("{}", told.lines().find(|line| line.contains("channels:")).unwrap());
        return;
    }
    for io in [Io::Epoll, Io::Auto] {
        many(io);
    }
}

fn many(io: Io) {
    let memory = MemoryConfig::new().segments(SegmentClass::K32, 0).segments(SegmentClass::K4, CHANNELS * 2);
    let (producer, consumer) = (builder(io).memory(memory).start().unwrap(), builder(io).start().unwrap());
    let policies = Policies { flush: Flush::EveryRecord, ..Policies::default() };
    let config = PartitionConfig::new(CHANNELS).segment_class(SegmentClass::K4).policies(policies);
    let (descriptors, before) = (std::fs::read_dir("/proc/self/fd").unwrap().count(), status("VmRSS"));
    let mut writer = producer.create_partition(id(0), Attempt(1), config).unwrap();
    let gate_config = GateConfig::new(Attempt(1), Incarnation(1)).channels(writer.descriptors());
    let mut gate = consumer.input_gate(gate_config);
    for _ in 0..CHANNELS {
        assert!(matches!(next(&mut gate), Got::Available(_, Attempt(1))));
    }
    // A data connection has an end in each worker, and so has the control connection.
    assert_eq!(std::fs::read_dir("/proc/self/fd").unwrap().count(), descriptors + 4);
    let bound = status("VmRSS");
    let task = thread::spawn(move || {
        for round in 0..20 {
            for channel in 0..CHANNELS {
                writer.write_blocking_timeout(channel, &record(round, 100), STUCK).unwrap();
            }
        }
        writer.finish_blocking_timeout(STUCK).unwrap();
        drop(writer);
    });
    let mut expected = vec![0; CHANNELS as usize];
    let mut resident = 0;
    loop {
        match next(&mut gate) {
            Got::Record(channel, bytes) => {
                let round = &mut expected[channel as usize];
                assert_eq!(bytes, record(*round, 100));
                *round += 1;
            }
            Got::EndOfData(_) | Got::EndOfPartition(_) => resident = resident.max(status("VmRSS")),
            Got::End => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(expected.iter().all(|rounds| *rounds == 20));
    task.join().unwrap();
    let (here, there) = (producer.snapshot().net, consumer.snapshot().net);
    assert_eq!((here.connections, there.connections), (1, 1));
    // Before anything flows: rings and accounts, streams at both ends, the gate's channels and queues. Then each
    // touches a segment of the arena, all receive buffers may be touched on both sides, and what a reader that is
    // behind has waiting is within its window.
    let each = (bound - before) * 1024 / u64::from(CHANNELS);
    let (arena, buffers) = (u64::from(CHANNELS) * 4, 2 * 4 * 528);
    let flowing = (resident - bound).saturating_sub(arena + buffers) * 1024 / u64::from(CHANNELS);
    println!("{CHANNELS} channels: {each} bytes each on both sides, {flowing} more with data under way");
    // As documented: a subpartition of 32 entries, its stream, a gate's channel and what is remote of it.
    let documented = 1024 + 32 * 48 + 6 * 1024 + 700 + 9 * 1024;
    assert!(each < documented + documented / 5, "{each} bytes a channel, {documented} are documented");
    assert!(flowing < WINDOW, "{flowing} bytes a channel with a window of {WINDOW}");
    drop(gate);
    assert_whole(consumer);
    assert_whole(producer);
}

/// A connection on which nothing happens costs no system call and no byte of its network threads.
#[test]
fn idle_connections_cost_nothing() {
    for io in [Io::Epoll, Io::Auto] {
        let (producer, consumer) = (builder(io).start().unwrap(), builder(io).start().unwrap());
        let config = PartitionConfig::new(50).segment_class(SegmentClass::K4);
        let mut writer = producer.create_partition(id(0), Attempt(1), config).unwrap();
        let gate_config = GateConfig::new(Attempt(1), Incarnation(1)).channels(writer.descriptors());
        let mut gate = consumer.input_gate(gate_config);
        for _ in 0..50 {
            assert!(matches!(next(&mut gate), Got::Available(_, Attempt(1))));
        }
        for channel in 0..50 {
            writer.write_blocking_timeout(channel, &record(1, 100), STUCK).unwrap();
        }
        for _ in 0..50 {
            assert!(matches!(next(&mut gate), Got::Record(..)));
        }
        let still = || {
            let (here, there) = (producer.snapshot().net, consumer.snapshot().net);
            (here.enters + here.calls + there.enters + there.calls, here.bytes_sent + there.bytes_sent)
        };
        // The gate counts its last record as consumed when it is asked again, and that is told.
        assert!(matches!(
            gate.next_blocking_timeout(Duration::from_millis(300)).unwrap(),
            pirn::TryNext::Empty
        ));
        let mut before = still();
        until("all is quiet", || {
            thread::sleep(Duration::from_millis(100));
            let now = still();
            std::mem::replace(&mut before, now) == now
        });
        thread::sleep(Duration::from_secs(2));
        let after = still();
        assert_eq!(after, before, "system calls and bytes in two seconds of silence, over {io:?}");
        drop((gate, writer));
        assert_whole(consumer);
        assert_whole(producer);
    }
}

/// Buffers that wait with the kernel for many connections aren't taken for those of slow readers: records are read
/// where they came.
#[test]
fn what_many_connections_bring_is_not_copied() {
    const WORKERS: u32 = 8;
    const ROUNDS: u32 = 500;
    for io in [Io::Epoll, Io::Auto] {
        let consumer = builder(io).receive_buffers(16).start().unwrap();
        let producers: Vec<_> = (0..WORKERS).map(|_| builder(io).start().unwrap()).collect();
        let policies = Policies { flush: Flush::EveryRecord, ..Policies::default() };
        let mut gate_config = GateConfig::new(Attempt(1), Incarnation(1));
        let mut writers = Vec::new();
        for (index, producer) in (0..).zip(&producers) {
            let config = PartitionConfig::new(1).segment_class(SegmentClass::K4).policies(policies);
            let writer = producer.create_partition(id(index), Attempt(1), config).unwrap();
            gate_config = gate_config.channels(writer.descriptors());
            writers.push(writer);
        }
        let mut gate = consumer.input_gate(gate_config);
        for _ in 0..WORKERS {
            assert!(matches!(next(&mut gate), Got::Available(_, Attempt(1))));
        }
        for round in 0..ROUNDS {
            for writer in &mut writers {
                writer.write_blocking_timeout(0, &record(round.into(), 1000), STUCK).unwrap();
            }
            for _ in 0..WORKERS {
                assert!(matches!(next(&mut gate), Got::Record(..)));
            }
        }
        // Those that ran over two receives were put together, in memory of their own.
        let copied = consumer.snapshot().net.runs_copied;
        assert!(copied < u64::from(WORKERS * ROUNDS) / 20, "{copied} of {} over {io:?}", WORKERS * ROUNDS);
        drop((gate, writers));
        assert_whole(consumer);
        producers.into_iter().for_each(assert_whole);
    }
}
