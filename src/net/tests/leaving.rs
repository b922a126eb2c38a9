//! How connections end: their last words come, whatever is under way.

use super::rig::{Rig, bind, id, narrow, peer};
use crate::error::Cause;
use crate::id::Attempt;
use crate::net::Command;
use crate::transport::fake::Plan;
use crate::wire::Frame;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_millis(100);
const MOMENT: Duration = Duration::from_millis(2);

#[test]
fn a_stop_says_goodbye_behind_the_batch_under_way() {
    // The BIND doesn't fit at once: it is under way until its peer reads.
    let mut rig = Rig::new(narrow(64));
    let _channel = rig.open(1);
    rig.turn();
    assert_eq!(rig.dials.take(), [peer()]);
    let connection = rig.connect(Some(peer()));
    rig.turn();
    assert!(rig.endpoint.send(Command::Stop(DEADLINE)).is_ok());
    assert!(rig.turn(), "it waits for the batch");
    assert!(!rig.run(MOMENT), "the end comes by itself");
    assert_eq!(rig.heard(connection), ["BIND 0", "CLOSE 0", "GOODBYE", "end"]);
}

#[test]
fn a_stop_does_not_wait_longer_than_its_deadline() {
    let mut rig = Rig::new(narrow(64));
    let _channel = rig.open(1);
    rig.turn();
    let _connection = rig.connect(Some(peer()));
    rig.turn();
    assert!(rig.endpoint.send(Command::Stop(DEADLINE)).is_ok());
    let start = rig.now();
    // The peer reads nothing.
    while rig.turn() {
        assert!(rig.now().since(start) <= DEADLINE);
        rig.sleep(Duration::from_millis(1));
    }
    assert!(rig.now().since(start) >= DEADLINE);
}

#[test]
fn a_stop_tells_every_stream_how_it_ends() {
    let mut rig = Rig::new(Plan::calm());
    let parts = rig.create(1, 300);
    let connection = rig.connect(None);
    rig.say(connection, &[Frame::Bind(bind(0, 1, 300))]);
    rig.run(MOMENT);
    assert_eq!(rig.heard(connection), ["BOUND"; 300]);
    assert!(rig.manager.release(id(1), Attempt(1), Cause::Shutdown));
    assert!(rig.endpoint.send(Command::Stop(DEADLINE)).is_ok());
    assert!(!rig.run(MOMENT));
    let mut said = rig.heard(connection);
    assert_eq!(said.split_off(said.len() - 2), ["GOODBYE", "end"]);
    said.sort();
    let mut expected: Vec<_> = (0..300).map(|stream| format!("GONE {stream}")).collect();
    expected.sort();
    assert_eq!(said, expected);
    drop(parts);
}

#[test]
fn a_rule_that_was_broken_is_named_behind_the_batch_under_way() {
    let mut rig = Rig::new(narrow(64));
    let _channel = rig.open(1);
    rig.turn();
    let connection = rig.connect(Some(peer()));
    rig.turn();
    // No frame: of a kind that isn't.
    rig.say_bytes(connection, vec![0, 0, 0, 0, 99, 0, 0, 0]);
    rig.run(MOMENT);
    let said = rig.heard(connection);
    assert_eq!(said.first().map(String::as_str), Some("BIND 0"));
    assert!(said[1].starts_with("ERROR P-2"), "{said:?}");
    assert_eq!(said[2..], ["end"]);
}

#[test]
fn a_peer_that_does_not_read_is_not_waited_for_without_end() {
    let mut rig = Rig::new(narrow(64));
    let _channel = rig.open(1);
    rig.turn();
    let connection = rig.connect(Some(peer()));
    rig.turn();
    rig.say_bytes(connection, vec![0, 0, 0, 0, 99, 0, 0, 0]);
    rig.peers_turn();
    for _ in 0..30 {
        rig.sleep(Duration::from_millis(100));
        rig.turn();
    }
    assert!(rig.core.connections.is_empty());
}
