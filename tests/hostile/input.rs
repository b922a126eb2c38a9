//! Wrong input of every kind is refused with a reason, and changes nothing.

use crate::common::*;
use bytes::Bytes;
use pirn::{
    Attempt, BindError, BindSecret, Cause, CreateError, Event, GateConfig, Incarnation, InputGate, Item,
    JobId, MemoryConfig, PartitionConfig, PartitionId, PriorityEvent, RecordLayout, SegmentClass, Target,
    TryNext, TryWriteError, WhenAbsent, WhenRetained, Worker, WriteError, Written,
};
use std::num::NonZeroU32;
use std::time::Duration;

const SOON: Duration = Duration::from_millis(300);

fn fails(gate: &mut InputGate) -> BindError {
    match gate.next_blocking_timeout(STUCK).unwrap() {
        TryNext::Item(Item::BindFailed { error, .. }) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_writer_refuses_what_does_not_fit_and_goes_on() {
    let worker = worker(128);
    let wide = config(2, WhenAbsent::Discard).record_bytes_max(32 * 1024);
    let mut writer = worker.create_partition(id(0), Attempt(1), wide).unwrap();
    let mut gate = worker.input_gate(reads(1, &writer, 0).channel(writer.descriptor(1)));
    for target in [2, 3, u32::MAX] {
        let refused = Err(WriteError::NoSuchSubpartition { target, count: 2 });
        assert_eq!(writer.write_blocking(target, b"x"), refused);
        assert_eq!(writer.try_write(target, b"x"), Err(TryWriteError::Write(refused.clone().unwrap_err())));
        assert_eq!(
            writer.event_blocking(Target::One(target), &Event::Barrier(1)).map(drop),
            refused.map(drop)
        );
        let priority = PriorityEvent::new(b"p").unwrap();
        assert!(writer.priority_event_blocking(Target::One(target), priority).is_err());
    }
    let long = vec![0; 32 * 1024 + 1];
    assert!(matches!(writer.write_blocking(0, &long), Err(WriteError::TooLong { .. })));
    assert!(matches!(writer.broadcast_blocking(&long), Err(WriteError::TooLong { .. })));
    let event = Event::Application(Bytes::from(vec![1; Event::APPLICATION_BYTES_MAX + 1]));
    for target in [Target::One(0), Target::All] {
        assert!(matches!(writer.event_blocking(target, &event), Err(WriteError::EventTooLong { .. })));
    }
    assert!(PriorityEvent::new(&[0; PriorityEvent::BYTES_MAX + 1]).is_none());
    assert!(PriorityEvent::new(&[0; 1 << 16]).is_none());
    let empty = writer.snapshot().subpartitions[0].account;
    assert_eq!(empty.written.records, 0, "{empty:?}");
    // Records without a byte are records.
    for _ in 0..1000 {
        writer.write_blocking(1, b"").unwrap();
    }
    let _ = writer.broadcast_blocking(b"").unwrap();
    writer.flush();
    let (mut got, mut seen) = (0, 0);
    while got < 1001 || seen < 1 {
        match gate.next_blocking_timeout(STUCK).unwrap() {
            TryNext::Item(Item::Record(record)) => {
                assert!(record.is_empty());
                if record.channel() == 1 { got += 1 } else { seen += 1 }
            }
            TryNext::Item(_) => {}
            other => panic!("{other:?}"),
        }
    }
    writer.abandon();
    drop(gate);
    end(&worker);
}

#[test]
fn records_of_a_fixed_width_have_that_width() {
    let worker = worker(128);
    for width in [1, 7, 4096, 5000] {
        let layout = RecordLayout::Fixed(NonZeroU32::new(width).unwrap());
        let fixed = config(1, WhenAbsent::Discard).layout(layout);
        let mut writer = worker.create_partition(id(width), Attempt(1), fixed).unwrap();
        let mut gate = worker.input_gate(reads(1, &writer, 0));
        for bytes in [0, width - 1, width + 1, 2 * width, 100_000] {
            if bytes != width {
                let wrong = vec![9; bytes as usize];
                let refused = WriteError::Width { bytes: u64::from(bytes), fixed: width };
                assert_eq!(writer.write_blocking(0, &wrong), Err(refused.clone()));
                assert_eq!(writer.broadcast_blocking(&wrong), Err(refused));
            }
        }
        let right = vec![3; width as usize];
        for _ in 0..3 {
            assert_eq!(writer.write_blocking(0, &right).unwrap(), Written::Queued);
        }
        writer.flush();
        let mut got = 0;
        while got < 3 {
            if let TryNext::Item(Item::Record(record)) = gate.next_blocking_timeout(STUCK).unwrap() {
                assert_eq!(record.as_bytes(), right);
                got += 1;
            }
        }
        writer.abandon();
    }
    end(&worker);
}

#[test]
fn a_bind_that_does_not_fit_is_refused_with_the_reason() {
    let worker = worker(128);
    let mut writer = worker.create_partition(id(0), Attempt(5), config(2, WhenAbsent::Discard)).unwrap();
    let good = writer.descriptor(0);
    let bind = |change: &dyn Fn(&mut pirn::ChannelDescriptor)| {
        let mut descriptor = good.clone();
        change(&mut descriptor);
        let config = GateConfig::new(Attempt(1), Incarnation(1)).channel(descriptor);
        let mut gate = worker.input_gate(config);
        fails(&mut gate)
    };
    assert!(matches!(bind(&|it| it.secret = BindSecret::new(8)), BindError::NotFound { .. }));
    let fixed = RecordLayout::Fixed(NonZeroU32::new(8).unwrap());
    assert!(matches!(bind(&|it| it.layout = fixed), BindError::Layout { .. }));
    assert!(matches!(bind(&|it| it.subpartition = 2), BindError::Layout { .. }));
    assert!(matches!(bind(&|it| it.subpartition = u32::MAX), BindError::Layout { .. }));
    // An older producer attempt is an outage: the newer one's descriptor is needed.
    let mut old = good.clone();
    old.producer_attempt = Attempt(4);
    let mut gate = worker.input_gate(GateConfig::new(Attempt(1), Incarnation(1)).channel(old));
    let told = gate.next_blocking_timeout(STUCK).unwrap();
    assert!(
        matches!(
            told,
            TryNext::Item(Item::Unavailable { cause: Cause::Superseded { newer: Attempt(5) }, .. })
        ),
        "{told:?}"
    );
    drop(gate);
    // None of them has kept the right one out.
    let mut gate = worker.input_gate(reads(1, &writer, 0));
    assert!(matches!(gate.next_blocking_timeout(STUCK).unwrap(), TryNext::Item(Item::Available { .. })));
    for channel in [1, u32::MAX] {
        assert!(gate.pause(channel).is_err() && gate.resume(channel).is_err());
        assert!(gate.update_channel(channel, good.clone()).is_err() && gate.retry_bind(channel).is_err());
        assert!(gate.why_blocked(channel).is_none() && gate.channel_snapshot(channel).is_none());
        assert!(gate.handle().pause(channel).is_err());
    }
    // The same attempt in another run, and an older attempt.
    let config = GateConfig::new(Attempt(1), Incarnation(2)).channel(good.clone());
    assert!(matches!(fails(&mut worker.input_gate(config)), BindError::DuplicateAttempt { .. }));
    let config = GateConfig::new(Attempt(0), Incarnation(2)).channel(good.clone());
    assert!(matches!(fails(&mut worker.input_gate(config)), BindError::Stale { .. }));
    writer.write_blocking(0, &record(1, 100)).unwrap();
    writer.flush();
    assert!(matches!(gate.next_blocking_timeout(STUCK).unwrap(), TryNext::Item(Item::Record(_))));
    // The same channel twice in one gate: the second bind of the same run replaces the first.
    drop(gate);
    writer.abandon();
    end(&worker);
}

#[test]
fn a_partition_is_created_once_and_never_after_its_job() {
    let worker = worker(128);
    let create = |attempt| worker.create_partition(id(0), Attempt(attempt), config(1, WhenAbsent::Discard));
    let writer = create(3).unwrap();
    for attempt in [3, 2, 0] {
        assert!(matches!(create(attempt), Err(CreateError::Stale { current: Attempt(3), .. })));
    }
    let before = worker.census();
    let mut newer = create(4).unwrap();
    let mut writer = writer;
    let refused = writer.write_blocking(0, b"x");
    assert_eq!(refused, Err(WriteError::Closed { cause: Cause::Superseded { newer: Attempt(4) } }));
    drop(writer);
    assert_eq!(worker.census(), before);
    assert!(!worker.release_partition(id(0), Attempt(3)));
    assert!(worker.release_partition(id(0), Attempt(4)));
    assert_eq!(newer.write_blocking(0, b"x"), Err(WriteError::Closed { cause: Cause::Released }));
    assert!(matches!(create(4), Err(CreateError::Stale { .. })));
    let last = create(5).unwrap();
    // A job's end is nobody else's.
    let other = PartitionId { job: JobId(2), ..id(0) };
    let mut stays = worker.create_partition(other, Attempt(1), config(1, WhenAbsent::Discard)).unwrap();
    let mut waits = worker.input_gate(
        GateConfig::new(Attempt(1), Incarnation(1))
            .channel(pirn::ChannelDescriptor { partition: id(77), ..last.descriptor(0) }),
    );
    assert!(matches!(waits.try_next().unwrap(), TryNext::Empty));
    assert_eq!(worker.snapshot().binds_waiting, 1);
    assert_eq!(worker.release_job(JobId(1)), 1);
    assert!(matches!(
        waits.next_blocking_timeout(STUCK).unwrap(),
        TryNext::Item(Item::Unavailable { cause: Cause::JobReleased, .. })
    ));
    assert!(matches!(create(6), Err(CreateError::Closed { cause: Cause::JobReleased, .. })));
    assert_eq!(stays.write_blocking(0, b"x").unwrap(), Written::Queued);
    drop((last, newer, stays));
    drop(waits);
    end(&worker);
}

#[test]
fn settings_at_their_extremes_are_refused_or_hold() {
    let one = MemoryConfig::new().segments(SegmentClass::K32, 0);
    for memory in [
        one.clone(),
        one.clone().segments(SegmentClass::K4, 64),
        one.clone().segments(SegmentClass::K4, u32::MAX),
        one.clone().segments(SegmentClass::K4, 10).orphan_segments(u32::MAX),
        one.clone().segments(SegmentClass::K4, u32::MAX).segments(SegmentClass::K8, u32::MAX),
    ] {
        assert!(Worker::builder().memory(memory.clone()).start().is_err(), "{memory:?}");
    }
    let least = one.segments(SegmentClass::K4, 2).orphan_segments(0);
    let worker = Worker::builder().memory(least).binds_waiting_max(0).start().unwrap();
    let tiny = || config(1, WhenAbsent::Discard).floating_segments(0).broadcast_segments(0).quota_segments(1);
    let mut writer = worker.create_partition(id(0), Attempt(1), tiny()).unwrap();
    let huge = [
        PartitionConfig::new(u32::MAX),
        PartitionConfig::new(0),
        tiny().guaranteed_segments(0),
        tiny().guaranteed_segments(u32::MAX).quota_segments(u32::MAX),
        tiny().floating_segments(u32::MAX),
        tiny().broadcast_segments(u32::MAX),
        tiny().record_bytes_max(usize::MAX),
        tiny().record_bytes_max(0),
        tiny().guaranteed_segments(2),
        tiny().segment_class(SegmentClass::K16),
        config(3, WhenAbsent::Discard),
        config(1, WhenAbsent::Retain { quota: 0, then: WhenRetained::Block }),
        config(1, WhenAbsent::Replay { quota: 1 }),
        config(1, WhenAbsent::Replay { quota: u32::MAX }).floating_segments(u32::MAX),
    ];
    for config in huge {
        let refused = worker.create_partition(id(1), Attempt(1), config.clone());
        assert!(refused.is_err(), "{config:?}");
    }
    // One segment for everything: nothing stands still for good.
    let mut elsewhere = writer.descriptor(0);
    elsewhere.partition = id(9);
    let no_wait = GateConfig::new(Attempt(1), Incarnation(1)).channel(elsewhere);
    assert!(matches!(fails(&mut worker.input_gate(no_wait)), BindError::TooManyWaiting { .. }));
    let mut gate =
        worker.input_gate(reads(1, &writer, 0).half_record_bytes_max(0).record_bytes_max(usize::MAX));
    let reader = std::thread::spawn(move || {
        let mut got = Vec::new();
        loop {
            match gate.next_blocking_timeout(STUCK).unwrap() {
                TryNext::Item(Item::Record(record)) => got.push(number(&record)),
                TryNext::Item(_) => {}
                TryNext::Empty => panic!("stuck"),
                TryNext::End => return got,
            }
        }
    });
    for (number, bytes) in [(0, 20), (1, 3 * SEGMENT), (2, 100_000), (3, 12)] {
        assert_eq!(writer.write_blocking_timeout(0, &record(number, bytes), STUCK).unwrap(), Written::Queued);
    }
    let _ = writer.broadcast_blocking(&record(4, 10_000)).unwrap();
    writer.finish_blocking_timeout(STUCK).unwrap();
    assert_eq!(reader.join().unwrap(), [0, 1, 2, 3, 4]);
    drop(writer);
    end(&worker);
}

/// A receipt of another gate, or of another bind, acknowledges nothing.
#[test]
fn a_foreign_receipt_is_ignored() {
    let worker = worker(512);
    let replay = || config(1, WhenAbsent::Replay { quota: 64 }).quota_segments(64).floating_segments(64);
    let open = |index, events: u64, records: u64, bytes| {
        let mut writer = worker.create_partition(id(index), Attempt(1), replay()).unwrap();
        let mut gate = worker.input_gate(reads(1, &writer, 0).explicit_acknowledge(true));
        let mut receipt = None;
        for _ in 0..events {
            let _ = writer.event_blocking(Target::All, &Event::Barrier(1)).unwrap();
        }
        for number in 0..records {
            writer.write_blocking(0, &record(number, bytes)).unwrap();
        }
        writer.flush();
        let mut got = 0;
        while got < records {
            if let TryNext::Item(Item::Record(record)) = gate.next_blocking_timeout(SOON).unwrap() {
                got += 1;
                receipt = Some(record.receipt());
            }
        }
        (writer, gate, receipt.unwrap())
    };
    // More entries for fewer bytes: records that never share a segment.
    let (first, mut first_gate, foreign) = open(0, 2, 30, 2500);
    let (mut second, mut gate, own) = open(1, 3, 60, 2000);
    let before = second.snapshot();
    assert!(!gate.acknowledge(foreign), "{foreign:?}");
    assert_eq!(gate.channel_snapshot(0).unwrap().acks_ignored, 1);
    assert_eq!(second.snapshot(), before);
    for number in 60..80 {
        second.write_blocking(0, &record(number, 2000)).unwrap();
    }
    second.flush();
    let mut next = 60;
    while next < 80 {
        if let TryNext::Item(Item::Record(record)) = gate.next_blocking_timeout(SOON).unwrap() {
            assert_eq!(number(&record), next);
            next += 1;
        }
    }
    assert!(gate.acknowledge(own) && first_gate.acknowledge(foreign));
    assert!(!gate.acknowledge(own));
    assert!(second.snapshot().subpartitions[0].account.is_balanced());
    // Nor does that of the attempt before.
    drop(gate);
    let mut gate = worker.input_gate(reads(2, &second, 0).explicit_acknowledge(true));
    let mut got = 0;
    while got < 20 {
        if let TryNext::Item(Item::Record(_)) = gate.next_blocking_timeout(SOON).unwrap() {
            got += 1;
        }
    }
    assert!(!gate.acknowledge(own));
    drop((gate, first_gate));
    first.abandon();
    second.abandon();
    end(&worker);
}
