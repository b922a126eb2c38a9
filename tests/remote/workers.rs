//! Workers that are shut down or dropped under those who read from them or write to them.

use crate::stage::{
    Got, RETAIN, STUCK, Stage, assert_silent, assert_whole, builder, config, expect_records, id, next,
    record, until, write,
};
use pirn::{
    Attempt, Cause, ChannelDescriptor, GateConfig, Incarnation, Io, Location, RemoteAddress, Update,
    WaitError, WhenAbsent, WriteError, Written,
};
use std::thread;
use std::time::Duration;

const BOTH: [Io; 2] = [Io::Epoll, Io::Auto];

/// The cause is the worker's end, told in order or seen by its connection.
fn assert_gone(got: &Got) {
    match got {
        Got::Unavailable(0, Cause::Shutdown | Cause::ConnectionLost { .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn readers_of_a_worker_that_shuts_down_are_told_and_go_on_at_another() {
    for io in BOTH {
        let stage = Stage::remote(io);
        let first = builder(io).start().unwrap();
        let mut writer = first.create_partition(id(0), Attempt(1), config(1, RETAIN)).unwrap();
        let gate_config = stage.config(1).channel(writer.descriptor(0));
        let mut gate = stage.consumer.input_gate(gate_config);
        assert_eq!(next(&mut gate), Got::Available(0, Attempt(1)));
        write(&mut writer, 0..50);
        expect_records(&mut gate, 0..50);
        let last = first.shutdown(Duration::ZERO);
        assert_eq!((last.lost_wakeups, last.net.violations), (0, 0));
        let closed = writer.write_blocking_timeout(0, &record(50, 100), STUCK);
        assert_eq!(closed, Err(WaitError::Write(WriteError::Closed { cause: Cause::Shutdown })));
        assert_gone(&next(&mut gate));
        // The engine has started the producer again, at another worker.
        let mut second = stage.create(0, 2, config(1, RETAIN));
        let update = gate.update_channel(0, second.descriptor(0)).unwrap();
        assert_eq!(update, Update::Accepted);
        loop {
            match next(&mut gate) {
                Got::Available(0, Attempt(2)) => break,
                got => assert_gone(&got),
            }
        }
        write(&mut second, 0..50);
        expect_records(&mut gate, 0..50);
        drop((gate, second, writer));
        assert_whole(first);
        stage.end();
    }
}

#[test]
fn readers_of_a_worker_that_is_dropped_are_told() {
    for io in BOTH {
        let stage = Stage::remote(io);
        let first = builder(io).start().unwrap();
        let mut writer = first.create_partition(id(0), Attempt(1), config(1, RETAIN)).unwrap();
        let mut gate = stage.consumer.input_gate(stage.config(1).channel(writer.descriptor(0)));
        assert_eq!(next(&mut gate), Got::Available(0, Attempt(1)));
        write(&mut writer, 0..50);
        expect_records(&mut gate, 0..25);
        drop(first);
        // What had come is read to its end.
        let mut number = 25;
        let last = loop {
            match next(&mut gate) {
                Got::Record(0, bytes) => assert_eq!(bytes, record(number, 100)),
                other => break other,
            }
            number += 1;
        };
        assert_gone(&last);
        assert!(number <= 50);
        drop((gate, writer));
        stage.end();
    }
}

#[test]
fn writers_go_on_when_the_workers_of_their_readers_go() {
    for io in BOTH {
        for in_order in [true, false] {
            let stage = Stage::remote(io);
            let readers = builder(io).start().unwrap();
            let mut writer = stage.create(0, 1, config(1, WhenAbsent::Discard));
            let mut gate = readers.input_gate(stage.config(1).channel(stage.descriptor(0, 1)));
            assert_eq!(next(&mut gate), Got::Available(0, Attempt(1)));
            write(&mut writer, 0..10);
            expect_records(&mut gate, 0..10);
            if in_order {
                readers.shutdown(Duration::ZERO);
            } else {
                drop(readers);
            }
            assert_gone(&next(&mut gate));
            stage.until_absent(0);
            let written = writer.write_blocking_timeout(0, &record(10, 100), STUCK).unwrap();
            assert_eq!(written, Written::Dropped);
            let account = stage.partition(0).unwrap().subpartitions[0].account;
            assert!(account.is_balanced(), "{account:?}");
            // The gate says the same for ever, and asks for nothing.
            let mut again = stage.bound(2, 0, 1);
            write(&mut writer, 11..20);
            expect_records(&mut again, 11..20);
            drop((gate, again, writer));
            stage.end();
        }
    }
}

/// While both sides are busy.
#[test]
fn workers_end_under_load_without_help() {
    for io in BOTH {
        for round in 0..6 {
            let (producer, consumer) = (builder(io).start().unwrap(), builder(io).start().unwrap());
            let mut writer = producer.create_partition(id(0), Attempt(1), config(4, RETAIN)).unwrap();
            let channels = writer.descriptors();
            let write = thread::spawn(move || {
                let mut number = 0;
                loop {
                    match writer.write_blocking_timeout(number % 4, &record(7, 3000), STUCK) {
                        Ok(_) => number += 1,
                        Err(WaitError::Write(WriteError::Closed { .. })) => return number,
                        Err(error) => panic!("{error}"),
                    }
                }
            });
            let gate_config = GateConfig::new(Attempt(1), Incarnation(1)).channels(channels);
            let mut gate = consumer.input_gate(gate_config);
            let read = thread::spawn(move || {
                let mut lost = [false; 4];
                while lost != [true; 4] {
                    match next(&mut gate) {
                        Got::Record(_, bytes) => assert_eq!(bytes, record(7, 3000)),
                        Got::Available(..) => {}
                        Got::Unavailable(channel, Cause::Shutdown | Cause::ConnectionLost { .. }) => {
                            lost[channel as usize] = true;
                        }
                        other => panic!("{other:?}"),
                    }
                }
            });
            let seen = || consumer.snapshot().net.bytes_received > 1_000_000;
            until("it flows", seen);
            let (first, second) = if round % 2 == 0 { (producer, consumer) } else { (consumer, producer) };
            assert_whole(first);
            assert_whole(second);
            assert!(write.join().unwrap() > 0);
            read.join().unwrap();
        }
    }
}

/// Its descriptor names a reactor that is gone: an endpoint that is there stands in for it.
#[test]
fn a_partition_outlives_the_reactor_that_it_was_made_beside() {
    for io in BOTH {
        let stage = Stage::remote(io);
        let producer = stage.producer.clone();
        let made = thread::spawn(move || {
            let reactor = producer.reactor().unwrap();
            let writer = producer.create_partition(id(0), Attempt(1), config(1, RETAIN)).unwrap();
            let descriptor = writer.descriptor(0);
            drop(reactor);
            (writer, descriptor)
        });
        let (mut writer, descriptor) = made.join().unwrap();
        let mut gate = stage.consumer.input_gate(stage.config(1).channel(descriptor));
        assert_eq!(next(&mut gate), Got::Available(0, Attempt(1)));
        write(&mut writer, 0..50);
        expect_records(&mut gate, 0..50);
        drop((gate, writer));
        stage.end();
    }
}

/// The other worker's host takes connections and says nothing, or not even that: who waits for it goes at once.
#[test]
fn nobody_who_leaves_waits_for_a_connection() {
    for io in BOTH {
        let stage = Stage::remote(io);
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        // No route leads there, and nothing says so (a network for documentation).
        let nowhere = "192.0.2.1:9".parse().unwrap();
        let start = std::time::Instant::now();
        let (worker, mut left) = (builder(io).start().unwrap(), Vec::new());
        for (socket, index) in [(silent.local_addr().unwrap(), 1), (nowhere, 2)] {
            let location = Location::Remote(RemoteAddress { socket, endpoint: 0 });
            let channel = ChannelDescriptor { location, ..stage.descriptor(index, 1) };
            let mut gate = worker.input_gate(stage.config(1).channel(channel.clone()));
            assert_silent(&mut gate);
            drop(gate);
            // And one that is still there when its worker goes.
            let mut gate = worker.input_gate(stage.config(2).channel(channel));
            assert_silent(&mut gate);
            left.push(gate);
        }
        drop(worker.shutdown(Duration::ZERO));
        drop(left);
        assert_whole(worker);
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        stage.end();
    }
}
