//! Bytes come in order, each once.

use super::super::Transport;
use super::{Backend, Rig};
use crate::test_size;

pub(super) fn bytes_come_in_order_and_once<B: Backend>() {
    let goal = test_size::pick(8 << 20, 256 << 20);
    let mut rig = Rig::<B>::new(1, [2, 8]);
    let (a, b) = rig.connect();
    rig.until(|rig| {
        let sent = rig.a.end(a).sent;
        if !rig.a.end(a).sending && sent < goal {
            // Small ones and large ones alike.
            let bytes = rig.a.random.of(1..1 << rig.a.random.clone().of(1..21));
            rig.a.send(a, bytes as usize);
        }
        sent >= goal && rig.b.end(b).received == sent
    });
    let counts = (rig.a.transport.counts(), rig.b.transport.counts());
    assert_eq!((counts.0.sent, counts.0.received), (rig.a.end(a).sent, 0));
    assert_eq!((counts.1.sent, counts.1.received), (0, rig.b.end(b).received));
    assert!(counts.0.enters > 0 && counts.1.enters > 0);
    rig.finish();
}

pub(super) fn both_directions_at_once<B: Backend>() {
    let goal = test_size::pick(1 << 20, 32 << 20);
    let mut rig = Rig::<B>::new(2, [6, 6]);
    let pairs: Vec<_> = (0..5).map(|_| rig.connect()).collect();
    rig.until(|rig| {
        let mut over = true;
        for (a, b) in &pairs {
            for (side, id) in [(&mut rig.a, *a), (&mut rig.b, *b)] {
                if !side.end(id).sending && side.end(id).sent < goal {
                    let bytes = side.random.of(1..200_000) as usize;
                    side.send(id, bytes);
                }
            }
            let (sent, received) = (rig.a.end(*a).sent, rig.a.end(*a).received);
            over &= sent >= goal && received >= goal;
            over &= rig.b.end(*b).received == sent && rig.b.end(*b).sent == received;
        }
        over
    });
    rig.finish();
}

pub(super) fn single_bytes_go_to_and_fro<B: Backend>() {
    let mut rig = Rig::<B>::new(3, [1, 1]);
    let (a, b) = rig.connect();
    for round in 1..=test_size::pick(500, 10_000) {
        rig.a.send(a, 1);
        rig.until(|rig| rig.b.end(b).received == round && !rig.a.end(a).sending);
        rig.b.send(b, 1);
        rig.until(|rig| rig.a.end(a).received == round && !rig.b.end(b).sending);
    }
    rig.finish();
}

/// The reader's thread is elsewhere: the sender is told so by `Sent` not coming, and loses nothing.
pub(super) fn a_slow_reader_gets_everything<B: Backend>() {
    let mut rig = Rig::<B>::new(4, [2, 8]);
    let (a, b) = rig.connect();
    let mut idle = 0;
    while idle < 20 {
        if !rig.a.end(a).sending {
            assert!(rig.a.end(a).sent < 64 << 20, "somebody takes bytes without an end");
            rig.a.send(a, 500_000);
        }
        idle = if rig.a.turn(Some(std::time::Duration::from_millis(1))) { 0 } else { idle + 1 };
    }
    assert!(rig.a.end(a).sending && rig.b.end(b).received == 0);
    assert!(!rig.a.has_all_batches());
    rig.until(|rig| rig.b.end(b).received == rig.a.end(a).sent && !rig.a.end(a).sending);
    rig.finish();
}

pub(super) fn hundreds_of_parts_go_whole<B: Backend>() {
    let mut rig = Rig::<B>::new(5, [1, 2]);
    let (a, b) = rig.connect();
    for most in [1, 2, 30, 2000] {
        rig.a.send_parts(a, 500 * most as usize, most);
        rig.until(|rig| !rig.a.end(a).sending);
    }
    rig.until(|rig| rig.b.end(b).received == rig.a.end(a).sent);
    rig.finish();
}
