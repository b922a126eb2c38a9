//! The last word of a reader whose view is gone: the account is what it had been with the view's own word.

use super::*;
use crate::id::BindEpoch;

const RETAIN: WhenAbsent = WhenAbsent::Retain { quota: 8, then: WhenRetained::Block };
const REPLAY: WhenAbsent = WhenAbsent::Replay { quota: 8 };
const ALL: [WhenAbsent; 3] = [WhenAbsent::Discard, RETAIN, REPLAY];

/// What came over the wire of one bind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Came {
    bytes: u64,
    entries: u64,
    has_end: bool,
}

fn bench(when_absent: WhenAbsent) -> Bench {
    let policies = Policies { when_absent, flush: Flush::WhenFull, ..Policies::default() };
    Bench::new(RecordLayout::Lengths, policies, 8, 64)
}

fn request(attempt: u32) -> BindRequest {
    BindRequest::new(Attempt(attempt), Incarnation(u64::from(attempt))).holding(HOLDS)
}

fn source(bench: &Bench, attempt: u32) -> (Source, BindEpoch, Grant) {
    let node = ReadyNode::new(&bench.bell, 0);
    let grant = bench.sub.bind(request(attempt), &node).unwrap();
    (Source::new(View::new(bench.sub.clone(), node, &grant)), grant.epoch, grant)
}

/// Sends all there is.
fn send(source: &mut Source) -> Came {
    let mut came = Came::default();
    let mut out = Vec::new();
    loop {
        match source.offer().unwrap() {
            Offer::Empty | Offer::Busy => return came,
            Offer::Data { bytes, .. } => {
                source.copy(bytes, &mut out);
                came.bytes += bytes as u64;
            }
            Offer::Event => {
                came.entries += 1;
                came.has_end |= source.event(&mut out) == Some(SourceEvent::EndOfPartition);
            }
        }
    }
}

fn word(epoch: BindEpoch, came: Came, aborted: u64) -> LastWord {
    assert!(came.has_end);
    LastWord { epoch, bytes: came.bytes, aborted }
}

/// Ten records of 104 bytes, of which the first three are acknowledged, and half of a long one that the end breaks off.
fn with_end(when_absent: WhenAbsent) -> (Bench, Source, BindEpoch, Came) {
    let mut bench = bench(when_absent);
    let (mut source, epoch, _) = source(&bench, 1);
    for index in 0..10 {
        assert_eq!(bench.write(&record(index, 100)), Append::Done);
    }
    assert_eq!(bench.write(&record(10, 60_000)), Append::Blocked(Blocked::Memory));
    bench.writer.as_mut().unwrap().append_end(EndKind::Finished);
    let came = send(&mut source);
    let consumed = Consumed { amount: Amount::new(3, 3 * 104), aborted: 0, entries: 0 };
    source.received(3 * 104, 0).unwrap();
    assert_eq!(source.consumed(consumed), Ok(false));
    (bench, source, epoch, came)
}

fn assert_all_delivered(bench: &Bench, came: Came) {
    let account = bench.sub.account();
    assert!(account.is_balanced(), "{account:?}");
    assert_eq!(account.delivered, Amount::new(10, 10 * 104), "{account:?}");
    // The writer counts the record and what of it was never sent.
    assert_eq!(account.lost.total(), Amount::new(1, 60_004));
    assert_eq!(account.lost.aborted.bytes, came.bytes - 10 * 104);
    assert_eq!((account.in_doubt, account.queued), (Amount::ZERO, Amount::ZERO), "{account:?}");
    assert!(bench.sub.is_end_acknowledged());
}

#[test]
fn a_word_after_the_fence_makes_doubt_into_deliveries() {
    for when_absent in ALL {
        let (bench, source, epoch, came) = with_end(when_absent);
        drop(source);
        let fenced = bench.sub.account();
        assert!(fenced.is_balanced() && fenced.delivered == Amount::new(3, 3 * 104), "{fenced:?}");
        let open = if when_absent == REPLAY { fenced.queued } else { fenced.in_doubt };
        assert_eq!(open, Amount::new(7, came.bytes - 3 * 104), "{when_absent:?}: {fenced:?}");
        let aborted = came.bytes - 10 * 104;
        assert_eq!(bench.sub.end_consumed(request(1), &word(epoch, came, aborted)), Ok(true));
        assert_all_delivered(&bench, came);
        // Again, since the answer may be lost: nothing more.
        assert_eq!(bench.sub.end_consumed(request(1), &word(epoch, came, aborted)), Ok(false));
        assert_all_delivered(&bench, came);
        // A newer attempt finds the end acknowledged, and nothing lost or in doubt but what was broken off.
        let (mut next, _, grant) = source_of(&bench);
        assert!(grant.ended);
        assert_eq!(grant.in_doubt, Amount::ZERO);
        assert_eq!(send(&mut next), Came::default());
        drop(next);
        bench.assert_whole();
    }
}

fn source_of(bench: &Bench) -> (Source, BindEpoch, Grant) {
    source(bench, 2)
}

#[test]
fn a_word_before_the_fence_is_the_fence() {
    for when_absent in ALL {
        let (bench, mut old, epoch, came) = with_end(when_absent);
        let aborted = came.bytes - 10 * 104;
        assert_eq!(bench.sub.end_consumed(request(1), &word(epoch, came, aborted)), Ok(true));
        assert_all_delivered(&bench, came);
        assert_eq!(bench.sub.phase(), Phase::Unavailable);
        assert_eq!(old.offer(), Err(Fenced), "the view that hadn't noticed");
        let late = Consumed { amount: Amount::new(10, came.bytes), aborted, entries: came.entries };
        assert_ne!(old.consumed(late), Ok(true), "its own word comes too late");
        drop(old);
        assert_all_delivered(&bench, came);
        bench.assert_whole();
    }
}

#[test]
fn a_reader_that_came_later_speaks_for_itself() {
    for when_absent in ALL {
        let (bench, source, epoch, came) = with_end(when_absent);
        drop(source);
        let word = word(epoch, came, came.bytes - 10 * 104);
        let (mut next, newer, grant) = source_of(&bench);
        let told = grant.in_doubt;
        let stale = Refusal::Stale { presented: Attempt(1), current: Attempt(2) };
        assert_eq!(bench.sub.end_consumed(request(1), &word), Err(Disbelief::Refused(stale)));
        // Not even by the newer one's name.
        assert_eq!(bench.sub.end_consumed(request(2), &word), Err(Disbelief::Superseded));
        let account = bench.sub.account();
        assert!(
            account.is_balanced() && account.in_doubt == told,
            "what it was told stays true: {account:?}"
        );
        let again = send(&mut next);
        assert!(again.has_end);
        drop(next);
        // Its own is taken.
        let aborted = again.bytes.saturating_sub(7 * 104);
        let word = LastWord { epoch: newer, bytes: again.bytes, aborted };
        assert_eq!(bench.sub.end_consumed(request(2), &word), Ok(true));
        assert!(bench.sub.account().is_balanced() && bench.sub.is_end_acknowledged());
        bench.assert_whole();
    }
}

/// And leaves everything as it was.
#[test]
fn a_word_of_what_was_not_sent_is_not_believed() {
    for when_absent in ALL {
        for is_fenced in [false, true] {
            let mut bench = bench(when_absent);
            let nothing = LastWord { epoch: BindEpoch(1), bytes: 0, aborted: 0 };
            assert_eq!(bench.sub.end_consumed(request(1), &nothing), Err(Disbelief::Superseded));
            let (mut source, epoch, _) = source(&bench, 1);
            assert_eq!(bench.write(&record(0, 100)), Append::Done);
            let came = send(&mut source);
            let refused = |bytes, aborted| {
                let word = LastWord { epoch, bytes, aborted };
                assert_eq!(bench.sub.end_consumed(request(1), &word), Err(Disbelief::NotSent));
            };
            // No end is there; an end is there, and this view hasn't had it.
            refused(came.bytes, 0);
            bench.writer.as_mut().unwrap().append_end(EndKind::Finished);
            let refused = |bytes, aborted| {
                let word = LastWord { epoch, bytes, aborted };
                assert_eq!(bench.sub.end_consumed(request(1), &word), Err(Disbelief::NotSent));
            };
            refused(came.bytes, 0);
            assert!(send(&mut source).has_end);
            let mut source = Some(source);
            if is_fenced {
                source = None;
            }
            // It was sent, and something else with it.
            refused(came.bytes - 1, 0);
            refused(came.bytes + 1, 0);
            refused(u64::MAX, u64::MAX);
            refused(came.bytes, came.bytes + 1);
            let other = LastWord { epoch: epoch.next(), bytes: came.bytes, aborted: 0 };
            assert_eq!(bench.sub.end_consumed(request(1), &other), Err(Disbelief::Superseded));
            let twin = BindRequest::new(Attempt(1), Incarnation(77));
            let word = LastWord { epoch, bytes: came.bytes, aborted: 0 };
            let duplicate = Disbelief::Refused(Refusal::DuplicateAttempt { attempt: Attempt(1) });
            assert_eq!(bench.sub.end_consumed(twin, &word), Err(duplicate));
            assert!(!bench.sub.is_end_acknowledged());
            assert_eq!(bench.sub.phase(), if is_fenced { Phase::Unavailable } else { Phase::Bound });
            assert_eq!(bench.sub.end_consumed(request(1), &word), Ok(true), "the true one is");
            drop(source);
            bench.assert_whole();
        }
    }
}

#[test]
fn a_word_after_the_release_changes_nothing() {
    let (bench, source, epoch, came) = with_end(RETAIN);
    drop(source);
    bench.sub.release(&crate::error::Cause::Released);
    let word = word(epoch, came, 0);
    assert_eq!(bench.sub.end_consumed(request(1), &word), Err(Disbelief::Refused(Refusal::Released)));
    bench.assert_whole();
}
