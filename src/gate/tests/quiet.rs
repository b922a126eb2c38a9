//! `Flush::Interval`: rings after silence, timed looks after activity, no timer at rest.

use super::*;

/// Looked for after 6 ms, so that it is there within 8.
fn interval() -> PartitionConfig {
    config(policies(WhenAbsent::Discard, Flush::Interval(MS * 8)))
}

#[test]
fn a_record_after_silence_rings_and_one_within_the_interval_is_found_by_the_look() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, interval());
    let mut gate = bench.gate(1, &[(0, 1)]);
    bench.drain(&mut gate);
    assert_eq!(bench.clock.alarms(), 0, "nothing happened yet: no timer");
    bench.woken.take();
    producer.write_all(0..1, 10);
    assert_eq!(bench.woken.take(), 1, "one ring");
    assert_eq!(numbers(&bench.drain(&mut gate), 0), [0]);
    assert_eq!(bench.clock.alarms(), 1);
    producer.write_all(1..50, 10);
    assert_eq!(bench.woken.take(), 0, "the look is on its way");
    bench.clock.advance(MS * 5);
    assert_eq!(bench.woken.take(), 0);
    bench.clock.advance(MS);
    assert_eq!(bench.woken.take(), 1);
    assert_eq!(numbers(&bench.drain(&mut gate), 0), (1..50).collect::<Vec<_>>());
    // There was something: one more look. There is nothing: quiet, and no timer.
    assert_eq!(bench.clock.alarms(), 1);
    bench.clock.advance(MS * 6);
    assert_eq!(bench.woken.take(), 1);
    assert_eq!(bench.drain(&mut gate), []);
    assert_eq!(bench.clock.alarms(), 0);
    producer.write_all(50..51, 10);
    assert_eq!(bench.woken.take(), 1);
    assert_eq!(numbers(&bench.drain(&mut gate), 0), [50]);
    drop((gate, producer));
    bench.assert_whole();
}

#[test]
fn one_alarm_serves_all_channels() {
    let bench = Bench::new();
    let mut producers: Vec<_> = (0..3).map(|index| bench.create(index, 1, interval())).collect();
    let mut gate = bench.gate(1, &[(0, 1), (1, 1), (2, 1)]);
    bench.drain(&mut gate);
    for producer in &mut producers {
        producer.write_all(0..1, 10);
        assert_eq!(bench.drain(&mut gate).len(), 1);
        bench.clock.advance(MS);
    }
    assert_eq!(bench.clock.alarms(), 1);
    for producer in &mut producers {
        producer.write_all(1..2, 10);
    }
    for index in 0..3 {
        bench.woken.take();
        bench.clock.advance(MS * if index == 0 { 3 } else { 1 });
        assert_eq!(bench.woken.take(), 1, "channel {index}");
        assert_eq!(bench.drain(&mut gate), [Got::Record(index, payload(1, 10))]);
        assert_eq!(bench.clock.alarms(), 1);
    }
    bench.clock.advance(MS * 20);
    assert_eq!(bench.drain(&mut gate), []);
    assert_eq!(bench.clock.alarms(), 0);
    drop((gate, producers));
    bench.assert_whole();
}

#[test]
fn a_publication_between_the_last_look_and_the_sleep_is_not_lost() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, interval());
    let mut gate = bench.gate(1, &[(0, 1)]);
    bench.drain(&mut gate);
    producer.write_all(0..1, 10);
    bench.drain(&mut gate);
    let node = gate.channels[0].node.clone().unwrap();
    // The writer looks at `quiet` before it is set: it doesn't ring.
    assert!(!node.is_quiet_after_publish());
    producer.write_all(1..2, 10);
    bench.clock.advance(MS * 6);
    assert_eq!(numbers(&bench.drain(&mut gate), 0), [1]);
    bench.clock.advance(MS * 6);
    bench.drain(&mut gate);
    assert!(node.is_quiet_after_publish());
    drop((gate, producer, node));
    bench.assert_whole();
}

#[test]
fn the_other_flushes_need_no_timer() {
    for flush in [Flush::WhenFull, Flush::EveryRecord] {
        let bench = Bench::new();
        let mut producer = bench.create(0, 1, config(policies(WhenAbsent::Discard, flush)));
        let mut gate = bench.gate(1, &[(0, 1)]);
        bench.drain(&mut gate);
        bench.woken.take();
        producer.write_all(0..1, 10);
        assert_eq!(bench.woken.take(), usize::from(flush == Flush::EveryRecord));
        producer.flush();
        assert_eq!(numbers(&bench.drain(&mut gate), 0), [0]);
        assert_eq!(bench.clock.alarms(), 0);
        bench.woken.take();
        // A full segment rings by itself.
        producer.write_all(1..6, 1020);
        assert!(bench.woken.take() >= 1);
        assert_eq!(numbers(&bench.drain(&mut gate), 0), (1..6).collect::<Vec<_>>());
        drop((gate, producer));
        bench.assert_whole();
    }
}

#[test]
fn another_waker_gets_an_alarm_of_its_own() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, interval());
    let mut gate = bench.gate(1, &[(0, 1)]);
    bench.drain(&mut gate);
    producer.write_all(0..1, 10);
    bench.drain(&mut gate);
    let other = Arc::new(Woken::default());
    let waker = Waker::from(other.clone());
    assert!(gate.poll_next(&mut Context::from_waker(&waker)).is_pending());
    producer.write_all(1..2, 10);
    bench.clock.advance(MS * 6);
    assert_eq!(other.take(), 1);
    assert_eq!(numbers(&bench.drain(&mut gate), 0), [1]);
    drop((gate, producer));
    bench.assert_whole();
}

#[test]
fn whoever_only_tries_finds_everything_too() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, interval());
    let mut gate = bench.gate(1, &[(0, 1)]);
    let mut got = 0;
    for round in 0..20 {
        producer.write_all(round..round + 1, 10);
        bench.clock.advance(MS);
        while let TryNext::Item(item) = gate.try_next().unwrap() {
            got += u32::from(matches!(item, Item::Record(_)));
        }
    }
    bench.clock.advance(MS * 5);
    while let TryNext::Item(item) = gate.try_next().unwrap() {
        got += u32::from(matches!(item, Item::Record(_)));
    }
    assert_eq!(got, 20);
    drop((gate, producer));
    bench.assert_whole();
}

#[test]
fn a_channel_that_waits_for_its_turn_is_not_taken_for_forgotten() {
    let bench = Bench::new();
    let mut producers = [bench.create(0, 1, interval()), bench.create(1, 1, interval())];
    let mut gate = bench.gate(1, &[(0, 1), (1, 1)]);
    bench.drain(&mut gate);
    for producer in &mut producers {
        producer.write_all(0..10, 10);
    }
    // Both rings are heard, one channel is served; then the task takes its time.
    assert!(matches!(bench.poll(&mut gate), Got::Record(0, _)));
    bench.assert_nothing_lost();
    assert_eq!(numbers(&bench.drain(&mut gate), 1), (0..10).collect::<Vec<_>>());
    drop((gate, producers));
    bench.assert_whole();
}
