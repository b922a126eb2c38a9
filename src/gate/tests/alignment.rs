//! Barriers that don't come from every channel are told; nobody waits for them for ever.

use super::*;

fn barrier(producer: &mut Producer, id: u64) -> Append {
    producer.event(Event::Barrier(id))
}

fn event(channel: u32, id: u64) -> Got {
    Got::Event(channel, Event::Barrier(id))
}

/// Two producers, and a gate that reads both.
fn pair(policies: Policies) -> (Bench, [Producer; 2], InputGate) {
    let bench = Bench::new();
    let producers = [bench.create(0, 1, config(policies)), bench.create(1, 1, config(policies))];
    let mut gate = bench.gate(1, &[(0, 1), (1, 1)]);
    assert_eq!(bench.drain(&mut gate), [Got::Available(0, 1), Got::Available(1, 1)]);
    (bench, producers, gate)
}

/// The older attempt of the consumer had the barrier from one channel and took it along; the newer one gets it
/// from the other channel.
#[test]
fn a_barrier_that_went_with_the_consumer_before_is_told() {
    for (policies, again) in [(discard(), false), (retain(), false), (replay(), true)] {
        let (bench, [mut first, mut second], mut gate) = pair(policies);
        assert_eq!(barrier(&mut first, 7), Append::Done);
        first.write(&payload(1, 10));
        assert_eq!(bench.poll(&mut gate), event(0, 7));
        drop(gate);
        let mut gate = bench.gate(2, &[(0, 1), (1, 1)]);
        let got = bench.drain(&mut gate);
        assert_eq!(got.contains(&event(0, 7)), again, "{got:?}");
        assert_eq!(barrier(&mut second, 7), Append::Done);
        let mut expected = vec![event(1, 7)];
        if !again {
            expected.push(Got::AlignmentBroken(7, 0));
        }
        assert_eq!(bench.drain(&mut gate), expected);
        // The next one is as ever.
        barrier(&mut first, 8);
        barrier(&mut second, 8);
        assert_eq!(bench.drain(&mut gate), [event(0, 8), event(1, 8)]);
        drop((gate, first, second));
        bench.assert_whole();
    }
}

/// The consumer was absent when the barrier was written: it is dropped. One that waits in the ring is not told.
#[test]
fn a_barrier_that_was_dropped_while_nobody_read_is_told_with_the_bind() {
    for (policies, kept) in [(discard(), false), (retain(), true), (replay(), true)] {
        let (bench, [mut first, mut second], gate) = pair(policies);
        assert_eq!(barrier(&mut first, 3), Append::Done);
        drop(gate);
        assert_eq!(barrier(&mut first, 4), Append::Dropped);
        let mut gate = bench.gate(2, &[(0, 1), (1, 1)]);
        assert_eq!(bench.drain(&mut gate).contains(&event(0, 3)), kept);
        let mut got = vec![];
        for id in [3, 4, 5] {
            barrier(&mut second, id);
            got.extend(bench.drain(&mut gate));
        }
        barrier(&mut first, 5);
        got.extend(bench.drain(&mut gate));
        let mut expected =
            vec![event(1, 3), event(1, 4), Got::AlignmentBroken(4, 0), event(1, 5), event(0, 5)];
        if !kept {
            expected.insert(1, Got::AlignmentBroken(3, 0));
        }
        assert_eq!(got, expected);
        drop((gate, first, second));
        bench.assert_whole();
    }
}

/// The notice comes behind the barrier, before anything else, though the channel's turn isn't over.
#[test]
fn what_a_barrier_breaks_is_told_before_what_follows_it() {
    let (bench, [mut first, mut second], mut gate) = pair(discard());
    first.fail("gone");
    assert_eq!(bench.drain(&mut gate), [Got::Unavailable(0, Cause::Failed("gone".into()))]);
    second.write(&payload(0, 10));
    barrier(&mut second, 1);
    second.write(&payload(1, 10));
    let expected = [
        Got::Record(1, payload(0, 10)),
        event(1, 1),
        Got::AlignmentBroken(1, 0),
        Got::Record(1, payload(1, 10)),
    ];
    assert_eq!(bench.drain(&mut gate), expected);
    drop((gate, first, second));
    bench.assert_whole();
}

/// A producer fails while others have brought its barrier already: its successor begins without it.
#[test]
fn a_producer_that_fails_breaks_what_it_has_not_brought() {
    let (bench, [mut first, mut second], mut gate) = pair(retain());
    barrier(&mut second, 1);
    assert_eq!(bench.drain(&mut gate), [event(1, 1)]);
    gate.pause(1).unwrap();
    first.fail("gone");
    let cause = Cause::Failed("gone".into());
    assert_eq!(bench.drain(&mut gate), [Got::Unavailable(0, cause), Got::AlignmentBroken(1, 0)]);
    let mut successor = bench.create(0, 2, config(retain()));
    gate.update_channel(0, bench.descriptor(0, 2)).unwrap();
    gate.resume(1).unwrap();
    barrier(&mut successor, 2);
    barrier(&mut second, 2);
    let got = bench.drain(&mut gate);
    assert_eq!(got, [event(1, 2), Got::Available(0, 2), event(0, 2)]);
    drop((gate, first, second, successor));
    bench.assert_whole();
}

/// A bind that is refused until the engine does something brings no barrier either; an end that was read does.
#[test]
fn a_refused_bind_breaks_and_an_end_does_not() {
    let bench = Bench::new();
    let mut first = bench.create(0, 1, config(discard()));
    let mut third = bench.create(2, 1, config(discard()));
    let mut gate = bench.gate(1, &[(0, 1), (1, 1), (2, 1)]);
    assert_eq!(bench.drain(&mut gate), [Got::Available(0, 1), Got::Available(2, 1)]);
    barrier(&mut first, 1);
    third.finish();
    assert_eq!(bench.drain(&mut gate), [event(0, 1), Got::EndOfData(2), Got::EndOfPartition(2)]);
    bench.clock.advance(Duration::from_secs(11));
    bench.manager.housekeeping();
    let got = bench.drain(&mut gate);
    assert!(
        matches!(got[..], [Got::BindFailed(1, BindError::TimedOut { .. }), Got::AlignmentBroken(1, 1)]),
        "{got:?}"
    );
    drop((gate, first, third));
    bench.assert_whole();
}
