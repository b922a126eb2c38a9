//! What a turn leaves, and connections that have given out all their ids.

use super::rig::{Rig, narrow, peer};
use crate::id::{BindEpoch, Incarnation};
use crate::net::Command;
use crate::transport::fake::Plan;
use crate::wire::{Amount, Bound, EventFrame, Frame, LOSSES, StreamEvent, StreamId, StreamPosition};
use std::time::Duration;

const MOMENT: Duration = Duration::from_millis(1);

fn bound(stream: u32) -> Frame<'static> {
    let nothing = Amount { records: 0, bytes: 0 };
    Frame::Bound(Bound {
        stream: StreamId(stream),
        epoch: BindEpoch(1),
        incarnation: Incarnation(1),
        resumed: false,
        ended: false,
        ring_entries: 16,
        lost: [nothing; LOSSES],
        in_doubt: nothing,
        writer_lost: nothing,
        barriers: crate::event::LostBarriers::default(),
    })
}

#[test]
fn a_callers_turn_says_what_a_batch_under_way_held_back() {
    let steps = Plan { step_bytes: 64..65, ..narrow(1 << 20) };
    let mut rig = Rig::new(Plan::calm());
    let _channel = rig.open(1);
    rig.turn();
    let connection = rig.connect(Some(peer()));
    rig.run(MOMENT);
    rig.say(connection, &[bound(0)]);
    rig.run(MOMENT);
    assert_eq!(rig.heard(connection), ["BIND 0"]);
    // The BIND of another channel takes three steps, and something to be acknowledged comes at the first.
    let event = EventFrame {
        stream: StreamId(0),
        epoch: BindEpoch(1),
        position: StreamPosition::new(0, 0),
        event: StreamEvent::Barrier(1),
    };
    rig.say(connection, &[Frame::Event(event)]);
    rig.peers_turn();
    rig.sleep(MOMENT);
    rig.set_plan(steps);
    let _other = rig.open(2);
    rig.turn_through();
    rig.set_plan(Plan::calm());
    // Nobody turns the core any more.
    for _ in 0..10 {
        rig.sleep(MOMENT);
        rig.peers_turn();
    }
    assert_eq!(rig.heard(connection), ["BIND 1", "ACK"]);
}

#[test]
fn a_peer_that_does_not_read_holds_no_caller() {
    let mut rig = Rig::new(narrow(64));
    let _channel = rig.open(1);
    rig.turn_through();
    let _connection = rig.connect(Some(peer()));
    let start = rig.now();
    for channel in 2..10 {
        let _channel = rig.open(channel);
        rig.turn_through();
    }
    assert_eq!(rig.now(), start, "it doesn't wait");
}

#[test]
fn a_connection_whose_ids_are_used_up_is_followed_by_another() {
    let mut rig = Rig::new(Plan::calm());
    let first_channel = rig.open(1);
    rig.turn();
    assert_eq!(rig.dials.take(), [peer()]);
    let first = rig.connect(Some(peer()));
    rig.run(MOMENT);
    assert_eq!(rig.heard(first), ["BIND 0"]);
    // As if all others but one had been.
    rig.core.connections.iter_mut().for_each(|(_, live)| live.session.skip_to((1 << 32) - 1));
    let last = rig.open(2);
    rig.run(MOMENT);
    assert_eq!(rig.heard(first), [format!("BIND {}", u32::MAX)]);
    let mut beyond = rig.open(3);
    rig.run(MOMENT);
    assert_eq!(rig.dials.take(), [peer()], "another one is dialled");
    assert!(matches!(beyond.pop(), crate::inbox::Popped::Empty), "it was told nothing");
    let second = rig.connect(Some(peer()));
    let _more = rig.open(4);
    rig.run(MOMENT);
    assert_eq!(rig.heard(second), ["BIND 0", "BIND 1"]);
    // The first one ends with its last stream.
    drop(last);
    rig.run(MOMENT);
    assert_eq!(rig.heard(first), [format!("CLOSE {}", u32::MAX)]);
    drop(first_channel);
    rig.run(MOMENT);
    assert_eq!(rig.heard(first), ["CLOSE 0", "GOODBYE", "end"]);
    assert!(rig.endpoint.send(Command::Stop(MOMENT)).is_ok());
    assert!(!rig.run(MOMENT * 2));
}
