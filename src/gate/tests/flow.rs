//! Turns, priority events, pauses.

use super::*;

#[test]
fn channels_take_turns_of_so_many_bytes_or_records() {
    for (count, records) in [(1020, 32), (8, 256)] {
        let bench = Bench::new();
        let config = || config(discard()).quota_segments(60).floating_segments(60);
        let mut producers = [bench.create(0, 1, config()), bench.create(1, 1, config())];
        let mut gate = bench.gate(1, &[(0, 1), (1, 1)]);
        bench.drain(&mut gate);
        let all = records * 2 + records / 2;
        for producer in &mut producers {
            producer.write_all(0..all, count);
        }
        let mut turns: Vec<(u32, u32)> = Vec::new();
        for got in bench.drain(&mut gate) {
            let Got::Record(channel, _) = got else { panic!("{got:?}") };
            match turns.last_mut() {
                Some((last, taken)) if *last == channel => *taken += 1,
                _ => turns.push((channel, 1)),
            }
        }
        let last = all - 2 * records;
        let expected = [(0, records), (1, records), (0, records), (1, records), (0, last), (1, last)];
        assert_eq!(turns, expected);
        drop((gate, producers));
        bench.assert_whole();
    }
}

#[test]
fn a_lone_channel_goes_on_by_itself() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, config(discard()));
    let mut gate = bench.gate(1, &[(0, 1), (9, 1)]);
    bench.drain(&mut gate);
    for round in 0..20 {
        producer.write_all(round * 900..(round + 1) * 900, 8);
        let got = bench.drain(&mut gate);
        assert_eq!(numbers(&got, 0), (round * 900..(round + 1) * 900).collect::<Vec<_>>());
    }
    drop((gate, producer));
    bench.assert_whole();
}

#[test]
fn priority_events_overtake_data_but_neither_notices_nor_the_end() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, config(discard()));
    let mut other = bench.create(1, 1, config(discard()));
    let mut third = bench.create(2, 1, config(discard()));
    let mut gate = bench.gate(1, &[(0, 1), (1, 1), (2, 1)]);
    producer.write_all(0..600, 8);
    producer.priority(b"early");
    other.write_all(0..600, 8);
    let got = bench.drain(&mut gate);
    let place = |wanted: &Got| got.iter().position(|got| got == wanted).unwrap();
    assert!(place(&Got::Available(0, 1)) < place(&Got::Priority(0, b"early".into())));
    assert!(place(&Got::Priority(0, b"early".into())) < place(&Got::Record(0, payload(0, 8))));
    // Within one turn's length, past the queues and the turns of all channels.
    for producer in [&mut producer, &mut other, &mut third] {
        producer.write_all(0..1000, 8);
    }
    assert_eq!(bench.poll(&mut gate), Got::Record(0, payload(0, 8)));
    third.priority(b"now");
    let got = bench.drain(&mut gate);
    let at = got.iter().position(|got| *got == Got::Priority(2, b"now".into())).unwrap();
    assert!(at <= 256, "{at}");
    assert_eq!(numbers(&got, 2), (0..1000).collect::<Vec<_>>());
    // Before the end, never behind it.
    producer.priority(b"last");
    producer.finish();
    let got = bench.drain(&mut gate);
    assert_eq!(got, [Got::Priority(0, b"last".into()), Got::EndOfData(0), Got::EndOfPartition(0)]);
    drop((gate, producer, other, third));
    bench.assert_whole();
}

#[test]
fn priority_events_that_come_while_their_node_is_listed_are_found() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, config(discard()));
    let mut gate = bench.gate(1, &[(0, 1)]);
    bench.drain(&mut gate);
    producer.priority(b"a");
    assert_eq!(bench.poll(&mut gate), Got::Priority(0, b"a".into()));
    producer.priority(b"b");
    assert_eq!(bench.poll(&mut gate), Got::Priority(0, b"b".into()));
    assert_eq!(bench.poll(&mut gate), Got::Pending);
    bench.woken.take();
    producer.priority(b"c");
    assert_eq!(bench.woken.take(), 1);
    assert_eq!(bench.drain(&mut gate), [Got::Priority(0, b"c".into())]);
    drop((gate, producer));
    bench.assert_whole();
}

#[test]
fn a_paused_channel_yields_priority_events_only_and_goes_on_where_it_was() {
    for policies in [discard(), policies(WhenAbsent::Discard, Flush::Interval(MS))] {
        let bench = Bench::new();
        let mut paused = bench.create(0, 1, config(policies));
        let mut other = bench.create(1, 1, config(policies));
        let mut gate = bench.gate(1, &[(0, 1), (1, 1)]);
        bench.drain(&mut gate);
        paused.write_all(0..3, 10);
        assert_eq!(bench.poll(&mut gate), Got::Record(0, payload(0, 10)));
        gate.pause(0).unwrap();
        assert_eq!(gate.why_blocked(0), Some(WhyBlocked::Paused));
        other.write_all(5..6, 10);
        assert_eq!(bench.drain(&mut gate), [Got::Record(1, payload(5, 10))]);
        assert_eq!(paused.account().delivered.records, 1, "asking on consumed what was yielded");
        paused.priority(b"p");
        paused.write_all(3..4, 10);
        assert_eq!(bench.drain(&mut gate), [Got::Priority(0, b"p".into())]);
        bench.clock.advance(MS * 10);
        assert_eq!(bench.drain(&mut gate), []);
        bench.assert_nothing_lost();
        gate.resume(0).unwrap();
        assert_eq!(numbers(&bench.drain(&mut gate), 0), [1, 2, 3]);
        drop((gate, paused, other));
        bench.assert_whole();
    }
}

#[test]
fn a_pause_ends_with_the_next_bind() {
    let bench = Bench::new();
    let mut first = bench.create(0, 1, config(discard()));
    let mut gate = bench.gate(1, &[(0, 1)]);
    bench.drain(&mut gate);
    first.fail("over");
    bench.drain(&mut gate);
    gate.pause(0).unwrap();
    assert!(gate.channel_snapshot(0).unwrap().is_paused);
    let mut second = bench.create(0, 2, config(discard()));
    gate.update_channel(0, bench.descriptor(0, 2)).unwrap();
    second.write_all(0..1, 10);
    assert_eq!(bench.drain(&mut gate), [Got::Available(0, 2), Got::Record(0, payload(0, 10))]);
    drop((gate, first, second));
    bench.assert_whole();
}

#[test]
fn a_paused_channel_that_is_full_holds_its_writer_and_wakes_it_when_it_goes_on() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, config(discard()).quota_segments(3));
    let mut gate = bench.gate(1, &[(0, 1)]);
    bench.drain(&mut gate);
    gate.pause(0).unwrap();
    let mut number = 0;
    while producer.write(&payload(number, 1020)) == Append::Done {
        number += 1;
    }
    assert_eq!(number, 12);
    assert_eq!(bench.drain(&mut gate), []);
    gate.resume(0).unwrap();
    assert_eq!(numbers(&bench.drain(&mut gate), 0), (0..12).collect::<Vec<_>>());
    producer.write_all(12..14, 1020);
    assert_eq!(numbers(&bench.drain(&mut gate), 0), [12, 13]);
    drop((gate, producer));
    bench.assert_whole();
}
