use super::*;
use crate::event::Event;

fn outgoing() -> Outgoing {
    Outgoing::new(EPOCH, Incoming::initial_limit(WINDOW))
}

fn ack(limit: StreamPosition, received: StreamPosition) -> Ack {
    Ack { stream: STREAM, epoch: EPOCH, limit, received, consumed: Consumed::default(), priority: 0 }
}

/// One of which everything was sent: 600 bytes, two events, two priority events.
fn busy() -> Outgoing {
    let mut outgoing = outgoing();
    assert_eq!(outgoing.send(400), at(0, 0));
    assert_eq!(outgoing.send_entry(0), at(400, 0));
    assert_eq!(outgoing.send(200), at(400, 1));
    assert_eq!(outgoing.send_entry(2048), at(600, 1));
    assert_eq!((outgoing.send_priority(), outgoing.send_priority()), (0, 1));
    assert_eq!((outgoing.position(), outgoing.room()), (at(600, 2), 400));
    outgoing
}

fn consumed(records: u64, bytes: u64, entries: u64, aborted: u64) -> Consumed {
    Consumed { records, bytes, entries, aborted }
}

#[test]
fn acknowledgements_say_what_is_new() {
    let mut outgoing = busy();
    assert!(outgoing.is_unacknowledged());
    let limit = at(1000, 64);
    let mut told = ack(limit, at(600, 2));
    assert_eq!(outgoing.on_ack(&told), Ok(Acked::Fresh(News { received: true, ..News::default() })));
    assert!(!outgoing.is_unacknowledged());
    assert_eq!(outgoing.on_ack(&told), Ok(Acked::Fresh(News::default())), "the same again");
    told.consumed = consumed(3, 400, 1, 0);
    told.priority = 2;
    let news = News { consumed: true, priority: 2, ..News::default() };
    assert_eq!(outgoing.on_ack(&told), Ok(Acked::Fresh(news)));
    assert_eq!((outgoing.received(), outgoing.consumed()), (at(600, 2), told.consumed));
    told.limit = at(1500, 64);
    assert_eq!(outgoing.on_ack(&told), Ok(Acked::Fresh(News { credit: true, ..News::default() })));
    assert_eq!(outgoing.room(), 900);
}

#[test]
fn acknowledgements_of_another_epoch_change_nothing() {
    let mut outgoing = busy();
    let mut stale = ack(at(9000, 99), at(600, 2));
    stale.epoch = OTHER;
    assert_eq!(outgoing.on_ack(&stale), Ok(Acked::Stale));
    let close = Close {
        stream: STREAM,
        epoch: OTHER,
        received: at(600, 2),
        consumed: Consumed::default(),
        yielded: Amount::default(),
    };
    assert_eq!(outgoing.on_close(&close), Ok(Acked::Stale));
    assert_eq!((outgoing.room(), outgoing.received()), (400, at(0, 0)));
}

#[test]
fn nothing_is_taken_back() {
    let mut before = busy();
    let mut told = ack(at(1200, 70), at(600, 2));
    told.consumed = consumed(3, 500, 1, 100);
    told.priority = 1;
    assert!(before.on_ack(&told).is_ok());
    let refused = |change: &dyn Fn(&mut Ack)| {
        let mut outgoing = before.clone();
        let mut worse = told;
        change(&mut worse);
        let rule = broken(outgoing.on_ack(&worse));
        assert_eq!(format!("{outgoing:?}"), format!("{before:?}"), "nothing is changed");
        rule
    };
    assert_eq!(refused(&|ack| ack.limit.bytes -= 1), Rule::MONOTONE);
    assert_eq!(refused(&|ack| ack.limit.entries -= 1), Rule::MONOTONE);
    assert_eq!(refused(&|ack| ack.received.bytes -= 1), Rule::MONOTONE);
    assert_eq!(refused(&|ack| ack.received.entries -= 1), Rule::MONOTONE);
    assert_eq!(refused(&|ack| ack.consumed.records -= 1), Rule::MONOTONE);
    assert_eq!(refused(&|ack| ack.consumed.bytes -= 1), Rule::MONOTONE);
    assert_eq!(refused(&|ack| ack.consumed.entries -= 1), Rule::MONOTONE);
    assert_eq!(refused(&|ack| ack.consumed.aborted -= 1), Rule::MONOTONE);
    // One that counts back looks like one that is far ahead: it wraps around.
    assert_eq!(refused(&|ack| ack.priority -= 1), Rule::SENT);
}

#[test]
fn nothing_is_acknowledged_that_was_not_sent() {
    let before = busy();
    let refused = |change: &dyn Fn(&mut Ack)| {
        let mut wrong = ack(at(1000, 64), at(600, 2));
        wrong.consumed = consumed(3, 600, 2, 0);
        assert!(before.clone().on_ack(&wrong).is_ok());
        change(&mut wrong);
        let mut outgoing = before.clone();
        let rule = broken(outgoing.on_ack(&wrong));
        assert_eq!(format!("{outgoing:?}"), format!("{before:?}"), "nothing is changed");
        rule
    };
    assert_eq!(refused(&|ack| ack.received.bytes = 601), Rule::SENT);
    assert_eq!(refused(&|ack| ack.received.entries = 3), Rule::SENT);
    assert_eq!(refused(&|ack| ack.received.bytes = 599), Rule::SENT);
    assert_eq!(refused(&|ack| ack.received.entries = 1), Rule::SENT);
    assert_eq!(refused(&|ack| ack.consumed.aborted = 601), Rule::SENT);
    assert_eq!(refused(&|ack| ack.priority = 3), Rule::SENT);
}

#[test]
fn the_last_word_is_held_to_the_same_rules() {
    let close = |received, consumed, records, bytes| {
        let yielded = Amount { records, bytes };
        let mut outgoing = busy();
        let close = Close { stream: STREAM, epoch: EPOCH, received, consumed, yielded };
        outgoing.on_close(&close).map(|_| (outgoing.received(), outgoing.consumed()))
    };
    let two = consumed(2, 300, 1, 0);
    assert_eq!(close(at(600, 2), two, 3, 450), Ok((at(600, 2), two)));
    assert_eq!(broken(close(at(601, 2), two, 3, 450)), Rule::SENT);
    assert_eq!(broken(close(at(200, 2), two, 3, 450)), Rule::SENT);
    assert_eq!(broken(close(at(600, 2), two, 3, 601)), Rule::SENT);
    assert_eq!(broken(close(at(600, 2), two, 3, 299)), Rule::SENT);
    assert_eq!(broken(close(at(600, 2), two, 1, 450)), Rule::SENT);
}

#[test]
fn a_bind_that_is_taken_back_acknowledges_nothing() {
    let mut outgoing = busy();
    assert_eq!(outgoing.on_close(&withdrawal(STREAM)), Ok(Acked::Fresh(News::default())));
    assert_eq!(outgoing.received(), at(0, 0));
}

#[test]
fn events_wait_for_credit_of_their_own() {
    let mut outgoing = outgoing();
    for _ in 0..EVENTS_MAX {
        assert!(outgoing.may_send_event());
        outgoing.send_entry(0);
    }
    assert!(!outgoing.may_send_event());
    assert_eq!(outgoing.room(), WINDOW, "bytes are counted apart");
    // What is received or consumed says nothing of the queue; the limit does.
    let mut told = ack(at(1000, 64), at(0, 64));
    assert!(outgoing.on_ack(&told).is_ok());
    assert!(!outgoing.may_send_event());
    told.limit.entries = 65;
    assert!(outgoing.on_ack(&told).is_ok());
    assert!(outgoing.may_send_event());
}

#[test]
fn application_events_are_bounded_in_bytes() {
    let mut outgoing = outgoing();
    let most = EVENT_BYTES_MAX / Event::APPLICATION_BYTES_MAX;
    for _ in 0..most {
        assert!(outgoing.may_send_event());
        outgoing.send_entry(Event::APPLICATION_BYTES_MAX);
    }
    assert!(!outgoing.may_send_event());
    // The first one has left the queue, as the limit says.
    assert!(outgoing.on_ack(&ack(at(1000, EVENTS_MAX + 1), at(0, 1))).is_ok());
    assert!(outgoing.may_send_event());
    outgoing.send_entry(1);
    assert!(!outgoing.may_send_event());
}

#[test]
fn priority_events_are_as_many_as_their_ring_holds() {
    let mut outgoing = outgoing();
    let mut sequence = 0;
    while outgoing.may_send_priority() {
        assert_eq!(outgoing.send_priority(), sequence);
        sequence += 1;
    }
    assert_eq!(sequence, 8);
    let mut told = ack(at(1000, 64), at(0, 0));
    told.priority = 3;
    assert!(outgoing.on_ack(&told).is_ok());
    assert_eq!(outgoing.priority_taken(), 3);
    while outgoing.may_send_priority() {
        assert_eq!(outgoing.send_priority(), sequence);
        sequence += 1;
    }
    assert_eq!(sequence, 11);
}

fn resume(at_: StreamPosition, limit: StreamPosition, priority: u32) -> Resume {
    Resume { incarnation: Incarnation(9), epoch: EPOCH, at: at_, limit, priority }
}

#[test]
fn a_resumed_stream_goes_on_exactly_there() {
    let mut before = busy();
    let mut told = ack(at(1100, 64), at(400, 1));
    told.consumed = consumed(1, 100, 0, 0);
    assert!(before.on_ack(&told).is_ok());
    let next = BindEpoch(8);
    let mut resumed = before.resume(next, &resume(at(500, 1), at(1300, 65), 1)).expect("it agrees");
    assert_eq!((resumed.epoch(), resumed.position(), resumed.room()), (next, at(500, 1), 800));
    assert_eq!((resumed.received(), resumed.consumed()), (at(500, 1), told.consumed));
    assert_eq!((resumed.send(100), resumed.send_entry(0)), (at(500, 1), at(600, 1)));
    assert_eq!(resumed.send_priority(), 1, "the second one is sent again");
    // The old epoch says nothing any more.
    assert_eq!(resumed.on_ack(&told), Ok(Acked::Stale));
    // What was acknowledged stays so.
    told.epoch = next;
    told.limit = at(1300, 65);
    assert_eq!(broken(resumed.on_ack(&told)), Rule::MONOTONE);
}

/// Events that are to be sent again wait for their bytes once, not twice.
#[test]
fn a_resumed_stream_counts_its_events_once() {
    let mut outgoing = outgoing();
    for _ in 0..EVENT_BYTES_MAX / Event::APPLICATION_BYTES_MAX {
        outgoing.send_entry(Event::APPLICATION_BYTES_MAX);
    }
    assert!(!outgoing.may_send_event());
    let resumed = |entries| {
        let resume = resume(at(0, entries), at(1000, 64), 0);
        outgoing.resume(BindEpoch(8), &resume).expect("it agrees")
    };
    assert!(!resumed(32).may_send_event(), "all of them are in the queue");
    let mut again = resumed(31);
    assert!(again.may_send_event());
    assert_eq!(again.send_entry(Event::APPLICATION_BYTES_MAX), at(0, 31));
    assert!(!again.may_send_event());
}

#[test]
fn a_resume_that_disagrees_starts_anew() {
    let mut before = busy();
    let mut told = ack(at(1100, 64), at(400, 1));
    told.priority = 1;
    assert!(before.on_ack(&told).is_ok());
    let may = |resume: Resume| before.resume(BindEpoch(8), &resume).is_some();
    assert!(may(resume(at(400, 1), at(1100, 64), 1)));
    assert!(may(resume(at(600, 2), at(1100, 64), 2)));
    assert!(!may(Resume { epoch: OTHER, ..resume(at(400, 1), at(1100, 64), 1) }));
    assert!(!may(resume(at(399, 1), at(1100, 64), 1)), "before what is acknowledged");
    assert!(!may(resume(at(400, 0), at(1100, 64), 1)), "before what is acknowledged");
    assert!(!may(resume(at(601, 2), at(1100, 64), 1)), "never sent");
    assert!(!may(resume(at(600, 3), at(1100, 64), 1)), "never sent");
    assert!(!may(resume(at(400, 1), at(1099, 64), 1)), "credit shrinks");
    assert!(!may(resume(at(400, 1), at(1100, 64), 0)), "priority events taken before");
    assert!(!may(resume(at(400, 1), at(1100, 64), 3)), "priority events never sent");
}
