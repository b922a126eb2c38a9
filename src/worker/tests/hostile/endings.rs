//! Ends that were consumed, as they are told and answered word by word.

use super::peer::{Heard, Peer, Port, bind, bound, close, data_of, event, record};
use super::servers::{begin, gate};
use super::{DRIVERS, Victim, WAYS, id, next, partition, until};
use crate::error::{BindError, Cause};
use crate::gate::{InputGate, Item};
use crate::id::{Attempt, BindEpoch, BindSecret, Incarnation};
use crate::subpartition::{Amount, Phase};
use crate::wire::{
    self, Bind, Close, Consumed, Ended, Frame, Gone, Refused, StreamEvent, StreamId, StreamPosition,
};
use std::thread;
use std::time::Duration;

fn consumed(records: u64, bytes: u64, entries: u64) -> Consumed {
    Consumed { records, bytes, entries, aborted: 0 }
}

#[test]
fn ends_that_were_not_sent_are_refused() {
    for way in WAYS {
        let mut victim = Victim::new(way);
        let mut writer = partition(&victim.worker, 0);
        let (mut peer, epochs) = Peer::bound(victim.address(), 0, 1);
        let incarnation = peer.1;
        let ended = |epoch, consumed| Some(Ended { incarnation, epoch, consumed });
        let all = consumed(1, 12, 2);
        writer.write_blocking(0, b"12345678").unwrap();
        assert_eq!(peer.hear(), Heard::Data(vec![(StreamId(0), 12)]));
        let mut stream = 0;
        let mut ask = |peer: &mut Peer, question: Bind| {
            stream += 1;
            peer.say(&Frame::Bind(Bind { stream: StreamId(stream), ..question }));
            StreamId(stream)
        };
        // The end isn't there.
        let told = ask(&mut peer, Bind { ended: ended(epochs[0], all), ..bind(0) });
        peer.expect_error("no end", 29, Some(told.0));
        let finish = thread::spawn(move || {
            writer.finish_blocking_timeout(super::PATIENCE).unwrap();
            writer
        });
        assert_eq!((peer.hear(), peer.hear()), (Heard::Event(StreamId(0)), Heard::Event(StreamId(0))));
        let refused = |presented| BindError::Stale { presented, current: Attempt(1) };
        let not_found = |index| BindError::NotFound { partition: id(index) };
        // Everything else that can't be, each with its own answer and at once.
        let right = || Bind { ended: ended(epochs[0], all), ..bind(0) };
        let cases = [
            (Bind { attempt: Attempt(0), ..right() }, refused(Attempt(0))),
            (
                Bind { incarnation: Incarnation(1), ..right() },
                BindError::DuplicateAttempt { attempt: Attempt(1) },
            ),
            (Bind { secret: BindSecret::new(8), ..right() }, not_found(0)),
            (
                Bind { ended: ended(BindEpoch(77), all), ..bind(0) },
                BindError::Superseded { newer: Attempt(1) },
            ),
            (
                Bind {
                    ended: Some(Ended { incarnation: Incarnation(5), epoch: epochs[0], consumed: all }),
                    ..bind(0)
                },
                not_found(0),
            ),
            // There never was such a partition here: it isn't waited for.
            (Bind { ended: ended(epochs[0], all), ..bind(55) }, not_found(55)),
        ];
        for (question, answer) in cases {
            let told = ask(&mut peer, question);
            assert_eq!(peer.hear(), Heard::Refused(told, answer));
        }
        for (name, wrong) in [("less", consumed(1, 11, 2)), ("more", consumed(1, 13, 2))] {
            let told = ask(&mut peer, Bind { ended: ended(epochs[0], wrong), ..bind(0) });
            peer.expect_error(name, 29, Some(told.0));
        }
        victim.until_counted(3, 2);
        let sub = || victim.worker.snapshot().partitions[0].subpartitions[0].clone();
        assert_eq!((sub().phase, sub().account.delivered), (Phase::Bound, Amount::ZERO));
        // What is true is taken, once; a second time it is confirmed. The stream of that bind learns of it.
        let first = ask(&mut peer, right());
        let mut heard = [peer.hear(), peer.hear()];
        heard.sort_by_key(|heard| matches!(heard, Heard::Gone(StreamId(0), _)));
        assert_eq!(heard[0], Heard::Gone(first, Cause::Consumed));
        assert!(matches!(&heard[1], Heard::Gone(StreamId(0), Cause::Fenced { .. })), "{heard:?}");
        let second = ask(&mut peer, right());
        assert_eq!(peer.hear(), Heard::Gone(second, Cause::Consumed));
        assert_eq!(sub().account.delivered, Amount::new(1, 12));
        assert!(sub().account.is_balanced());
        // The other subpartition's end, by a last word of its own: confirmed, and that of all.
        let other = ask(&mut peer, Bind { subpartition: 1, ..bind(0) });
        assert!(matches!(peer.hear(), Heard::Bound(..)));
        assert_eq!((peer.hear(), peer.hear()), (Heard::Event(other), Heard::Event(other)));
        let received = StreamPosition::new(0, 2);
        let last = Close { received, consumed: consumed(0, 0, 2), ..close(other.0, BindEpoch(1)) };
        peer.say(&Frame::Close(last));
        assert_eq!(peer.hear(), Heard::Gone(other, Cause::Consumed));
        drop(finish.join().unwrap());
        let late = ask(&mut peer, right());
        let released = BindError::Released { cause: Cause::Consumed };
        assert_eq!(peer.hear(), Heard::Refused(late, released));
        drop(peer);
        victim.assert_flows();
        victim.end(3);
    }
}

/// A gate whose first channel has come to its end, of which the other side has heard and says nothing.
fn ended(victim: &Victim, port: &mut Port) -> (InputGate, Peer) {
    let mut gate = gate(victim, port);
    let mut peer = begin(&mut gate, port);
    peer.send(&event(0, 8, 0, StreamEvent::EndOfPartition));
    assert!(matches!(next(&mut gate), Item::EndOfPartition { channel: 0 }));
    assert_eq!(peer.hear_news(), Heard::Close(StreamId(0)));
    assert_eq!(victim.net().ends_unsaid, 1);
    (gate, peer)
}

/// The next connection, by which the end is told; the other channel asks as ever.
fn told_again(gate: &mut InputGate, port: &mut Port) -> (Peer, StreamId) {
    // Its channel asks again when the gate is asked.
    assert!(matches!(next(gate), Item::Unavailable { channel: 1, cause: Cause::ConnectionLost { .. }, .. }));
    assert!(matches!(gate.next_blocking_timeout(Duration::ZERO), Ok(crate::gate::TryNext::Empty)));
    let mut peer = port.accept();
    let (mut told, mut is_bound) = (None, false);
    while told.is_none() || !is_bound {
        match peer.hear() {
            Heard::Ended(stream, ended) => {
                let consumed = consumed(1, 8, 1);
                let expected = Ended { incarnation: Incarnation(3), epoch: BindEpoch(5), consumed };
                assert_eq!(ended, expected);
                told = Some(stream);
            }
            Heard::Bind(StreamId(stream)) => {
                peer.say(&Frame::Bound(bound(stream)));
                is_bound = true;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(next(gate), Item::Available { channel: 1, .. }));
    (peer, told.unwrap())
}

#[test]
fn an_end_is_told_by_every_connection_until_it_is_answered() {
    for way in WAYS {
        let victim = Victim::new(way);
        let gone = |stream| Frame::Gone(Gone { stream, epoch: BindEpoch(5), cause: Cause::Consumed });
        let error = BindError::NotFound { partition: id(0) };
        for answer in 0..4 {
            let mut port = Port::open();
            let (mut gate, peer) = ended(&victim, &mut port);
            drop(peer);
            let (peer, _) = told_again(&mut gate, &mut port);
            drop(peer);
            let (mut peer, stream) = told_again(&mut gate, &mut port);
            // Of another bind: it says nothing.
            let stale = Gone { stream, epoch: BindEpoch(4), cause: Cause::Consumed };
            peer.say(&Frame::Gone(stale));
            until("it is dropped", || victim.net().frames_stale == answer + 1);
            assert_eq!(victim.net().ends_unsaid, 1);
            match answer {
                0 => peer.say(&gone(stream)),
                1 => peer.say(&Frame::Refused(Refused { stream, error: error.clone() })),
                2 => peer.say(&Frame::Error(wire::ErrorFrame {
                    rule: wire::Rule::ENDED,
                    stream: Some(stream),
                    text: "no",
                })),
                // Without an answer it is told as long as the gate is there, and then a while.
                _ => drop(gate),
            }
            if answer == 3 {
                assert_eq!(victim.net().ends_unsaid, 1);
                drop(peer);
                let mut peer = port.accept();
                let Heard::Ended(stream, _) = peer.hear() else { panic!("nothing else is wanted") };
                peer.say(&gone(stream));
            }
            until("it is known", || victim.net().ends_unsaid == 0);
        }
        let net = victim.net();
        assert_eq!((net.ends_told_again, net.ends_given_up), (9, 1), "{net:?}");
        victim.end(0);
    }
}

/// A stream that has come to its end needs its connection no more: the task learns nothing of the loss.
#[test]
fn what_was_received_to_its_end_is_read_without_a_connection() {
    for way in DRIVERS {
        let victim = Victim::new(way);
        let mut port = Port::open();
        let mut gate = gate(&victim, &port);
        let mut peer = begin(&mut gate, &mut port);
        // More than the queue of a channel takes.
        for entry in 0..60 {
            let at = 8 + 12 * entry;
            let place = StreamPosition::new(at, entry);
            peer.send(&data_of(0, BindEpoch(5), place, &record(&entry.to_le_bytes())));
            peer.send(&event(0, at + 12, entry, StreamEvent::Barrier(entry)));
        }
        peer.send(&event(0, 8 + 12 * 60, 60, StreamEvent::EndOfPartition));
        let before = victim.net();
        let all = StreamPosition::new(8 + 12 * 60, 61);
        loop {
            match peer.hear() {
                Heard::Acks(acks) if acks.iter().any(|ack| ack.received == all) => break,
                Heard::Acks(_) => {}
                other => panic!("{other:?}"),
            }
        }
        drop(peer);
        until("the loss is seen", || victim.net().connections_lost == before.connections_lost + 1);
        let (mut records, mut barriers, mut is_lost) = (0_u64, 0, false);
        loop {
            match next(&mut gate) {
                Item::Record(record) => {
                    assert_eq!(record.as_bytes(), records.to_le_bytes());
                    records += 1;
                }
                Item::Event { channel: 0, .. } => barriers += 1,
                Item::Unavailable { channel: 1, .. } => is_lost = true,
                // Barriers that won't come from there.
                Item::AlignmentBroken { channel: 1, .. } if is_lost => {}
                Item::EndOfPartition { channel: 0 } => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((records, barriers), (60, 60));
        until("it is to be told", || victim.net().ends_unsaid == 1);
        if !is_lost {
            assert!(matches!(next(&mut gate), Item::Unavailable { channel: 1, .. }));
        }
        let mut peer = port.accept();
        loop {
            match peer.hear() {
                Heard::Ended(stream, ended) => {
                    assert_eq!(ended.consumed, consumed(61, 728, 61));
                    let gone = Gone { stream, epoch: BindEpoch(5), cause: Cause::Consumed };
                    peer.say(&Frame::Gone(gone));
                    break;
                }
                Heard::Bind(_) => {}
                other => panic!("{other:?}"),
            }
        }
        until("it is known", || victim.net().ends_unsaid == 0);
        drop((gate, peer));
        victim.end(0);
    }
}
