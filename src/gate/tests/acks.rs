//! Explicit acknowledgement.

use super::*;

fn explicit(bench: &Bench, consumer: u32) -> InputGate {
    let config = bench.config(consumer, &[(0, 1)]).explicit_acknowledge(true);
    InputGate::new(bench.manager.clone(), config)
}

/// Takes the next item, which is a record, and its receipt.
fn next(bench: &Bench, gate: &mut InputGate) -> (u32, Receipt) {
    let mut cx = Context::from_waker(&bench.waker);
    match gate.poll_next(&mut cx) {
        Poll::Ready(Ok(Some(Item::Record(record)))) => {
            (u32::from_le_bytes(record[..4].try_into().unwrap()), record.receipt())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_what_is_acknowledged_is_consumed_and_the_rest_comes_again() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, config(replay()));
    let mut gate = explicit(&bench, 1);
    bench.drain(&mut gate);
    producer.write_all(0..10, 1000);
    let receipts: Vec<_> = (0..8).map(|_| next(&bench, &mut gate).1).collect();
    assert_eq!(producer.account().delivered.records, 0);
    assert!(gate.acknowledge(receipts[4]));
    assert_eq!(producer.account().delivered.records, 5);
    assert_eq!(gate.channel_snapshot(0).unwrap().consumed.records, 5);
    // Twice, or behind a later one: nothing goes back.
    assert!(!gate.acknowledge(receipts[4]));
    assert!(!gate.acknowledge(receipts[2]));
    assert_eq!(gate.channel_snapshot(0).unwrap().acks_ignored, 2);
    assert_eq!(producer.account().delivered.records, 5);
    drop(gate);
    let mut gate = explicit(&bench, 2);
    let got = bench.drain(&mut gate);
    assert_eq!(numbers(&got, 0), (5..10).collect::<Vec<_>>());
    gate.acknowledge_all();
    assert_eq!(producer.account().delivered.records, 10);
    drop((gate, producer));
    bench.assert_whole();
}

#[test]
fn the_end_is_consumed_when_it_is_acknowledged() {
    for all in [false, true] {
        let bench = Bench::new();
        let mut producer = bench.create(0, 1, config(discard()));
        let mut gate = explicit(&bench, 1);
        bench.drain(&mut gate);
        producer.write_all(0..2, 10);
        let early = next(&bench, &mut gate).1;
        producer.finish();
        assert_eq!(bench.drain(&mut gate).last(), Some(&Got::End));
        assert!(gate.acknowledge(early));
        assert_eq!(producer.closed(), None);
        assert_eq!(gate.why_blocked(0), Some(WhyBlocked::WaitingForAcknowledge));
        if all {
            gate.acknowledge_all();
        } else {
            let receipt = gate.receipt(0).unwrap();
            assert!(gate.acknowledge(receipt));
        }
        assert_eq!(producer.closed(), Some(Cause::Consumed));
        assert_eq!(gate.why_blocked(0), Some(WhyBlocked::Ended));
        assert_eq!(producer.account().delivered.records, 2);
        assert_eq!(gate.channel_snapshot(0).unwrap().consumed.records, 2);
        drop((gate, producer));
        bench.assert_whole();
    }
}

#[test]
fn a_failure_is_no_end_that_could_be_acknowledged() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, config(discard()));
    let mut gate = explicit(&bench, 1);
    bench.drain(&mut gate);
    producer.write_all(0..1, 10);
    let receipt = next(&bench, &mut gate).1;
    producer.fail("over");
    bench.drain(&mut gate);
    assert!(!gate.acknowledge(receipt), "the bind is over");
    gate.acknowledge_all();
    assert_eq!(producer.closed(), None);
    assert_eq!(producer.account().in_doubt.records, 1);
    drop((gate, producer));
    bench.assert_whole();
}

#[test]
fn receipts_of_an_older_producer_attempt_are_ignored_though_epochs_are_alike() {
    let bench = Bench::new();
    let mut first = bench.create(0, 1, config(discard()));
    let mut gate = explicit(&bench, 1);
    bench.drain(&mut gate);
    first.write_all(0..1, 10);
    let old = next(&bench, &mut gate).1;
    let epoch = gate.channel_snapshot(0).unwrap().epoch;
    let mut second = bench.create(0, 2, config(discard()));
    gate.update_channel(0, bench.descriptor(0, 2)).unwrap();
    bench.drain(&mut gate);
    assert_eq!(gate.channel_snapshot(0).unwrap().epoch, epoch);
    second.write_all(5..6, 10);
    assert_eq!(next(&bench, &mut gate).0, 5);
    assert!(!gate.acknowledge(old));
    assert_eq!(gate.channel_snapshot(0).unwrap().acks_ignored, 1);
    assert_eq!(second.account().delivered.records, 0);
    drop((gate, first, second));
    bench.assert_whole();
}

#[test]
fn a_gate_that_consumes_by_itself_ignores_receipts() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, config(discard()));
    let mut gate = bench.gate(1, &[(0, 1)]);
    bench.drain(&mut gate);
    producer.write_all(0..1, 10);
    let receipt = next(&bench, &mut gate).1;
    assert!(!gate.acknowledge(receipt));
    gate.acknowledge_all();
    assert_eq!(producer.account().delivered.records, 0);
    bench.drain(&mut gate);
    assert_eq!(producer.account().delivered.records, 1);
    drop((gate, producer));
    bench.assert_whole();
}

#[test]
fn what_is_not_acknowledged_holds_the_writer_and_says_so() {
    let bench = Bench::new();
    let policies = policies(WhenAbsent::Replay { quota: 3 }, Flush::EveryRecord);
    let mut producer = bench.create(0, 1, config(policies));
    let mut gate = explicit(&bench, 1);
    bench.drain(&mut gate);
    let mut number = 0;
    while producer.write(&payload(number, 1020)) == Append::Done {
        number += 1;
        bench.drain(&mut gate);
    }
    assert_eq!(number, 12);
    assert_eq!(bench.drain(&mut gate), []);
    assert_eq!(gate.why_blocked(0), Some(WhyBlocked::WaitingForAcknowledge));
    gate.acknowledge_all();
    producer.write_all(number..number + 4, 1020);
    assert_eq!(numbers(&bench.drain(&mut gate), 0).len(), 4);
    drop((gate, producer));
    bench.assert_whole();
}
