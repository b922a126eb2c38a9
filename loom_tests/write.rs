//! Models of the writer's half: no torn record whatever happens to its reader meanwhile, nobody sleeps past
//! what the flush policy promises, and a blocked writer hears of every change.

use super::Model;
use super::support::{Bench, DISCARD, Got, RETAIN, records};
use crate::error::Cause;
use crate::record::First;
use crate::subpartition::{Amount, Append, EndKind, Ending, Flush, Policies, SharedPart};
use crate::sync::thread;
use std::sync::Arc;
use std::time::Duration;

pub(super) const MODELS: &[Model] = &[
    Model {
        name: "write::nothing_of_before_an_outage_reaches_the_next_reader",
        edges: &[],
        preemptions: Some(3),
        body: nothing_of_before_an_outage_reaches_the_next_reader,
    },
    Model {
        name: "write::record_torn_by_a_bind_is_finished_and_skipped",
        edges: &[],
        preemptions: Some(2),
        body: record_torn_by_a_bind_is_finished_and_skipped,
    },
    Model {
        name: "write::record_torn_by_a_bind_is_broken_off",
        edges: &[],
        preemptions: Some(2),
        body: record_torn_by_a_bind_is_broken_off,
    },
    Model {
        name: "write::writer_dropped_in_a_record_leaves_an_abort",
        edges: &[],
        preemptions: Some(2),
        body: writer_dropped_in_a_record_leaves_an_abort,
    },
    Model {
        name: "write::shared_record_gets_a_private_copy_under_its_reader",
        edges: &["RING_E5"],
        preemptions: Some(3),
        body: shared_record_gets_a_private_copy_under_its_reader,
    },
    Model {
        name: "write::end_comes_after_the_last_record",
        edges: &["DOOR_E1"],
        preemptions: Some(2),
        body: end_comes_after_the_last_record,
    },
    Model {
        name: "write::flushed_record_wakes_the_reader",
        edges: &["DOOR_E1"],
        preemptions: Some(2),
        body: flushed_record_wakes_the_reader,
    },
    Model {
        name: "write::every_record_wakes_the_reader",
        edges: &["DOOR_E1"],
        preemptions: Some(2),
        body: every_record_wakes_the_reader,
    },
    Model {
        name: "write::record_after_silence_wakes_the_reader",
        edges: &["DOOR_F1"],
        preemptions: Some(2),
        body: record_after_silence_wakes_the_reader,
    },
    Model {
        name: "write::record_after_silence_wakes_the_reader_of_a_new_bind",
        edges: &["DOOR_F1", "BIND_F1"],
        preemptions: Some(2),
        body: record_after_silence_wakes_the_reader_of_a_new_bind,
    },
    Model {
        name: "write::blocked_writer_hears_of_an_outage",
        edges: &["WAKE_F1"],
        preemptions: Some(2),
        body: blocked_writer_hears_of_an_outage,
    },
    Model {
        name: "write::blocked_writer_hears_of_a_release",
        edges: &["WAKE_F1"],
        preemptions: Some(2),
        body: blocked_writer_hears_of_a_release,
    },
];

/// Excluded: a record that was written for the old reader, or for nobody, comes to the new one; or one that
/// was written for the new one gets lost.
fn nothing_of_before_an_outage_reaches_the_next_reader() {
    let mut bench = Bench::new(DISCARD, 2);
    let mut writer = bench.writer();
    let old = bench.bind(1);
    assert_eq!(writer.write(1), Append::Done);
    let (sub, epoch) = (Arc::clone(&bench.sub), old.epoch());
    let outage = thread::spawn(move || assert!(sub.make_unavailable(epoch, Ending::Fenced)));
    let wrote = [2, 3].map(|value| writer.write(value));
    outage.join().unwrap();
    assert!(wrote != [Append::Dropped, Append::Done], "nobody came back");
    let mut new = bench.bind(2);
    assert_eq!(records(&new.drain()), []);
    assert_eq!(writer.write(4), Append::Done);
    assert_eq!(records(&new.drain()), [4]);
    let lost = bench.account().lost;
    assert_eq!(lost.drained.records + lost.discarded.records, 3, "{lost:?}");
    drop(old);
    bench.close(writer, new);
}

/// A record over two segments is written while the next attempt binds.
fn torn_by_a_bind(policies: Policies) {
    let mut bench = Bench::new(policies, 2);
    let mut writer = bench.writer();
    let old = bench.bind(1);
    let writing = thread::spawn(move || {
        let wrote = writer.send(&mut &[2; 20][..]);
        (writer, wrote)
    });
    let mut new = bench.bind(2);
    let mut got = vec![new.next()];
    let (mut writer, wrote) = writing.join().unwrap();
    got.extend(new.drain());
    assert_eq!(writer.write(3), Append::Done);
    got.extend(new.drain());
    let account = bench.account();
    let lost = account.lost.total().records;
    let got = records(&got);
    assert_eq!(got.len() as u64 + lost, 2, "{got:?} {account:?}");
    assert!(matches!(got[..], [3] | [2, 3]), "{got:?}");
    if wrote == Append::Dropped {
        assert!(!got.contains(&2), "{got:?}");
        assert!(bench.sub.policies().when_absent == DISCARD.when_absent);
    }
    drop(old);
    bench.close(writer, new);
}

/// Excluded: under Retain the new reader gets the second half of a record as one, or the first record that
/// is whole is lost with it.
fn record_torn_by_a_bind_is_finished_and_skipped() {
    torn_by_a_bind(RETAIN);
}

/// Excluded: the same under Discard, where the writer breaks the record off as soon as it sees the bind.
fn record_torn_by_a_bind_is_broken_off() {
    torn_by_a_bind(DISCARD);
}

/// Excluded: the reader waits for the rest of a record, or yields half of it; or its bytes are in no account.
fn writer_dropped_in_a_record_leaves_an_abort() {
    let mut bench = Bench::new(RETAIN, 1);
    let mut writer = bench.writer();
    let mut reader = bench.bind(1);
    assert_eq!(writer.write(1), Append::Done);
    let writing = thread::spawn(move || {
        // Half of it is published, for the rest there is no segment unless the reader makes room.
        let append = writer.half.append(&mut &[2; 28][..], &mut writer.cache);
        assert!(matches!(append, Append::Blocked(_)), "{append:?}");
    });
    let mut got = [(); 3].map(|()| reader.next()).to_vec();
    writing.join().unwrap();
    // Twice: what the first one passed counts as consumed when the reader is asked again.
    got.extend(reader.drain());
    got.extend(reader.drain());
    assert_eq!(records(&got), [1]);
    let account = bench.account();
    assert_eq!(account.queued, Amount::ZERO);
    assert_eq!(account.lost.aborted, Amount { records: 1, bytes: 32 });
    drop(reader);
    bench.finish();
}

/// Excluded: the reader sees the name of the copy and not its bytes, or reads the original when it is
/// written again already.
fn shared_record_gets_a_private_copy_under_its_reader() {
    let mut bench = Bench::new(RETAIN, 1);
    let mut writer = bench.writer();
    let mut reader = bench.bind(1);
    let (charge, mut cache) = bench.beside();
    let mut shared = bench.pool.allocate(&charge, &mut cache).unwrap();
    shared.spare(0..8).copy_from_slice(&[4, 0, 0, 0, 7, 7, 7, 7]);
    shared.commit(8);
    let part = SharedPart { segment: shared.name(), from: 0, bytes: 8, first: First::at(0) };
    assert_eq!(writer.half.append_shared(&[part], 4), Append::Done);
    let reading = thread::spawn(move || {
        let got = reader.next();
        (reader, got)
    });
    assert!(writer.half.make_private(part.segment, &mut writer.cache));
    drop(shared);
    if let Ok(mut again) = bench.pool.allocate(&charge, &mut cache) {
        again.spare(0..8).fill(9);
    }
    let (reader, got) = reading.join().unwrap();
    assert_eq!(got, Got::Record(7));
    bench.close(writer, reader);
}

/// Excluded: the reader takes the end for all there was, and a record stays behind; or sleeps on.
fn end_comes_after_the_last_record() {
    let mut bench = Bench::new(DISCARD, 1);
    let mut writer = bench.writer();
    let mut reader = bench.bind(1);
    let writing = thread::spawn(move || {
        assert_eq!(writer.write(1), Append::Done);
        writer.half.append_end(EndKind::Finished);
        writer
    });
    let got = [(); 3].map(|()| reader.wait(false));
    assert_eq!(got, [Got::Record(1), Got::EndOfData, Got::EndOfPartition]);
    assert!(bench.sub.is_end_acknowledged());
    let writer = writing.join().unwrap();
    bench.close(writer, reader);
}

/// Two records are written and flushed as `policies` say, for a reader that sleeps in between.
fn sleeping_reader(flush: Flush, quiet: bool) {
    let mut bench = Bench::new(Policies { flush, ..RETAIN }, 1);
    let mut writer = bench.writer();
    let mut reader = bench.bind(1);
    let writing = thread::spawn(move || {
        for value in [1, 2] {
            assert_eq!(writer.write(value), Append::Done);
            if flush == Flush::WhenFull {
                writer.half.ring();
            }
        }
        writer
    });
    assert_eq!([(); 2].map(|()| reader.wait(quiet)), [Got::Record(1), Got::Record(2)]);
    let writer = writing.join().unwrap();
    bench.close(writer, reader);
}

/// Excluded: after a flush the reader sleeps, and the record lies there.
fn flushed_record_wakes_the_reader() {
    sleeping_reader(Flush::WhenFull, false);
}

/// Excluded: the same without a flush, where every record is to ring.
fn every_record_wakes_the_reader() {
    sleeping_reader(Flush::EveryRecord, false);
}

/// Excluded: the reader looked for the last time and fell quiet, and the next record doesn't ring.
fn record_after_silence_wakes_the_reader() {
    sleeping_reader(Flush::Interval(Duration::from_millis(1)), true);
}

/// Excluded: the same, where the writer knows the node of the view before.
fn record_after_silence_wakes_the_reader_of_a_new_bind() {
    let flush = Flush::Interval(Duration::from_millis(1));
    let mut bench = Bench::new(Policies { flush, ..RETAIN }, 1);
    let mut writer = bench.writer();
    let old = bench.bind(1);
    writer.half.ring();
    let writing = thread::spawn(move || {
        assert_eq!(writer.write(1), Append::Done);
        writer
    });
    let mut new = bench.bind(2);
    assert_eq!(new.wait(true), Got::Record(1));
    let writer = writing.join().unwrap();
    drop(old);
    bench.close(writer, new);
}

/// Excluded: the reader's process is gone, its queue drained, and the writer sleeps on for want of memory.
fn blocked_writer_hears_of_an_outage() {
    let mut bench = Bench::new(DISCARD, 1);
    let mut writer = bench.writer();
    let old = bench.bind(1);
    assert_eq!([1, 2].map(|value| writer.write(value)), [Append::Done; 2]);
    let writing = thread::spawn(move || {
        let append = writer.write_blocking(3);
        (writer, append)
    });
    assert!(bench.sub.make_unavailable(old.epoch(), Ending::Fenced));
    let (writer, append) = writing.join().unwrap();
    assert!(matches!(append, Append::Dropped | Append::Done), "{append:?}");
    let new = bench.bind(2);
    let lost = bench.account().lost;
    assert_eq!(lost.drained.records + lost.discarded.records, 3, "{lost:?}");
    drop(old);
    bench.close(writer, new);
}

/// Excluded: the job is released, and the writer sleeps on.
fn blocked_writer_hears_of_a_release() {
    let mut bench = Bench::new(RETAIN, 1);
    let mut writer = bench.writer();
    let reader = bench.bind(1);
    assert_eq!([1, 2].map(|value| writer.write(value)), [Append::Done; 2]);
    let writing = thread::spawn(move || {
        let append = writer.write_blocking(3);
        (writer, append)
    });
    bench.sub.release(&Cause::JobReleased);
    let (writer, append) = writing.join().unwrap();
    assert!(matches!(append, Append::Closed | Append::Done), "{append:?}");
    drop((writer, reader));
    bench.account();
    bench.finish();
}
