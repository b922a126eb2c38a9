//! Gates that are dropped in every state, never polled, or steered past their bounds.

use crate::common::*;
use pirn::{
    Attempt, ChannelDescriptor, ChannelState, GateConfig, HandleError, Incarnation, Item, MemoryConfig,
    SegmentClass, TryNext, WhenAbsent, Worker, WriteError, Written,
};

#[test]
fn a_gate_may_be_dropped_in_every_state() {
    let worker = worker(256);
    let mut seen = Vec::new();
    for (round, index) in (1..=8).zip(10..) {
        let mut writer =
            worker.create_partition(id(index), Attempt(1), config(1, WhenAbsent::Discard)).unwrap();
        let absent = ChannelDescriptor { partition: id(999), ..writer.descriptor(0) };
        let stranger = ChannelDescriptor { subpartition: 7, ..writer.descriptor(0) };
        let channel = match round {
            2 => absent,
            3 => stranger,
            _ => writer.descriptor(0),
        };
        let config =
            GateConfig::new(Attempt(1), Incarnation(1)).channel(channel).explicit_acknowledge(round == 8);
        let mut gate = worker.input_gate(config);
        let handle = gate.handle();
        if round > 1 {
            drop(gate.try_next().unwrap());
        }
        writer.write_blocking(0, &record(1, 3 * SEGMENT)).unwrap();
        writer.flush();
        match round {
            5 => gate.pause(0).unwrap(),
            6 => {
                writer.fail("over");
                while let TryNext::Item(_) = gate.try_next().unwrap() {}
            }
            7 => {
                let newer = config_of_newer(&worker, index);
                assert!(matches!(writer.write_blocking(0, b"x"), Err(WriteError::Closed { .. })));
                gate.update_channel(0, newer.descriptor(0)).unwrap();
                drop(newer);
            }
            8 => {
                let finished = writer.finish_blocking_timeout(std::time::Duration::ZERO);
                assert!(finished.is_err());
                while let TryNext::Item(_) = gate.try_next().unwrap() {}
            }
            _ => {}
        }
        seen.push(gate.channel_snapshot(0).unwrap().state);
        drop(gate);
        assert_eq!(handle.pause(0), Err(HandleError::Gone));
    }
    assert_eq!(seen.iter().filter(|state| **state == ChannelState::Ended).count(), 1, "{seen:?}");
    assert!(seen.contains(&ChannelState::Unbound) && seen.contains(&ChannelState::Waiting), "{seen:?}");
    assert!(seen.iter().any(|state| matches!(state, ChannelState::BindFailed(_))), "{seen:?}");
    assert_eq!(worker.snapshot().binds_waiting, 0);
    worker.release_job(pirn::JobId(1));
    end(&worker);
}

fn config_of_newer(worker: &Worker, index: u32) -> pirn::RecordWriter {
    worker.create_partition(id(index), Attempt(2), config(1, WhenAbsent::Discard)).unwrap()
}

/// Who never polls is told so, and holds up nobody but its own writer.
#[test]
fn a_gate_that_is_never_polled_takes_a_bounded_number_of_commands() {
    let worker = worker(128);
    let mut writer = worker.create_partition(id(0), Attempt(1), config(2, WhenAbsent::Discard)).unwrap();
    let lazy = worker.input_gate(reads(1, &writer, 0));
    let handle = lazy.handle();
    let mut passed = 0;
    let refused = loop {
        match handle.pause(0) {
            Ok(_) => passed += 1,
            Err(error) => break error,
        }
        assert!(passed < 1_000_000);
    };
    assert!(matches!(refused, HandleError::Full { .. }), "{refused:?}");
    let mut gate = worker.input_gate(reads(1, &writer, 1));
    while let TryNext::Item(_) = gate.try_next().unwrap() {}
    while writer.try_write(0, &record(0, 1000)).is_ok() {}
    for number in 0..1000 {
        assert_eq!(writer.write_blocking_timeout(1, &record(number, 1000), STUCK).unwrap(), Written::Queued);
        writer.flush();
        let TryNext::Item(Item::Record(got)) = gate.next_blocking_timeout(STUCK).unwrap() else {
            panic!("{number}")
        };
        assert_eq!(crate::common::number(&got), number);
    }
    drop((lazy, gate));
    writer.abandon();
    end(&worker);
}

#[test]
fn binds_wait_up_to_their_bound_and_leave_with_their_gates() {
    let memory = MemoryConfig::new().segments(SegmentClass::K32, 0).segments(SegmentClass::K4, 128);
    let worker = Worker::builder().memory(memory).binds_waiting_max(10).start().unwrap();
    let writer = worker.create_partition(id(0), Attempt(1), config(1, WhenAbsent::Discard)).unwrap();
    let gate = |index| {
        let channel = ChannelDescriptor { partition: id(index), ..writer.descriptor(0) };
        let mut gate = worker.input_gate(GateConfig::new(Attempt(1), Incarnation(1)).channel(channel));
        let refused = matches!(gate.try_next().unwrap(), TryNext::Item(Item::BindFailed { .. }));
        (gate, refused)
    };
    let mut gates: Vec<_> = (1..=15).map(gate).collect();
    assert_eq!(gates.iter().filter(|(_, refused)| *refused).count(), 5);
    assert_eq!(worker.snapshot().binds_waiting, 10);
    assert!(!gates[14].0.retry_bind(1).is_ok_and(|again| again));
    gates.drain(..10);
    assert_eq!(worker.snapshot().binds_waiting, 0);
    assert!(gates[4].0.retry_bind(0).unwrap());
    assert!(matches!(gates[4].0.try_next().unwrap(), TryNext::Empty));
    assert_eq!(worker.snapshot().binds_waiting, 1);
    drop(gates);
    assert_eq!(worker.snapshot().binds_waiting, 0);
    drop(writer);
    end(&worker);
}
