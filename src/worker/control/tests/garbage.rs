//! What isn't a worker of this cluster is turned away: counted, logged, closed.

use super::*;
use crate::wire::Rule;

/// One kind of garbage.
struct Kind {
    name: &'static str,
    bytes: Vec<u8>,
    rule: Rule,
    /// What the log says of it.
    text: &'static str,
    /// Whether a REJECT says so: to who speaks our frames, not to strangers.
    answered: bool,
}

fn with(change: impl FnOnce(&mut Hello<'static>)) -> Vec<u8> {
    let mut hello = hello(7, Purpose::Data);
    change(&mut hello);
    encoded(&Frame::Hello(hello))
}

fn kinds() -> Vec<Kind> {
    let mut tls = vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    tls.extend([0xa5; 506]);
    let mut random = vec![0; 8192];
    getrandom::fill(&mut random).unwrap();
    // Never by chance the kind of a frame, so that the rule is known.
    random[4] = 0xee;
    let mut oversized = with(|_| ());
    oversized[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut not_magic = with(|_| ());
    not_magic[8] ^= 1;
    let http = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nUser-Agent: somebody\r\n\r\n".to_vec();
    let kind = |name, bytes, rule, text, answered| Kind { name, bytes, rule, text, answered };
    let other_token = with(|hello| hello.token = Some(Secret([9; 32])));
    vec![
        kind("HTTP", http, Rule::OPENING, "HTTP", false),
        kind("TLS", tls, Rule::OPENING, "TLS", false),
        kind("random bytes", random, Rule::KIND, "kind 238", false),
        kind("length", oversized, Rule::LENGTH, "4294967295", false),
        kind("magic", not_magic, Rule::OPENING, "begin", false),
        kind("no HELLO", encoded(&Frame::Goodbye), Rule::OPENING, "HELLO", false),
        kind("version", with(|hello| hello.versions = (900, 901)), Rule::VERSION, "900", true),
        kind("token", other_token, Rule::TOKEN, "another cluster token", true),
        kind("no token", with(|hello| hello.token = None), Rule::TOKEN, "no cluster token", true),
        kind("endpoint", with(|hello| hello.endpoint = 99), Rule::ENDPOINT, "99", true),
    ]
}

#[test]
fn every_kind_of_garbage_is_closed_counted_and_told_once() {
    for kind in kinds() {
        let rig = Rig::start(&settings());
        if kind.rule == Rule::ENDPOINT {
            // Nor one that stands in for it.
            rig.handle.endpoints().remove(0);
        }
        let mut raw = rig.connect();
        raw.send(&kind.bytes);
        if kind.answered {
            let answer = raw.hear();
            let Came::Reject(rule, text) = &answer else { panic!("{}: {answer:?}", kind.name) };
            assert!(*rule == kind.rule.0 && text.contains(kind.text), "{}: {rule} {text}", kind.name);
        }
        assert_eq!(raw.drain(), (vec![], true), "{}", kind.name);
        let picture = rig.until("counted", |picture| picture.refused.values().sum::<u64>() == 1);
        assert_eq!(picture.handshakes, 0, "{}", kind.name);
        let rule = *picture.refused.keys().next().unwrap();
        assert!(rule.starts_with(&kind.rule.to_string()), "{}: {rule}", kind.name);
        assert_eq!(rig.handle.shared.journal.lines(rule), 1, "{}", kind.name);
        let said = rig.handle.shared.journal.last(rule).unwrap();
        assert!(said.contains(kind.text), "{}: {said}", kind.name);
        assert!(rig.told.try_recv().is_err(), "{}: an endpoint was told of it", kind.name);
    }
}

#[test]
fn whoever_closes_early_is_counted() {
    let rig = Rig::start(&settings());
    drop(rig.connect());
    let mut half = rig.connect();
    half.send(&with(|_| ())[..20]);
    drop(half);
    let counted =
        |picture: &NetworkSnapshot| picture.refused.get("connection lost in the handshake") == Some(&2);
    assert_eq!(rig.until("counted", counted).handshakes, 0);
}

#[test]
fn who_stalls_is_closed_in_time_and_the_others_are_served() {
    let timeout = Duration::from_millis(300);
    let rig = Rig::start(&NetworkSettings { handshake_timeout: timeout, handshakes_max: 8, ..settings() });
    let start = Instant::now();
    let mut stalled: Vec<Raw> = (0..20).map(|_| rig.connect()).collect();
    for (at, raw) in stalled.iter_mut().enumerate() {
        raw.send(&with(|_| ())[..at]);
    }
    let most = rig.until("full", |picture| picture.handshakes > 0).handshakes;
    assert!(most <= 8);
    // An honest one behind all of them, which is served within three rounds of patience.
    let mut honest = rig.connect();
    honest.send(&with(|_| ()));
    assert_eq!(honest.hear(), Came::Welcome(rig.handle.worker()));
    assert!(start.elapsed() < timeout * 3 + SLACK);
    for raw in &mut stalled {
        assert_eq!(raw.drain().0, []);
    }
    assert!(start.elapsed() >= timeout);
    let counted = |picture: &NetworkSnapshot| picture.refused.get("handshake timed out") == Some(&20);
    rig.until("counted", counted);
    assert!(rig.handle.shared.journal.lines("handshake timed out") <= 1 + start.elapsed().as_secs());
}

#[test]
fn a_frame_may_come_byte_by_byte() {
    let rig = Rig::start(&settings());
    let mut raw = rig.connect();
    for byte in with(|_| ()) {
        raw.send(&[byte]);
    }
    assert_eq!(raw.hear(), Came::Welcome(rig.handle.worker()));
    assert_eq!(rig.adopted().agreed.peer_worker, WorkerId(7));
}

#[test]
fn the_number_of_peers_is_bounded() {
    let rig = Rig::start(&NetworkSettings { peers_max: 2, ..settings() });
    let welcomed = |worker| {
        let mut raw = rig.connect();
        raw.say(&Frame::Hello(hello(worker, Purpose::Data)));
        raw.hear()
    };
    for worker in [1, 2, 1, 2] {
        assert_eq!(welcomed(worker), Came::Welcome(rig.handle.worker()));
    }
    assert!(matches!(welcomed(3), Came::Reject(..)));
    rig.until("counted", |picture| picture.refused.get("too many peers") == Some(&1));
}

#[test]
fn a_worker_has_so_many_data_connections_and_no_more() {
    let share = crate::net::ShareLimits { connections: 3, ..settings().share };
    let rig = Rig::start(&NetworkSettings { share, ..settings() });
    let ask = |worker, purpose| {
        let mut raw = rig.connect();
        raw.say(&Frame::Hello(hello(worker, purpose)));
        let answer = raw.hear();
        (raw, answer)
    };
    let mut held = Vec::new();
    for worker in [7, 7, 8, 7] {
        let (raw, answer) = ask(worker, Purpose::Data);
        assert_eq!(answer, Came::Welcome(rig.handle.worker()));
        held.push((raw, rig.adopted()));
    }
    let (_refused, answer) = ask(7, Purpose::Data);
    let Came::Reject(28, text) = answer else { panic!("{answer:?}") };
    assert!(text.contains("connections_per_peer_max"), "{text}");
    rig.until("counted", |picture| picture.refused.get("P-28 share") == Some(&1));
    // Others aren't meant, and neither are control connections.
    for (worker, purpose) in [(8, Purpose::Data), (9, Purpose::Data), (7, Purpose::Control)] {
        assert_eq!(ask(worker, purpose).1, Came::Welcome(rig.handle.worker()));
    }
    // One that ends makes room.
    held.swap_remove(0);
    assert_eq!(ask(7, Purpose::Data).1, Came::Welcome(rig.handle.worker()));
}

#[test]
fn a_control_connection_takes_heartbeats_alone() {
    let rig = Rig::start(&settings());
    let mut raw = rig.connect();
    raw.say(&Frame::Hello(hello(7, Purpose::Control)));
    assert_eq!(raw.hear(), Came::Welcome(rig.handle.worker()));
    raw.say(&Frame::Hello(hello(7, Purpose::Control)));
    while raw.hear() != Came::Closed {}
    assert!(matches!(rig.told(), News::ControlLost(WorkerId(7))));
    assert_eq!(rig.handle.snapshot().refused.get("not a control frame"), Some(&1));
}
