//! Long records of several channels beside each other.

use super::*;

/// Two channels whose records come in parts: the quota holds less than a record.
fn two(bench: &Bench, half_max: usize) -> ([Producer; 2], InputGate) {
    let config = || config(discard()).quota_segments(3);
    let producers = [bench.create(0, 1, config()), bench.create(1, 1, config())];
    let gate_config = bench.config(1, &[(0, 1), (1, 1)]).half_record_bytes_max(half_max);
    let mut gate = InputGate::new(bench.manager.clone(), gate_config);
    bench.drain(&mut gate);
    (producers, gate)
}

#[test]
fn a_second_half_record_waits_for_the_first_and_is_told_why() {
    let bench = Bench::new();
    let (mut producers, mut gate) = two(&bench, 60_000);
    let long = [payload(1, 50_000), payload(2, 40_000)];
    let mut sources = [&long[0][..], &long[1][..]];
    for (producer, source) in producers.iter_mut().zip(&mut sources) {
        assert!(matches!(producer.append(source), Append::Blocked(_)));
        assert_eq!(bench.drain(&mut gate), []);
    }
    assert_eq!(gate.admission.admitted_bytes(), 50_000);
    assert_eq!(gate.why_blocked(1), Some(WhyBlocked::HalfRecordNotAdmitted { bytes: 40_000 }));
    // The first goes on, the second is held by its quota.
    while !matches!(producers[0].append(&mut sources[0]), Append::Done) {
        assert_eq!(bench.drain(&mut gate), []);
    }
    let mut got = bench.drain(&mut gate);
    assert_eq!(got, [Got::Record(0, long[0].clone())]);
    assert_eq!(gate.admission.admitted_bytes(), 40_000, "given back as soon as the gate moved on");
    loop {
        let done = producers[1].append(&mut sources[1]);
        got.extend(bench.drain(&mut gate));
        if done == Append::Done {
            break;
        }
    }
    assert_eq!(got[1..], [Got::Record(1, long[1].clone())]);
    assert_eq!(gate.why_blocked(1), Some(WhyBlocked::NoData));
    assert_eq!(gate.admission.admitted_bytes(), 0);
    drop((gate, producers));
    bench.assert_whole();
}

#[test]
fn a_paused_half_record_gives_its_place_to_others_and_is_finished_later() {
    let bench = Bench::new();
    let (mut producers, mut gate) = two(&bench, 60_000);
    let long = [payload(1, 50_000), payload(2, 40_000)];
    let mut sources = [&long[0][..], &long[1][..]];
    for (producer, source) in producers.iter_mut().zip(&mut sources) {
        assert!(matches!(producer.append(source), Append::Blocked(_)));
        assert_eq!(bench.drain(&mut gate), []);
    }
    gate.pause(0).unwrap();
    loop {
        let got = bench.drain(&mut gate);
        if !got.is_empty() {
            assert_eq!(got, [Got::Record(1, long[1].clone())]);
            break;
        }
        producers[1].append(&mut sources[1]);
    }
    gate.resume(0).unwrap();
    loop {
        let got = bench.drain(&mut gate);
        if !got.is_empty() {
            assert_eq!(got, [Got::Record(0, long[0].clone())]);
            break;
        }
        producers[0].append(&mut sources[0]);
    }
    assert_eq!(bench.drain(&mut gate), []);
    assert_eq!(gate.admission.admitted_bytes(), 0);
    drop((gate, producers));
    bench.assert_whole();
}

#[test]
fn a_half_record_whose_producer_is_gone_makes_room() {
    let bench = Bench::new();
    let (mut producers, mut gate) = two(&bench, 60_000);
    let long = [payload(1, 50_000), payload(2, 40_000)];
    let mut sources = [&long[0][..], &long[1][..]];
    for (producer, source) in producers.iter_mut().zip(&mut sources) {
        assert!(matches!(producer.append(source), Append::Blocked(_)));
        assert_eq!(bench.drain(&mut gate), []);
    }
    producers[0].fail("over");
    let mut got = bench.drain(&mut gate);
    assert!(matches!(got[..], [Got::Loss(0, _), Got::Unavailable(0, Cause::Failed(_))]), "{got:?}");
    assert_eq!(gate.admission.admitted_bytes(), 40_000);
    while got.last() != Some(&Got::Record(1, long[1].clone())) {
        producers[1].append(&mut sources[1]);
        got.extend(bench.drain(&mut gate));
    }
    drop((gate, producers));
    bench.assert_whole();
}

#[test]
fn one_record_is_always_admitted() {
    let bench = Bench::new();
    let (mut producers, mut gate) = two(&bench, 10);
    let long = payload(1, 30_000);
    let mut source = &long[..];
    let mut got = Vec::new();
    while got.is_empty() {
        producers[0].append(&mut source);
        got = bench.drain(&mut gate);
    }
    assert_eq!(got, [Got::Record(0, long)]);
    drop((gate, producers));
    bench.assert_whole();
}

#[test]
fn a_record_that_is_too_long_closes_its_channel_alone() {
    let bench = Bench::new();
    let mut producers = [bench.create(0, 1, config(discard())), bench.create(1, 1, config(discard()))];
    let gate_config = bench.config(1, &[(0, 1), (1, 1)]).record_bytes_max(5000);
    let mut gate = InputGate::new(bench.manager.clone(), gate_config);
    bench.drain(&mut gate);
    producers[0].write_all(0..1, 5000);
    producers[0].write_all(1..2, 5001);
    producers[1].write_all(7..8, 10);
    let got = bench.drain(&mut gate);
    let error = GateError::RecordTooLong { channel: 0, bytes: 5001, max: 5000 };
    assert_eq!(numbers(&got, 0), [0]);
    assert!(got.contains(&Got::Failed(error.clone())), "{got:?}");
    assert!(!error.is_final());
    assert_eq!(numbers(&got, 1), [7]);
    assert_eq!(gate.why_blocked(0), Some(WhyBlocked::RecordTooLong { bytes: 5001, max: 5000 }));
    producers[1].write_all(8..9, 10);
    assert_eq!(numbers(&bench.drain(&mut gate), 1), [8]);
    assert_eq!(producers[0].write(&payload(2, 10)), Append::Dropped, "the channel is closed");
    let mut second = bench.create(0, 2, config(discard()));
    gate.update_channel(0, bench.descriptor(0, 2)).unwrap();
    second.write_all(3..4, 10);
    assert_eq!(bench.drain(&mut gate), [Got::Available(0, 2), Got::Record(0, payload(3, 10))]);
    drop((gate, producers, second));
    bench.assert_whole();
}

/// What each gives back lets the first one that was refused in, and then the others: also when all of it
/// happens within one turn, and when the first one steps back.
#[test]
fn nobody_who_was_refused_is_forgotten() {
    for pauses in [false, true] {
        let bench = Bench::new();
        let config = || config(discard()).quota_segments(3);
        let mut producers: Vec<_> = (0..4).map(|index| bench.create(index, 1, config())).collect();
        let gate_config = bench.config(1, &[(0, 1), (1, 1), (2, 1), (3, 1)]).half_record_bytes_max(60_000);
        let mut gate = InputGate::new(bench.manager.clone(), gate_config);
        bench.drain(&mut gate);
        let sizes = [40_000, 9000, 9000, 40_000];
        let records: Vec<_> =
            (0..4).zip(sizes).map(|(channel, size)| payload(channel as u32, size)).collect();
        let mut sources: Vec<_> = records.iter().map(|record| &record[..]).collect();
        // Channel 0 is admitted; 3 is refused first, then 1 and 2, which would fit beside 0.
        let mut done = [false; 4];
        for channel in [0, 3, 1, 2] {
            done[channel] = producers[channel].append(&mut sources[channel]) == Append::Done;
            assert_eq!(bench.drain(&mut gate), [], "channel {channel}");
        }
        let refused = |gate: &InputGate, channel: u32| {
            matches!(gate.why_blocked(channel), Some(WhyBlocked::HalfRecordNotAdmitted { .. }))
        };
        assert!((1..4).all(|channel| refused(&gate, channel)));
        let mut got = Vec::new();
        if pauses {
            gate.pause(3).unwrap();
            got.extend(bench.drain(&mut gate));
            assert!(!refused(&gate, 1) && !refused(&gate, 2), "3 gave way to them");
        }
        for _ in 0..100 {
            for channel in 0..4 {
                if !done[channel] {
                    done[channel] = producers[channel].append(&mut sources[channel]) == Append::Done;
                }
                got.extend(bench.drain(&mut gate));
            }
            if got.len() == 3 {
                gate.resume(3).unwrap();
            }
        }
        for channel in 0..4 {
            assert_eq!(numbers(&got, channel), [channel], "{pauses}");
        }
        drop((gate, producers));
        bench.assert_whole();
    }
}
