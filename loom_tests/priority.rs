//! Models of priority events: each is taken once, whole, by the reader of the newest bind, or counted as
//! dropped.

use super::Model;
use super::support::{Bench, DISCARD, Got, RETAIN, Writer};
use crate::event::PriorityEvent;
use crate::id::BindEpoch;
use crate::subpartition::priority::PriorityRing;
use crate::subpartition::{Append, Ending};
use crate::sync::{Exclusive, thread};
use std::sync::Arc;

pub(super) const MODELS: &[Model] = &[
    Model {
        name: "priority::event_is_taken_whole",
        edges: &["PRIO_E1"],
        preemptions: None,
        body: event_is_taken_whole,
    },
    Model {
        name: "priority::place_is_reused_after_its_reader_is_done",
        edges: &["PRIO_E2"],
        preemptions: None,
        body: place_is_reused_after_its_reader_is_done,
    },
    Model {
        name: "priority::fenced_reader_takes_nothing",
        edges: &["PRIO_E3"],
        preemptions: None,
        body: fenced_reader_takes_nothing,
    },
    Model {
        name: "priority::binder_sees_the_events_that_the_old_reader_took",
        edges: &["PRIO_E2"],
        preemptions: Some(3),
        body: binder_sees_the_events_that_the_old_reader_took,
    },
    Model {
        name: "priority::event_is_taken_once_or_dropped_at_a_bind",
        edges: &[],
        preemptions: Some(2),
        body: event_is_taken_once_or_dropped_at_a_bind,
    },
    Model {
        name: "priority::event_of_an_outage_never_reaches_the_next_reader",
        edges: &[],
        preemptions: Some(2),
        body: event_of_an_outage_never_reaches_the_next_reader,
    },
    Model {
        name: "priority::sleeping_reader_is_woken",
        edges: &["DOOR_E1"],
        preemptions: Some(2),
        body: sleeping_reader_is_woken,
    },
];

const EPOCH: BindEpoch = BindEpoch(1);

fn event(value: u8) -> PriorityEvent {
    PriorityEvent::new(&[value; 16]).unwrap()
}

fn of(epoch: BindEpoch) -> Arc<PriorityRing> {
    let ring = PriorityRing::new();
    ring.bump(epoch);
    Arc::new(ring)
}

fn send(writer: &mut Writer, value: u8) -> bool {
    match writer.half.append_priority(event(value)) {
        Append::Done => true,
        Append::Dropped => false,
        other => panic!("{other:?}"),
    }
}

/// Excluded: the count of events is visible, their words are not.
fn event_is_taken_whole() {
    let ring = of(EPOCH);
    // Looks, and no loop that yields: what was yielded for is seen in the end, edge or not.
    let reader = thread::spawn({
        let ring = Arc::clone(&ring);
        move || [(); 2].map(|()| ring.take(EPOCH).unwrap())
    });
    ring.push(event(1)).unwrap();
    ring.push(event(2)).unwrap();
    let mut got: Vec<PriorityEvent> = reader.join().unwrap().into_iter().flatten().collect();
    while let Some(event) = ring.take(EPOCH).unwrap() {
        got.push(event);
    }
    assert_eq!(got, [event(1), event(2)]);
}

/// Excluded: the writer fills a place whose reader still reads it. (A cell stands for the reads, since loom
/// doesn't explore load buffering.)
fn place_is_reused_after_its_reader_is_done() {
    let ring = of(EPOCH);
    for value in 0..8 {
        ring.push(event(value)).unwrap();
    }
    let reads = Arc::new(Exclusive::new(0));
    let reader = thread::spawn({
        let (ring, reads) = (Arc::clone(&ring), Arc::clone(&reads));
        move || {
            // SAFETY: the edge that the model proves orders this before the writer's touch.
            unsafe { reads.with_mut(|reads| *reads += 1) };
            assert_eq!(ring.take(EPOCH), Ok(Some(event(0))));
        }
    });
    while ring.push(event(8)).is_err() {
        thread::yield_now();
    }
    // SAFETY: as above.
    assert_eq!(unsafe { reads.with_mut(|reads| *reads) }, 1);
    reader.join().unwrap();
}

/// Excluded: after the bump the old reader takes an event, and the new one fails by it.
fn fenced_reader_takes_nothing() {
    let ring = of(EPOCH);
    ring.push(event(1)).unwrap();
    let old = thread::spawn({
        let ring = Arc::clone(&ring);
        move || ring.take(EPOCH)
    });
    let epoch = EPOCH.next();
    ring.bump(epoch);
    let new = ring.take(epoch).expect("it has the newest epoch");
    let old = old.join().unwrap();
    let got = [old.ok().flatten(), new];
    assert_eq!(got.iter().flatten().count(), 1, "{got:?}");
}

/// Excluded: the binder sees that the old reader took an event, and not the event itself: the head is ahead
/// of the tail, and the binder drains what isn't there.
fn binder_sees_the_events_that_the_old_reader_took() {
    let ring = of(EPOCH);
    let writer = thread::spawn({
        let ring = Arc::clone(&ring);
        move || ring.push(event(1)).unwrap()
    });
    let old = thread::spawn({
        let ring = Arc::clone(&ring);
        move || ring.take(EPOCH)
    });
    let epoch = EPOCH.next();
    ring.bump(epoch);
    let mut got = vec![ring.take(epoch).unwrap()];
    got.push(old.join().unwrap().ok().flatten());
    writer.join().unwrap();
    got.push(ring.take(epoch).unwrap());
    assert_eq!(got.into_iter().flatten().collect::<Vec<_>>(), [event(1)]);
}

/// Excluded: the event goes to two readers, or to none without being counted.
fn event_is_taken_once_or_dropped_at_a_bind() {
    let mut bench = Bench::new(RETAIN, 1);
    let mut writer = bench.writer();
    let mut old = bench.bind(1);
    let writing = thread::spawn(move || {
        assert!(send(&mut writer, 7));
        writer
    });
    let reading = thread::spawn(move || {
        let got = old.next();
        (old, got)
    });
    let mut new = bench.bind(2);
    let writer = writing.join().unwrap();
    let (old, by_old) = reading.join().unwrap();
    let by_new = new.next();
    let taken = [by_old, by_new].iter().filter(|got| **got == Got::Priority(7)).count() as u64;
    assert_eq!(taken + bench.account().dropped_events.priority, 1, "{by_old:?} {by_new:?}");
    drop(old);
    bench.close(writer, new);
}

/// Excluded: an event that the writer sent while nobody was there waits for the next reader.
fn event_of_an_outage_never_reaches_the_next_reader() {
    let mut bench = Bench::new(DISCARD, 1);
    let mut writer = bench.writer();
    let old = bench.bind(1);
    let (sub, epoch) = (Arc::clone(&bench.sub), old.epoch());
    let outage = thread::spawn(move || assert!(sub.make_unavailable(epoch, Ending::Fenced)));
    send(&mut writer, 7);
    outage.join().unwrap();
    let mut new = bench.bind(2);
    assert_eq!(new.next(), Got::Empty);
    assert_eq!(bench.account().dropped_events.priority, 1);
    drop(old);
    bench.close(writer, new);
}

/// Excluded: the reader sleeps past an event.
fn sleeping_reader_is_woken() {
    let mut bench = Bench::new(RETAIN, 1);
    let mut writer = bench.writer();
    let mut reader = bench.bind(1);
    let writing = thread::spawn(move || {
        assert!(send(&mut writer, 7));
        writer
    });
    assert_eq!(reader.wait(false), Got::Priority(7));
    let writer = writing.join().unwrap();
    bench.close(writer, reader);
}
