//! Binds that are refused, cut off, moved, and what is told of it.

use super::*;

#[test]
fn a_gate_without_a_network_says_so() {
    let bench = Bench::new();
    let gate_config = GateConfig::new(Attempt(1), Incarnation(1)).channel(remote(0, 1));
    let mut gate = InputGate::new(bench.manager.clone(), gate_config);
    let error = BindError::NoNetwork { peer: peer() };
    assert_eq!(bench.drain(&mut gate), [Got::BindFailed(0, error.clone())]);
    assert!(error.to_string().contains("10.0.0.7:4433#2"), "{error}");
    assert_eq!(gate.why_blocked(0), Some(WhyBlocked::BindFailed { error }));
    // The same partition turns out to be here.
    let mut producer = bench.create(0, 2, config(discard()));
    gate.update_channel(0, bench.descriptor(0, 2)).unwrap();
    producer.write_all(0..1, 8);
    assert_eq!(bench.drain(&mut gate), [Got::Available(0, 2), Got::Record(0, payload(0, 8))]);
    drop((gate, producer));
    bench.assert_whole();
}

#[test]
fn a_network_that_takes_no_channel_is_told_of() {
    let mut all = Remote::new(|config| config);
    *lock(&all.network.refusal) = Some(OpenError::Full { waiting: 64 });
    let full = BindError::TooManyWaiting { waiting: 64 };
    assert_eq!(all.drain(), [Got::BindFailed(0, full)]);
    *lock(&all.network.refusal) = None;
    assert!(all.gate.retry_bind(0).unwrap());
    assert_eq!(all.drain(), []);
    drop(all.network.opened().feeder);
    assert_eq!(all.drain(), [Got::Unavailable(0, left())], "who was to read it is gone");
    let again = all.network.opened().feeder;
    *lock(&all.network.refusal) = Some(OpenError::Shutdown);
    drop(again);
    assert_eq!(all.drain(), [Got::Unavailable(0, Cause::Shutdown)], "and nobody else is there");
    all.gate.update_channel(0, remote(0, 2)).unwrap();
    assert_eq!(all.drain(), [Got::Unavailable(0, Cause::Shutdown)]);
    all.end();
}

#[test]
fn a_lost_connection_is_told_behind_what_came_and_heals_by_itself() {
    let (mut all, mut feeder) = Remote::bound();
    records(&mut feeder, 0..2, 100);
    feed(&mut feeder, &encoded(&payload(2, 100))[..60]);
    feeder.push(Delivery::Over(Over::Lost(lost())));
    let mut cx = Context::from_waker(Waker::noop());
    let mut items = Vec::new();
    let mut skipped = Vec::new();
    while let Poll::Ready(Ok(Some(item))) = all.gate.poll_next(&mut cx) {
        if let Item::Unavailable { skipped: torn, epoch, .. } = &item {
            skipped.push((*epoch, *torn));
        }
        items.push(Got::of(item));
    }
    assert_eq!(
        items,
        [Got::Record(0, payload(0, 100)), Got::Record(0, payload(1, 100)), Got::Unavailable(0, lost())]
    );
    assert_eq!(skipped, [(BindEpoch(1), Amount::new(0, 60))]);
    assert_eq!(all.gate.admission.admitted_bytes(), 0, "the half record is given up");
    assert!(feeder.is_closed());
    // Opened again without being asked, and again after another failure, which is no news.
    let mut feeder = all.network.opened().feeder;
    assert_eq!(all.state(), ChannelState::Connecting { peer: peer() });
    for _ in 0..3 {
        feeder.push(Delivery::Over(Over::Lost(lost())));
        assert_eq!(all.drain(), []);
        feeder = all.network.opened().feeder;
    }
    bound(&mut feeder, 3);
    let report = all.report();
    assert_eq!(report.producer_tail, ProducerTail::Known, "the same attempt reports itself");
    // Another cut is news again.
    feeder.push(Delivery::Over(Over::Lost(lost())));
    assert_eq!(all.drain(), [Got::Unavailable(0, lost())]);
    // The next attempt knows nothing of what was under way.
    let dropped = all.network.opened().feeder;
    all.gate.update_channel(0, remote(0, 2)).unwrap();
    assert_eq!(all.drain(), []);
    assert!(dropped.is_closed(), "nobody waits for the old attempt");
    let OpenChannel { descriptor, mut feeder, .. } = all.network.opened();
    assert_eq!(descriptor.producer_attempt, Attempt(2));
    bound(&mut feeder, 1);
    assert_eq!(all.report().producer_tail, ProducerTail::Unknown { received: Amount::ZERO });
    all.end();
}

/// What the answer to a bind says of barriers counts like what a local view says of them; an outage breaks what
/// other channels have brought.
#[test]
fn barriers_that_do_not_come_of_the_peer_are_told() {
    let mut all = Remote::new(|config| config.channel(Bench::new().descriptor(1, 1)));
    let mut producer = all.bench.create(1, 1, config(discard()));
    assert_eq!(all.drain(), [Got::Available(1, 1)]);
    let mut feeder = all.network.opened().feeder;
    let barriers = LostBarriers { before: Some(4), behind: Some((6, 8)) };
    feeder.push(Delivery::Bound(Box::new(RemoteGrant { barriers, ..grant(3) })));
    assert_eq!(all.drain(), [Got::Available(0, 1)]);
    let event = |channel, id| Got::Event(channel, Event::Barrier(id));
    for id in [4, 5, 6, 8] {
        producer.event(Event::Barrier(id));
    }
    let got = all.drain();
    assert_eq!(got, [event(1, 4), Got::AlignmentBroken(4, 0), event(1, 5), event(1, 6), event(1, 8)]);
    feeder.push(Delivery::Event(RemoteEvent::Barrier(5)));
    assert_eq!(all.drain(), [event(0, 5)]);
    feeder.push(Delivery::Event(RemoteEvent::Barrier(6)));
    assert_eq!(all.drain(), [event(0, 6), Got::AlignmentBroken(8, 0)]);
    producer.event(Event::Barrier(9));
    assert_eq!(all.drain(), [event(1, 9)]);
    feeder.push(Delivery::Over(Over::Lost(lost())));
    assert_eq!(all.drain(), [Got::Unavailable(0, lost()), Got::AlignmentBroken(9, 0)]);
    producer.event(Event::Barrier(10));
    assert_eq!(all.drain(), [event(1, 10), Got::AlignmentBroken(10, 0)], "it may stay away for ever");
    drop(producer);
    all.end();
}

#[test]
fn the_first_connection_that_fails_is_told_once() {
    let mut all = Remote::new(|config| config);
    assert_eq!(all.drain(), []);
    for told in [true, false, false] {
        all.network.opened().feeder.push(Delivery::Over(Over::Lost(lost())));
        let expected = if told { vec![Got::Unavailable(0, lost())] } else { vec![] };
        // The feeder is gone with the statement: what it pushed comes first.
        assert_eq!(all.drain(), expected);
    }
    all.network
        .opened()
        .feeder
        .push(Delivery::Over(Over::Refused(BindError::NotFound { partition: partition_id(0) })));
    let not_found = BindError::NotFound { partition: partition_id(0) };
    assert_eq!(all.drain(), [Got::BindFailed(0, not_found.clone())]);
    assert_eq!(all.state(), ChannelState::BindFailed(not_found));
    assert!(all.network.is_idle(), "a refusal is final until somebody asks again");
    all.end();
}

#[test]
fn refusals_mean_what_they_mean_for_local_channels() {
    let told = |error: BindError| {
        let mut all = Remote::new(|config| config);
        assert_eq!(all.drain(), []);
        let mut feeder = all.network.opened().feeder;
        feeder.push(Delivery::Over(Over::Refused(error)));
        let got = all.drain();
        assert!(feeder.is_closed());
        all.end();
        got
    };
    let newer = Attempt(2);
    let stale = BindError::Stale { presented: Attempt(1), current: newer };
    let fenced = Got::Failed(GateError::Fenced { channel: 0, newer });
    assert_eq!(told(stale.clone()), [Got::BindFailed(0, stale), fenced]);
    let consumed = BindError::Released { cause: Cause::Consumed };
    assert_eq!(told(consumed), [Got::EndOfPartition(0), Got::End]);
    let superseded = BindError::StaleProducer { presented: Attempt(1), current: newer };
    assert_eq!(told(superseded), [Got::Unavailable(0, Cause::Superseded { newer })]);
    let timed_out = BindError::TimedOut { partition: partition_id(0), waited_ms: 10_000 };
    assert_eq!(told(timed_out.clone()), [Got::BindFailed(0, timed_out)]);
}

#[test]
fn a_view_that_the_peer_ended_waits_for_the_next_attempt() {
    let (mut all, mut feeder) = Remote::bound();
    records(&mut feeder, 0..1, 8);
    feeder.push(Delivery::Over(Over::Gone(Cause::Superseded { newer: Attempt(2) })));
    let superseded = Got::Unavailable(0, Cause::Superseded { newer: Attempt(2) });
    assert_eq!(all.drain(), [Got::Record(0, payload(0, 8)), superseded]);
    assert!(all.network.is_idle());
    all.gate.update_channel(0, remote(0, 2)).unwrap();
    assert_eq!(all.drain(), []);
    let mut feeder = all.network.opened().feeder;
    bound(&mut feeder, 1);
    assert_eq!(all.report().producer_tail, ProducerTail::Unknown { received: Amount::new(1, 12) });
    // Everything that a failed producer left is read: nothing is unknown.
    records(&mut feeder, 1..2, 8);
    feeder.push(Delivery::Event(RemoteEvent::Failed(Cause::Panicked)));
    assert_eq!(all.drain(), [Got::Record(0, payload(1, 8)), Got::Unavailable(0, Cause::Panicked)]);
    all.gate.update_channel(0, remote(0, 3)).unwrap();
    assert_eq!(all.drain(), []);
    let mut feeder = all.network.opened().feeder;
    bound(&mut feeder, 1);
    assert_eq!(all.report(), LossReport::default());
    // A newer attempt of this consumer.
    feeder.push(Delivery::Over(Over::Gone(Cause::Fenced { newer: Attempt(9) })));
    let fenced = Got::Failed(GateError::Fenced { channel: 0, newer: Attempt(9) });
    assert_eq!(all.drain(), [Got::Unavailable(0, Cause::Fenced { newer: Attempt(9) }), fenced]);
    all.end();
}

#[test]
fn an_end_that_an_older_attempt_acknowledged_is_the_end() {
    let mut all = Remote::new(|config| config);
    assert_eq!(all.drain(), []);
    let mut feeder = all.network.opened().feeder;
    feeder.push(Delivery::Bound(Box::new(RemoteGrant { ended: true, ..grant(4) })));
    assert_eq!(all.drain(), [Got::Available(0, 1), Got::EndOfPartition(0), Got::End]);
    assert!(feeder.is_closed());
    all.end();

    let (mut all, mut feeder) = Remote::bound();
    feeder.push(Delivery::Over(Over::Gone(Cause::Consumed)));
    assert_eq!(all.drain(), [Got::EndOfPartition(0), Got::End]);
    all.end();
}

#[test]
fn an_update_moves_a_channel_that_is_still_being_opened() {
    let mut all = Remote::new(|config| config);
    assert_eq!(all.drain(), []);
    let old = all.network.opened().feeder;
    assert_eq!(all.gate.update_channel(0, remote(0, 2)).unwrap(), Update::Accepted);
    assert_eq!(all.drain(), []);
    assert!(old.is_closed());
    let OpenChannel { descriptor, mut feeder, .. } = all.network.opened();
    assert_eq!(descriptor.producer_attempt, Attempt(2));
    // An answer that is there already counts: it is read to its end first.
    bound(&mut feeder, 1);
    assert_eq!(all.gate.update_channel(0, remote(0, 3)).unwrap(), Update::Accepted);
    records(&mut feeder, 0..1, 8);
    assert_eq!(all.drain(), [Got::Available(0, 2), Got::Record(0, payload(0, 8))]);
    feeder.push(Delivery::Over(Over::Lost(lost())));
    assert_eq!(all.drain(), [Got::Unavailable(0, lost())]);
    assert_eq!(all.network.opened().descriptor.producer_attempt, Attempt(3));
    all.end();
}

#[test]
fn a_channel_in_an_outage_leaves_the_watermark_to_the_others() {
    let (bench, network) = (Bench::new(), FakeNetwork::new());
    let gate_config = GateConfig::new(Attempt(1), Incarnation(1)).channels([remote(0, 1), remote(1, 1)]);
    let dynamic: Arc<dyn Network> = network.clone();
    let mut gate = InputGate::with_network(bench.manager.clone(), Some(dynamic), gate_config);
    assert_eq!(bench.drain(&mut gate), []);
    let mut feeders: Vec<_> = std::mem::take(&mut *lock(&network.opened));
    for (open, time) in feeders.iter_mut().zip([5, 9]) {
        bound(&mut open.feeder, 1);
        open.feeder.push(Delivery::Event(RemoteEvent::Watermark(time)));
    }
    bench.drain(&mut gate);
    assert_eq!(gate.watermark(), Some(5));
    feeders[0].feeder.push(Delivery::Over(Over::Lost(lost())));
    assert_eq!(bench.drain(&mut gate), [Got::Unavailable(0, lost())]);
    assert_eq!(gate.watermark(), Some(9), "it is being opened again, and counts as unavailable");
    // Bound again it holds the rest until it reports.
    let mut open = network.opened();
    bound(&mut open.feeder, 2);
    feeders[1].feeder.push(Delivery::Event(RemoteEvent::Watermark(20)));
    bench.drain(&mut gate);
    assert_eq!(gate.watermark(), Some(9));
    open.feeder.push(Delivery::Event(RemoteEvent::Watermark(15)));
    bench.drain(&mut gate);
    assert_eq!(gate.watermark(), Some(15));
    drop((gate, feeders, open, network));
    bench.assert_whole();
}
