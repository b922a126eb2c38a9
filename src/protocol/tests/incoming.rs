use super::*;
use crate::event::PriorityEvent;

fn incoming() -> Incoming {
    Incoming::new(&bound(false), WINDOW).expect("it starts anew")
}

fn progress(left: StreamPosition) -> Progress {
    Progress { left, ..Progress::default() }
}

fn priority(sequence: u32) -> PriorityFrame {
    let event = PriorityEvent::new(b"now").expect("not too long");
    PriorityFrame { stream: STREAM, epoch: EPOCH, sequence, event }
}

fn consumed(bytes: u64, entries: u64) -> Consumed {
    Consumed { records: bytes / 10, bytes, entries, aborted: 0 }
}

#[test]
fn a_stream_goes_on_where_it_stands() {
    let mut incoming = incoming();
    assert_eq!(incoming.on_run(&run(at(0, 0), 100)), Ok(Accept::Fresh));
    assert_eq!(broken(incoming.on_run(&run(at(99, 0), 1))), Rule::POSITION);
    assert_eq!(broken(incoming.on_run(&run(at(0, 0), 100))), Rule::POSITION);
    assert_eq!(broken(incoming.on_run(&run(at(101, 0), 1))), Rule::POSITION);
    assert_eq!(broken(incoming.on_run(&run(at(100, 1), 1))), Rule::POSITION);
    assert_eq!(incoming.on_event(&event(at(100, 0), StreamEvent::Barrier(1))), Ok(Accept::Fresh));
    assert_eq!(broken(incoming.on_event(&event(at(100, 0), StreamEvent::Barrier(1)))), Rule::POSITION);
    assert_eq!(incoming.on_run(&run(at(100, 1), 50)), Ok(Accept::Fresh));
    assert_eq!(incoming.received(), at(150, 1));
}

#[test]
fn frames_of_another_epoch_are_dropped() {
    let mut incoming = incoming();
    let stale = Run { epoch: OTHER, ..run(at(5, 5), 2000) };
    assert_eq!(incoming.on_run(&stale), Ok(Accept::Dropped));
    let stale = EventFrame { epoch: OTHER, ..event(at(5, 5), StreamEvent::EndOfPartition) };
    assert_eq!(incoming.on_event(&stale), Ok(Accept::Dropped));
    assert_eq!(incoming.on_priority(&PriorityFrame { epoch: OTHER, ..priority(5) }), Ok(Accept::Dropped));
    assert_eq!((incoming.received(), incoming.is_ended()), (at(0, 0), false));
    assert_eq!(incoming.acknowledgement(&Progress::default(), moment(0), true), None);
}

#[test]
fn no_byte_beyond_the_credit() {
    let mut incoming = incoming();
    assert_eq!(broken(incoming.on_run(&run(at(0, 0), 1001))), Rule::CREDIT);
    assert_eq!(incoming.on_run(&run(at(0, 0), 1000)), Ok(Accept::Fresh));
    assert_eq!(broken(incoming.on_run(&run(at(1000, 0), 1))), Rule::CREDIT);
    // Half of it left the queue, but nothing is granted before it is told.
    assert_eq!(broken(incoming.on_run(&run(at(1000, 0), 1))), Rule::CREDIT);
    let ack = incoming.acknowledgement(&progress(at(500, 0)), moment(0), false).expect("half a window");
    assert_eq!((ack.limit, ack.received), (at(1500, 64), at(1000, 0)));
    assert_eq!(broken(incoming.on_run(&run(at(1000, 0), 501))), Rule::CREDIT);
    assert_eq!(incoming.on_run(&run(at(1000, 0), 500)), Ok(Accept::Fresh));
}

#[test]
fn credit_never_shrinks() {
    let mut incoming = incoming();
    assert_eq!(incoming.on_run(&run(at(0, 0), 900)), Ok(Accept::Fresh));
    let first = incoming.acknowledgement(&progress(at(800, 0)), moment(0), true).expect("forced");
    assert_eq!(first.limit, at(1800, 64));
    // Lent buffers are pinned later, and the window is cut: neither takes back what was granted.
    let pinned = Progress { pinned: 700, ..progress(at(900, 0)) };
    incoming.set_window(100);
    assert_eq!(incoming.acknowledgement(&pinned, moment(10), true), None, "nothing is new");
    assert_eq!(incoming.on_run(&run(at(900, 0), 900)), Ok(Accept::Fresh));
    let second = incoming.acknowledgement(&pinned, moment(10), true).expect("forced");
    assert_eq!(second.limit, first.limit);
    // Pinned bytes count against what is granted next.
    incoming.set_window(WINDOW);
    let pinned = Progress { pinned: 400, ..progress(at(1800, 0)) };
    let third = incoming.acknowledgement(&pinned, moment(20), true).expect("forced");
    assert_eq!(third.limit, at(2400, 64));
}

#[test]
fn events_in_the_queue_are_bounded() {
    let mut incoming = incoming();
    for entry in 0..EVENTS_MAX {
        assert_eq!(incoming.on_event(&event(at(0, entry), StreamEvent::Abort)), Ok(Accept::Fresh));
    }
    assert_eq!(broken(incoming.on_event(&event(at(0, 64), StreamEvent::Abort))), Rule::EVENTS);
    // A task that has them in hand makes room for more, whether it acknowledges or not.
    let ack = incoming.acknowledgement(&progress(at(0, 32)), moment(0), false).expect("half of them");
    assert_eq!((ack.limit, ack.consumed), (at(1000, 96), Consumed::default()));
    assert_eq!(incoming.on_event(&event(at(0, 64), StreamEvent::Abort)), Ok(Accept::Fresh));
}

#[test]
fn priority_events_come_in_sequence() {
    let mut incoming = incoming();
    for sequence in 0..8 {
        assert_eq!(incoming.on_priority(&priority(sequence)), Ok(Accept::Fresh));
    }
    assert_eq!(broken(incoming.on_priority(&priority(8))), Rule::PRIORITY);
    let taken = Progress { priority: 2, ..Progress::default() };
    let ack = incoming.acknowledgement(&taken, moment(0), true).expect("forced");
    assert_eq!(ack.priority, 2);
    assert_eq!(broken(incoming.on_priority(&priority(7))), Rule::PRIORITY);
    assert_eq!(broken(incoming.on_priority(&priority(9))), Rule::PRIORITY);
    assert_eq!(incoming.on_priority(&priority(8)), Ok(Accept::Fresh));
}

#[test]
fn nothing_follows_the_end() {
    for last in [StreamEvent::EndOfPartition, StreamEvent::Failed(crate::error::Cause::Dropped)] {
        let mut incoming = incoming();
        assert_eq!(incoming.on_event(&event(at(0, 0), StreamEvent::EndOfData)), Ok(Accept::Fresh));
        assert!(!incoming.is_ended());
        assert_eq!(incoming.on_event(&event(at(0, 1), last)), Ok(Accept::Fresh));
        assert!(incoming.is_ended());
        assert_eq!(broken(incoming.on_run(&run(at(0, 2), 1))), Rule::END);
        assert_eq!(broken(incoming.on_event(&event(at(0, 2), StreamEvent::EndOfPartition))), Rule::END);
        assert_eq!(incoming.on_priority(&priority(0)), Ok(Accept::Dropped), "too late");
    }
}

/// Each reason by itself, just before it and at it.
#[test]
fn acknowledgements_are_due_for_each_reason() {
    let nothing = Progress::default();
    let mut received = incoming();
    assert_eq!(received.on_run(&run(at(0, 0), 249)), Ok(Accept::Fresh));
    assert_eq!(received.acknowledgement(&nothing, moment(0), false), None);
    assert_eq!(received.on_run(&run(at(249, 0), 1)), Ok(Accept::Fresh));
    let ack = received.acknowledgement(&nothing, moment(0), false).expect("a quarter of the window");
    assert_eq!((ack.received, ack.limit), (at(250, 0), at(1000, 64)));
    assert_eq!(received.acknowledgement(&nothing, moment(0), true), None, "all is told");

    let mut ring = incoming();
    for byte in 0..16 {
        assert_eq!(ring.acknowledgement(&nothing, moment(0), false), None, "at {byte}");
        assert_eq!(ring.on_run(&run(at(byte, 0), 1)), Ok(Accept::Fresh));
    }
    assert!(ring.acknowledgement(&nothing, moment(0), false).is_some(), "a quarter of the ring");

    let mut late = incoming();
    assert_eq!(late.on_run(&run(at(0, 0), 1)), Ok(Accept::Fresh));
    assert_eq!(late.due_at(), None);
    assert_eq!(late.acknowledgement(&nothing, moment(5), false), None);
    assert_eq!(late.due_at(), Some(moment(1005)));
    assert_eq!(late.acknowledgement(&nothing, moment(1004), false), None);
    assert!(late.acknowledgement(&nothing, moment(1005), false).is_some(), "a millisecond");
    assert_eq!(late.due_at(), None);

    let mut forced = incoming();
    assert_eq!(forced.acknowledgement(&nothing, moment(0), true), None);
    assert_eq!(forced.on_run(&run(at(0, 0), 1)), Ok(Accept::Fresh));
    assert!(forced.acknowledgement(&nothing, moment(0), true).is_some(), "forced");
}

#[test]
fn credit_is_told_by_halves_of_the_window() {
    let mut incoming = incoming();
    assert_eq!(incoming.on_run(&run(at(0, 0), 1000)), Ok(Accept::Fresh));
    assert!(incoming.acknowledgement(&Progress::default(), moment(0), false).is_some());
    assert_eq!(incoming.acknowledgement(&progress(at(499, 0)), moment(0), false), None);
    assert_eq!(incoming.due_at(), None, "credit alone may wait for its half");
    let ack = incoming.acknowledgement(&progress(at(500, 0)), moment(0), false).expect("half a window");
    assert_eq!(ack.limit, at(1500, 64));
}

/// Thirty-one events of 2 KiB fill the queue by their bytes, and are less than half by their number.
#[test]
fn credit_for_events_is_told_within_a_millisecond() {
    let mut incoming = incoming();
    assert_eq!(incoming.on_event(&event(at(0, 0), StreamEvent::Abort)), Ok(Accept::Fresh));
    assert!(incoming.acknowledgement(&Progress::default(), moment(0), true).is_some());
    assert_eq!(incoming.acknowledgement(&progress(at(0, 1)), moment(10), false), None);
    assert_eq!(incoming.due_at(), Some(moment(1010)));
    let ack = incoming.acknowledgement(&progress(at(0, 1)), moment(1010), false).expect("a millisecond");
    assert_eq!(ack.limit, at(1000, 65));
    assert_eq!(incoming.acknowledgement(&progress(at(0, 1)), moment(9000), true), None);
}

/// The producer waits in `finish` for this.
#[test]
fn the_end_is_acknowledged_at_once() {
    let mut incoming = incoming();
    assert_eq!(incoming.on_run(&run(at(0, 0), 10)), Ok(Accept::Fresh));
    assert_eq!(incoming.on_event(&event(at(10, 0), StreamEvent::EndOfPartition)), Ok(Accept::Fresh));
    assert_eq!(incoming.acknowledgement(&progress(at(10, 1)), moment(0), false), None);
    let end = Progress { consumed: consumed(10, 1), ..progress(at(10, 1)) };
    let ack = incoming.acknowledgement(&end, moment(0), false).expect("the end");
    assert_eq!((ack.received, ack.consumed), (at(10, 1), end.consumed));
    assert_eq!(incoming.acknowledgement(&end, moment(9000), false), None);
}

#[test]
fn what_is_consumed_is_told_within_a_millisecond() {
    let mut incoming = incoming();
    assert_eq!(incoming.on_run(&run(at(0, 0), 100)), Ok(Accept::Fresh));
    assert!(incoming.acknowledgement(&progress(at(100, 0)), moment(0), true).is_some());
    let now = Progress { consumed: consumed(50, 0), ..progress(at(100, 0)) };
    assert_eq!(incoming.acknowledgement(&now, moment(100), false), None);
    assert_eq!(incoming.due_at(), Some(moment(1100)));
    let ack = incoming.acknowledgement(&now, moment(1100), false).expect("a millisecond");
    assert_eq!(ack.consumed, now.consumed);
}

#[test]
fn a_resumed_stream_keeps_position_and_credit() {
    let mut incoming = incoming();
    assert_eq!(incoming.on_run(&run(at(0, 0), 700)), Ok(Accept::Fresh));
    assert_eq!(incoming.on_priority(&priority(0)), Ok(Accept::Fresh));
    let ack = incoming.acknowledgement(&progress(at(600, 0)), moment(0), false).expect("half a window");
    assert_eq!(incoming.on_run(&run(at(700, 0), 100)), Ok(Accept::Fresh));
    let resume = incoming.suspend();
    let said =
        Resume { incarnation: Incarnation(9), epoch: EPOCH, at: at(800, 0), limit: ack.limit, priority: 1 };
    assert_eq!(resume, said);
    // Whatever the task does meanwhile, nobody is told.
    let later = Progress { consumed: consumed(800, 0), ..progress(at(800, 0)) };
    assert_eq!(incoming.acknowledgement(&later, moment(5000), true), None);
    assert_eq!(incoming.due_at(), None);
    let next = Bound { stream: StreamId(4), epoch: BindEpoch(8), ..bound(true) };
    assert_eq!(incoming.resumed(&next), Ok(()));
    assert_eq!(incoming.on_run(&run(at(800, 0), 10)), Ok(Accept::Dropped), "the old epoch");
    let run = Run { stream: StreamId(4), epoch: BindEpoch(8), ..run(at(800, 0), 800) };
    assert_eq!(incoming.on_run(&run), Ok(Accept::Fresh));
    let ack = incoming.acknowledgement(&later, moment(5000), true).expect("forced");
    assert_eq!((ack.stream, ack.epoch), (StreamId(4), BindEpoch(8)));
    assert_eq!((ack.received, ack.limit, ack.consumed), (at(1600, 0), at(1800, 64), later.consumed));
}

/// The last acknowledgement may have been lost with the connection, and nobody waits for another one.
#[test]
fn a_resumed_stream_tells_again_how_far_the_task_is() {
    let mut incoming = incoming();
    assert_eq!(incoming.on_run(&run(at(0, 0), 100)), Ok(Accept::Fresh));
    let done = Progress { consumed: consumed(100, 0), ..progress(at(100, 0)) };
    let lost = incoming.acknowledgement(&done, moment(0), true).expect("forced");
    let _ = incoming.suspend();
    assert_eq!(incoming.resumed(&bound(true)), Ok(()));
    assert_eq!(incoming.acknowledgement(&done, moment(10), false), None);
    assert_eq!(incoming.due_at(), Some(moment(1010)));
    assert_eq!(incoming.acknowledgement(&done, moment(1010), false), Some(lost));
    assert_eq!(incoming.acknowledgement(&done, moment(9000), true), None);
}

/// BIND says what is received, and BOUND how large the ring is now.
#[test]
fn a_resumed_stream_counts_what_is_new() {
    let mut incoming = incoming();
    assert_eq!(incoming.on_run(&run(at(0, 0), 249)), Ok(Accept::Fresh));
    let _ = incoming.suspend();
    assert_eq!(incoming.resumed(&Bound { ring_entries: 8, ..bound(true) }), Ok(()));
    let nothing = Progress::default();
    assert_eq!(incoming.on_run(&run(at(249, 0), 1)), Ok(Accept::Fresh));
    assert_eq!(incoming.acknowledgement(&nothing, moment(0), false), None, "one byte, one run");
    assert_eq!(incoming.on_run(&run(at(250, 0), 1)), Ok(Accept::Fresh));
    let ack = incoming.acknowledgement(&nothing, moment(0), false).expect("a quarter of the ring");
    assert_eq!(ack.received, at(251, 0));
}

#[test]
fn a_stream_is_resumed_only_as_asked() {
    assert_eq!(broken(Incoming::new(&bound(true), WINDOW)), Rule::RESUME);
    assert_eq!(
        broken(Incoming::new(&Bound { epoch: BindEpoch::NEVER, ..bound(false) }, WINDOW)),
        Rule::RESUME
    );
    let mut incoming = incoming();
    assert_eq!(broken(incoming.resumed(&bound(true))), Rule::RESUME, "it isn't suspended");
    let _ = incoming.suspend();
    assert_eq!(broken(incoming.resumed(&bound(false))), Rule::RESUME);
    assert_eq!(incoming.resumed(&bound(true)), Ok(()));
}

#[test]
fn the_last_word_says_how_far_it_came() {
    let mut incoming = incoming();
    assert_eq!(incoming.on_run(&run(at(0, 0), 70)), Ok(Accept::Fresh));
    let yielded = Amount { records: 6, bytes: 60 };
    let close = incoming.closing(consumed(50, 0), yielded);
    let said =
        Close { stream: STREAM, epoch: EPOCH, received: at(70, 0), consumed: consumed(50, 0), yielded };
    assert_eq!(close, said);
}

#[test]
fn the_end_is_told_until_it_is_answered() {
    let mut incoming = incoming();
    assert_eq!(incoming.on_run(&run(at(0, 0), 70)), Ok(Accept::Fresh));
    assert_eq!(incoming.on_event(&event(at(70, 0), StreamEvent::EndOfData)), Ok(Accept::Fresh));
    assert!(!incoming.is_whole());
    assert_eq!(incoming.ended(consumed(70, 1)), None);
    assert_eq!(incoming.on_event(&event(at(70, 1), StreamEvent::EndOfPartition)), Ok(Accept::Fresh));
    assert!(incoming.is_whole());
    assert_eq!(incoming.ended(consumed(70, 1)), None, "the task has yet to come to it");
    let all = consumed(70, 2);
    let ended = Ended { incarnation: Incarnation(9), epoch: EPOCH, consumed: all };
    assert_eq!(incoming.ended(all), Some(ended));
    // Whether an acknowledgement was sent or not: it may have been lost.
    let done = Progress { consumed: all, ..progress(at(70, 2)) };
    assert!(incoming.acknowledgement(&done, moment(0), false).is_some());
    assert_eq!(incoming.ended(all), Some(ended));
}

/// The producer's failure is the end of the stream, and nobody waits for its acknowledgement.
#[test]
fn a_failure_is_no_end_to_be_told() {
    let mut incoming = incoming();
    let failed = StreamEvent::Failed(crate::error::Cause::Dropped);
    assert_eq!(incoming.on_event(&event(at(0, 0), failed)), Ok(Accept::Fresh));
    assert!(incoming.is_ended() && !incoming.is_whole());
    assert_eq!(incoming.ended(consumed(0, 1)), None);
}
