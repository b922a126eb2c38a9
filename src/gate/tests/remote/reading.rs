//! Remote channels that are bound: in order, in turn, acknowledged, lent, closed.

use super::*;

#[test]
fn a_channel_is_opened_bound_read_and_ended() {
    let mut all = Remote::new(|config| config);
    assert_eq!(all.gate.why_blocked(0), Some(WhyBlocked::Unbound));
    assert_eq!(all.drain(), []);
    let OpenChannel { descriptor, peer: to, request, window, mut feeder, .. } = all.network.opened();
    assert_eq!((descriptor, to), (remote(0, 1), peer()));
    assert_eq!((request.attempt, request.incarnation), (Attempt(1), Incarnation(1)));
    assert_eq!((window, feeder.window()), (4 << 20, 4 << 20));
    assert_eq!(all.state(), ChannelState::Connecting { peer: peer() });
    assert_eq!(all.gate.why_blocked(0), Some(WhyBlocked::Connecting { peer: peer() }));
    feeder.push(Delivery::Waiting);
    assert_eq!(all.bench.woken.take(), 1);
    assert_eq!(all.drain(), []);
    assert!(matches!(all.gate.why_blocked(0), Some(WhyBlocked::WaitingForPartition { .. })));
    // All at once, and in the order of the notices.
    feeder.push_priority(PriorityEvent::new(b"fast").unwrap());
    let report = RemoteGrant { in_doubt: Amount::new(1, 9), writer_lost: Amount::new(2, 20), ..grant(5) };
    feeder.push(Delivery::Bound(Box::new(report)));
    records(&mut feeder, 0..3, 8);
    feeder.push(Delivery::Event(RemoteEvent::Barrier(7)));
    feeder.push(Delivery::Event(RemoteEvent::Loss(Amount::new(2, 20))));
    feeder.push(Delivery::Event(RemoteEvent::Loss(Amount::new(5, 50))));
    records(&mut feeder, 3..4, 8);
    assert_eq!(all.report().in_doubt, Amount::new(1, 9));
    assert_eq!(all.gate.channel_snapshot(0).unwrap().epoch, BindEpoch(5));
    assert_eq!(
        all.drain(),
        [
            Got::Priority(0, b"fast".to_vec()),
            Got::Record(0, payload(0, 8)),
            Got::Record(0, payload(1, 8)),
            Got::Record(0, payload(2, 8)),
            Got::Event(0, Event::Barrier(7)),
            Got::Loss(0, Amount::new(3, 30)),
            Got::Record(0, payload(3, 8)),
        ]
    );
    let waiting = WhyBlocked::WaitingForPeer { peer: peer(), credit: 4 << 20 };
    assert_eq!(all.gate.why_blocked(0), Some(waiting.clone()));
    assert_eq!(all.gate.handle().why_blocked(0), Ok(waiting));
    feeder.push(Delivery::Event(RemoteEvent::EndOfData));
    assert_eq!(all.gate.why_blocked(0), Some(WhyBlocked::Ready));
    feeder.push(Delivery::Event(RemoteEvent::EndOfPartition));
    assert_eq!(all.drain(), [Got::EndOfData(0), Got::EndOfPartition(0), Got::End]);
    let snapshot = all.gate.channel_snapshot(0).unwrap();
    assert_eq!((snapshot.yielded, snapshot.consumed), (Amount::new(4, 48), Amount::new(4, 48)));
    assert_eq!(snapshot.lost, Amount::new(3, 30));
    // The end is consumed when it is yielded, and the reader is gone.
    assert!(all.network.rung() && feeder.is_closed());
    let last = feeder.progress().consumed;
    assert_eq!((last.amount, last.entries), (Amount::new(4, 48), 5));
    all.end();
}

#[test]
fn a_gate_that_goes_closes_its_channels_and_says_how_far_it_was() {
    let (mut all, mut feeder) = Remote::bound();
    records(&mut feeder, 0..3, 8);
    assert_eq!(all.bench.poll(&mut all.gate), Got::Record(0, payload(0, 8)));
    assert_eq!(all.bench.poll(&mut all.gate), Got::Record(0, payload(1, 8)));
    assert!(!feeder.is_closed());
    let network = all.network.clone();
    network.rung();
    all.end();
    assert!(network.rung() && feeder.is_closed());
    let last = feeder.progress();
    assert_eq!(last.yielded, Amount::new(2, 24));
    assert_eq!(last.consumed.amount, Amount::new(1, 12), "the last one may be in use");

    // Not bound yet.
    let mut all = Remote::new(|config| config);
    assert_eq!(all.drain(), []);
    let feeder = all.network.opened().feeder;
    all.end();
    assert!(feeder.is_closed());
}

#[test]
fn explicit_acknowledgements_reach_the_network() {
    let (mut all, mut feeder) = Remote::bound_with(|config| config.explicit_acknowledge(true));
    records(&mut feeder, 0..2, 8);
    feeder.push(Delivery::Event(RemoteEvent::Barrier(1)));
    assert_eq!(all.drain().len(), 3);
    assert_eq!(feeder.progress().consumed.amount, Amount::ZERO);
    let receipt = all.gate.receipt(0).unwrap();
    all.network.rung();
    assert!(all.gate.acknowledge(receipt));
    assert!(all.network.rung());
    let consumed = feeder.progress().consumed;
    assert_eq!((consumed.amount, consumed.entries), (Amount::new(2, 24), 1));
    assert!(!all.gate.acknowledge(receipt), "once");
    feeder.push(Delivery::Event(RemoteEvent::EndOfPartition));
    assert_eq!(all.drain(), [Got::EndOfPartition(0), Got::End]);
    assert!(!feeder.is_closed(), "the end isn't acknowledged");
    assert_eq!(all.gate.why_blocked(0), Some(WhyBlocked::WaitingForAcknowledge));
    all.gate.acknowledge_all();
    assert!(feeder.is_closed());
    assert_eq!(feeder.progress().consumed.entries, 2);
    assert_eq!(all.gate.why_blocked(0), Some(WhyBlocked::Ended));
    all.end();
}

#[test]
fn receipts_of_a_bind_before_are_ignored() {
    let (mut all, mut feeder) = Remote::bound_with(|config| config.explicit_acknowledge(true));
    records(&mut feeder, 0..2, 8);
    assert_eq!(all.drain().len(), 2);
    let old = all.gate.receipt(0).unwrap();
    feeder.push(Delivery::Over(Over::Lost(lost())));
    assert_eq!(all.drain(), [Got::Unavailable(0, lost())]);
    let mut feeder = all.network.opened().feeder;
    bound(&mut feeder, 2);
    records(&mut feeder, 0..2, 8);
    assert_eq!(all.drain().len(), 3);
    assert!(!all.gate.acknowledge(old));
    assert_eq!(feeder.progress().consumed.amount, Amount::ZERO);
    all.end();
}

#[test]
fn lent_records_take_credit_until_they_are_dropped() {
    let (mut all, mut feeder) = Remote::bound_with(|config| config.receive_bytes_max(64 << 10));
    assert_eq!(feeder.window(), 64 << 10);
    let mut owned = Vec::new();
    for number in 0..3 {
        records(&mut feeder, number..number + 1, 12 << 10);
        let mut cx = Context::from_waker(Waker::noop());
        match all.gate.poll_next(&mut cx) {
            Poll::Ready(Ok(Some(Item::Record(record)))) => owned.push(record.into_bytes()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(all.drain(), []);
    let pinned = 2 * ((12 << 10) + 4);
    assert_eq!(feeder.progress().pinned, pinned);
    let credit = (64 << 10) - pinned;
    assert_eq!(all.gate.why_blocked(0), Some(WhyBlocked::WaitingForPeer { peer: peer(), credit }));
    for (number, bytes) in owned.iter().enumerate() {
        assert_eq!(bytes[..], payload(number as u32, 12 << 10)[..]);
    }
    all.network.rung();
    owned.clear();
    assert!(all.network.rung());
    assert_eq!(feeder.progress().pinned, 0);
    all.end();
}

#[test]
fn windows_are_equal_parts_of_what_may_be_received() {
    let windows = |bytes: usize, channels: u32| {
        let config = GateConfig::new(Attempt(1), Incarnation(1)).receive_bytes_max(bytes);
        config.channels((0..channels).map(|index| remote(index, 1))).window()
    };
    assert_eq!(windows(32 << 20, 1), 4 << 20, "four mebibytes at most");
    assert_eq!(windows(32 << 20, 256), 128 << 10);
    assert_eq!(windows(32 << 20, 100_000), 4 << 10, "4 KiB at least");
}

#[test]
fn channels_take_turns_whatever_they_are() {
    let (bench, network) = (Bench::new(), FakeNetwork::new());
    let mut producer = bench.create(1, 1, config(discard()));
    let channels = [remote(0, 1), bench.descriptor(1, 1), remote(2, 1)];
    let gate_config = GateConfig::new(Attempt(1), Incarnation(1)).channels(channels);
    let dynamic: Arc<dyn Network> = network.clone();
    let mut gate = InputGate::with_network(bench.manager.clone(), Some(dynamic), gate_config);
    assert_eq!(bench.drain(&mut gate), [Got::Available(1, 1)]);
    let mut feeders: Vec<_> = std::mem::take(&mut *lock(&network.opened));
    for open in &mut feeders {
        bound(&mut open.feeder, 1);
    }
    assert_eq!(bench.drain(&mut gate), [Got::Available(0, 1), Got::Available(2, 1)]);
    // More than a turn of each.
    for open in &mut feeders {
        records(&mut open.feeder, 0..300, 8);
    }
    producer.write_all(0..300, 8);
    gate.pause(2).unwrap();
    assert!(feeders[1].feeder.push_priority(PriorityEvent::new(b"fast").unwrap()));
    let got = bench.drain(&mut gate);
    assert_eq!(got[0], Got::Priority(2, b"fast".to_vec()), "overtakes, and pauses don't hold it");
    // The rest of channel 0 waits with its feeder.
    for index in [0, 1] {
        let got = numbers(&got, index);
        let expected: Vec<u32> = (0..got.len() as u32).collect();
        assert_eq!(got, expected);
    }
    assert_eq!(numbers(&got, 1).len(), 300);
    assert_eq!(numbers(&got, 2).len(), 0);
    gate.resume(2).unwrap();
    let mut later = bench.drain(&mut gate);
    while network.rung() {
        for open in &mut feeders {
            open.feeder.flush();
        }
        later.extend(bench.drain(&mut gate));
    }
    assert_eq!(numbers(&got, 0).len() + numbers(&later, 0).len(), 300);
    assert_eq!(numbers(&later, 2), (0..300).collect::<Vec<u32>>());
    drop((gate, producer, feeders, network));
    bench.assert_whole();
}

#[test]
fn a_record_that_is_too_long_closes_its_channel_alone() {
    let (mut all, mut feeder) = Remote::bound_with(|config| config.record_bytes_max(100));
    records(&mut feeder, 0..1, 100);
    feed(&mut feeder, &encoded(&payload(1, 101))[..20]);
    let too_long = GateError::RecordTooLong { channel: 0, bytes: 101, max: 100 };
    assert_eq!(all.drain(), [Got::Record(0, payload(0, 100)), Got::Failed(too_long)]);
    assert!(feeder.is_closed() && all.network.is_idle());
    assert_eq!(all.gate.update_channel(0, remote(0, 2)).unwrap(), Update::Accepted);
    assert_eq!(all.drain(), []);
    assert_eq!(all.network.opened().descriptor.producer_attempt, Attempt(2));
    all.end();
}

#[test]
fn a_task_is_woken_for_everything_that_comes() {
    let (mut all, mut feeder) = Remote::bound();
    let expect = |all: &mut Remote, got: &[Got]| {
        assert_eq!(all.bench.woken.take(), 1, "{got:?}");
        assert_eq!(all.drain(), got);
    };
    all.bench.woken.take();
    records(&mut feeder, 0..1, 8);
    expect(&mut all, &[Got::Record(0, payload(0, 8))]);
    feeder.push_priority(PriorityEvent::new(b"fast").unwrap());
    expect(&mut all, &[Got::Priority(0, b"fast".to_vec())]);
    feeder.push(Delivery::Over(Over::Lost(lost())));
    expect(&mut all, &[Got::Unavailable(0, lost())]);
    let mut feeder = all.network.opened().feeder;
    bound(&mut feeder, 2);
    expect(&mut all, &[Got::Available(0, 1)]);
    drop(feeder);
    expect(&mut all, &[Got::Unavailable(0, left())]);
    drop(all.network.opened());
    all.end();
}

#[test]
fn a_paused_channel_has_told_what_is_consumed_before_the_task_sleeps() {
    let (mut all, mut feeder) = Remote::bound();
    feed(&mut feeder, &[encoded(&payload(0, 8)), encoded(&payload(1, 8))].concat());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(all.gate.poll_next(&mut cx), Poll::Ready(Ok(Some(Item::Record(_))))));
    all.gate.pause(0).unwrap();
    all.network.rung();
    assert!(all.gate.poll_next(&mut cx).is_pending());
    // The producer may wait for just that before it sends to others what the task waits for.
    assert!(all.network.rung());
    assert_eq!(feeder.progress().consumed.amount, Amount::new(1, 12));
    all.end();
}
