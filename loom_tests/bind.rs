//! Models of binds and outages: the newest attempt owns the view, every record is delivered once or
//! accounted for, and nobody waits for anybody.

use super::Model;
use super::support::{Bench, DISCARD, Got, RECORD_BYTES, REPLAY, RETAIN, Reader, records};
use crate::error::Cause;
use crate::event::Event;
use crate::id::{Attempt, Incarnation};
use crate::subpartition::{
    Acked, Amount, Append, BindRequest, EndKind, Ending, LastWord, Policies, Refusal, WhenAbsent,
    WhenRetained,
};
use crate::sync::thread;
use std::sync::Arc;

pub(super) const MODELS: &[Model] = &[
    Model {
        name: "bind::binder_knows_what_the_old_reader_holds",
        edges: &["RING_E3"],
        preemptions: Some(3),
        body: binder_knows_what_the_old_reader_holds,
    },
    Model {
        name: "bind::record_is_taken_by_one_reader",
        edges: &["RING_E4"],
        preemptions: Some(2),
        body: record_is_taken_by_one_reader,
    },
    Model {
        name: "bind::replay_begins_where_the_old_reader_had_consumed",
        edges: &[],
        preemptions: Some(2),
        body: replay_begins_where_the_old_reader_had_consumed,
    },
    Model {
        name: "bind::acknowledged_entry_comes_with_its_amount",
        edges: &["ACCT_E2", "RING_E2"],
        preemptions: Some(2),
        body: acknowledged_entry_comes_with_its_amount,
    },
    Model {
        name: "bind::newest_of_two_binders_owns_the_view",
        edges: &[],
        preemptions: Some(2),
        body: newest_of_two_binders_owns_the_view,
    },
    Model {
        name: "bind::zombie_reads_no_recycled_segment",
        edges: &[],
        preemptions: Some(2),
        body: zombie_reads_no_recycled_segment,
    },
    Model {
        name: "bind::skipped_record_is_never_delivered",
        edges: &["ACCT_E1"],
        preemptions: Some(2),
        body: skipped_record_is_never_delivered,
    },
    Model {
        name: "bind::broken_off_record_leaves_the_delivered_alone",
        edges: &["ACCT_E1"],
        preemptions: Some(2),
        body: broken_off_record_leaves_the_delivered_alone,
    },
    Model {
        name: "bind::oldest_is_dropped_or_delivered",
        edges: &[],
        preemptions: Some(2),
        body: oldest_is_dropped_or_delivered,
    },
    Model {
        name: "bind::outage_against_a_bind",
        edges: &[],
        preemptions: Some(2),
        body: outage_against_a_bind,
    },
    Model {
        name: "bind::end_is_acknowledged_once",
        edges: &[],
        preemptions: Some(3),
        body: end_is_acknowledged_once,
    },
    Model {
        name: "bind::release_of_the_job_undoes_a_bind",
        edges: &[],
        preemptions: Some(2),
        body: release_of_the_job_undoes_a_bind,
    },
    Model { name: "bind::loss_is_told_once", edges: &[], preemptions: Some(3), body: loss_is_told_once },
    Model {
        name: "bind::first_look_or_first_ring_sees_the_publication",
        edges: &["BIND_F1"],
        preemptions: Some(3),
        body: first_look_or_first_ring_sees_the_publication,
    },
    Model {
        name: "bind::new_view_is_rung_and_not_the_old_one",
        edges: &["BIND_F1"],
        preemptions: Some(2),
        body: new_view_is_rung_and_not_the_old_one,
    },
];

/// A reader that asks `times` on a thread of its own, and comes back with what it got.
fn reading(mut reader: Reader, times: usize) -> thread::JoinHandle<(Reader, Vec<Got>)> {
    thread::spawn(move || {
        let got = (0..times).map(|_| reader.next()).collect();
        (reader, got)
    })
}

/// Excluded: the old reader holds a segment, and the binder leaves it on the subpartition's account, which
/// the new attempt needs.
fn binder_knows_what_the_old_reader_holds() {
    let mut bench = Bench::new(DISCARD, 2);
    let mut writer = bench.writer();
    let old = bench.bind(1);
    assert_eq!(writer.write(1), Append::Done);
    drop(writer);
    let old = reading(old, 1);
    let new = bench.bind(2);
    let (old, got) = old.join().unwrap();
    let held = u32::from(got == [Got::Record(1)]);
    assert_eq!((bench.charge.used(), bench.orphans()), (0, held), "{got:?}");
    drop((old, new));
    assert_eq!(bench.account().queued, Amount::ZERO);
    bench.finish();
}

/// Excluded: a record is taken by both readers or by none; or a late release of the old one gives up
/// entries that the new one released, or didn't.
fn record_is_taken_by_one_reader() {
    let mut bench = Bench::new(RETAIN, 1);
    let mut writer = bench.writer();
    let old = bench.bind(1);
    assert_eq!(writer.write(1), Append::Done);
    assert_eq!(writer.half.append_event(&Event::Barrier(9), &mut writer.cache), Append::Done);
    let old = reading(old, 2);
    let mut new = bench.bind(2);
    let mut by_new = vec![new.next()];
    let (old, by_old) = old.join().unwrap();
    by_new.extend(new.drain());
    let mut both = [by_old, by_new].concat();
    both.retain(|got| !matches!(got, Got::Fenced | Got::Empty));
    assert_eq!(both, [Got::Record(1), Got::Barrier(9)]);
    let account = bench.account();
    assert_eq!(account.written, Amount { records: 1, bytes: RECORD_BYTES });
    assert_eq!(account.lost.total(), Amount::ZERO);
    drop(old);
    bench.close(writer, new);
}

/// A record and a barrier, of which `old` was given the first one, are consumed by `consume` on a thread of
/// its own while the next attempt binds.
fn replayed(explicit: bool, consume: fn(&mut Reader)) {
    let mut bench = Bench::new(REPLAY, 2);
    let mut writer = bench.writer();
    let mut old = bench.binder().bind_as(1, explicit).unwrap();
    assert_eq!(writer.write(1), Append::Done);
    assert_eq!(writer.half.append_event(&Event::Barrier(9), &mut writer.cache), Append::Done);
    assert_eq!(old.next(), Got::Record(1));
    let consuming = thread::spawn(move || {
        consume(&mut old);
        old
    });
    let mut new = bench.bind(2);
    let delivered = bench.account().delivered.records;
    let old = consuming.join().unwrap();
    // What was consumed doesn't come again, and what wasn't does.
    let by_new = new.drain();
    match delivered {
        0 => assert_eq!(by_new, [Got::Record(1), Got::Barrier(9)]),
        1 => assert!(matches!(by_new[..], [] | [Got::Barrier(9)]), "{by_new:?}"),
        more => panic!("{more} delivered"),
    }
    drop(old);
    bench.account();
    bench.close(writer, new);
}

/// Excluded: a record is consumed and comes again, or wasn't and doesn't.
fn replay_begins_where_the_old_reader_had_consumed() {
    replayed(false, |old| assert!(matches!(old.next(), Got::Barrier(9) | Got::Fenced)));
}

/// Excluded: the binder sees the entry up to which everything is acknowledged, and not the amount: the
/// records between the two are neither delivered nor replayed. Or it sees how far the ring was released, and
/// not what was acknowledged before: it rewinds into what is reused.
fn acknowledged_entry_comes_with_its_amount() {
    replayed(true, |old| {
        old.next();
        let mark = old.local.mark();
        old.local.acknowledge(mark);
    });
}

/// Excluded: two readers at once, or the older attempt in the end.
fn newest_of_two_binders_owns_the_view() {
    let mut bench = Bench::new(RETAIN, 2);
    let mut writer = bench.writer();
    assert_eq!(writer.write(1), Append::Done);
    let binder = bench.binder();
    let older = thread::spawn(move || {
        binder.bind(1).map(|mut reader| {
            let got = reader.next();
            (reader, got)
        })
    });
    let mut newer = bench.bind(2);
    let by_newer = newer.next();
    let older = older.join().unwrap();
    assert_eq!(bench.sub.newest(), Some(Attempt(2)));
    let by_older = match older {
        Ok((mut reader, got)) => {
            assert_eq!(reader.next(), Got::Fenced);
            got
        }
        Err(refusal) => {
            assert_eq!(refusal, Refusal::Stale { presented: Attempt(1), current: Attempt(2) });
            Got::Fenced
        }
    };
    assert_eq!(writer.write(2), Append::Done);
    let mut got = vec![by_older, by_newer];
    got.extend(newer.drain());
    assert_eq!(records(&got), [1, 2], "{got:?}");
    bench.account();
    bench.close(writer, newer);
}

/// Excluded: the segment that the old reader is about to take is freed and written again, and it reads
/// the new bytes, or frees the segment a second time.
fn zombie_reads_no_recycled_segment() {
    let mut bench = Bench::new(DISCARD, 1);
    let mut writer = bench.writer();
    let old = bench.bind(1);
    assert_eq!(writer.write(1), Append::Done);
    let old = reading(old, 1);
    let mut new = bench.bind(2);
    // The rest of the open segment, then the same one in its next life, if the old reader hasn't got it.
    let wrote = [3, 3].map(|value| writer.write(value));
    assert_eq!(wrote[0], Append::Done);
    assert_eq!(new.next(), Got::Record(3));
    let (old, by_old) = old.join().unwrap();
    assert!(matches!(by_old[..], [Got::Record(1) | Got::Fenced]), "{by_old:?}");
    drop(old);
    bench.close(writer, new);
}

/// Excluded: the second reader skips the rest of a record that the first one began, and the third bind
/// counts it as delivered.
fn skipped_record_is_never_delivered() {
    let mut bench = Bench::new(RETAIN, 1);
    let mut writer = bench.writer();
    let mut first = bench.bind(1);
    assert_eq!(writer.write(1), Append::Done);
    // Half of it fits in the segment's rest, and there is no second one.
    let long = [2; 12];
    let mut rest = &long[..];
    assert!(matches!(writer.half.append(&mut rest, &mut writer.cache), Append::Blocked(_)));
    assert_eq!([first.next(), first.next()], [Got::Record(1), Got::Empty]);
    let second = bench.bind(2);
    drop(first);
    assert_eq!(writer.half.append(&mut rest, &mut writer.cache), Append::Done);
    assert_eq!(writer.write(3), Append::Done);
    let second = reading(second, 1);
    let mut third = bench.bind(3);
    let account = bench.account();
    let (second, by_second) = second.join().unwrap();
    let by_third = third.drain();
    assert_eq!(account.delivered, Amount { records: 1, bytes: RECORD_BYTES }, "the first record");
    let got: Vec<Got> = by_second.into_iter().chain(by_third).collect();
    assert_eq!(records(&got), [3], "{got:?}");
    drop(second);
    bench.close(writer, third);
}

/// Excluded: the reader is fenced while it passes the ABORT of a record, and the binder counts as broken off
/// what was delivered, or as delivered what was broken off.
fn broken_off_record_leaves_the_delivered_alone() {
    let mut bench = Bench::new(RETAIN, 1);
    let mut writer = bench.writer();
    let mut old = bench.bind(1);
    assert_eq!(writer.write(1), Append::Done);
    // Half of it fits in the segment's rest, and there is no second one: the writer's end breaks it off.
    let blocked = writer.half.append(&mut &[2; 12][..], &mut writer.cache);
    assert!(matches!(blocked, Append::Blocked(_)));
    drop(writer);
    assert_eq!(old.next(), Got::Record(1));
    let old = reading(old, 2);
    let new = bench.bind(2);
    let account = bench.account();
    let (old, by_old) = old.join().unwrap();
    let Amount { records, bytes } = account.delivered;
    assert!(records <= 1 && bytes == records * RECORD_BYTES, "{by_old:?} {account:?}");
    drop((old, new));
    assert_eq!(bench.account().queued, Amount::ZERO);
    bench.finish();
}

/// Excluded: the oldest entries of a retained queue are dropped under the hands of the new reader, or a
/// record is dropped and delivered.
fn oldest_is_dropped_or_delivered() {
    let when_absent = WhenAbsent::Retain { quota: 2, then: WhenRetained::DropOldest };
    let mut bench = Bench::new(Policies { when_absent, ..RETAIN }, 2);
    let mut writer = bench.writer();
    drop(bench.bind(1));
    assert_eq!([1, 2, 3, 4].map(|value| writer.write(value)), [Append::Done; 4]);
    let binder = bench.binder();
    let new = thread::spawn(move || {
        let mut new = binder.bind(2).unwrap();
        let got = vec![new.next(), new.next()];
        (new, got)
    });
    let wrote = writer.write(5);
    let (mut new, mut got) = new.join().unwrap();
    got.extend(new.drain());
    if matches!(wrote, Append::Blocked(_)) {
        // The reader was there already, and hadn't made room.
        let payload = [5; 4];
        assert_eq!(writer.half.append(&mut &payload[..], &mut writer.cache), Append::Done);
        got.extend(new.drain());
    }
    let account = bench.account();
    let dropped = account.lost.dropped_oldest.records as u8;
    assert_eq!(account.lost.total(), account.lost.dropped_oldest);
    assert_eq!(records(&got), (dropped + 1..=5).collect::<Vec<_>>(), "{account:?}");
    bench.close(writer, new);
}

/// Excluded: the end of the old view, told by its connection's thread, hits the view that was bound
/// meanwhile.
fn outage_against_a_bind() {
    let mut bench = Bench::new(DISCARD, 2);
    let mut writer = bench.writer();
    let old = bench.bind(1);
    assert_eq!(writer.write(1), Append::Done);
    let (sub, epoch) = (Arc::clone(&bench.sub), old.epoch());
    let outage = thread::spawn(move || sub.make_unavailable(epoch, Ending::Fenced));
    let mut new = bench.bind(2);
    assert_eq!(writer.write(2), Append::Done, "there is a reader");
    outage.join().unwrap();
    assert_eq!(records(&new.drain()), [2]);
    assert_eq!(bench.account().lost.drained.records, 1);
    drop(old);
    bench.close(writer, new);
}

/// A reader has consumed the end; its own acknowledgement, the loss of its connection and its word by another one come
/// at once. Excluded: the end counts twice or not at all, and a record is delivered and in doubt.
fn end_is_acknowledged_once() {
    let mut bench = Bench::new(RETAIN, 2);
    let mut writer = bench.writer();
    let binder = bench.binder();
    let mut reader = binder.bind_as(1, true).unwrap();
    assert_eq!(writer.write(1), Append::Done);
    writer.half.append_end(EndKind::Finished);
    assert_eq!(reader.drain(), [Got::Record(1), Got::EndOfData, Got::EndOfPartition]);
    let epoch = reader.epoch();
    let own = thread::spawn(move || {
        let mark = reader.local.mark();
        let acked = reader.local.acknowledge(mark);
        drop(reader);
        acked == Acked::Done { end: true }
    });
    let sub = Arc::clone(&bench.sub);
    let outage = thread::spawn(move || sub.make_unavailable(epoch, Ending::Fenced));
    let word = LastWord { epoch, bytes: RECORD_BYTES, aborted: 0 };
    let request = BindRequest::new(Attempt(1), Incarnation(1));
    let by_word = bench.sub.end_consumed(request, &word).unwrap();
    let by_itself = own.join().unwrap();
    outage.join().unwrap();
    assert!(by_word != by_itself, "by the word: {by_word}, by itself: {by_itself}");
    assert!(bench.sub.is_end_acknowledged());
    let account = bench.account();
    assert_eq!(account.delivered, Amount::new(1, RECORD_BYTES), "{account:?}");
    drop((binder, writer));
    bench.finish();
}

/// Excluded: a bind outlives the release of the job.
fn release_of_the_job_undoes_a_bind() {
    let mut bench = Bench::new(RETAIN, 2);
    let mut writer = bench.writer();
    assert_eq!(writer.write(1), Append::Done);
    let sub = Arc::clone(&bench.sub);
    let release = thread::spawn(move || sub.release(&Cause::JobReleased));
    let bound = bench.binder().bind(1);
    let wrote = writer.write(2);
    release.join().unwrap();
    assert!(matches!(wrote, Append::Done | Append::Closed), "{wrote:?}");
    assert_eq!(writer.write(3), Append::Closed);
    assert_eq!(bench.sub.released(), Some(Cause::JobReleased));
    assert_eq!(bench.binder().bind(2).err(), Some(Refusal::Released));
    match bound {
        Ok(mut reader) => assert_eq!(reader.next(), Got::Fenced),
        Err(refusal) => assert_eq!(refusal, Refusal::Released),
    }
    bench.account();
    drop(writer);
    bench.finish();
}

/// Excluded: a discarded record is in the bind's report and in a LOSS entry, or in neither.
fn loss_is_told_once() {
    let mut bench = Bench::new(DISCARD, 2);
    let mut writer = bench.writer();
    drop(bench.bind(1));
    let writing = thread::spawn(move || {
        let wrote = [1, 2].map(|value| writer.write(value));
        (writer, wrote)
    });
    let mut new = bench.bind(2);
    let (mut writer, wrote) = writing.join().unwrap();
    assert_eq!(writer.write(3), Append::Done);
    let dropped = wrote.iter().filter(|append| **append == Append::Dropped).count() as u64;
    let mut told = new.grant.lost.total();
    let mut reported = new.grant.writer_lost;
    let got = new.drain();
    for got in &got {
        if let Got::Loss(total) = got {
            told += total.since(reported);
            reported = *total;
        }
    }
    let expected = Amount { records: dropped, bytes: dropped * RECORD_BYTES };
    assert_eq!(told, expected, "{wrote:?} {got:?} {:?}", new.grant);
    assert_eq!(records(&got).len() as u64, 3 - dropped);
    bench.account();
    bench.close(writer, new);
}

/// Excluded: the writer rings whom it knew before the bind, which is nobody, and the new view's first look
/// comes too early.
fn first_look_or_first_ring_sees_the_publication() {
    let mut bench = Bench::new(RETAIN, 1);
    let mut writer = bench.writer();
    let writing = thread::spawn(move || {
        assert_eq!(writer.write(1), Append::Done);
        writer.half.ring();
        writer
    });
    let mut reader = bench.bind(1);
    assert_eq!(reader.wait(false), Got::Record(1));
    let writer = writing.join().unwrap();
    bench.close(writer, reader);
}

/// Excluded: the writer rings the node of the view before, and the new view sleeps on.
fn new_view_is_rung_and_not_the_old_one() {
    let mut bench = Bench::new(RETAIN, 1);
    let mut writer = bench.writer();
    let old = bench.bind(1);
    writer.half.ring();
    let writing = thread::spawn(move || {
        assert_eq!(writer.write(1), Append::Done);
        writer.half.ring();
        writer
    });
    let mut new = bench.bind(2);
    assert_eq!(new.wait(false), Got::Record(1));
    let writer = writing.join().unwrap();
    drop(old);
    bench.close(writer, new);
}
