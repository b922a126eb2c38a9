//! Dials: what is asked for is answered exactly once.

use super::*;
use std::net::TcpListener;

#[test]
fn two_workers_meet() {
    let (a, b) = (Rig::start(&settings()), Rig::start(&settings()));
    a.dial(b.remote());
    let (mine, yours) = (a.adopted(), b.adopted());
    assert_eq!((mine.dialled, yours.dialled), (Some(b.remote()), None));
    assert_eq!(mine.agreed.peer_worker, b.handle.worker());
    assert_eq!(yours.agreed.peer_worker, a.handle.worker());
    assert_eq!((mine.agreed.endpoint, mine.agreed.purpose), (0, Purpose::Data));
    let (mut mine, mut yours) = (TcpStream::from(mine.socket), TcpStream::from(yours.socket));
    for socket in [&mine, &yours] {
        assert!(socket.nodelay().unwrap());
    }
    let kind = mine.read(&mut [0]).unwrap_err().kind();
    assert_eq!(kind, std::io::ErrorKind::WouldBlock, "still non-blocking, and nothing left in it");
    mine.write_all(b"to and").unwrap();
    yours.write_all(b" fro").unwrap();
    for (socket, wanted) in [(&mut yours, "to and"), (&mut mine, " fro")] {
        socket.set_nonblocking(false).unwrap();
        let mut bytes = vec![0; wanted.len()];
        socket.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, wanted.as_bytes());
    }
}

#[test]
fn what_comes_behind_the_handshake_is_the_endpoints() {
    let rig = Rig::start(&settings());
    let mut raw = rig.connect();
    let mut bytes = encoded(&Frame::Hello(hello(7, Purpose::Data)));
    bytes.extend(b"early");
    raw.send(&bytes);
    let mut socket = TcpStream::from(rig.adopted().socket);
    socket.set_nonblocking(false).unwrap();
    let mut early = [0; 5];
    socket.read_exact(&mut early).unwrap();
    assert_eq!(&early, b"early");
}

#[test]
fn a_port_that_nobody_listens_at_refuses() {
    let rig = Rig::start(&settings());
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let peer = RemoteAddress { socket: nobody, endpoint: 3 };
    rig.dial(peer);
    let News::DialFailed { peer: whom, error: DialError::Io(error) } = rig.told() else { panic!() };
    assert_eq!((whom, error.kind()), (peer, std::io::ErrorKind::ConnectionRefused));
}

#[test]
fn who_never_answers_is_given_up_in_time() {
    let timeout = Duration::from_millis(200);
    let rig = Rig::start(&NetworkSettings { handshake_timeout: timeout, ..settings() });
    // Connections stand in its queue; nobody takes them.
    let black_hole = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let peer = RemoteAddress { socket: black_hole.local_addr().unwrap(), endpoint: 0 };
    let start = Instant::now();
    rig.dial(peer);
    let News::DialFailed { peer: whom, error: DialError::TimedOut(after) } = rig.told() else { panic!() };
    assert_eq!((whom, after), (peer, timeout));
    assert!(start.elapsed() >= timeout && start.elapsed() < timeout + SLACK);
    assert_eq!(rig.handle.snapshot().handshakes, 0);
}

#[test]
fn another_endpoint_stands_in_for_one_that_is_not_there() {
    let (a, b) = (Rig::start(&settings()), Rig::start(&settings()));
    a.dial(RemoteAddress { endpoint: 5, ..b.remote() });
    let News::Adopt(served) = b.told() else { panic!() };
    assert_eq!((served.agreed.endpoint, served.dialled), (5, None));
    assert!(matches!(a.told(), News::Adopt(_)));
    b.handle.endpoints().remove(0);
    a.dial(RemoteAddress { endpoint: 5, ..b.remote() });
    let News::DialFailed { error: DialError::Rejected(text), .. } = a.told() else { panic!() };
    assert!(text.contains('5'), "{text}");
}

#[test]
fn another_clusters_token_is_told_to_who_dials() {
    let b = Rig::start(&settings());
    for token in [Some(Secret([1; 32])), None] {
        let a = Rig::start(&NetworkSettings { token, without_token: token.is_none(), ..settings() });
        a.dial(b.remote());
        assert!(matches!(a.told(), News::DialFailed { error: DialError::Rejected(_), .. }));
    }
}

#[test]
fn what_answers_may_be_no_worker() {
    let rig = Rig::start(&settings());
    let web_server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    rig.dial(RemoteAddress { socket: web_server.local_addr().unwrap(), endpoint: 0 });
    let (mut stream, _) = web_server.accept().unwrap();
    stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    assert!(matches!(rig.told(), News::DialFailed { error: DialError::Protocol(_), .. }));
}

#[test]
fn more_dials_than_go_on_at_a_time_are_all_answered() {
    let b = Rig::start(&settings());
    let a = Rig::start(&NetworkSettings { handshakes_max: 2, ..settings() });
    for _ in 0..50 {
        a.dial(b.remote());
    }
    for _ in 0..50 {
        assert_eq!(a.adopted().dialled, Some(b.remote()));
    }
    let picture = a.handle.snapshot();
    assert_eq!((picture.handed_over, picture.peers.len()), (50, 1));
}

#[test]
fn a_queue_that_is_full_or_closed_says_so() {
    let mut rig = Rig::start(&NetworkSettings { handshakes_max: 1, ..settings() });
    let black_hole = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let peer = RemoteAddress { socket: black_hole.local_addr().unwrap(), endpoint: 0 };
    let mut queued = 0;
    while rig.handle.dials().dial(peer, 0).is_ok() {
        queued += 1;
    }
    assert_eq!(rig.handle.dials().dial(peer, 0), Err(DialRefused::Full));
    rig.stop();
    // Whoever was promised an answer got one.
    for _ in 0..queued {
        assert!(matches!(rig.told(), News::DialFailed { error: DialError::Stopped, .. }));
    }
    assert_eq!(rig.handle.dials().dial(peer, 0), Err(DialRefused::Stopped));
}

#[test]
fn a_worker_may_dial_itself() {
    let rig = Rig::start(&settings());
    rig.dial(rig.remote());
    let both = [rig.adopted(), rig.adopted()];
    assert_eq!(both.iter().filter(|adopted| adopted.dialled.is_some()).count(), 1);
    assert!(rig.handle.snapshot().peers.is_empty(), "nobody watches himself");
}

#[test]
fn an_endpoint_without_room_is_told_later_and_strangers_are_closed() {
    let rig = Rig::start(&settings());
    let (tell, told) = mpsc::sync_channel(1);
    let full = rig.handle.endpoints().add(Arc::new(Port(tell))).unwrap();
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    for endpoint in 0..5 {
        rig.handle.dials().dial(RemoteAddress { socket: nobody, endpoint }, full).unwrap();
    }
    rig.until("all have failed", |picture| picture.refused.get("dial failed") == Some(&5));
    let mut raw = rig.connect();
    raw.say(&Frame::Hello(Hello { endpoint: full, ..hello(7, Purpose::Data) }));
    assert_eq!(raw.hear(), Came::Welcome(rig.handle.worker()));
    assert_eq!(raw.hear(), Came::Closed);
    rig.until("counted", |picture| picture.refused.get("endpoint full") == Some(&1));
    let mut order = Vec::new();
    for _ in 0..5 {
        let News::DialFailed { peer, .. } = told.recv_timeout(PATIENCE).unwrap() else { panic!() };
        order.push(peer.endpoint);
    }
    order.sort_unstable();
    assert_eq!(order, [0, 1, 2, 3, 4]);
}
