//! What flows: records, events, priority events, lent memory, broadcasts.

use crate::stage::{
    Got, STUCK, Stage, assert_silent, config, expect_records, finish, id, next, record, write,
};
use bytes::Bytes;
use pirn::{
    Attempt, ChannelDescriptor, Event, Item, PriorityEvent, RecordLayout, Target, TryNext, WhenAbsent,
};
use std::num::NonZeroU32;
use std::thread;

const DISCARD: WhenAbsent = WhenAbsent::Discard;

pub(crate) fn records_and_events_come_in_order(stage: Stage) {
    let mut writer = stage.create(0, 1, config(1, DISCARD));
    let mut gate = stage.bound(1, 0, 1);
    let sizes = [8, 100, 3000, 9000, 20_000];
    let event = |number: u64| match number % 3 {
        0 => Event::Barrier(number),
        1 => Event::Watermark(number as i64),
        _ => Event::Application(Bytes::from(vec![number as u8; (number as usize * 97) % 2049])),
    };
    let producer = thread::spawn(move || {
        for number in 0..400_u64 {
            let bytes = record(number, sizes[number as usize % sizes.len()]);
            writer.write_blocking_timeout(0, &bytes, STUCK).unwrap();
            if number % 4 == 0 {
                let _ = writer.event_blocking(Target::One(0), &event(number)).unwrap();
            }
        }
        finish(&mut writer);
    });
    for number in 0..400_u64 {
        assert_eq!(next(&mut gate), Got::Record(0, record(number, sizes[number as usize % sizes.len()])));
        if number % 4 == 0 {
            assert_eq!(next(&mut gate), Got::Event(0, event(number)));
        }
    }
    assert_eq!(gate.watermark(), Some(388));
    assert_eq!(next(&mut gate), Got::EndOfData(0));
    assert_eq!(next(&mut gate), Got::EndOfPartition(0));
    assert_eq!(next(&mut gate), Got::End);
    producer.join().unwrap();
    drop(gate);
    stage.end();
}

pub(crate) fn priority_events_overtake_and_all_come(stage: Stage) {
    let mut writer = stage.create(0, 1, config(1, DISCARD));
    let mut gate = stage.bound(1, 0, 1);
    gate.pause(0).unwrap();
    write(&mut writer, 0..50);
    let event = |number: u8| PriorityEvent::new(&[number; 56]).unwrap();
    for number in 0..8 {
        let _ = writer.priority_event_blocking(Target::One(0), event(number)).unwrap();
    }
    // They pass by the records that nobody takes.
    for number in 0..8 {
        assert_eq!(next(&mut gate), Got::Priority(0, vec![number; 56]));
    }
    let producer = thread::spawn(move || {
        for number in 8..200 {
            let _ = writer.priority_event_blocking(Target::One(0), event(number)).unwrap();
        }
        writer
    });
    for number in 8..200 {
        assert_eq!(next(&mut gate), Got::Priority(0, vec![number; 56]));
    }
    let writer = producer.join().unwrap();
    assert_silent(&mut gate);
    gate.resume(0).unwrap();
    expect_records(&mut gate, 0..50);
    drop((gate, writer));
    stage.end();
}

pub(crate) fn what_is_lent_stays_as_it_was(stage: Stage) {
    let mut writer = stage.create(0, 1, config(1, DISCARD));
    let mut gate = stage.bound(1, 0, 1);
    let size = |number: u64| [4000, 20_000, 60, 2500][number as usize % 4];
    let producer = thread::spawn(move || {
        for number in 0..300 {
            writer.write_blocking_timeout(0, &record(number, size(number)), STUCK).unwrap();
        }
        finish(&mut writer);
    });
    let mut kept: Vec<(u64, Bytes)> = Vec::new();
    for number in 0..300 {
        match gate.next_blocking_timeout(STUCK).unwrap() {
            TryNext::Item(Item::Record(record)) => kept.push((number, record.into_bytes())),
            other => panic!("{other:?}"),
        }
        if number % 7 == 6 {
            let check =
                |(number, bytes): (u64, Bytes)| assert!(bytes == record(number, size(number)), "{number}");
            kept.drain(..kept.len() - 3).for_each(check);
        }
    }
    assert_eq!(next(&mut gate), Got::EndOfData(0));
    assert_eq!(next(&mut gate), Got::EndOfPartition(0));
    assert_eq!(next(&mut gate), Got::End);
    producer.join().unwrap();
    drop(gate);
    // They outlive the gate.
    for (number, bytes) in kept {
        assert!(bytes == record(number, size(number)), "{number}");
    }
    stage.end();
}

pub(crate) fn broadcasts_reach_everybody(stage: Stage) {
    let mut writer = stage.create(0, 1, config(3, DISCARD));
    let channels = writer.descriptors();
    let mut gate = stage.consumer.input_gate(stage.config(1).channels(channels));
    let sizes = [8, 500, 600, 4000, 10_000];
    let producer = thread::spawn(move || {
        for number in 0..100_u64 {
            let bytes = record(number, sizes[number as usize % sizes.len()]);
            assert_eq!(writer.broadcast_blocking(&bytes).unwrap().queued, 3);
            if number % 10 == 0 {
                let _ = writer.event_blocking(Target::All, &Event::Barrier(number)).unwrap();
            }
        }
        finish(&mut writer);
    });
    let (mut expected, mut barriers, mut ended) = ([0_u64; 3], [0_u64; 3], 0);
    loop {
        match next(&mut gate) {
            Got::Record(channel, bytes) => {
                let number = &mut expected[channel as usize];
                assert_eq!(bytes, record(*number, sizes[*number as usize % sizes.len()]));
                *number += 1;
            }
            Got::Event(channel, Event::Barrier(barrier)) => {
                assert_eq!((barrier, barrier + 1), (barriers[channel as usize], expected[channel as usize]));
                barriers[channel as usize] += 10;
            }
            Got::Available(_, Attempt(1)) | Got::EndOfData(_) => {}
            Got::EndOfPartition(_) => ended += 1,
            Got::End => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((expected, barriers, ended), ([100; 3], [100; 3], 3));
    producer.join().unwrap();
    drop(gate);
    stage.end();
}

pub(crate) fn many_events_without_records_come_through(stage: Stage) {
    let mut writer = stage.create(0, 1, config(1, DISCARD));
    let mut gate = stage.bound(1, 0, 1);
    let producer = thread::spawn(move || {
        for number in 0..2000 {
            let event = match number % 2 {
                0 => Event::Barrier(number),
                _ => Event::Application(Bytes::from(vec![number as u8; 2048])),
            };
            let _ = writer.event_blocking(Target::One(0), &event).unwrap();
        }
        finish(&mut writer);
    });
    for number in 0..2000_u64 {
        match next(&mut gate) {
            Got::Event(0, Event::Barrier(barrier)) => assert_eq!((barrier, number % 2), (number, 0)),
            Got::Event(0, Event::Application(bytes)) => assert_eq!(bytes, vec![number as u8; 2048]),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(next(&mut gate), Got::EndOfData(0));
    assert_eq!(next(&mut gate), Got::EndOfPartition(0));
    assert_eq!(next(&mut gate), Got::End);
    producer.join().unwrap();
    drop(gate);
    stage.end();
}

pub(crate) fn records_of_one_width_come_without_lengths(stage: Stage) {
    let layout = RecordLayout::Fixed(NonZeroU32::new(24).unwrap());
    let mut writer = stage.create(0, 1, config(1, DISCARD).layout(layout));
    let channel = ChannelDescriptor { layout, ..stage.descriptor(0, 1) };
    let mut gate = stage.consumer.input_gate(stage.config(1).channel(channel));
    assert_eq!(next(&mut gate), Got::Available(0, Attempt(1)));
    let producer = thread::spawn(move || {
        for number in 0..20_000 {
            writer.write_blocking_timeout(0, &record(number, 24), STUCK).unwrap();
        }
        finish(&mut writer);
    });
    for number in 0..20_000 {
        assert_eq!(next(&mut gate), Got::Record(0, record(number, 24)));
    }
    assert_eq!(next(&mut gate), Got::EndOfData(0));
    assert_eq!(next(&mut gate), Got::EndOfPartition(0));
    assert_eq!(next(&mut gate), Got::End);
    producer.join().unwrap();
    drop(gate);
    stage.end();
}

pub(crate) fn a_paused_channel_stands_still_alone(stage: Stage) {
    let mut first = stage.create(0, 1, config(1, DISCARD));
    let mut second = stage.create(1, 1, config(1, DISCARD));
    let channels = [stage.descriptor(0, 1), stage.descriptor(1, 1)];
    let mut gate = stage.consumer.input_gate(stage.config(1).channels(channels));
    let mut available = [next(&mut gate), next(&mut gate)];
    available.sort_by_key(|got| matches!(got, Got::Available(1, _)));
    assert_eq!(available, [Got::Available(0, Attempt(1)), Got::Available(1, Attempt(1))]);
    gate.pause(1).unwrap();
    write(&mut second, 0..20);
    for number in 0..500 {
        first.write_blocking_timeout(0, &record(number, 1000), STUCK).unwrap();
        assert_eq!(next(&mut gate), Got::Record(0, record(number, 1000)));
    }
    gate.resume(1).unwrap();
    for number in 0..20 {
        assert_eq!(next(&mut gate), Got::Record(1, record(number, 100)));
    }
    assert!(stage.producer.release_partition(id(1), Attempt(1)));
    drop((gate, first, second));
    stage.end();
}
