//! What isn't a worker of this cluster is turned away: counted, logged, closed.

use super::*;
use crate::wire::Rule;

/// One kind of garbage.
struct Kind {
    name: &'static str,
    bytes: Vec<u8>,
    /// The rule that the REJECT names, if what came is enough of a frame to be answered.
    rule: Rule,
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
    vec![
        Kind { name: "HTTP", bytes: http, rule: Rule::OPENING },
        Kind { name: "TLS", bytes: tls, rule: Rule::OPENING },
        Kind { name: "random bytes", bytes: random, rule: Rule::KIND },
        Kind { name: "length", bytes: oversized, rule: Rule::LENGTH },
        Kind { name: "magic", bytes: not_magic, rule: Rule::OPENING },
        Kind { name: "version", bytes: with(|hello| hello.versions = (900, 901)), rule: Rule::VERSION },
        Kind { name: "token", bytes: with(|hello| hello.token = Some(Secret([9; 32]))), rule: Rule::TOKEN },
        Kind { name: "no token", bytes: with(|hello| hello.token = None), rule: Rule::TOKEN },
        Kind { name: "endpoint", bytes: with(|hello| hello.endpoint = 99), rule: Rule::ENDPOINT },
        Kind { name: "no HELLO", bytes: encoded(&Frame::Goodbye), rule: Rule::OPENING },
    ]
}

#[test]
fn every_kind_of_garbage_is_answered_counted_and_closed() {
    for kind in kinds() {
        let rig = Rig::start(&settings());
        let mut raw = rig.connect();
        raw.send(&kind.bytes);
        let answer = raw.hear();
        let Came::Reject(rule, text) = &answer else { panic!("{}: {answer:?}", kind.name) };
        assert_eq!(*rule, kind.rule.0, "{}: {text}", kind.name);
        assert_eq!(raw.drain(), (vec![], true), "{}", kind.name);
        let picture = rig.until("counted", |picture| picture.refused.values().sum::<u64>() == 1);
        assert_eq!(picture.handshakes, 0, "{}", kind.name);
        let rule = *picture.refused.keys().next().unwrap();
        assert_eq!(rig.handle.shared.journal.lines(rule), 1, "{}", kind.name);
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
fn a_control_connection_takes_heartbeats_alone() {
    let rig = Rig::start(&settings());
    let mut raw = rig.connect();
    raw.say(&Frame::Hello(hello(7, Purpose::Control)));
    assert_eq!(raw.hear(), Came::Welcome(rig.handle.worker()));
    raw.say(&Frame::Hello(hello(7, Purpose::Control)));
    while raw.hear() != Came::Closed {}
    assert!(matches!(rig.told(), Told::ControlLost(WorkerId(7))));
    assert_eq!(rig.handle.snapshot().refused.get("not a control frame"), Some(&1));
}
