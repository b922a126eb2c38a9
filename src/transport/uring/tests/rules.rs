//! Rules that scripts by dice meet too seldom, or can't tell apart.

use super::super::low_water::{LowWater, MARK, PATIENCE, QUICK};
use super::super::zero_copy::{Ability, Decision, PAUSE, ZeroCopy};
use super::super::{Settings, Uring};
use super::play::{Dice, End, Socket, pattern};
use super::script::Script;
use crate::clock::Moment;
use crate::memory::ReceivePool;
use crate::transport::{Batch, Close, Completion, ConnectionId, Part, Transport};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

fn calm() -> Script {
    let mut script = Script::new(1);
    (script.calm, script.gives_buffers, script.dice) = (true, true, Dice(1));
    script
}

/// A transport with one connection, by which so many bytes come.
fn receiving(lazy: bool) -> (Uring<Script>, RawFd) {
    let settings = Settings { zero_copy: ZeroCopy::Never, ability: Ability::None, lazy };
    let (uring, fd, _) = connected(settings, End::Silence);
    (uring, fd)
}

fn connected(settings: Settings, end: End) -> (Uring<Script>, RawFd, ConnectionId) {
    let mut uring = Uring::new(calm(), ReceivePool::new(4).unwrap(), settings).unwrap();
    let owned = OwnedFd::from(File::open("/dev/null").unwrap());
    let fd = owned.as_raw_fd();
    let socket = Socket {
        salt: 1,
        incoming: 0,
        end,
        here: true,
        takes: usize::MAX,
        read: 0,
        sent: 0,
        shut: None,
        broken: false,
        low_water: 1,
    };
    uring.ring.sockets.insert(fd, socket);
    let id = uring.attach(owned).unwrap();
    (uring, fd, id)
}

/// The kernel keeps the notifications of zero-copy sends until the other end has acknowledged, which may be long: the
/// next batch is sent and the connection closed without them. Only the memory waits.
#[test]
fn neither_the_next_send_nor_a_close_waits_for_notifications() {
    let settings = Settings { zero_copy: ZeroCopy::Always, ability: Ability::Reporting, lazy: false };
    let (mut uring, fd, id) = connected(settings, End::Eof);
    uring.ring.keeps_notifications = true;
    let until = |uring: &mut Uring<Script>, wanted: fn(&Completion) -> bool| {
        let (mut done, mut recycled) = (Vec::new(), 0);
        for _ in 0..100 {
            uring.turn(Some(Duration::from_millis(1)), &mut done).unwrap();
            recycled += done.iter().filter(|it| matches!(it, Completion::Recycled { .. })).count();
            if done.drain(..).any(|it| wanted(&it)) {
                return recycled;
            }
        }
        panic!("it waits for a notification");
    };
    for round in 0..4 {
        let staging = pattern(1, round * 100, 100).to_vec();
        let parts = vec![Part::Staged(0..100)];
        uring.send(id, Box::new(Batch { staging, parts, bytes: 100, returns: Vec::new() }));
        assert_eq!(until(&mut uring, |it| matches!(it, Completion::Sent { .. })), 0);
    }
    assert_eq!((uring.ring.sockets[&fd].sent, uring.counts().zero_copy_sends), (400, 4));
    uring.close(id, Close::Orderly);
    assert_eq!(until(&mut uring, |it| matches!(it, Completion::Closed { .. })), 0);
    assert!(!uring.ring.sockets.contains_key(&fd));
    uring.ring.keeps_notifications = false;
    let (mut done, mut recycled) = (Vec::new(), 0);
    while recycled < 4 {
        uring.turn(Some(Duration::from_millis(1)), &mut done).unwrap();
        recycled += done.drain(..).filter(|it| matches!(it, Completion::Recycled { .. })).count();
    }
}

fn turn(uring: &mut Uring<Script>, timeout: Duration) -> usize {
    let mut done = Vec::new();
    uring.turn(Some(timeout), &mut done).unwrap();
    let bytes = done.iter().map(|it| match it {
        Completion::Received { bytes, .. } => bytes.len(),
        other => panic!("{other:?}"),
    });
    bytes.sum()
}

/// Two quick stretches bring the mark up.
fn raise(uring: &mut Uring<Script>, fd: RawFd) {
    for _ in 0..4 {
        let socket = uring.ring.sockets.get_mut(&fd).unwrap();
        assert_eq!(socket.low_water, 1, "not before two stretches");
        socket.incoming += MARK as usize;
        while uring.ring.sockets[&fd].read < uring.ring.sockets[&fd].incoming {
            turn(uring, Duration::from_millis(1));
        }
        if uring.ring.sockets[&fd].low_water > 1 {
            return;
        }
    }
    panic!("the mark goes up under load");
}

#[test]
fn a_tail_below_the_mark_comes_within_the_patience() {
    let (mut uring, fd) = receiving(true);
    raise(&mut uring, fd);
    assert_eq!(uring.ring.sockets[&fd].low_water, MARK as usize);
    let before = uring.ring.time();
    uring.ring.sockets.get_mut(&fd).unwrap().incoming += 100;
    // One long wait: it ends by itself when the mark is down.
    assert_eq!(turn(&mut uring, Duration::from_secs(60)), 100);
    let took = uring.ring.time().since(before);
    assert!(took <= PATIENCE + Duration::from_micros(300), "{took:?}");
    assert_eq!(uring.ring.sockets[&fd].low_water, 1, "at rest the mark is down");
}

#[test]
fn a_tail_below_the_mark_comes_to_who_never_waits() {
    let (mut uring, fd) = receiving(true);
    raise(&mut uring, fd);
    uring.ring.sockets.get_mut(&fd).unwrap().incoming += 100;
    let turns = (0..4).take_while(|_| turn(&mut uring, Duration::ZERO) == 0).count();
    assert!(turns < 4, "the mark goes down by a turn that finds nothing");
}

#[test]
fn the_mark_of_one_connection_goes_down_though_another_is_busy() {
    let (mut uring, fd) = receiving(true);
    raise(&mut uring, fd);
    uring.ring.sockets.get_mut(&fd).unwrap().incoming += 100;
    let end = uring.ring.time().plus(PATIENCE * 2);
    while uring.ring.sockets[&fd].low_water > 1 {
        assert!(uring.ring.time() < end);
        // Every wait ends at once, with something else.
        uring.waker().wake_by_ref();
        turn(&mut uring, Duration::from_secs(1));
    }
}

#[test]
fn the_mark_stays_down_where_it_is_not_wanted() {
    let (mut uring, fd) = receiving(false);
    for _ in 0..8 {
        let socket = uring.ring.sockets.get_mut(&fd).unwrap();
        socket.incoming += MARK as usize;
        while uring.ring.sockets[&fd].read < uring.ring.sockets[&fd].incoming {
            turn(&mut uring, Duration::from_millis(1));
        }
        assert_eq!(uring.ring.sockets[&fd].low_water, 1);
    }
}

#[test]
fn only_two_quick_stretches_in_a_row_bring_the_mark_up() {
    let mut now = Moment::from_nanos(1);
    let mut low_water = LowWater::new(true, now);
    let mut stretch = |low_water: &mut LowWater, time: Duration| {
        now = now.plus(time);
        low_water.received(MARK as usize, now)
    };
    assert!(!stretch(&mut low_water, QUICK));
    assert!(!stretch(&mut low_water, QUICK + Duration::from_nanos(1)), "a slow one in between");
    assert!(!stretch(&mut low_water, QUICK));
    assert!(stretch(&mut low_water, QUICK));
    assert!(!low_water.received(MARK as usize - 1, Moment::from_nanos(9)), "no stretch yet");
}

#[test]
fn zero_copies_are_decided_by_reports() {
    let large = 64 * 1024;
    let mut now = Moment::from_nanos(5);
    let mut auto = Decision::new(ZeroCopy::Auto, Ability::Reporting, false);
    assert!(auto.wants(large, now) && !auto.wants(100, now), "large sends only");
    for report in 0..16 {
        assert!(auto.wants(large, now));
        auto.reported(report % 2 == 0 || report == 1, now);
    }
    assert!(!auto.wants(large, now), "more than half of them were copied");
    now = now.plus(PAUSE);
    assert!(auto.wants(large, now), "another try after a while");
    for _ in 0..160 {
        auto.reported(false, now);
    }
    assert!(auto.wants(large, now));
    auto.refused(false, now);
    assert!(!auto.wants(large, now) && auto.wants(large, now.plus(PAUSE)));
    auto.refused(true, now);
    assert!(!auto.wants(large, now.plus(PAUSE * 1000)) && !auto.is_possible());

    assert!(!Decision::new(ZeroCopy::Auto, Ability::Reporting, true).is_possible(), "loopback is copied");
    assert!(!Decision::new(ZeroCopy::Always, Ability::None, false).is_possible());
    assert!(!Decision::new(ZeroCopy::Never, Ability::Reporting, false).is_possible());
    let mut always = Decision::new(ZeroCopy::Always, Ability::Silent, true);
    (0..64).for_each(|_| always.reported(true, now));
    assert!(always.wants(1, now), "whatever is reported");
}
