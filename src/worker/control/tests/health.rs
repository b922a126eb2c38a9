//! Heartbeats, and who counts as dead.

use super::*;
use crate::worker::snapshot::PeerState;
use std::net::TcpListener;

const DEAD_AFTER: Duration = Duration::from_millis(800);
const INTERVAL: Duration = Duration::from_millis(100);

/// Never by silence within a test.
const LONG: Duration = Duration::from_secs(600);

fn quick() -> NetworkSettings {
    NetworkSettings { dead_after: DEAD_AFTER, heartbeat_interval: Some(INTERVAL), ..settings() }
}

fn patient() -> NetworkSettings {
    NetworkSettings { dead_after: LONG, heartbeat_interval: Some(INTERVAL), ..settings() }
}

/// A worker played by the test.
struct Impostor {
    listener: TcpListener,
    worker: u64,
}

impl Impostor {
    fn new(worker: u64) -> Self {
        Self { listener: TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(), worker }
    }

    fn remote(&self) -> RemoteAddress {
        RemoteAddress { socket: self.listener.local_addr().unwrap(), endpoint: 0 }
    }

    /// Takes a connection and welcomes it.
    fn welcome(&self) -> (Raw, Purpose) {
        let mut raw = Raw::over(self.listener.accept().unwrap().0);
        let Came::Hello(purpose) = raw.hear() else { panic!() };
        raw.say(&Frame::Welcome(hello(self.worker, purpose)));
        (raw, purpose)
    }

    /// Is dialled by `rig`, and gets the control connection behind it.
    fn meet(&self, rig: &Rig) -> (Adopted, Raw) {
        rig.dial(self.remote());
        let (_, data) = self.welcome();
        let adopted = rig.adopted();
        let (control, purpose) = self.welcome();
        assert_eq!((data, purpose), (Purpose::Data, Purpose::Control));
        (adopted, control)
    }
}

/// Answers heartbeats until the connection ends.
fn answer(mut raw: Raw) -> JoinHandle<()> {
    std::thread::spawn(move || {
        while let Came::Ping(ping) = raw.hear() {
            if raw.0.write_all(&encoded(&Frame::Pong(ping))).is_err() {
                return;
            }
        }
    })
}

#[test]
fn workers_that_live_are_accused_by_nobody_and_one_that_leaves_says_so() {
    let (a, mut b) = (Rig::start(&quick()), Rig::start(&quick()));
    a.dial(b.remote());
    let _sockets = [a.adopted(), b.adopted()];
    for rig in [&a, &b] {
        let linked = |picture: &NetworkSnapshot| {
            picture.peers.iter().any(|peer| peer.state == PeerState::Alive && peer.round_trip.is_some())
        };
        assert_eq!(rig.until("linked", linked).peers.len(), 1);
    }
    std::thread::sleep(DEAD_AFTER * 2);
    for rig in [&a, &b] {
        assert!(rig.told.try_recv().is_err());
        assert_eq!(rig.handle.snapshot().peers_gone, 0);
    }
    // One connection of the pair: the second dial finds it.
    b.dial(a.remote());
    let _again = [a.adopted(), b.adopted()];
    assert_eq!((a.handle.snapshot().dialled, b.handle.snapshot().dialled), (2, 1));
    let left = b.handle.worker();
    b.stop();
    assert_eq!(a.dead(), (left, "it said goodbye"));
    assert!(a.handle.snapshot().peers.is_empty());
}

#[test]
fn a_silent_peer_is_dead_in_time() {
    let rig = Rig::start(&quick());
    let impostor = Impostor::new(7);
    let (_data, control) = impostor.meet(&rig);
    let start = Instant::now();
    assert_eq!(rig.dead(), (WorkerId(7), "silent for longer than dead_after"));
    let after = start.elapsed();
    assert!(after + INTERVAL >= DEAD_AFTER && after < DEAD_AFTER + INTERVAL + SLACK, "{after:?}");
    drop(control);
}

#[test]
fn a_peer_that_connected_and_fell_silent_is_dead_in_time() {
    let rig = Rig::start(&quick());
    let mut raw = rig.connect();
    raw.say(&Frame::Hello(hello(7, Purpose::Control)));
    assert_eq!(raw.hear(), Came::Welcome(rig.handle.worker()));
    // It is heard for longer than it may be silent.
    let start = Instant::now();
    while start.elapsed() < DEAD_AFTER * 2 {
        let Came::Ping(ping) = raw.hear() else { panic!() };
        raw.say(&Frame::Pong(ping));
    }
    assert!(rig.told.try_recv().is_err());
    let silent = Instant::now();
    rig.until("suspect", |picture| picture.peers.iter().any(|peer| peer.state == PeerState::Suspect));
    assert_eq!(rig.dead().0, WorkerId(7));
    assert!(silent.elapsed() + INTERVAL >= DEAD_AFTER && silent.elapsed() < DEAD_AFTER + INTERVAL + SLACK);
}

#[test]
fn a_peer_without_a_control_connection_is_dead_in_time() {
    let rig = Rig::start(&quick());
    let mut raw = rig.connect();
    raw.say(&Frame::Hello(hello(7, Purpose::Data)));
    assert_eq!(raw.hear(), Came::Welcome(rig.handle.worker()));
    let _data = rig.adopted();
    assert_eq!(rig.dead(), (WorkerId(7), "silent for longer than dead_after"));
}

/// Each of its data connections is a handshake: were that a sign of life, the older ones stayed open for ever.
#[test]
fn data_connections_that_follow_each_other_are_no_sign_of_life() {
    let rig = Rig::start(&quick());
    let start = Instant::now();
    let mut held = Vec::new();
    while start.elapsed() < DEAD_AFTER * 3 {
        let mut raw = rig.connect();
        raw.say(&Frame::Hello(hello(7, Purpose::Data)));
        assert_eq!(raw.hear(), Came::Welcome(rig.handle.worker()));
        held.push(raw);
        std::thread::sleep(INTERVAL);
        while let Ok(news) = rig.told.try_recv() {
            match news {
                News::Adopt(_) => {}
                News::PeerDead(worker, _) => return assert_eq!(worker, WorkerId(7)),
                other => panic!("{other:?}"),
            }
        }
    }
    panic!("it is taken for alive after {:?}", start.elapsed());
}

/// A peer that has only connected, and says that it listens at `address`, is killed: its control connection ends,
/// and its data connection doesn't.
fn killed(rig: &Rig, address: &str) -> (Adopted, Raw) {
    let mut connections = [Purpose::Data, Purpose::Control].map(|purpose| {
        let mut raw = rig.connect();
        raw.say(&Frame::Hello(Hello { address, ..hello(7, purpose) }));
        assert_eq!(raw.hear(), Came::Welcome(rig.handle.worker()));
        Some(raw)
    });
    let adopted = rig.adopted();
    rig.until("linked", |picture| picture.peers.iter().any(|peer| peer.state == PeerState::Alive));
    drop(connections[1].take());
    (adopted, connections[0].take().unwrap())
}

#[test]
fn a_killed_peer_that_has_only_connected_is_dead_by_its_closed_port() {
    let rig = Rig::start(&patient());
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let start = Instant::now();
    let _data = killed(&rig, &closed.to_string());
    assert_eq!(rig.dead(), (WorkerId(7), "its control connection ended and its port refuses connections"));
    assert!(start.elapsed() < SLACK, "{:?}", start.elapsed());
}

#[test]
fn a_refusal_by_another_host_than_the_peer_connected_from_says_nothing_of_it() {
    let rig = Rig::start(&quick());
    let closed = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), 0)).unwrap().local_addr().unwrap();
    let _data = killed(&rig, &closed.to_string());
    assert_eq!(rig.dead(), (WorkerId(7), "silent for longer than dead_after"));
}

#[test]
fn a_cut_control_connection_is_made_again_and_accuses_nobody() {
    let rig = Rig::start(&patient());
    let impostor = Impostor::new(7);
    let (_data, mut control) = impostor.meet(&rig);
    for _ in 0..5 {
        drop(control);
        assert!(matches!(rig.told(), News::ControlLost(WorkerId(7))));
        control = impostor.welcome().0;
    }
    let answers = answer(control);
    rig.until("heard", |picture| picture.peers.iter().any(|peer| peer.round_trip.is_some()));
    assert_eq!(rig.handle.snapshot().peers_gone, 0);
    drop(rig);
    answers.join().unwrap();
}

#[test]
fn a_peer_that_ends_every_control_connection_is_not_dialled_without_a_pause() {
    let rig = Rig::start(&patient());
    let impostor = Impostor::new(7);
    let (_data, mut control) = impostor.meet(&rig);
    let start = Instant::now();
    let mut dials = 0;
    while start.elapsed() < INTERVAL * 6 {
        drop(control);
        control = impostor.welcome().0;
        dials += 1;
    }
    // A quarter of an interval lies between two; the first came after a long connection.
    let most = start.elapsed().as_millis() / (INTERVAL.as_millis() / 4) + 1;
    assert!(dials >= 3 && dials <= most, "{dials} dials, {most} at most");
}

#[test]
fn a_peer_whose_port_refuses_behind_the_end_of_its_connection_is_dead_at_once() {
    let rig = Rig::start(&patient());
    let impostor = Impostor::new(7);
    let (_data, control) = impostor.meet(&rig);
    drop(impostor);
    // The port alone says nothing.
    std::thread::sleep(INTERVAL * 3);
    assert!(rig.told.try_recv().is_err());
    let start = Instant::now();
    drop(control);
    assert_eq!(rig.dead(), (WorkerId(7), "its control connection ended and its port refuses connections"));
    assert!(start.elapsed() < SLACK);
}

#[test]
fn a_peer_in_whose_place_another_answers_is_dead_at_once() {
    let rig = Rig::start(&patient());
    let mut impostor = Impostor::new(7);
    let (_data, control) = impostor.meet(&rig);
    impostor.worker = 8;
    drop(control);
    let _control = impostor.welcome();
    assert_eq!(rig.dead(), (WorkerId(7), "another worker answers at its address"));
    let of_8 = |picture: &NetworkSnapshot| picture.peers.iter().any(|peer| peer.state == PeerState::Alive);
    assert_eq!(rig.until("the other is known", of_8).peers[0].worker, WorkerId(8));
}

#[test]
fn a_peer_that_can_not_be_reached_again_is_dead_by_its_silence() {
    let timeout = Duration::from_millis(50);
    let rig = Rig::start(&NetworkSettings { handshake_timeout: timeout, ..quick() });
    let impostor = Impostor::new(7);
    let (_data, control) = impostor.meet(&rig);
    let start = Instant::now();
    drop(control);
    assert_eq!(rig.dead(), (WorkerId(7), "silent for longer than dead_after"));
    assert!(start.elapsed() + INTERVAL >= DEAD_AFTER && start.elapsed() < DEAD_AFTER + INTERVAL + SLACK);
    // It was tried again all the while, with pauses.
    let dialled = rig.handle.snapshot().dialled;
    assert!((4..=20).contains(&dialled), "{dialled}");
}

#[test]
fn an_observer_that_stalls_accuses_nobody() {
    let (stall, stalls) = mpsc::channel::<()>();
    let rig = Rig::start_with(&quick(), move || {
        if stalls.try_recv().is_ok() {
            std::thread::sleep(DEAD_AFTER * 3);
        }
    });
    let impostor = Impostor::new(7);
    let (_data, mut control) = impostor.meet(&rig);
    // Both sides are paused, as two processes of a machine that sleeps: nothing is sent while the observer is away.
    stall.send(()).unwrap();
    while rig.handle.snapshot().observer_stalls == 0 {
        if let Came::Ping(ping) = control.hear()
            && rig.handle.snapshot().observer_stalls == 0
        {
            control.say(&Frame::Pong(ping));
        }
    }
    // Fresh again: half of the time may pass before the peer is back.
    std::thread::sleep(DEAD_AFTER / 2);
    assert!(rig.told.try_recv().is_err());
    let answers = answer(control);
    std::thread::sleep(DEAD_AFTER * 2);
    assert!(rig.told.try_recv().is_err());
    assert!(rig.handle.snapshot().observer_stalls >= 1);
    drop(rig);
    answers.join().unwrap();
}
