//! What epoll shows beyond the suite: fairness, fine waits, options of sockets, what comes before an error.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

use super::*;
use crate::transport::Part;
use crate::transport::tests::backend::{EpollBackend, tcp_pair};
use crate::transport::tests::rig::Rig;
use rustix::net::sockopt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};

const TURN: Option<Duration> = Some(Duration::from_millis(1));

fn transport(slots: u32) -> Epoll {
    Epoll::new(ReceivePool::new(slots).unwrap()).unwrap()
}

fn staged(bytes: usize) -> Box<Batch> {
    let (staging, parts) = (vec![1; bytes], vec![Part::Staged(0..bytes)]);
    Box::new(Batch { staging, parts, bytes, ..Batch::default() })
}

/// Turns until `over` says true of what has come; all of it.
fn until(epoll: &mut Epoll, mut over: impl FnMut(&[Completion]) -> bool) -> Vec<Completion> {
    let mut done = Vec::new();
    for _ in 0..10_000 {
        epoll.turn(TURN, &mut done).unwrap();
        if over(&done) {
            return done;
        }
    }
    panic!("nothing more happens: {done:?}");
}

/// One connection has more to receive than a turn's share, and goes on getting more; the other gets its turn
/// behind the first's share, and at most so much of the first is received in a turn.
#[test]
fn a_flood_waits_for_its_next_turn() {
    let mut rig = Rig::<EpollBackend>::new(1, [1, 8]);
    let (flood_a, flood_b) = rig.connect();
    let (small_a, small_b) = rig.connect();
    let mut idle = 0;
    while idle < 20 {
        if !rig.a.end(flood_a).sending {
            rig.a.send(flood_a, 500_000);
        }
        idle = if rig.a.turn(TURN) { 0 } else { idle + 1 };
    }
    rig.a.send(small_a, 10);
    rig.turns_of_a(3);
    let mut turns = 0;
    while rig.b.end(small_b).received == 0 {
        let before = rig.b.end(flood_b).received;
        rig.b.turn(TURN);
        assert!(rig.b.end(flood_b).received - before <= RECEIVE_BYTES as u64);
        turns += 1;
    }
    assert!(turns <= 2, "{turns}");
    assert!(rig.b.end(flood_b).received > 0);
    rig.finish();
}

/// Many connections with much to receive: a turn ends behind its share, and the next one goes on with the next.
#[test]
fn a_turn_has_an_end_and_the_next_one_goes_on_behind_it() {
    let mut epoll = transport(16);
    let mut others = Vec::new();
    let ids: Vec<_> = (0..12)
        .map(|_| {
            let (ours, theirs) = tcp_pair();
            let mut theirs = TcpStream::from(theirs);
            theirs.set_nonblocking(true).unwrap();
            while theirs.write(&[7; 1 << 20]).is_ok_and(|bytes| bytes > 0) {}
            others.push(theirs);
            epoll.attach(ours).unwrap()
        })
        .collect();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..12 {
        let mut done = Vec::new();
        epoll.turn(TURN, &mut done).unwrap();
        let mut total = 0;
        for completion in done {
            if let Completion::Received { connection, bytes } = completion {
                total += bytes.len();
                seen.insert(connection.index);
            }
        }
        assert!(total <= TURN_BYTES + RECEIVE_BYTES, "{total}");
        if seen.len() == ids.len() {
            return;
        }
    }
    panic!("in as many turns as there are connections each has had one: {seen:?}");
}

/// Of two connections that wait for a buffer the second gets the one that comes free between the first's try and
/// its own. There is room in it, so that the first has nothing to wait for.
#[test]
fn a_buffer_that_another_connection_got_is_everybodys() {
    let pool = ReceivePool::new(1).unwrap();
    let mut epoll = Epoll::new(pool.clone()).unwrap();
    let taken = pool.open().unwrap();
    let mut others = Vec::new();
    let [first, second] = [(); 2].map(|()| {
        let (ours, theirs) = tcp_pair();
        let mut theirs = TcpStream::from(theirs);
        theirs.write_all(b"words").unwrap();
        others.push(theirs);
        epoll.attach(ours).unwrap()
    });
    let mut done = Vec::new();
    while epoll.ready.len() < 2 {
        epoll.turn(TURN, &mut done).unwrap();
    }
    assert!(epoll.starved && done.is_empty());
    drop(taken);
    assert_eq!(epoll.receive_from(second, &mut done), 5);
    assert_eq!(pool.free(), 0);
    let (clock, long) = (Monotonic::start(), Duration::from_secs(5));
    let start = clock.now();
    epoll.turn(Some(long), &mut done).unwrap();
    assert!(clock.now().since(start) < long, "it waits beside a buffer with room");
    let came = |completion: &Completion| match completion {
        Completion::Received { connection, .. } => Some(*connection),
        _ => None,
    };
    assert_eq!(done.iter().filter_map(came).collect::<Vec<_>>(), [second, first]);
}

#[test]
fn waits_are_finer_than_milliseconds() {
    let mut epoll = transport(1);
    let clock = Monotonic::start();
    let wait = Duration::from_micros(200);
    let mut shortest = Duration::MAX;
    for _ in 0..50 {
        let before = clock.now();
        epoll.turn(Some(wait), &mut Vec::new()).unwrap();
        let waited = clock.now().since(before);
        assert!(waited >= wait);
        shortest = shortest.min(waited);
    }
    assert!(shortest < Duration::from_micros(900), "{shortest:?}");
}

#[test]
fn wakes_are_counted() {
    let epoll = transport(1);
    let waker = epoll.waker().clone();
    waker.wake_by_ref();
    waker.wake();
    assert_eq!(epoll.counts().wakes, 2);
}

#[test]
fn sockets_send_at_once_and_have_no_user_timeout() {
    let mut epoll = transport(1);
    let (ours, _theirs) = tcp_pair();
    let duplicate = ours.try_clone().unwrap();
    epoll.attach(ours).unwrap();
    assert!(sockopt::tcp_nodelay(duplicate.as_fd()).unwrap());
    assert_eq!(sockopt::tcp_user_timeout(duplicate.as_fd()).unwrap(), 0);
}

#[test]
fn what_is_no_socket_is_refused_and_closed() {
    let mut epoll = transport(1);
    let file = std::fs::File::open("/dev/null").unwrap();
    assert!(epoll.attach(file.into()).is_err());
    let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    assert!(epoll.attach(socket.into()).is_err(), "it can't be told to send at once");
    assert_eq!(epoll.table.ids().count(), 0);
    // A place in the table is given back when the registration fails.
    let (ours, _theirs) = tcp_pair();
    let duplicate = ours.as_raw_fd();
    let id = epoll.attach(ours).unwrap();
    let connection = epoll.table.get(id).unwrap();
    assert_eq!(connection.socket().as_raw_fd(), duplicate);
    assert!(epoll.readiness.register(connection.socket(), 5).is_err(), "registered already");
}

/// The other end says why, and resets. A send may be the first to notice; the words still come first.
#[test]
fn what_came_before_a_failed_send_is_received() {
    let mut seen = 0;
    for _ in 0..20 {
        let mut epoll = transport(1);
        let (ours, theirs) = tcp_pair();
        let id = epoll.attach(ours).unwrap();
        epoll.send(id, staged(10));
        until(&mut epoll, |done| done.iter().any(|one| matches!(one, Completion::Recycled { .. })));
        // Unread bytes make the close a reset.
        TcpStream::from(theirs).write_all(b"because").unwrap();
        // No turn: the send is the first to notice.
        epoll.send(id, staged(10));
        let done = until(&mut epoll, |done| done.iter().any(|one| matches!(one, Completion::Failed { .. })));
        seen += usize::from(epoll.counts().sent == 10);
        let words: Vec<u8> = done.iter().flat_map(|one| received(one).to_vec()).collect();
        assert_eq!(words, b"because");
        assert!(matches!(done.last(), Some(Completion::Failed { .. } | Completion::Recycled { .. })));
    }
    assert!(seen > 0, "a send has failed");
}

fn received(completion: &Completion) -> &[u8] {
    match completion {
        Completion::Received { bytes, .. } => bytes,
        _ => &[],
    }
}

/// Nothing is received behind an end, so that only the event tells of a reset that follows.
#[test]
fn a_reset_behind_the_end_is_reported() {
    let mut epoll = transport(1);
    let (ours, theirs) = tcp_pair();
    let id = epoll.attach(ours).unwrap();
    let theirs = TcpStream::from(theirs);
    theirs.shutdown(std::net::Shutdown::Write).unwrap();
    until(&mut epoll, |done| matches!(done.last(), Some(Completion::Eof { .. })));
    sockopt::set_socket_linger(&theirs, Some(Duration::ZERO)).unwrap();
    drop(theirs);
    until(&mut epoll, |done| matches!(done.last(), Some(Completion::Failed { .. })));
    epoll.close(id, Close::Orderly);
    until(&mut epoll, |done| matches!(done.last(), Some(Completion::Closed { .. })));
}

#[test]
fn a_transport_that_is_dropped_resets_its_connections() {
    let mut epoll = transport(1);
    let (ours, theirs) = tcp_pair();
    epoll.attach(ours).unwrap();
    drop(epoll);
    let read = TcpStream::from(theirs).read(&mut [0; 10]);
    assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}
