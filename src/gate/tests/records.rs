//! Records taken in a row: the same records, in the same turns, acknowledged in the same way.

use super::*;

fn row(gate: &mut InputGate, most: usize) -> Vec<u32> {
    let number = |record: &[u8]| u32::from_le_bytes(record[..4].try_into().unwrap());
    gate.records().take(most).map(number).collect()
}

#[test]
fn rows_and_single_records_take_turns_and_miss_nothing() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, config(retain()));
    let mut gate = bench.gate(1, &[(0, 1)]);
    bench.drain(&mut gate);
    assert_eq!(row(&mut gate, 9), [], "nothing is being read");
    assert_eq!(gate.records().channel(), None);
    assert_eq!(gate.records().receipt(), None);
    producer.write_all(0..100, 100);
    let mut came = Vec::new();
    // More than one segment, with records that run over its end.
    while came.len() < 100 {
        match bench.poll(&mut gate) {
            Got::Record(0, bytes) => came.push(u32::from_le_bytes(bytes[..4].try_into().unwrap())),
            other => panic!("{other:?}"),
        }
        let length = came.len() % 7;
        came.extend(row(&mut gate, length));
    }
    assert_eq!(came, (0..100).collect::<Vec<_>>());
    assert_eq!(row(&mut gate, 9), []);
    drop((gate, producer));
    bench.assert_whole();
}

#[test]
fn a_row_ends_before_an_event_and_before_another_channels_turn() {
    let bench = Bench::new();
    let mut producers = [bench.create(0, 1, config(retain())), bench.create(1, 1, config(retain()))];
    let mut gate = bench.gate(1, &[(0, 1), (1, 1)]);
    bench.drain(&mut gate);
    for producer in &mut producers {
        producer.write_all(0..3, 10);
        producer.event(Event::Barrier(5));
        producer.write_all(3..5, 10);
    }
    let Got::Record(first, _) = bench.poll(&mut gate) else { panic!() };
    assert_eq!(gate.records().channel(), Some(first));
    assert_eq!(row(&mut gate, 9), [1, 2]);
    assert_eq!(row(&mut gate, 9), [], "the event comes first");
    assert_eq!(bench.poll(&mut gate), Got::Event(first, Event::Barrier(5)));
    let rest = bench.drain(&mut gate);
    assert_eq!(numbers(&rest, first), [3, 4]);
    assert_eq!(numbers(&rest, 1 - first), [0, 1, 2, 3, 4]);
    drop((gate, producers));
    bench.assert_whole();
}

#[test]
fn a_row_goes_no_further_than_the_turn() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, config(retain()));
    let mut gate = bench.gate(1, &[(0, 1)]);
    bench.drain(&mut gate);
    producer.write_all(0..2000, 4);
    let mut came = 0;
    while matches!(bench.poll(&mut gate), Got::Record(..)) {
        let length = row(&mut gate, usize::MAX).len();
        assert!(length < config::TURN_RECORDS_MAX as usize);
        came += 1 + length;
    }
    assert_eq!(came, 2000);
    drop((gate, producer));
    bench.assert_whole();
}

#[test]
fn what_was_taken_in_a_row_is_consumed_when_more_is_asked_for() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, config(retain()));
    let mut gate = bench.gate(1, &[(0, 1)]);
    bench.drain(&mut gate);
    producer.write_all(0..10, 100);
    assert!(matches!(bench.poll(&mut gate), Got::Record(..)));
    assert_eq!(row(&mut gate, 5), [1, 2, 3, 4, 5]);
    let snapshot = gate.channel_snapshot(0).unwrap();
    assert_eq!(snapshot.yielded.records, 6);
    assert!(matches!(bench.poll(&mut gate), Got::Record(..)));
    let snapshot = gate.channel_snapshot(0).unwrap();
    assert_eq!((snapshot.yielded.records, snapshot.consumed.records), (7, 6));
    assert_eq!(producer.account().delivered.records, 6);
    // Those taken in a row are in doubt as long as nothing more is asked for; here the gate closes in order.
    assert_eq!(row(&mut gate, 2), [7, 8]);
    drop(gate);
    let account = producer.account();
    assert_eq!((account.delivered.records, account.in_doubt.records), (7, 2));
    drop(producer);
    bench.assert_whole();
}

#[test]
fn receipts_in_a_row_stand_for_the_record_yielded_last() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, config(replay()));
    let config = bench.config(1, &[(0, 1)]).explicit_acknowledge(true);
    let mut gate = InputGate::new(bench.manager.clone(), config);
    bench.drain(&mut gate);
    producer.write_all(0..10, 100);
    assert!(matches!(bench.poll(&mut gate), Got::Record(..)));
    let mut records = gate.records();
    let first = records.receipt().unwrap();
    assert_eq!(first.channel(), 0);
    let receipts: Vec<_> = (0..4).map(|_| records.next().and(records.receipt()).unwrap()).collect();
    drop(records);
    for (receipt, delivered) in [(first, 1), (receipts[1], 3), (receipts[3], 5)] {
        assert!(gate.acknowledge(receipt));
        assert_eq!(producer.account().delivered.records, delivered);
    }
    assert!(!gate.acknowledge(receipts[2]), "nothing goes back");
    drop(gate);
    let mut gate = bench.gate(2, &[(0, 1)]);
    assert_eq!(numbers(&bench.drain(&mut gate), 0), [5, 6, 7, 8, 9]);
    drop((gate, producer));
    bench.assert_whole();
}
