//! The forms of asking: blocking calls, futures, streams.

use super::*;
use crate::clock::Clock;
use futures_core::Stream;
use std::pin::{Pin, pin};
use std::thread;
use std::time::Instant;

fn is_send<T: Send>() {}

#[test]
fn a_gate_its_futures_and_its_handles_move_between_threads() {
    is_send::<InputGate>();
    is_send::<Next<'static>>();
    is_send::<GateStream>();
    is_send::<GateHandle>();
    is_send::<OwnedItem>();
}

#[test]
fn a_blocking_call_is_woken_by_data_and_by_the_answer_to_its_bind() {
    for policies in [discard(), policies(WhenAbsent::Discard, Flush::Interval(MS))] {
        let bench = Bench::new();
        let mut gate = bench.gate(1, &[(0, 1)]);
        let reader = thread::spawn(move || {
            let mut got = Vec::new();
            while let Some(item) = gate.next_blocking().unwrap() {
                got.push(Got::of(item));
            }
            got
        });
        while bench.manager.waiting() == 0 {
            thread::yield_now();
        }
        let mut producer = bench.create(0, 1, config(policies).quota_segments(2));
        let mut number = 0;
        while number < 300 {
            match producer.write(&payload(number, 1000)) {
                Append::Done => number += 1,
                Append::Blocked(_) => {
                    bench.clock.advance(MS);
                    thread::yield_now();
                }
                other => panic!("{other:?}"),
            }
        }
        producer.finish();
        let got = reader.join().unwrap();
        assert_eq!(numbers(&got, 0), (0..300).collect::<Vec<_>>());
        assert_eq!(got.last(), Some(&Got::EndOfPartition(0)));
        drop(producer);
        bench.assert_whole();
    }
}

/// A clock that really goes, without alarms.
#[derive(Debug)]
struct RealClock(Instant);

impl Clock for RealClock {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.0.elapsed().as_nanos() as u64)
    }

    fn wake_at(&self, _: Moment, _: &Waker) {}
}

#[test]
fn a_blocking_call_with_a_timeout_comes_back_in_time() {
    let bench = Bench::new();
    #[allow(clippy::disallowed_methods, reason = "this is a clock")]
    let clock = Arc::new(RealClock(Instant::now()));
    let manager = Manager::new(bench.manager.pool().clone(), clock.clone(), WaitLimits::default());
    let mut gate = InputGate::new(manager.clone(), bench.config(1, &[(0, 1)]));
    let before = clock.now();
    let found = gate.next_blocking_timeout(Duration::from_millis(20)).unwrap();
    assert!(matches!(found, TryNext::Empty));
    assert!(clock.now().since(before) >= Duration::from_millis(20));
    let parts = manager.create(partition_id(0), Attempt(1), config(discard()), BindSecret::new(7)).unwrap();
    let mut producer = Producer { parts };
    let minute = Duration::from_secs(60);
    assert!(matches!(gate.next_blocking_timeout(minute), Ok(TryNext::Item(Item::Available { .. }))));
    let writer = thread::spawn(move || {
        producer.write_all(0..1, 10);
        producer
    });
    assert!(matches!(gate.next_blocking_timeout(minute), Ok(TryNext::Item(Item::Record(_)))));
    let mut producer = writer.join().unwrap();
    producer.finish();
    assert!(matches!(gate.next_blocking_timeout(minute), Ok(TryNext::Item(Item::EndOfData { .. }))));
    assert!(matches!(gate.next_blocking_timeout(minute), Ok(TryNext::Item(Item::EndOfPartition { .. }))));
    assert!(matches!(gate.next_blocking_timeout(minute), Ok(TryNext::End)));
    drop((gate, producer, manager));
    bench.assert_whole();
}

#[test]
fn a_blocked_call_is_steered_from_another_thread() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, config(discard()));
    producer.fail("over");
    let mut gate = bench.gate(1, &[(0, 1)]);
    let handle = gate.handle();
    let reader = thread::spawn(move || {
        let mut got = Vec::new();
        while let Some(item) = gate.next_blocking().unwrap() {
            got.push(Got::of(item));
        }
        got
    });
    while !matches!(handle.why_blocked(0), Ok(WhyBlocked::Unavailable { .. })) {
        thread::yield_now();
    }
    let mut second = bench.create(0, 2, config(discard()));
    second.write_all(0..3, 10);
    second.finish();
    handle.update_channel(0, bench.descriptor(0, 2)).unwrap();
    let got = reader.join().unwrap();
    assert_eq!(numbers(&got, 0), [0, 1, 2]);
    drop((producer, second, handle));
    bench.assert_whole();
}

#[test]
fn a_future_that_is_dropped_loses_nothing() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, config(discard()));
    let mut gate = bench.gate(1, &[(0, 1)]);
    bench.drain(&mut gate);
    let mut cx = Context::from_waker(&bench.waker);
    for number in 0..50 {
        {
            let mut next = pin!(gate.next());
            assert!(next.as_mut().poll(&mut cx).is_pending());
            bench.woken.take();
            producer.write_all(number..number + 1, 10);
            assert_eq!(bench.woken.take(), 1);
        }
        drop(gate.next());
        let mut next = pin!(gate.next());
        match next.as_mut().poll(&mut cx) {
            Poll::Ready(Ok(Some(Item::Record(record)))) => assert_eq!(record[..], payload(number, 10)),
            other => panic!("{other:?}"),
        }
    }
    drop((gate, producer));
    bench.assert_whole();
}

#[test]
fn a_stream_yields_owned_items_and_ends_with_the_gate() {
    let bench = Bench::new();
    let mut producer = bench.create(0, 1, config(discard()));
    producer.write_all(0..3, 4000);
    let mut stream = bench.gate(1, &[(0, 1)]).into_stream();
    let mut cx = Context::from_waker(&bench.waker);
    let mut next = |stream: &mut GateStream| Pin::new(stream).poll_next(&mut cx);
    let mut kept = Vec::new();
    while let Poll::Ready(Some(Ok(item))) = next(&mut stream) {
        kept.push(item);
    }
    producer.finish();
    while let Poll::Ready(Some(Ok(item))) = next(&mut stream) {
        kept.push(item);
    }
    assert!(matches!(next(&mut stream), Poll::Ready(None)));
    assert_eq!(stream.gate().channel_snapshot(0).unwrap().state, ChannelState::Ended);
    assert!(matches!(kept[0], OwnedItem::Available { .. }));
    for (number, item) in (0..3).zip(&kept[1..]) {
        let OwnedItem::Record(record) = item else { panic!("{item:?}") };
        assert_eq!(record.bytes[..], payload(number, 4000));
    }
    assert_eq!(kept[5], OwnedItem::EndOfPartition { channel: 0 });
    // What is lent outlives the gate, the partition and its writer.
    drop((stream.into_gate(), producer));
    assert!(bench.manager.pool().census().held() > 0);
    let OwnedItem::Record(record) = &kept[1] else { unreachable!() };
    assert_eq!(record.bytes[..], payload(0, 4000));
    drop(kept);
    bench.assert_whole();
}

#[test]
fn a_stream_ends_after_the_error_of_a_fenced_gate() {
    let bench = Bench::new();
    let producer = bench.create(0, 1, config(discard()));
    let mut stream = bench.gate(1, &[(0, 1)]).into_stream();
    let mut cx = Context::from_waker(&bench.waker);
    let mut next = |stream: &mut GateStream| Pin::new(stream).poll_next(&mut cx);
    assert!(matches!(next(&mut stream), Poll::Ready(Some(Ok(OwnedItem::Available { .. })))));
    let mut new = bench.gate(2, &[(0, 1)]);
    bench.drain(&mut new);
    assert!(matches!(next(&mut stream), Poll::Ready(Some(Ok(OwnedItem::Unavailable { .. })))));
    assert!(matches!(next(&mut stream), Poll::Ready(Some(Err(GateError::Fenced { .. })))));
    assert!(matches!(next(&mut stream), Poll::Ready(None)));
    drop((stream, new, producer));
    bench.assert_whole();
}
