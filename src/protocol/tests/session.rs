use super::*;

fn binder() -> Session<u32> {
    Session::new(Role::Server, Purpose::Data)
}

fn server() -> Session<u32> {
    Session::new(Role::Binder, Purpose::Data)
}

/// The rule and whether it is about the connection.
fn refused<T: std::fmt::Debug>(result: Result<T, Violation>) -> (Rule, bool) {
    let violation = result.expect_err("it breaks a rule");
    (violation.rule, violation.scope == Scope::Connection)
}

#[test]
fn each_side_says_what_its_role_allows() {
    use Kind::{
        Ack, Bind, Bound, Close, Data, Error, Event, Gone, Goodbye, Ping, Pong, Priority, Refused, Waiting,
    };
    let allowed = [
        (Role::Binder, Purpose::Data, vec![Bind, Ack, Close, Error, Goodbye]),
        (
            Role::Server,
            Purpose::Data,
            vec![Waiting, Refused, Bound, Data, Event, Priority, Gone, Error, Goodbye],
        ),
        (Role::Binder, Purpose::Control, vec![Ping, Pong, Error, Goodbye]),
        (Role::Server, Purpose::Control, vec![Ping, Pong, Error, Goodbye]),
    ];
    for (peer, purpose, kinds) in allowed {
        for kind in Kind::ALL {
            let admitted = Session::<u32>::new(peer, purpose).admit(kind);
            match kinds.contains(&kind) {
                true => assert_eq!(admitted, Ok(())),
                false => assert_eq!(refused(admitted), (Rule::ROLE, true), "{kind:?} from {peer:?}"),
            }
        }
    }
}

#[test]
fn nothing_follows_goodbye() {
    let mut session = binder();
    assert_eq!(session.admit(Kind::Goodbye), Ok(()));
    assert!(session.is_over());
    assert_eq!(refused(session.admit(Kind::Data)), (Rule::ROLE, true));
    assert_eq!(refused(session.admit(Kind::Goodbye)), (Rule::ROLE, true));
}

#[test]
fn ids_are_given_in_order_and_never_twice() {
    let mut ours = binder();
    let mut theirs = server();
    assert_eq!(ours.open(2, |at| 10 + at), Some(StreamId(0)));
    assert_eq!(theirs.on_bind(&bind(0, 2), |at| 10 + at), Ok(()));
    assert_eq!(ours.close(StreamId(1)), Some(11));
    assert_eq!(ours.open(1, |_| 20), Some(StreamId(2)), "not 1 again");
    assert_eq!(theirs.get(StreamId(1)), Some(11));
    for wrong in [0, 1, 3, u32::MAX] {
        assert_eq!(refused(theirs.on_bind(&bind(wrong, 1), |_| 0)), (Rule::STREAM, true));
    }
    assert_eq!(theirs.on_bind(&bind(2, 1), |_| 20), Ok(()));
    assert_eq!(theirs.len(), 3);
    let drained: Vec<_> = ours.drain().map(|(stream, _)| stream).collect();
    assert_eq!((drained.len(), ours.len()), (2, 0));
    assert_eq!(ours.open(1, |_| 0), Some(StreamId(3)));
}

#[test]
fn a_bind_names_a_range_that_may_be() {
    let refuse = |bind: Bind| refused(server().on_bind(&bind, |_| 0));
    assert_eq!(refuse(bind(0, 0)), (Rule::RANGE, true));
    assert_eq!(refuse(bind(0, BIND_COUNT_MAX + 1)), (Rule::RANGE, true));
    assert_eq!(refuse(Bind { subpartition: u32::MAX, ..bind(0, 1) }), (Rule::RANGE, true));
    let resume =
        Resume { incarnation: Incarnation(1), epoch: EPOCH, at: at(1, 0), limit: at(2, 64), priority: 0 };
    assert_eq!(refuse(Bind { resume: Some(resume), ..bind(0, 2) }), (Rule::RANGE, true));
    assert_eq!(server().on_bind(&Bind { resume: Some(resume), ..bind(0, 1) }, |_| 0), Ok(()));
    let ended = Some(ended());
    assert_eq!(refuse(Bind { ended, ..bind(0, 2) }), (Rule::RANGE, true));
    assert_eq!(refuse(Bind { ended, resume: Some(resume), ..bind(0, 1) }), (Rule::RANGE, true));
    assert_eq!(server().on_bind(&bind(0, BIND_COUNT_MAX), |_| 0), Ok(()));
    // Open streams are bounded, on both sides alike.
    let (mut ours, mut theirs) = (binder(), server());
    for first in (0..STREAMS_MAX as u32).step_by(BIND_COUNT_MAX as usize) {
        assert_eq!(ours.open(BIND_COUNT_MAX, |_| 0), Some(StreamId(first)));
        assert_eq!(theirs.on_bind(&bind(first, BIND_COUNT_MAX), |_| 0), Ok(()));
    }
    assert_eq!(ours.open(1, |_| 0), None);
    assert_eq!(refused(theirs.on_bind(&bind(STREAMS_MAX as u32, 1), |_| 0)), (Rule::RANGE, true));
    assert_eq!(ours.open(0, |_| 0), None);
}

#[test]
fn a_bind_is_answered_once_and_nothing_comes_before() {
    let mut session = binder();
    let stream = session.open(1, |_| 5).expect("room");
    for early in [Kind::Data, Kind::Event, Kind::Priority, Kind::Gone] {
        assert_eq!(refused(session.find(stream, early)), (Rule::ANSWER, false), "{early:?}");
    }
    assert_eq!(session.find(stream, Kind::Waiting), Ok(Some(5)));
    assert_eq!(refused(session.find(stream, Kind::Waiting)), (Rule::ANSWER, false));
    assert_eq!(refused(session.find(stream, Kind::Data)), (Rule::ANSWER, false));
    assert_eq!(session.find(stream, Kind::Bound), Ok(Some(5)));
    for again in [Kind::Bound, Kind::Waiting, Kind::Refused] {
        assert_eq!(refused(session.find(stream, again)), (Rule::ANSWER, false), "{again:?}");
    }
    for after in [Kind::Data, Kind::Event, Kind::Priority, Kind::Gone] {
        assert_eq!(session.find(stream, after), Ok(Some(5)));
    }
    // Without WAITING, too.
    let stream = session.open(2, |_| 6).expect("room");
    assert_eq!(session.find(stream, Kind::Bound), Ok(Some(6)));
    assert_eq!(session.find(StreamId(stream.0 + 1), Kind::Refused), Ok(Some(6)));

    let mut session = server();
    assert_eq!(session.on_bind(&bind(0, 1), |_| 5), Ok(()));
    assert_eq!(refused(session.find(StreamId(0), Kind::Ack)), (Rule::ANSWER, false));
    assert_eq!(session.find(StreamId(0), Kind::Close), Ok(Some(5)), "a bind may be taken back");
    assert!(session.answer(StreamId(0), Kind::Waiting));
    assert_eq!(refused(session.find(StreamId(0), Kind::Ack)), (Rule::ANSWER, false));
    assert!(session.answer(StreamId(0), Kind::Bound));
    assert_eq!(session.find(StreamId(0), Kind::Ack), Ok(Some(5)));
}

fn ended() -> Ended {
    Ended { incarnation: Incarnation(1), epoch: EPOCH, consumed: Consumed::default() }
}

#[test]
fn a_bind_that_says_an_end_is_answered_and_nothing_else() {
    let mut ours = binder();
    for answer in [Kind::Gone, Kind::Refused] {
        let stream = ours.tell(7).expect("room");
        for wrong in [Kind::Waiting, Kind::Bound, Kind::Data, Kind::Event, Kind::Priority] {
            assert_eq!(refused(ours.find(stream, wrong)), (Rule::ANSWER, false), "{wrong:?}");
        }
        assert_eq!(ours.find(stream, answer), Ok(Some(7)));
        assert_eq!(ours.close(stream), Some(7));
    }
    let mut theirs = server();
    assert_eq!(theirs.on_bind(&Bind { ended: Some(ended()), ..bind(0, 1) }, |_| 7), Ok(()));
    assert_eq!(refused(theirs.find(StreamId(0), Kind::Ack)), (Rule::ANSWER, false));
    assert_eq!(theirs.close(StreamId(0)), Some(7));
    assert_eq!(theirs.on_bind(&bind(1, 1), |_| 8), Ok(()), "the ids go on");
    // It takes a stream like any other.
    let mut full = binder();
    for _ in (0..STREAMS_MAX).step_by(BIND_COUNT_MAX as usize) {
        assert!(full.open(BIND_COUNT_MAX, |_| 0).is_some());
    }
    assert_eq!(full.tell(0), None);
}

#[test]
fn frames_of_streams_that_are_over_are_dropped() {
    let mut session = binder();
    let stream = session.open(1, |_| 5).expect("room");
    assert_eq!(session.find(stream, Kind::Bound), Ok(Some(5)));
    assert_eq!((session.close(stream), session.close(stream)), (Some(5), None));
    for late in [Kind::Data, Kind::Event, Kind::Priority, Kind::Gone, Kind::Bound] {
        assert_eq!(session.find(stream, late), Ok(None), "{late:?}");
    }
    session.count_stale();
    assert_eq!(session.counts(), Counts { stale: 1, unknown: 5, violations: 0 });
    assert!(!session.answer(stream, Kind::Bound), "it was closed meanwhile");
    // One that never was is something else.
    assert_eq!(refused(session.find(StreamId(1), Kind::Data)), (Rule::STREAM, false));
    assert_eq!(session.counts().violations, 1);
}

#[test]
fn a_peer_that_only_makes_errors_is_given_up() {
    let mut session = binder();
    for _ in 0..VIOLATIONS_MAX {
        assert_eq!(refused(session.find(StreamId(9), Kind::Data)), (Rule::STREAM, false));
    }
    assert_eq!(refused(session.find(StreamId(9), Kind::Data)), (Rule::STREAM, true));
}

#[test]
fn violations_are_told_with_their_rule() {
    let violation = session_violation();
    let frame = violation.frame();
    assert_eq!((frame.rule, frame.stream), (Rule::STREAM, Some(StreamId(9))));
    assert_eq!(violation.to_string(), "P-11: stream 9: DATA for a stream beyond the 0 there were");
    let wire = Violation::from(WireError::UnknownKind(99));
    assert_eq!(
        (wire.scope, wire.rule, &*wire.text),
        (Scope::Connection, Rule::KIND, "there is no frame of kind 99")
    );
    assert_eq!(wire.frame().stream, None);
}

fn session_violation() -> Violation {
    binder().find(StreamId(9), Kind::Data).expect_err("there is none")
}

#[test]
fn a_pong_answers_a_ping() {
    let mut heart = Heartbeat::default();
    let (first, second) = (heart.ping(moment(10)), heart.ping(moment(20)));
    assert_eq!((first.sequence, second.sequence, heart.unanswered()), (1, 2, 2));
    assert_eq!(heart.on_pong(&first, moment(15)), Ok(Duration::from_micros(5)));
    assert_eq!(refused(heart.on_pong(&first, moment(16))), (Rule::HEARTBEAT, true));
    assert_eq!(refused(heart.on_pong(&Ping { sequence: 3, nanos: 0 }, moment(16))), (Rule::HEARTBEAT, true));
    assert_eq!(refused(heart.on_pong(&second, moment(16))), (Rule::HEARTBEAT, true), "from the future");
    assert_eq!(heart.on_pong(&second, moment(30)), Ok(Duration::from_micros(10)));
    assert_eq!(heart.unanswered(), 0);
}
