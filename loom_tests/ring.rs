//! Models of the ring: bytes and slots come before the position, and a slot comes back after its reader.
//!
//! Loom doesn't explore load buffering, so it can't show a reader that reads a slot of the next lap. Where
//! that is what an edge excludes, a cell stands for the reads: written before the release, read after the
//! acquire, which is all that the edge promises.

use super::Model;
use super::support::{Bench, Got, RETAIN, records};
use crate::id::BindEpoch;
use crate::memory::{SegmentCache, SegmentClass, SegmentPool};
use crate::record::{First, RecordLayout};
use crate::subpartition::ring::Ring;
use crate::subpartition::slot::Entry;
use crate::subpartition::{Append, Kind, Position};
use crate::sync::{Exclusive, Waiter, thread};
use std::sync::Arc;

pub(super) const MODELS: &[Model] = &[
    Model {
        name: "ring::growing_segment_is_read_up_to_the_position",
        edges: &["RING_E1"],
        preemptions: Some(3),
        body: growing_segment_is_read_up_to_the_position,
    },
    Model {
        name: "ring::closed_entry_is_read_to_its_end",
        edges: &["RING_E1"],
        preemptions: Some(2),
        body: closed_entry_is_read_to_its_end,
    },
    Model {
        name: "ring::segment_is_written_again_after_its_last_reader",
        edges: &[],
        preemptions: Some(2),
        body: segment_is_written_again_after_its_last_reader,
    },
    Model {
        name: "ring::slot_is_reused_after_its_reader_is_done",
        edges: &["RING_E2"],
        preemptions: None,
        body: slot_is_reused_after_its_reader_is_done,
    },
    Model {
        name: "ring::fenced_reader_commits_no_take_and_no_release",
        edges: &["RING_E4"],
        preemptions: None,
        body: fenced_reader_commits_no_take_and_no_release,
    },
    Model {
        name: "ring::private_copy_is_read_whole",
        edges: &["RING_E5"],
        preemptions: None,
        body: private_copy_is_read_whole,
    },
];

/// Excluded: the position is visible, the bytes or the slot before it are not; or a reader of the first part
/// of a segment touches the part that is being written.
fn growing_segment_is_read_up_to_the_position() {
    let mut bench = Bench::new(RETAIN, 1);
    let mut writer = bench.writer();
    let mut reader = bench.bind(1);
    let writing = thread::spawn(move || {
        assert_eq!([1, 2].map(|value| writer.write(value)), [Append::Done; 2]);
        writer
    });
    let mut got = vec![reader.next(), reader.next()];
    let writer = writing.join().unwrap();
    got.extend(reader.drain());
    assert_eq!(records(&got), [1, 2]);
    bench.close(writer, reader);
}

/// Excluded: an entry is complete, and its length, which the next slot's base tells, isn't visible.
fn closed_entry_is_read_to_its_end() {
    let mut bench = Bench::new(RETAIN, 2);
    let mut writer = bench.writer();
    let mut reader = bench.bind(1);
    assert_eq!(writer.write(1), Append::Done);
    let writing = thread::spawn(move || {
        assert_eq!([2, 3].map(|value| writer.write(value)), [Append::Done; 2]);
        writer
    });
    let mut got = vec![reader.next(), reader.next()];
    let writer = writing.join().unwrap();
    got.extend(reader.drain());
    assert_eq!(records(&got), [1, 2, 3]);
    bench.close(writer, reader);
}

/// Excluded: with one segment in all, the writer writes over what the reader still reads, or sleeps on after
/// the reader let it go.
fn segment_is_written_again_after_its_last_reader() {
    let mut bench = Bench::new(RETAIN, 1);
    let mut writer = bench.writer();
    let mut reader = bench.bind(1);
    assert_eq!([1, 2].map(|value| writer.write(value)), [Append::Done; 2]);
    let writing = thread::spawn(move || {
        assert_eq!(writer.write_blocking(3), Append::Done);
        writer.half.ring();
        writer
    });
    let got = [(); 3].map(|()| reader.wait(false));
    assert_eq!(got, [1, 2, 3].map(Got::Record));
    let writer = writing.join().unwrap();
    bench.close(writer, reader);
}

/// A ring of two slots, beyond any subpartition, with one entry published.
fn two_slots(kind: Kind) -> (Arc<SegmentPool>, Arc<Ring>) {
    let pool = SegmentPool::for_model(16, 8, 2).unwrap();
    let ring = Arc::new(Ring::new(Arc::clone(&pool), RecordLayout::Lengths, 2));
    ring.slot(0).set_base(0, 0);
    push(&ring, 0, kind, 1);
    (pool, ring)
}

fn push(ring: &Ring, entry: u16, kind: Kind, aux: u64) {
    let segment = crate::memory::SegmentName::NONE;
    ring.slot(entry).fill(&Entry { kind, segment, from: 0, first: First::at(0), aux });
    ring.slot(entry + 1).set_base(0, 0);
    ring.publish(Position::at_entry(entry + 1));
}

/// Excluded: the writer sees that a slot is free before the reader that passed it is done with it.
fn slot_is_reused_after_its_reader_is_done() {
    let (_pool, ring) = two_slots(Kind::Barrier);
    let reads = Arc::new(Exclusive::new(0));
    let reader = thread::spawn({
        let (ring, reads) = (Arc::clone(&ring), Arc::clone(&reads));
        move || {
            let mut pieces = Vec::new();
            let to = ring.collect(Position::default(), 1, &mut pieces);
            assert_eq!(pieces[0].entry.aux, 1);
            // SAFETY: the edge that the model proves orders this before the writer's touch.
            unsafe { reads.with_mut(|reads| *reads += 1) };
            ring.commit_take(BindEpoch::NEVER, to).unwrap();
            ring.release(BindEpoch::NEVER, to, |_| ()).unwrap();
        }
    });
    while ring.released() != Position::at_entry(1) {
        thread::yield_now();
    }
    // SAFETY: as above.
    assert_eq!(unsafe { reads.with_mut(|reads| *reads) }, 1);
    push(&ring, 1, Kind::Barrier, 2);
    push(&ring, 2, Kind::Barrier, 3);
    reader.join().unwrap();
}

/// Excluded: a reader of before moves what the binder has fenced.
fn fenced_reader_commits_no_take_and_no_release() {
    let (_pool, ring) = two_slots(Kind::Barrier);
    let reader = thread::spawn({
        let ring = Arc::clone(&ring);
        move || {
            let mut pieces = Vec::new();
            let to = ring.collect(Position::default(), 1, &mut pieces);
            let taken = ring.commit_take(BindEpoch::NEVER, to).is_ok();
            (taken, ring.release(BindEpoch::NEVER, to, |_| ()).is_ok())
        }
    });
    let epoch = BindEpoch::NEVER.next();
    let taken = ring.bump(epoch);
    let released = ring.released_glance().position;
    let (took, let_go) = reader.join().unwrap();
    assert_eq!(took, taken == Position::at_entry(1), "a take is before the bump or nowhere");
    assert_eq!(ring.taken_glance().position, taken);
    assert_eq!(let_go, released == Position::at_entry(1), "and so is a release");
    assert_eq!(ring.released_glance().position, released);
}

/// Excluded: the reader sees the name of a private copy before the copy's bytes; or reads a shared segment
/// that its owner let go.
fn private_copy_is_read_whole() {
    let (pool, ring) = two_slots(Kind::EndOfData);
    let budget = pool.reserve(SegmentClass::K4, 2, 0, Arc::new(Waiter::new())).unwrap();
    let charge = budget.charge(2, 2);
    let mut cache = SegmentCache::new(&pool, &budget);
    let mut filled = |value: u8| {
        let mut open = pool.allocate(&charge, &mut cache).unwrap();
        open.spare(0..8).fill(value);
        open.commit(8);
        open.hold()
    };
    let shared = filled(7);
    let entry = Entry { kind: Kind::Shared, segment: shared.name(), from: 0, first: First::at(0), aux: 0 };
    ring.slot(1).fill(&entry);
    ring.slot(2).set_base(8, 1);
    ring.publish(Position::at_entry(2));
    let reader = thread::spawn({
        let (pool, ring) = (Arc::clone(&pool), Arc::clone(&ring));
        move || {
            let mut pieces = Vec::new();
            let to = ring.collect(Position::at_entry(1), 1, &mut pieces);
            for piece in &pieces {
                // SAFETY: held by `collect`, published before it.
                let bytes = unsafe { pool.read(piece.entry.segment, 0..8) };
                assert!(bytes.iter().all(|byte| *byte == 7));
            }
            assert_eq!(to.entry, if pieces.is_empty() { 1 } else { 2 });
            ring.drop_holds(&mut pieces);
        }
    });
    let copy = filled(7);
    ring.slot(1).replace_segment(copy.name());
    drop(shared);
    reader.join().unwrap();
    drop(copy);
    let census = pool.census();
    assert!(census.is_whole() && census.held() == 0, "{census:?}");
}
