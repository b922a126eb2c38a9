//! Binds that can't be granted, each with its own answer.

use crate::stage::assert_silent;
use crate::stage::{
    Got, RETAIN, STUCK, Stage, config, expect_records, finish, id, next, next_with_loss, write,
};
use pirn::{
    Attempt, BindError, BindSecret, Cause, ChannelDescriptor, GateConfig, GateError, Incarnation, JobId,
    RecordLayout, Update, WhenAbsent, WhyBlocked,
};
use std::num::NonZeroU32;
use std::thread;

const DISCARD: WhenAbsent = WhenAbsent::Discard;

pub(crate) fn an_attempt_that_comes_late_is_out_of_date(stage: Stage) {
    let mut writer = stage.create(0, 1, config(1, DISCARD));
    let mut gate = stage.bound(5, 0, 1);
    for late in [4, 1] {
        let mut gate = stage.gate(late, 0, 1);
        let error = BindError::Stale { presented: Attempt(late), current: Attempt(5) };
        assert_eq!(next(&mut gate), Got::BindFailed(0, error));
        let fenced = GateError::Fenced { channel: 0, newer: Attempt(5) };
        assert_eq!(next(&mut gate), Got::Failed(fenced));
    }
    write(&mut writer, 0..20);
    expect_records(&mut gate, 0..20);
    drop((gate, writer));
    stage.end();
}

pub(crate) fn of_two_attempts_that_overlap_the_newer_reads(stage: Stage) {
    let mut writer = stage.create(0, 1, config(1, RETAIN));
    let mut old = stage.bound(1, 0, 1);
    write(&mut writer, 0..10);
    expect_records(&mut old, 0..10);
    let mut new = stage.bound(2, 0, 1);
    write(&mut writer, 10..20);
    assert_eq!(next(&mut old), Got::Unavailable(0, Cause::Fenced { newer: Attempt(2) }));
    assert_eq!(next(&mut old), Got::Failed(GateError::Fenced { channel: 0, newer: Attempt(2) }));
    expect_records(&mut new, 10..20);
    drop(old);
    write(&mut writer, 20..30);
    expect_records(&mut new, 20..30);
    drop((new, writer));
    stage.end();
}

pub(crate) fn another_run_of_the_same_attempt_is_refused(stage: Stage) {
    let mut writer = stage.create(0, 1, config(1, DISCARD));
    let mut gate = stage.bound(3, 0, 1);
    let twin = GateConfig::new(Attempt(3), Incarnation(99)).channel(stage.descriptor(0, 1));
    let mut twin = stage.consumer.input_gate(twin);
    assert_eq!(next(&mut twin), Got::BindFailed(0, BindError::DuplicateAttempt { attempt: Attempt(3) }));
    write(&mut writer, 0..5);
    expect_records(&mut gate, 0..5);
    drop((gate, twin, writer));
    stage.end();
}

pub(crate) fn the_newest_of_two_that_wait_gets_the_late_partition(stage: Stage) {
    let mut old = stage.gate(1, 0, 1);
    assert_silent(&mut old);
    let waiting = WhyBlocked::WaitingForPartition { partition: id(0), producer: Attempt(1) };
    assert_eq!(old.why_blocked(0), Some(waiting));
    stage.until_waiting(1);
    let mut new = stage.gate(2, 0, 1);
    assert_silent(&mut new);
    assert_eq!(next(&mut old), Got::BindFailed(0, BindError::Superseded { newer: Attempt(2) }));
    assert_eq!(next(&mut old), Got::Failed(GateError::Fenced { channel: 0, newer: Attempt(2) }));
    let mut late = stage.gate(1, 0, 1);
    let error = BindError::Stale { presented: Attempt(1), current: Attempt(2) };
    assert_eq!(next(&mut late), Got::BindFailed(0, error));
    stage.until_waiting(1);
    let mut writer = stage.create(0, 1, config(1, DISCARD));
    assert_eq!(next(&mut new), Got::Available(0, Attempt(1)));
    write(&mut writer, 0..5);
    expect_records(&mut new, 0..5);
    stage.until_waiting(0);
    drop((old, new, late, writer));
    stage.end();
}

pub(crate) fn a_bind_while_the_producer_finishes_gets_the_rest_and_the_end(stage: Stage) {
    let mut writer = stage.create(0, 1, config(1, RETAIN));
    let mut old = stage.bound(1, 0, 1);
    write(&mut writer, 0..100);
    expect_records(&mut old, 0..3);
    let producer = thread::spawn(move || finish(&mut writer));
    // The end is in the ring before the old attempt goes: the end is all that is left to be waited for.
    crate::stage::until("it finishes", || {
        stage.partition(0).unwrap().subpartitions[0].account.written.records == 100
    });
    drop(old);
    stage.until_absent(0);
    let mut new = stage.gate(2, 0, 1);
    let (first, loss) = next_with_loss(&mut new);
    assert_eq!(first, Got::Available(0, Attempt(1)));
    let missed = loss.lost.total().records + loss.in_doubt.records;
    let mut came = 0;
    let last = loop {
        match next(&mut new) {
            Got::Record(0, record) => {
                came += 1;
                let number = crate::stage::number(&record);
                assert!((3..100).contains(&number), "record {number}");
            }
            other => break other,
        }
    };
    assert_eq!(last, Got::EndOfData(0));
    assert_eq!(next(&mut new), Got::EndOfPartition(0));
    assert_eq!(next(&mut new), Got::End);
    // The last one that the old attempt was given may count as consumed or as in doubt.
    assert!((97..=98).contains(&(missed + came)), "{missed} missed and {came} came: {loss:?}");
    producer.join().unwrap();
    drop(new);
    stage.end();
}

pub(crate) fn a_bind_after_the_end_was_acknowledged_gets_the_end_alone(stage: Stage) {
    let mut writer = stage.create(0, 1, config(1, RETAIN));
    let mut gate = stage.bound(1, 0, 1);
    write(&mut writer, 0..3);
    let producer = thread::spawn(move || finish(&mut writer));
    expect_records(&mut gate, 0..3);
    assert_eq!(next(&mut gate), Got::EndOfData(0));
    assert_eq!(next(&mut gate), Got::EndOfPartition(0));
    assert_eq!(next(&mut gate), Got::End);
    producer.join().unwrap();
    let mut again = stage.gate(2, 0, 1);
    assert_eq!(next(&mut again), Got::EndOfPartition(0));
    assert_eq!(next(&mut again), Got::End);
    drop((gate, again));
    stage.end();
}

pub(crate) fn a_bind_after_the_release_is_told_so(stage: Stage) {
    let mut writer = stage.create(0, 1, config(1, RETAIN));
    let mut gate = stage.bound(1, 0, 1);
    write(&mut writer, 0..3);
    expect_records(&mut gate, 0..3);
    assert!(stage.producer.release_partition(id(0), Attempt(1)));
    assert_eq!(next(&mut gate), Got::Unavailable(0, Cause::Released));
    let mut late = stage.gate(2, 0, 1);
    assert_eq!(next(&mut late), Got::Unavailable(0, Cause::Released));
    // Both go on with the next attempt.
    let mut second = stage.create(0, 2, config(1, RETAIN));
    assert_eq!(late.update_channel(0, stage.descriptor(0, 2)), Ok(Update::Accepted));
    assert_eq!(next(&mut late), Got::Available(0, Attempt(2)));
    write(&mut second, 0..3);
    expect_records(&mut late, 0..3);
    drop((gate, late, writer, second));
    stage.end();
}

pub(crate) fn a_wrong_secret_is_a_stranger(stage: Stage) {
    let mut writer = stage.create(0, 1, config(1, DISCARD));
    let wrong = ChannelDescriptor { secret: BindSecret::new(8), ..stage.descriptor(0, 1) };
    let mut gate = stage.consumer.input_gate(stage.config(1).channel(wrong));
    assert_eq!(next(&mut gate), Got::BindFailed(0, BindError::NotFound { partition: id(0) }));
    assert_eq!(gate.update_channel(0, stage.descriptor(0, 1)), Ok(Update::Accepted));
    assert_eq!(next(&mut gate), Got::Available(0, Attempt(1)));
    write(&mut writer, 0..5);
    expect_records(&mut gate, 0..5);
    drop((gate, writer));
    stage.end();
}

pub(crate) fn a_wrong_layout_and_a_wrong_number_are_told_apart(stage: Stage) {
    let writer = stage.create(0, 1, config(1, DISCARD));
    let layout = RecordLayout::Fixed(NonZeroU32::new(8).unwrap());
    let wrong = ChannelDescriptor { layout, ..stage.descriptor(0, 1) };
    let mut gate = stage.consumer.input_gate(stage.config(1).channel(wrong));
    let refused = |got: Got| match got {
        Got::BindFailed(0, BindError::Layout { what, partition, descriptor }) => {
            (what, partition, descriptor)
        }
        other => panic!("{other:?}"),
    };
    let (what, partition, descriptor) = refused(next(&mut gate));
    assert_eq!((what, &*partition), ("record layout", "Lengths"));
    assert!(descriptor.contains('8'), "{descriptor}");
    let wrong = ChannelDescriptor { subpartition: 1, ..stage.descriptor(0, 1) };
    assert_eq!(gate.update_channel(0, wrong), Ok(Update::Accepted));
    let (what, partition, _) = refused(next(&mut gate));
    assert_eq!((what, &*partition), ("number of subpartitions", "1"));
    assert_eq!(gate.update_channel(0, stage.descriptor(0, 1)), Ok(Update::Accepted));
    assert_eq!(next(&mut gate), Got::Available(0, Attempt(1)));
    drop((gate, writer));
    stage.end();
}

pub(crate) fn an_older_producer_attempt_is_superseded(stage: Stage) {
    let mut writer = stage.create(0, 5, config(1, DISCARD));
    let mut gate = stage.gate(1, 0, 4);
    assert_eq!(next(&mut gate), Got::Unavailable(0, Cause::Superseded { newer: Attempt(5) }));
    assert_eq!(gate.update_channel(0, stage.descriptor(0, 5)), Ok(Update::Accepted));
    assert_eq!(next(&mut gate), Got::Available(0, Attempt(5)));
    write(&mut writer, 0..5);
    expect_records(&mut gate, 0..5);
    // And while it reads.
    let mut newer = stage.create(0, 6, config(1, DISCARD));
    assert_eq!(next(&mut gate), Got::Unavailable(0, Cause::Superseded { newer: Attempt(6) }));
    assert!(writer.write_blocking_timeout(0, b"12345678", STUCK).is_err());
    assert_eq!(gate.update_channel(0, newer.descriptor(0)), Ok(Update::Accepted));
    assert_eq!(next(&mut gate), Got::Available(0, Attempt(6)));
    write(&mut newer, 0..5);
    expect_records(&mut gate, 0..5);
    drop((gate, writer, newer));
    stage.end();
}

pub(crate) fn a_newer_producer_attempt_is_waited_for(stage: Stage) {
    let older = stage.create(0, 1, config(1, DISCARD));
    let mut gate = stage.gate(1, 0, 2);
    assert_silent(&mut gate);
    stage.until_waiting(1);
    let mut writer = stage.create(0, 2, config(1, DISCARD));
    assert_eq!(next(&mut gate), Got::Available(0, Attempt(2)));
    write(&mut writer, 0..5);
    expect_records(&mut gate, 0..5);
    drop((gate, older, writer));
    stage.end();
}

pub(crate) fn a_partition_that_never_comes_is_given_up_in_time(stage: Stage) {
    let mut gate = stage.gate(1, 0, 1);
    match next(&mut gate) {
        Got::BindFailed(0, BindError::TimedOut { partition, waited_ms }) => {
            assert_eq!(partition, id(0));
            assert!((300..STUCK.as_millis() as u64).contains(&waited_ms), "{waited_ms} ms");
        }
        other => panic!("{other:?}"),
    }
    stage.until_waiting(0);
    let mut writer = stage.create(0, 1, config(1, DISCARD));
    assert_silent(&mut gate);
    assert_eq!(gate.retry_bind(0), Ok(true));
    assert_eq!(next(&mut gate), Got::Available(0, Attempt(1)));
    write(&mut writer, 0..5);
    expect_records(&mut gate, 0..5);
    drop((gate, writer));
    stage.end();
}

pub(crate) fn who_waits_learns_of_the_end_of_the_job(stage: Stage) {
    let mut gate = stage.gate(1, 0, 1);
    assert_silent(&mut gate);
    stage.until_waiting(1);
    // Who goes while it waits leaves nothing behind.
    let mut gone = stage.gate(1, 3, 1);
    assert_silent(&mut gone);
    stage.until_waiting(2);
    drop(gone);
    stage.until_waiting(1);
    stage.producer.release_job(JobId(1));
    assert_eq!(next(&mut gate), Got::Unavailable(0, Cause::JobReleased));
    drop(gate);
    stage.end();
}
