//! Those who are asked for streams, and break the rules of who serves them.

use super::peer::{Heard, NOWHERE, Peer, Port, bind, bound, data, data_of, encoded, event, record};
use super::{DRIVERS, Victim, WAYS, id, next, secret, until};
use crate::error::Cause;
use crate::event::PriorityEvent;
use crate::gate::{GateConfig, InputGate, Item};
use crate::id::{Attempt, BindEpoch, Incarnation};
use crate::partition::{ChannelDescriptor, Location};
use crate::record::RecordLayout;
use crate::wire::{Bound, Frame, Gone, PriorityFrame, StreamEvent, StreamId, StreamPosition, Waiting};
use std::time::{Duration, Instant};

/// A gate over two channels of the server behind `port`.
pub(super) fn gate(victim: &Victim, port: &Port) -> InputGate {
    let channel = |subpartition| ChannelDescriptor {
        partition: id(0),
        producer_attempt: Attempt(1),
        subpartition,
        location: Location::Remote(port.address()),
        secret: secret(),
        layout: RecordLayout::Lengths,
    };
    let config = GateConfig::new(Attempt(1), Incarnation(1)).channels([channel(0), channel(1)]);
    // A window of a mebibyte each.
    let config = config.receive_bytes_max(2 << 20);
    let mut gate = victim.worker.input_gate(config);
    // Asks for its channels.
    assert!(matches!(gate.next_blocking_timeout(Duration::ZERO), Ok(crate::gate::TryNext::Empty)));
    gate
}

fn priority(sequence: u32) -> Vec<u8> {
    let event = PriorityEvent::new(b"now").unwrap();
    encoded(&Frame::Priority(PriorityFrame { stream: StreamId(0), epoch: BindEpoch(5), sequence, event }))
}

/// What ends stream 0, which is bound and at byte 8, or one that never was.
pub(super) fn wrong() -> Vec<(&'static str, u16, u32, Vec<u8>)> {
    let barrier = |entry: u64| event(0, 8, entry, StreamEvent::Barrier(entry));
    let bytes = [7; 60_000];
    let beyond = (0..20).flat_map(|part| data(0, 8 + part * bytes.len() as u64, &bytes)).collect();
    let flood = (0..65_536).flat_map(barrier).collect();
    let ended = [event(0, 8, 0, StreamEvent::EndOfPartition), data(0, 8, b"more")].concat();
    let resumed = encoded(&Frame::Bound(Bound { resumed: true, ..bound(0) }));
    vec![
        ("data beyond credit", 16, 0, beyond),
        ("a gap", 15, 0, data(0, 9, b"gap")),
        ("an overlap", 15, 0, data(0, 7, b"overlap")),
        ("a gap of events", 15, 0, barrier(1)),
        ("an event at another byte", 15, 0, event(0, 9, 0, StreamEvent::Barrier(1))),
        ("the end of numbers", 15, 0, data_of(0, BindEpoch(5), StreamPosition::new(u64::MAX, 0), b"end")),
        ("events without credit", 19, 0, flood),
        ("a flood of priority events", 20, 0, (0..9).flat_map(priority).collect()),
        ("a gap of priority events", 20, 0, priority(1)),
        ("something behind the end", 21, 0, ended),
        ("bound twice", 13, 0, encoded(&Frame::Bound(bound(0)))),
        ("resumed out of nothing", 13, 0, resumed),
        ("a wait after the bind", 13, 0, encoded(&Frame::Waiting(Waiting { stream: StreamId(0) }))),
        ("data for a stream that never was", 11, 9, data(9, 0, b"data")),
        ("an event for a stream that never was", 11, 9, event(9, 0, 0, StreamEvent::EndOfData)),
    ]
}

/// What ends the connection.
pub(super) fn fatal() -> Vec<(&'static str, u16, Vec<u8>)> {
    let header = |length: u32, kind: u8, flags: u8, count: u16| {
        [&length.to_le_bytes()[..], &[kind, flags], &count.to_le_bytes()].concat()
    };
    let mut empty_run = data(0, 8, b"x");
    empty_run[32..36].copy_from_slice(&0_u32.to_le_bytes());
    vec![
        ("a length of 2^32-1", 1, header(u32::MAX, 8, 0, 1)),
        ("an unknown kind", 2, header(8, 0, 0, 0)),
        ("DATA without runs", 2, header(0, 8, 0, 0)),
        ("an empty run", 3, empty_run),
        ("a checksum that isn't agreed on", 4, [header(4, 17, 1, 0), vec![0; 4]].concat()),
        ("BIND from a server", 10, encoded(&Frame::Bind(bind(0)))),
        ("something behind GOODBYE", 10, [encoded(&Frame::Goodbye), data(0, 8, b"data")].concat()),
    ]
}

/// Both channels are bound, and the first record of stream 0 has come: of channel 0, if it was asked for first.
pub(super) fn begin(gate: &mut InputGate, port: &mut Port) -> Peer {
    let mut peer = port.accept();
    assert_eq!((peer.hear(), peer.hear()), (Heard::Bind(StreamId(0)), Heard::Bind(StreamId(1))));
    peer.say(&Frame::Bound(bound(0)));
    peer.say(&Frame::Bound(bound(1)));
    peer.send(&data(0, 0, &record(b"1234")));
    let mut available = 0;
    loop {
        match next(gate) {
            Item::Available { .. } => available += 1,
            Item::Record(record) => {
                assert_eq!(record.as_bytes(), b"1234");
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    while available < 2 {
        assert!(matches!(next(gate), Item::Available { .. }));
        available += 1;
    }
    peer
}

#[test]
fn what_is_wrong_with_a_stream_ends_that_channel_alone() {
    for way in WAYS {
        let mut victim = Victim::new(way);
        let mut count = 0;
        for (name, rule, stream, bytes) in wrong() {
            let mut port = Port::open();
            let mut gate = gate(&victim, &port);
            let mut peer = begin(&mut gate, &mut port);
            peer.send(&bytes);
            peer.expect_error(name, rule, Some(stream));
            count += 1;
            victim.until_counted(count, 2);
            peer.send(&data(1, 0, &record(b"the other")));
            let (mut is_over, mut has_come) = (stream != 0, false);
            while !(is_over && has_come) {
                match next(&mut gate) {
                    Item::Unavailable { channel: 0, cause: Cause::Protocol(text), .. } => {
                        assert!(text.contains(&format!("P-{rule}")), "{name}: {text}");
                        is_over = true;
                    }
                    Item::Record(record) if record.channel() == 1 => {
                        assert_eq!(record.as_bytes(), b"the other", "{name}");
                        has_come = true;
                    }
                    // What came within the credit.
                    Item::Record(_) | Item::Event { channel: 0, .. } | Item::Priority { channel: 0, .. } => {}
                    Item::EndOfPartition { channel: 0 } => is_over = true,
                    other => panic!("{name}: {other:?}"),
                }
            }
            // What still comes of it is dropped.
            peer.send(&data(0, 8, b"late"));
            until("dropped", || victim.net().frames_unknown > 0 || stream != 0);
            drop((gate, peer));
            victim.until_counted(count, 1);
            victim.assert_flows();
        }
        victim.end(count);
    }
}

#[test]
fn what_cannot_be_understood_ends_the_connection_and_it_is_tried_again() {
    for way in WAYS {
        let mut victim = Victim::new(way);
        let mut port = Port::open();
        let mut gate = gate(&victim, &port);
        let mut peer = begin(&mut gate, &mut port);
        let mut count = 0;
        for (name, rule, bytes) in fatal() {
            peer.send(&bytes);
            peer.expect_error(name, rule, None);
            count += 1;
            for _ in 0..2 {
                match next(&mut gate) {
                    Item::Unavailable { cause: Cause::ConnectionLost { reason, .. }, .. } => {
                        assert!(reason.contains(&format!("P-{rule}")), "{name}: {reason}");
                    }
                    other => panic!("{name}: {other:?}"),
                }
            }
            assert!(matches!(gate.next_blocking_timeout(Duration::ZERO), Ok(crate::gate::TryNext::Empty)));
            victim.assert_flows();
            peer = begin(&mut gate, &mut port);
        }
        drop((gate, peer));
        victim.until_counted(count, 1);
        victim.end(count);
    }
}

/// Before its answer nothing of a stream may come.
#[test]
fn what_comes_before_the_answer_is_refused() {
    for way in DRIVERS {
        let mut victim = Victim::new(way);
        let gone = Gone { stream: StreamId(0), epoch: BindEpoch(5), cause: Cause::Released };
        let early =
            [data(0, 0, b"early"), event(0, 0, 0, StreamEvent::EndOfPartition), encoded(&Frame::Gone(gone))];
        let count = early.len() as u64;
        for bytes in early {
            let mut port = Port::open();
            let mut gate = gate(&victim, &port);
            let mut peer = port.accept();
            assert_eq!((peer.hear(), peer.hear()), (Heard::Bind(StreamId(0)), Heard::Bind(StreamId(1))));
            peer.send(&bytes);
            peer.expect_error("too early", 13, Some(0));
            assert!(matches!(
                next(&mut gate),
                Item::Unavailable { channel: 0, cause: Cause::Protocol(_), .. }
            ));
            peer.say(&Frame::Bound(bound(1)));
            assert!(matches!(next(&mut gate), Item::Available { channel: 1, .. }));
            drop(gate);
        }
        victim.assert_flows();
        victim.end(count);
    }
}

/// Frames of another epoch change nothing.
#[test]
fn frames_of_another_epoch_are_dropped_and_counted() {
    for way in DRIVERS {
        let victim = Victim::new(way);
        let mut port = Port::open();
        let mut gate = gate(&victim, &port);
        let mut peer = begin(&mut gate, &mut port);
        peer.send(&data_of(0, BindEpoch(4), StreamPosition::new(8, 0), b"of another bind"));
        peer.send(&data_of(1, BindEpoch(6), NOWHERE, b"of another bind"));
        peer.send(&data(0, 8, &record(b"of this one")));
        match next(&mut gate) {
            Item::Record(record) => assert_eq!(record.as_bytes(), b"of this one"),
            other => panic!("{other:?}"),
        }
        until("counted", || victim.net().frames_stale == 2);
        drop((gate, peer));
        victim.end(0);
    }
}

/// Whoever shakes hands and goes, again and again, isn't dialled as fast as that goes.
#[test]
fn a_server_that_closes_at_once_is_dialled_with_pauses() {
    for way in DRIVERS {
        let mut victim = Victim::new(way);
        let port = Port::open();
        let gate = gate(&victim, &port);
        let start = Instant::now();
        let mut accepted = 0;
        while start.elapsed() < Duration::from_secs(1) {
            drop(port.accept_any());
            accepted += 1;
            assert!(accepted < 60, "{accepted} connections within {:?}", start.elapsed());
        }
        victim.assert_flows();
        drop(gate);
        victim.end(0);
    }
}
