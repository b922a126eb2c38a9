//! How producers and consumers end, and what is said of what they leave.

use crate::stage::{
    Got, RETAIN, STUCK, Stage, assert_silent, config, expect_records, finish, next, next_with_loss, record,
    until, write,
};
use pirn::{Attempt, Cause, GateError, Item, TryNext, Update, WhenAbsent};
use std::thread;

const DISCARD: WhenAbsent = WhenAbsent::Discard;

pub(crate) fn a_failure_is_told_behind_the_records(stage: Stage) {
    let mut writer = stage.create(0, 1, config(1, DISCARD));
    let mut gate = stage.bound(1, 0, 1);
    write(&mut writer, 0..100);
    writer.fail("the disk is full");
    expect_records(&mut gate, 0..100);
    assert_eq!(next(&mut gate), Got::Unavailable(0, Cause::Failed("the disk is full".into())));
    assert_silent(&mut gate);
    // The producer's next attempt is at another worker.
    let another = stage.another();
    let id = crate::stage::id(0);
    let mut writer = another.create_partition(id, Attempt(2), config(1, DISCARD)).unwrap();
    assert_eq!(gate.update_channel(0, writer.descriptor(0)), Ok(Update::Accepted));
    assert_eq!(next(&mut gate), Got::Available(0, Attempt(2)));
    write(&mut writer, 0..50);
    expect_records(&mut gate, 0..50);
    let producer = thread::spawn(move || finish(&mut writer));
    assert_eq!(next(&mut gate), Got::EndOfData(0));
    assert_eq!(next(&mut gate), Got::EndOfPartition(0));
    assert_eq!(next(&mut gate), Got::End);
    producer.join().unwrap();
    drop(gate);
    if stage.io.is_some() {
        crate::stage::assert_whole(another);
    }
    stage.producer.release_partition(id, Attempt(1));
    stage.end();
}

pub(crate) fn a_writer_that_is_dropped_or_abandons_says_so(stage: Stage) {
    let mut writer = stage.create(0, 1, config(1, DISCARD));
    let mut gate = stage.bound(1, 0, 1);
    write(&mut writer, 0..5);
    drop(writer);
    expect_records(&mut gate, 0..5);
    assert_eq!(next(&mut gate), Got::Unavailable(0, Cause::Dropped));
    let mut writer = stage.create(0, 2, config(1, DISCARD));
    assert_eq!(gate.update_channel(0, stage.descriptor(0, 2)), Ok(Update::Accepted));
    assert_eq!(next(&mut gate), Got::Available(0, Attempt(2)));
    write(&mut writer, 0..5);
    expect_records(&mut gate, 0..5);
    writer.abandon();
    assert_eq!(next(&mut gate), Got::Unavailable(0, Cause::Released));
    drop(gate);
    stage.end();
}

pub(crate) fn the_end_counts_when_it_is_acknowledged(stage: Stage) {
    let mut writer = stage.create(0, 1, config(1, RETAIN));
    let gate_config = stage.config(1).channel(stage.descriptor(0, 1)).explicit_acknowledge(true);
    let mut gate = stage.consumer.input_gate(gate_config);
    assert_eq!(next(&mut gate), Got::Available(0, Attempt(1)));
    write(&mut writer, 0..20);
    let delivered =
        || stage.partition(0).map(|partition| partition.subpartitions[0].account.delivered.records);
    let mut receipt = None;
    for number in 0..20 {
        match gate.next_blocking_timeout(STUCK).unwrap() {
            TryNext::Item(Item::Record(record)) if number == 9 => receipt = Some(record.receipt()),
            TryNext::Item(Item::Record(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_silent(&mut gate);
    assert_eq!(delivered(), Some(0), "nothing was acknowledged");
    assert!(gate.acknowledge(receipt.unwrap()));
    until("ten are delivered", || delivered() == Some(10));
    let (done, is_done) = std::sync::mpsc::channel();
    let producer = thread::spawn(move || {
        finish(&mut writer);
        done.send(()).unwrap();
    });
    assert_eq!(next(&mut gate), Got::EndOfData(0));
    assert_eq!(next(&mut gate), Got::EndOfPartition(0));
    assert_eq!(next(&mut gate), Got::End);
    assert!(
        is_done.recv_timeout(std::time::Duration::from_millis(50)).is_err(),
        "the end isn't acknowledged"
    );
    gate.acknowledge_all();
    is_done.recv_timeout(STUCK).unwrap();
    producer.join().unwrap();
    assert!(stage.partition(0).is_none(), "it is released");
    drop(gate);
    stage.end();
}

pub(crate) fn what_was_not_acknowledged_is_in_doubt(stage: Stage) {
    let mut writer = stage.create(0, 1, config(1, RETAIN));
    let gate_config = stage.config(1).channel(stage.descriptor(0, 1)).explicit_acknowledge(true);
    let mut gate = stage.consumer.input_gate(gate_config);
    assert_eq!(next(&mut gate), Got::Available(0, Attempt(1)));
    write(&mut writer, 0..20);
    expect_records(&mut gate, 0..8);
    gate.acknowledge_all();
    expect_records(&mut gate, 8..11);
    drop(gate);
    stage.until_absent(0);
    let mut next_attempt = stage.gate(2, 0, 1);
    let (got, loss) = next_with_loss(&mut next_attempt);
    assert_eq!(got, Got::Available(0, Attempt(1)));
    assert_eq!(loss.in_doubt.records, 3, "{loss:?}");
    let mut came = 0;
    write(&mut writer, 20..21);
    while let Got::Record(0, bytes) = next(&mut next_attempt) {
        came += 1;
        if bytes == record(20, 100) {
            break;
        }
    }
    assert_eq!(8 + 3 + loss.lost.total().records + came, 21, "{loss:?}, {came} came");
    let account = stage.partition(0).unwrap().subpartitions[0].account;
    assert!(account.is_balanced(), "{account:?}");
    drop((next_attempt, writer));
    stage.end();
}

pub(crate) fn an_absent_consumer_is_told_what_it_missed(stage: Stage) {
    let mut writer = stage.create(0, 1, config(1, DISCARD));
    let mut gate = stage.bound(1, 0, 1);
    write(&mut writer, 0..10);
    expect_records(&mut gate, 0..10);
    drop(gate);
    stage.until_absent(0);
    for number in 10..60 {
        let written = writer.write_blocking_timeout(0, &record(number, 100), STUCK).unwrap();
        assert_eq!(written, pirn::Written::Dropped);
    }
    let mut gate = stage.gate(2, 0, 1);
    let (got, loss) = next_with_loss(&mut gate);
    assert_eq!(got, Got::Available(0, Attempt(1)));
    assert_eq!((loss.lost.discarded.records, loss.lost.total().records), (50, 50), "{loss:?}");
    // The last record that was yielded, and not acknowledged by the next question.
    assert!(loss.in_doubt.records <= 1, "{loss:?}");
    write(&mut writer, 60..70);
    expect_records(&mut gate, 60..70);
    drop((gate, writer));
    stage.end();
}

pub(crate) fn retained_records_wait_for_the_next_attempt(stage: Stage) {
    let mut writer = stage.create(0, 1, config(1, RETAIN));
    let mut gate = stage.bound(1, 0, 1);
    write(&mut writer, 0..10);
    expect_records(&mut gate, 0..10);
    assert_silent(&mut gate);
    drop(gate);
    stage.until_absent(0);
    write(&mut writer, 10..60);
    let mut gate = stage.gate(2, 0, 1);
    let (got, loss) = next_with_loss(&mut gate);
    assert_eq!(got, Got::Available(0, Attempt(1)));
    assert_eq!((loss.lost.total().records, loss.in_doubt.records), (0, 0), "{loss:?}");
    expect_records(&mut gate, 10..60);
    drop((gate, writer));
    stage.end();
}

pub(crate) fn a_record_too_long_closes_its_channel_alone(stage: Stage) {
    let mut long = stage.create(0, 1, config(1, DISCARD));
    let mut short = stage.create(1, 1, config(1, DISCARD));
    let channels = [stage.descriptor(0, 1), stage.descriptor(1, 1)];
    let gate_config = stage.config(1).channels(channels).record_bytes_max(5000);
    let mut gate = stage.consumer.input_gate(gate_config);
    assert!(matches!(next(&mut gate), Got::Available(_, Attempt(1))));
    assert!(matches!(next(&mut gate), Got::Available(_, Attempt(1))));
    long.write_blocking_timeout(0, &record(0, 5001), STUCK).unwrap();
    assert_eq!(next(&mut gate), Got::Failed(GateError::RecordTooLong { channel: 0, bytes: 5001, max: 5000 }));
    for number in 0..50 {
        short.write_blocking_timeout(0, &record(number, 5000), STUCK).unwrap();
        assert_eq!(next(&mut gate), Got::Record(1, record(number, 5000)));
    }
    drop((gate, long, short));
    stage.end();
}
