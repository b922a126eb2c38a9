//! No receive buffer is free: nothing is lost, and reading goes on by itself.

use super::super::{Close, ConnectionId, Transport};
use super::{Backend, Rig};
use crate::clock::Monotonic;
use crate::memory::RECEIVE_BYTES;
use crate::sync::thread;
use std::time::Duration;

const TURN: Option<Duration> = Some(Duration::from_millis(1));

/// Longer than any wake-up takes, and short enough to wait for.
const LONG: Duration = Duration::from_secs(20);

/// Two connections.
type Pairs = [(ConnectionId, ConnectionId); 2];

/// Bytes that were handed over and didn't come yet.
fn missing<B: Backend>(rig: &mut Rig<B>, pairs: &Pairs) -> u64 {
    pairs.iter().map(|(a, b)| rig.a.end(*a).sent - rig.b.end(*b).received).sum()
}

/// Sends `goal` bytes in all on each connection, and lets things happen until nothing does, bytes being on
/// their way and no buffer free; or until nothing is missing: then it says false.
fn is_starved<B: Backend>(rig: &mut Rig<B>, pairs: &Pairs, goal: u64) -> bool {
    let mut idle = 0;
    while idle < 20 {
        for (a, _) in pairs {
            if !rig.a.end(*a).sending && rig.a.end(*a).sent < goal {
                rig.a.send(*a, 200_000);
            }
        }
        if missing(rig, pairs) == 0 {
            return false;
        }
        let some = rig.a.turn(TURN) | rig.b.turn(TURN);
        idle = if some || rig.b.pool.free() > 0 { 0 } else { idle + 1 };
    }
    assert!(rig.b.transport.counts().starved > 0);
    true
}

/// Sends on two connections until `b` has no buffers left, since all is held that came.
fn starve<B: Backend>(rig: &mut Rig<B>) -> Pairs {
    let pairs = [rig.connect(), rig.connect()];
    for (_, b) in pairs {
        rig.b.end(b).hold = true;
    }
    let goal = 3 * u64::from(rig.b.pool.slots()) * RECEIVE_BYTES as u64;
    assert!(is_starved(rig, &pairs, goal));
    pairs
}

pub(super) fn reading_goes_on_when_buffers_come_free<B: Backend>() {
    let mut rig = Rig::<B>::new(20, [1, 2]);
    let pairs = starve(&mut rig);
    if !B::VIRTUAL_TIME {
        // Both must have found out. The window of one may have been closed when its last bytes were to come: then
        // they come when its sender's timer asks again, and only then it finds no buffer for them.
        rig.until(|rig| rig.b.transport.counts().starved >= B::STARVED);
    }
    let starved = rig.b.transport.counts().starved;
    // Waiting without buffers receives nothing, and counts nothing.
    let received: Vec<u64> = pairs.iter().map(|(_, b)| rig.b.end(*b).received).collect();
    rig.turns(20);
    assert!(pairs.iter().zip(received).all(|((_, b), before)| rig.b.end(*b).received == before));
    if !B::VIRTUAL_TIME {
        assert_eq!(rig.b.transport.counts().starved, starved);
    }
    // By the way: what is held is still what came.
    for (_, b) in pairs {
        let end = rig.b.end(b);
        end.hold = false;
        assert_eq!(end.held.iter().map(|held| held.len() as u64).sum::<u64>(), end.received);
        end.held.clear();
    }
    rig.until(|rig| {
        pairs.iter().all(|(a, b)| rig.b.end(*b).received == rig.a.end(*a).sent && !rig.a.end(*a).sending)
    });
    rig.finish();
}

/// The wait is without an end, and nothing but the buffers happens.
pub(super) fn buffers_freed_by_another_thread_end_a_wait<B: Backend>() {
    let mut rig = Rig::<B>::new(21, [1, 2]);
    let pairs = starve(&mut rig);
    let (clock, mut rounds) = (Monotonic::start(), 0);
    while is_starved(&mut rig, &pairs, 0) {
        let held: Vec<_> = pairs.iter().flat_map(|(_, b)| std::mem::take(&mut rig.b.end(*b).held)).collect();
        let before = missing(&mut rig, &pairs);
        let other = thread::spawn(move || drop(held));
        let start = clock.now();
        while missing(&mut rig, &pairs) == before {
            rig.b.turn(if B::VIRTUAL_TIME { None } else { Some(LONG) });
            assert!(clock.now().since(start) < LONG, "a buffer that came free woke nobody");
        }
        other.join().unwrap();
        rounds += 1;
    }
    assert!(rounds > 0);
    rig.finish();
}

/// Connections whose bytes can't be received can still be closed, by either end.
pub(super) fn closing_goes_on_without_buffers<B: Backend>() {
    let mut rig = Rig::<B>::new(22, [1, 2]);
    let [(a, b), (other_a, other_b)] = starve(&mut rig);
    rig.b.close(b, Close::Orderly);
    rig.until(|rig| rig.a.end(a).eof && !rig.a.end(a).sending);
    rig.a.close(a, Close::Orderly);
    rig.until(|rig| rig.a.end(a).closed && rig.b.end(b).closed);
    rig.b.close(other_b, Close::Abortive);
    rig.until(|rig| rig.b.end(other_b).closed && rig.a.end(other_a).failed.is_some());
    rig.finish();
}
