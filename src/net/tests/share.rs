//! What one other worker may hold.

use super::rig::{Rig, bind};
use crate::net::NetSnapshot;
use crate::transport::fake::Plan;
use crate::wire::{ErrorFrame, Frame, Rule, StreamId};
use std::time::Duration;

const MOMENT: Duration = Duration::from_millis(1);

fn count(said: &[String], word: &str) -> usize {
    said.iter().filter(|said| said.contains(word)).count()
}

#[test]
fn binds_of_one_worker_that_wait_are_bounded() {
    let mut rig = Rig::new(Plan::calm());
    let parts = rig.create(1, 5);
    let connections = [rig.connect(None), rig.connect(None)];
    let mut answers = Vec::new();
    for (connection, partition) in connections.into_iter().zip([100, 101]) {
        // It isn't here, and each of its subpartitions is waited for.
        rig.say(connection, &[Frame::Bind(bind(0, partition, 17))]);
        rig.run(MOMENT);
        answers.extend(rig.heard(connection));
    }
    assert_eq!((count(&answers, "WAITING"), count(&answers, "TooManyWaiting")), (20, 14), "{answers:?}");
    let mut snapshot = NetSnapshot::default();
    rig.endpoint.counts.add_to(&mut snapshot);
    assert_eq!((rig.manager.waiting(), snapshot.binds_over_share), (20, 14));
    // What needn't wait is no part of it.
    rig.say(connections[1], &[Frame::Bind(bind(17, 1, 5))]);
    rig.run(MOMENT);
    assert_eq!(rig.heard(connections[1]), ["BOUND"; 5]);
    // One that waits no more makes room for another.
    let error = ErrorFrame { rule: Rule::BODY, stream: Some(StreamId(0)), text: "never mind" };
    rig.say(connections[0], &[Frame::Error(error)]);
    rig.run(MOMENT);
    rig.say(connections[1], &[Frame::Bind(bind(22, 102, 2))]);
    rig.run(MOMENT);
    let answers = rig.heard(connections[1]);
    assert_eq!((count(&answers, "WAITING"), count(&answers, "TooManyWaiting")), (1, 1), "{answers:?}");
    drop(parts);
}

#[test]
fn a_seat_comes_free_when_its_connection_ends() {
    let mut rig = Rig::new(Plan::calm());
    let connection = rig.connect(None);
    assert_eq!(rig.share.connections(), 1);
    rig.say_bytes(connection, vec![0, 0, 0, 0, 99, 0, 0, 0]);
    rig.run(MOMENT);
    assert_eq!(rig.share.connections(), 0);
}
