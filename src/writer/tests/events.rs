//! Events in their place, to one and to all; priority events past everything.

use super::*;

fn urgent(text: &str) -> PriorityEvent {
    PriorityEvent::new(text.as_bytes()).unwrap()
}

#[test]
fn events_stand_where_they_were_written() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(2, 8));
    let mut readers = bench.readers(&writer);
    let application = Event::Application(bytes::Bytes::from_static(b"hello"));
    assert_eq!(writer.write_blocking(0, &record(0, 10)), Ok(Written::Queued));
    assert_eq!(writer.event_blocking(Target::All, &Event::Barrier(1)), Ok(Reach { queued: 2, dropped: 0 }));
    assert_eq!(writer.write_blocking(0, &record(1, 10)), Ok(Written::Queued));
    assert_eq!(now(writer.event(Target::One(0), application.clone())), Ok(Reach { queued: 1, dropped: 0 }));
    assert_eq!(now(writer.event(Target::All, Event::Watermark(-5))), Ok(Reach { queued: 2, dropped: 0 }));
    assert_eq!(
        readers[0].drain(),
        [
            Got::Record(record(0, 10)),
            Got::Event(Event::Barrier(1)),
            Got::Record(record(1, 10)),
            Got::Event(application),
            Got::Event(Event::Watermark(-5)),
        ]
    );
    assert_eq!(readers[1].drain(), [Got::Event(Event::Barrier(1)), Got::Event(Event::Watermark(-5))]);
    drop((writer, readers));
    bench.assert_whole();
}

#[test]
fn an_event_to_all_goes_on_where_it_was_blocked() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(2, 4));
    let mut readers = bench.readers(&writer);
    // Fills the ring of subpartition 1 with events; the reserve for the ends stays.
    let cx = &mut idle_cx();
    let mut filled = 0;
    while writer.poll_event(cx, Target::One(1), &Event::Barrier(filled)).is_ready() {
        filled += 1;
    }
    assert_eq!(writer.why_blocked(1), WriterBlocked::Entries);
    let event = Event::Barrier(1000);
    assert!(writer.poll_event(cx, Target::All, &event).is_pending());
    assert_eq!(readers[0].drain(), [Got::Event(event.clone())], "who has room has it at once");
    let under_way = || Poll::Ready(Err(WriteError::BroadcastInProgress));
    assert_eq!(writer.poll_event(cx, Target::All, &Event::Barrier(1001)), under_way());
    assert_eq!(writer.poll_event(cx, Target::One(0), &event), under_way());
    assert_eq!(writer.poll_broadcast(cx, &mut &b""[..]), under_way());
    assert_eq!(writer.write_blocking(0, b"record"), Err(WriteError::BroadcastInProgress));
    assert_eq!(writer.finish_blocking(), Err(WriteError::BroadcastInProgress));
    assert!(writer.poll_event(cx, Target::All, &event).is_pending());
    assert_eq!(readers[1].drain().len() as u64, filled);
    assert_eq!(
        writer.poll_event(cx, Target::All, &event),
        Poll::Ready(Ok(Reach { queued: 2, dropped: 0 })),
        "nobody gets it twice"
    );
    assert_eq!(readers[0].drain(), []);
    assert_eq!(readers[1].drain(), [Got::Event(event)]);
    drop((writer, readers));
    bench.assert_whole();
}

#[test]
fn an_event_that_is_given_up_leaves_the_writer_free() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(2, 4));
    let mut readers = bench.readers(&writer);
    while writer.poll_event(&mut idle_cx(), Target::One(1), &Event::Barrier(0)).is_ready() {}
    {
        let mut event = pin!(writer.event(Target::All, Event::Barrier(1)));
        assert!(event.as_mut().poll(&mut idle_cx()).is_pending());
    }
    assert_eq!(writer.idle(), Ok(()));
    assert_eq!(readers[0].drain(), [Got::Event(Event::Barrier(1))]);
    assert!(readers[1].drain().iter().all(|got| *got == Got::Event(Event::Barrier(0))));
    let reach = writer.event_blocking(Target::All, &Event::Barrier(2));
    assert_eq!(reach, Ok(Reach { queued: 2, dropped: 0 }));
    for reader in &mut readers {
        assert_eq!(reader.drain(), [Got::Event(Event::Barrier(2))]);
    }
    drop((writer, readers));
    bench.assert_whole();
}

#[test]
fn events_for_nobody_are_counted_and_dropped() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(2, 4));
    let mut readers = bench.readers(&writer);
    drop(readers.remove(0));
    assert_eq!(writer.event_blocking(Target::All, &Event::Barrier(1)), Ok(Reach { queued: 1, dropped: 1 }));
    assert_eq!(writer.priority_event_blocking(Target::All, urgent("p")), Ok(Reach { queued: 1, dropped: 1 }));
    let dropped = account(&writer, 0).dropped_events;
    assert_eq!((dropped.barriers, dropped.priority), (1, 1));
    assert_eq!(readers[0].drain(), [Got::Priority(b"p".to_vec()), Got::Event(Event::Barrier(1))]);
    drop((writer, readers));
    bench.assert_whole();
}

#[test]
fn priority_events_overtake_and_wait_when_eight_are_there() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(2, 2));
    let mut readers = bench.readers(&writer);
    let cx = &mut idle_cx();
    // Also while a record is half written.
    let long = record(0, 5 * SEGMENT);
    let mut source = &long[..];
    assert!(writer.poll_write(cx, 0, &mut source).is_pending());
    for number in 0..PriorityEvent::QUEUED_MAX {
        let reach = writer.priority_event_blocking(Target::One(0), urgent(&number.to_string()));
        assert_eq!(reach, Ok(Reach { queued: 1, dropped: 0 }));
    }
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let counting = &mut Context::from_waker(&waker);
    assert!(writer.poll_priority_event(counting, Target::One(0), urgent("one")).is_pending());
    assert!(writer.poll_priority_event(counting, Target::All, urgent("all")).is_pending());
    assert_eq!(
        writer.poll_priority_event(cx, Target::All, urgent("other")),
        Poll::Ready(Err(WriteError::BroadcastInProgress))
    );
    assert_eq!(readers[1].drain(), [Got::Priority(b"all".to_vec())]);
    assert_eq!(readers[0].next(), Got::Priority(b"0".to_vec()));
    assert!(woken.times() > 0);
    assert_eq!(
        writer.poll_priority_event(cx, Target::All, urgent("all")),
        Poll::Ready(Ok(Reach { queued: 2, dropped: 0 }))
    );
    let got = readers[0].drain();
    assert_eq!(got.len(), 8, "{got:?}");
    assert_eq!(got.last(), Some(&Got::Priority(b"all".to_vec())));
    while writer.poll_write(cx, 0, &mut source).is_pending() {
        assert_eq!(readers[0].drain(), []);
    }
    assert_eq!(readers[0].numbers(), [0]);
    drop((writer, readers));
    bench.assert_whole();
}
