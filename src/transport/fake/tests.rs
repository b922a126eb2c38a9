//! The fake network keeps what it promises, and random scripts on it keep what transports promise.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

use super::super::{Batch, Close, Completion, ConnectionId, Part, Transport};
use super::*;
use crate::clock::Moment;
use crate::memory::ReceivePool;
use crate::test_size;
use crate::transport::tests::backend::RoughFake;
use crate::transport::tests::rig::Rig;
use std::time::Duration;

const NOW: Option<Duration> = Some(Duration::ZERO);
const TURN: Option<Duration> = Some(Duration::from_millis(1));

fn staged(bytes: usize) -> Box<Batch> {
    let staging = (0..bytes).map(|at| at as u8).collect();
    Box::new(Batch { staging, parts: vec![Part::Staged(0..bytes)], bytes, ..Batch::default() })
}

/// A calm network, two transports of it, and a connection.
fn two() -> (FakeNetwork, [FakeTransport; 2], [ConnectionId; 2], LinkId) {
    let network = FakeNetwork::new(1, Plan::calm());
    let mut both = [(); 2].map(|()| network.transport(&ReceivePool::new(2).unwrap()));
    let pair = network.pair().unwrap();
    let ids = [both[0].attach(pair.sockets.0).unwrap(), both[1].attach(pair.sockets.1).unwrap()];
    (network, both, ids, pair.link)
}

/// All that a transport has to say within so many milliseconds.
fn within(transport: &mut FakeTransport, millis: u32) -> (Vec<u8>, Vec<Completion>) {
    let (mut bytes, mut done) = (Vec::new(), Vec::new());
    for _ in 0..millis {
        let mut new = Vec::new();
        transport.turn(TURN, &mut new).unwrap();
        for completion in new {
            match completion {
                Completion::Received { bytes: lent, .. } => bytes.extend_from_slice(&lent),
                other => done.push(other),
            }
        }
    }
    (bytes, done)
}

#[test]
fn time_goes_on_as_it_is_told() {
    let (network, [mut a, mut b], [to, _], _) = two();
    let mut done = Vec::new();
    a.send(to, staged(5));
    a.turn(NOW, &mut done).unwrap();
    assert!(done.iter().any(|one| matches!(one, Completion::Sent { .. })));
    done.clear();
    b.turn(NOW, &mut done).unwrap();
    assert!(done.is_empty() && network.now() == Moment::default());
    let at = network.next_event().unwrap();
    assert_eq!(at.as_nanos(), 10_000);
    network.advance_to(at);
    b.turn(NOW, &mut done).unwrap();
    assert!(matches!(&done[..], [Completion::Received { bytes, .. }] if **bytes == [0, 1, 2, 3, 4]));
    assert_eq!(network.next_event(), None);
    b.turn(Some(Duration::from_secs(3)), &mut done).unwrap();
    assert_eq!(network.now().as_nanos(), 3_000_010_000);
    network.advance_to(at);
    assert_eq!(network.now().as_nanos(), 3_000_010_000, "never back");
}

#[test]
fn a_cut_comes_behind_the_byte_it_was_told() {
    for (sent_before, at) in [(0, 0), (0, 1), (0, 999), (0, 1000), (1000, 1000), (1000, 1500), (700, 10)] {
        let (network, [mut a, mut b], [to, from], link) = two();
        if sent_before > 0 {
            a.send(to, staged(sent_before));
            within(&mut a, 1);
        }
        network.cut_after(link, 0, at, Cut::Reset);
        a.send(to, staged(1000));
        let (_, of_a) = within(&mut a, 3);
        let (bytes, of_b) = within(&mut b, 3);
        let goal = (at as usize).max(sent_before);
        assert_eq!(bytes.len(), goal, "{sent_before} {at}");
        let failed =
            |done: &[Completion]| done.iter().filter(|one| matches!(one, Completion::Failed { .. })).count();
        assert_eq!((failed(&of_a), failed(&of_b)), (1, 1));
        assert!(of_a.iter().any(|one| matches!(one, Completion::Recycled { .. })));
        for (transport, id) in [(&mut a, to), (&mut b, from)] {
            transport.close(id, Close::Orderly);
            assert!(matches!(within(transport, 1).1[..], [Completion::Closed { .. }]));
        }
    }
}

#[test]
fn silence_tells_nobody() {
    let (network, [mut a, mut b], [to, from], link) = two();
    a.send(to, staged(100));
    within(&mut a, 1);
    assert_eq!(within(&mut b, 1).0.len(), 100);
    network.cut(link, Cut::Silence);
    a.send(to, staged(100));
    assert!(within(&mut a, 10).1.iter().any(|one| matches!(one, Completion::Sent { .. })), "there was room");
    a.close(to, Close::Abortive);
    within(&mut a, 1);
    let (bytes, done) = within(&mut b, 5000);
    assert!(bytes.is_empty() && done.is_empty());
    b.send(from, staged(8 << 20));
    let (_, done) = within(&mut b, 100);
    assert!(done.is_empty(), "no room, and no news");
    b.close(from, Close::Abortive);
    assert_eq!(within(&mut b, 1).1.len(), 2);
}

#[test]
fn what_is_held_comes_later_and_in_order() {
    let (network, [mut a, mut b], [to, _], link) = two();
    a.send(to, staged(10));
    within(&mut a, 2);
    let until = network.now().plus(Duration::from_millis(50));
    network.hold(link, 0, until);
    a.send(to, staged(20));
    within(&mut a, 1);
    a.close(to, Close::Orderly);
    a.turn(NOW, &mut Vec::new()).unwrap();
    let (before, _) = within(&mut b, 40);
    // The first ten had arrived when the hold began.
    assert_eq!(before.len(), 10);
    let (bytes, done) = within(&mut b, 60);
    assert_eq!(bytes, (0..20).collect::<Vec<u8>>());
    assert!(matches!(done[..], [Completion::Eof { .. }]));
    assert!(network.now() >= until);
}

#[test]
fn a_socket_that_is_dropped_is_an_end_and_a_stranger_is_refused() {
    let network = FakeNetwork::new(1, Plan::calm());
    let mut a = network.transport(&ReceivePool::new(1).unwrap());
    let pair = network.pair().unwrap();
    let id = a.attach(pair.sockets.0).unwrap();
    assert!(within(&mut a, 2).1.is_empty());
    drop(pair.sockets.1);
    assert!(matches!(within(&mut a, 2).1[..], [Completion::Eof { .. }]));
    a.send(id, staged(10));
    assert!(
        within(&mut a, 2).1.iter().any(|one| matches!(one, Completion::Failed { .. })),
        "nobody is there"
    );
    assert!(a.attach(std::fs::File::open("/dev/null").unwrap().into()).is_err());
}

/// A batch is read when it is sent, and again when it is given back.
#[test]
#[should_panic(expected = "a batch was changed while the network had it")]
fn who_changes_a_batch_under_way_is_found_out() {
    let (network, [mut a, _b], [to, _], _) = two();
    network.set_plan(Plan { late: 1000, pause: 100..101, ..Plan::calm() });
    a.send(to, staged(100));
    a.turn(NOW, &mut Vec::new()).unwrap();
    a.spoil();
    within(&mut a, 1);
}

/// Everything that happens on a network of one seed.
fn history(seed: u64) -> String {
    let mut random = Random::new(seed);
    let network = FakeNetwork::new(seed, Plan::rough(&mut random));
    let mut both = [(); 2].map(|()| network.transport(&ReceivePool::new(2).unwrap()));
    let mut history = String::new();
    let mut links = Vec::new();
    for _ in 0..3 {
        let pair = network.pair().unwrap();
        let ids = [both[0].attach(pair.sockets.0).unwrap(), both[1].attach(pair.sockets.1).unwrap()];
        ids.iter().zip(&mut both).for_each(|(id, transport)| transport.send(*id, staged(20_000)));
        links.push((pair.link, ids));
    }
    network.cut_after(links[0].0, 1, 10_000, Cut::Reset);
    for turn in 0..100 {
        for transport in &mut both {
            let mut done = Vec::new();
            transport.turn(NOW, &mut done).unwrap();
            for one in done {
                let bytes = if let Completion::Received { bytes, .. } = &one { bytes.len() } else { 0 };
                history +=
                    &format!("{turn} {:?} {bytes} {:?}\n", network.now(), std::mem::discriminant(&one));
            }
        }
        let Some(at) = network.next_event() else { break };
        network.advance_to(at);
    }
    history
}

#[test]
fn one_seed_is_one_history() {
    let histories: Vec<_> = (0..20).map(history).collect();
    for (seed, before) in (0..).zip(&histories) {
        assert_eq!(*before, history(seed));
    }
    assert!(histories.iter().all(|one| one.lines().count() > 3) && histories[0] != histories[1]);
}

/// Random work on connections that break at random. The rig looks at the promises of every completion; in the
/// end every batch has come back, every buffer is free, and who saw an end without an error has all that was
/// sent before it.
fn script(seed: u64, seen: &mut [u64; 5]) {
    let mut random = Random::new(seed);
    let mut rig = Rig::<RoughFake>::new(seed, [1 + random.of(0..3) as u32, 1 + random.of(0..3) as u32]);
    let mut plan = Plan::rough(&mut random);
    plan.step_bytes = 1..1 << random.of(3..16);
    plan.error = if random.chance(300) { random.of(1..50) } else { 0 };
    rig.backend.0.set_plan(plan);
    let pairs: Vec<_> = (0..random.of(1..4)).map(|_| rig.connect()).collect();
    for _ in 0..random.of(5..60) {
        let (a, b) = pairs[random.of(0..pairs.len() as u64) as usize];
        let most = 1 << random.of(1..13);
        let bytes = random.of(1..most) as usize;
        let how = if random.chance(500) { Close::Orderly } else { Close::Abortive };
        let act = random.of(0..100);
        macro_rules! on {
            ($side:expr, $id:expr) => {{
                let end = $side.end($id);
                let usable = !end.sending && !end.closing && end.failed.is_none();
                match act {
                    0..60 if usable => $side.send($id, bytes),
                    60..64 => $side.close($id, how),
                    64..66 => $side.send_in_vain(ConnectionId { index: 77, generation: 1 }),
                    66..70 => $side.end($id).hold ^= true,
                    70..75 => $side.end($id).held.clear(),
                    75..80 => $side.transport.waker().wake_by_ref(),
                    _ => drop($side.turn(Some(Duration::from_micros(random.of(0..500))))),
                }
            }};
        }
        if random.chance(500) { on!(rig.a, a) } else { on!(rig.b, b) }
    }
    seen[0] += rig.a.transport.counts().starved + rig.b.transport.counts().starved;
    for (a, b) in &pairs {
        for (side, id) in [(&mut rig.a, *a), (&mut rig.b, *b)] {
            side.end(id).hold = false;
            side.end(id).held.clear();
            if !side.end(id).closing && random.chance(700) {
                side.close(id, Close::Orderly);
            }
        }
    }
    rig.turns(random.of(0..30) as u32);
    for (a, b) in &pairs {
        let (sent_a, sent_b) = (rig.a.end(*a).sent, rig.b.end(*b).sent);
        for (end, sent) in [(rig.a.end(*a), sent_b), (rig.b.end(*b), sent_a)] {
            assert!(end.received <= sent);
            seen[1] += u64::from(end.failed.is_some());
            seen[2] += u64::from(end.closed);
            if end.eof {
                assert_eq!(end.received, sent, "an end is the end of all that was sent");
                seen[3] += 1;
            }
        }
    }
    seen[4] += u64::from(!rig.a.has_all_batches());
    rig.finish();
}

#[test]
fn random_scripts_keep_the_promises_of_transports() {
    let mut seen = [0; 5];
    let scripts = test_size::pick(1000, 100_000);
    for seed in 0..scripts {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| script(seed, &mut seen)));
        if let Err(panic) = caught {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
    // Lack of buffers, failures, closes, ends, batches given back later than all else.
    assert!(seen.iter().all(|times| *times > scripts / 100), "{seen:?}");
}
