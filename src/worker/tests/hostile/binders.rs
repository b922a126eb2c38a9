//! Those who ask for streams, and break the rules of who asks.

use super::peer::{Heard, Peer, ack, acks, bind, close, data, encoded};
use super::{DRIVERS, Victim, WAYS, partition, until};
use crate::id::BindEpoch;
use crate::subpartition::Phase;
use crate::wire::{Ack, Amount, Bind, Close, Consumed, Frame, Ping, StreamId, StreamPosition};

/// What ends the connection: a name, the rule, and the bytes, with the epoch of streams 0 and 1.
pub(super) fn fatal(epoch: BindEpoch) -> Vec<(&'static str, u16, Vec<u8>)> {
    let header = |length: u32, kind: u8, flags: u8, count: u16| {
        [&length.to_le_bytes()[..], &[kind, flags], &count.to_le_bytes()].concat()
    };
    let binds = |stream, subpartition, count| {
        let stream = StreamId(stream);
        encoded(&Frame::Bind(Bind { stream, subpartition, count, ..bind(0) }))
    };
    let mut short = encoded(&Frame::Close(close(0, epoch)));
    short[0] -= 1;
    short.pop();
    let mut behind_goodbye = encoded(&Frame::Goodbye);
    behind_goodbye.extend(acks(&[ack(0, epoch)]));
    vec![
        ("a length of 2^32-1", 1, header(u32::MAX, 11, 0, 1)),
        ("a length over its kind's limit", 1, header(4097, 4, 0, 0)),
        ("an unknown kind", 2, header(8, 99, 0, 0)),
        ("unknown flags", 2, header(8, 12, 0x80, 0)),
        ("acknowledgements of nothing", 2, header(0, 11, 0, 0)),
        ("too many acknowledgements", 2, header(129 * 72, 11, 0, 129)),
        ("a body too short", 3, short),
        ("a checksum that isn't agreed on", 4, [header(4, 17, 1, 0), vec![0; 4]].concat()),
        ("DATA from a binder", 10, data(0, 0, b"data")),
        ("PING on a data connection", 10, encoded(&Frame::Ping(Ping { sequence: 1, nanos: 2 }))),
        ("something behind GOODBYE", 10, behind_goodbye),
        ("a stream id that was", 11, binds(1, 0, 1)),
        ("a stream id that is skipped", 11, binds(7, 0, 1)),
        ("a BIND of nothing", 12, binds(2, 0, 0)),
        ("a BIND of too much", 12, binds(2, 0, 4097)),
        ("a BIND of all numbers", 12, binds(2, u32::MAX, 2)),
    ]
}

/// What ends stream 0, or nothing that ever was.
fn wrong(epoch: BindEpoch) -> Vec<(&'static str, u16, u32, Vec<u8>)> {
    let base = ack(0, epoch);
    let received = StreamPosition::new(12, 0);
    let consumed = Consumed { records: 1, bytes: 12, entries: 0, aborted: 0 };
    let said = |ack: Ack| acks(&[ack]);
    let twice = |first: Ack, then: Ack| [acks(&[first]), acks(&[then])].concat();
    let closing = |close: Close| encoded(&Frame::Close(close));
    vec![
        ("received beyond sent", 18, 0, said(Ack { received: StreamPosition::new(13, 0), ..base })),
        ("an entry beyond sent", 18, 0, said(Ack { received: StreamPosition::new(0, 1), ..base })),
        (
            "received everything",
            18,
            0,
            said(Ack { received: StreamPosition::new(u64::MAX, u64::MAX), ..base }),
        ),
        ("consumed beyond received", 18, 0, said(Ack { consumed, ..base })),
        ("priority events that weren't", 18, 0, said(Ack { priority: 1, ..base })),
        ("received going back", 17, 0, twice(Ack { received, ..base }, base)),
        ("consumed going back", 17, 0, twice(Ack { received, consumed, ..base }, Ack { received, ..base })),
        ("credit going back", 17, 0, said(Ack { limit: StreamPosition::new(5, 64), ..base })),
        ("a stream that never was", 11, 9, said(Ack { stream: StreamId(9), ..base })),
        ("yielded less than consumed", 18, 0, closing(Close { received, consumed, ..close(0, epoch) })),
        (
            "closed beyond sent",
            18,
            0,
            closing(Close { received: StreamPosition::new(13, 0), ..close(0, epoch) }),
        ),
    ]
}

#[test]
fn what_cannot_be_understood_ends_the_connection() {
    for way in WAYS {
        let mut victim = Victim::new(way);
        let writer = partition(&victim.worker, 0);
        let mut count = 0;
        for case in 0..fatal(BindEpoch(1)).len() {
            let (mut peer, epochs) = Peer::bound(victim.address(), 0, 2);
            let (name, rule, bytes) = fatal(epochs[0]).remove(case);
            peer.send(&bytes);
            peer.expect_error(name, rule, None);
            count += 1;
            victim.until_counted(count, 1);
            victim.assert_flows();
            until("its streams are gone", || {
                writer.snapshot().subpartitions.iter().all(|sub| sub.phase == Phase::Unavailable)
            });
        }
        drop(writer);
        victim.end(count);
    }
}

#[test]
fn what_is_wrong_with_a_stream_ends_that_stream_alone() {
    for way in WAYS {
        let mut victim = Victim::new(way);
        let mut count = 0;
        for case in 0..wrong(BindEpoch(1)).len() {
            let mut writer = partition(&victim.worker, case as u32);
            let (mut peer, epochs) = Peer::bound(victim.address(), case as u32, 2);
            let (name, rule, stream, bytes) = wrong(epochs[0]).remove(case);
            writer.write_blocking(0, b"12345678").unwrap();
            assert_eq!(peer.hear(), Heard::Data(vec![(StreamId(0), 12)]), "{name}");
            peer.send(&bytes);
            peer.expect_error(name, rule, Some(stream));
            count += 1;
            // Counted while the connection lives, on which the other stream goes on.
            victim.until_counted(count, 2);
            writer.write_blocking(1, b"1234").unwrap();
            assert_eq!(peer.hear(), Heard::Data(vec![(StreamId(1), 8)]), "{name}");
            let is_over = || writer.snapshot().subpartitions[0].phase == Phase::Unavailable;
            until("the stream is gone", || is_over() == (stream == 0));
            // What still comes of it is dropped.
            peer.send(&acks(&[ack(1, epochs[1]), ack(0, epochs[0])]));
            drop(peer);
            victim.until_counted(count, 1);
            victim.assert_flows();
        }
        victim.end(count);
    }
}

/// Numbers that nothing forbids and that can't be true don't get into the account.
#[test]
fn absurd_numbers_leave_the_account_balanced() {
    const MUCH: u64 = u64::MAX - 3;
    for way in DRIVERS {
        let mut victim = Victim::new(way);
        let received = StreamPosition::new(24, 0);
        let most = Consumed { records: MUCH, bytes: 12, entries: 0, aborted: 12 };
        let yielded = Amount { records: MUCH, bytes: 24 };
        let part = Consumed { records: 1, bytes: 12, entries: 0, aborted: 0 };
        for (index, (consumed, in_order)) in
            [(part, true), (most, true), (most, false)].into_iter().enumerate()
        {
            let mut writer = partition(&victim.worker, index as u32);
            let (mut peer, epochs) = Peer::bound(victim.address(), index as u32, 1);
            for _ in 0..2 {
                writer.write_blocking(0, b"12345678").unwrap();
                assert!(matches!(peer.hear(), Heard::Data(_)));
            }
            if in_order {
                peer.say(&Frame::Close(Close { received, consumed, yielded, ..close(0, epochs[0]) }));
            } else {
                peer.send(&acks(&[Ack { received, consumed, ..ack(0, epochs[0]) }]));
            }
            until("it is received", || victim.net().bytes_received > 0);
            drop(peer);
            until("it is gone", || writer.snapshot().subpartitions[0].phase == Phase::Unavailable);
            let account = writer.snapshot().subpartitions[0].account;
            assert!(account.is_balanced(), "{account:?}");
            let parts = [
                account.delivered,
                account.in_doubt,
                account.lost.unread,
                account.lost.aborted,
                account.queued,
            ];
            assert!(parts.iter().all(|part| part.records <= 2 && part.bytes <= 24), "{account:?}");
        }
        victim.assert_flows();
        let violations = victim.net().violations;
        victim.end(violations);
    }
}

#[test]
fn a_peer_that_only_makes_errors_is_given_up() {
    for way in DRIVERS {
        let mut victim = Victim::new(way);
        let writer = partition(&victim.worker, 0);
        let (mut peer, epochs) = Peer::bound(victim.address(), 0, 1);
        let nonsense = acks(&[ack(77, epochs[0])]);
        for _ in 0..1025 {
            if !peer.send_some(&nonsense) {
                break;
            }
        }
        let mut errors = 0;
        loop {
            match peer.hear_news() {
                Heard::Error(11, Some(77), _) => errors += 1,
                Heard::Error(11, None, _) => break,
                Heard::Closed | Heard::Reset => break,
                other => panic!("{other:?}"),
            }
        }
        assert!(errors <= 1024, "{errors}");
        victim.until_counted(1025, 1);
        victim.assert_flows();
        drop(writer);
        victim.end(1025);
    }
}
