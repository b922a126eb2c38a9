//! Many connections at once: alarms stay on time, and the end comes promptly.

use super::*;
use crate::sync::{AtomicBool, Ordering};
use crate::test_size::pick;
use std::net::TcpListener;
use std::task::{Wake, Waker};

struct Rung {
    clock: Arc<WorkerClock>,
    tell: mpsc::Sender<Moment>,
}

impl Wake for Rung {
    fn wake(self: Arc<Self>) {
        let _gone = self.tell.send(self.clock.now());
    }
}

#[test]
fn alarms_are_on_time_with_a_thousand_connections() {
    let rig = Rig::start(&NetworkSettings {
        handshakes_max: 700,
        handshake_timeout: Duration::from_millis(500),
        heartbeat_interval: Some(Duration::from_millis(50)),
        ..settings()
    });
    // 300 peers, each with heartbeats twenty times a second, and as many handshakes as may be that say nothing.
    let peers: Vec<Raw> = (0..300)
        .map(|worker| {
            let mut raw = rig.connect();
            raw.say(&Frame::Hello(hello(worker, Purpose::Control)));
            assert_eq!(raw.hear(), Came::Welcome(rig.handle.worker()));
            raw
        })
        .collect();
    let silent: Vec<Raw> = (0..700).map(|_| rig.connect()).collect();
    rig.until("all are there", |picture| picture.accepted == 1000);
    let (tell, rung) = mpsc::channel();
    let waker = Waker::from(Arc::new(Rung { clock: rig.clock.clone(), tell }));
    let mut late: Vec<Duration> = (0..pick(100, 2000))
        .map(|_| {
            let at = rig.clock.now().plus(Duration::from_millis(5));
            rig.clock.wake_at(at, &waker);
            let rung = rung.recv_timeout(PATIENCE).unwrap();
            assert!(rung >= at, "an alarm that is early wakes for nothing");
            rung.since(at)
        })
        .collect();
    late.sort_unstable();
    // The median shows the loop; the worst shows the machine.
    let (median, most) = (late[late.len() / 2], late[late.len() - 1]);
    assert!(median < Duration::from_millis(20) && most < SLACK, "median {median:?}, worst {most:?}");
    drop((peers, silent));
}

#[test]
fn the_end_is_prompt_under_load_and_answers_everybody() {
    for round in 0..pick(5, 100) {
        let b = Rig::start(&settings());
        let mut a = Rig::start(&NetworkSettings { handshakes_max: 4, ..settings() });
        let black_hole = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let hole = RemoteAddress { socket: black_hole.local_addr().unwrap(), endpoint: 0 };
        let over = Arc::new(AtomicBool::new(false));
        let (dials, peer, address, stop) =
            (a.handle.dials().clone(), b.remote(), a.handle.address(), over.clone());
        let strangers = std::thread::spawn(move || {
            let mut bytes = [0; 64];
            // Relaxed: nothing depends on when it is seen.
            while !stop.load(Ordering::Relaxed) {
                let Ok(mut stranger) = TcpStream::connect(address) else { return };
                // The worker may end at any moment.
                let _closed =
                    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").and_then(|()| stranger.read(&mut bytes));
            }
        });
        let asks = std::thread::spawn(move || {
            let mut promised = 0;
            for at in 0.. {
                match dials.dial(if at % 8 == 0 { hole } else { peer }, 0) {
                    Ok(()) => promised += 1,
                    Err(DialRefused::Full) => std::thread::yield_now(),
                    Err(DialRefused::Stopped) => break,
                }
            }
            promised
        });
        std::thread::sleep(Duration::from_millis(20 + round));
        let start = Instant::now();
        a.stop();
        assert!(start.elapsed() < SLACK, "{:?}", start.elapsed());
        over.store(true, Ordering::Relaxed); // Relaxed: see there
        strangers.join().unwrap();
        let promised: u64 = asks.join().unwrap();
        let mut answers = 0;
        while let Ok(told) = a.told.try_recv() {
            answers += u64::from(matches!(told, News::Adopt(_) | News::DialFailed { .. }));
        }
        assert_eq!(answers, promised, "each dial has one answer");
        assert!(TcpStream::connect(address).is_err(), "the port is closed");
    }
}
