//! The gate's watermark.

use super::*;

#[test]
fn the_watermark_is_the_least_and_never_goes_back() {
    let bench = Bench::new();
    let mut producers: Vec<_> = (0..3).map(|index| bench.create(index, 1, config(discard()))).collect();
    let mut gate = bench.gate(1, &[(0, 1), (1, 1), (2, 1)]);
    bench.drain(&mut gate);
    let mut report = |gate: &mut InputGate, channel: usize, time| {
        producers[channel].event(Event::Watermark(time));
        assert_eq!(bench.drain(gate), [Got::Event(channel as u32, Event::Watermark(time))]);
        gate.watermark()
    };
    assert_eq!(report(&mut gate, 0, 10), None);
    assert_eq!(report(&mut gate, 1, 20), None);
    assert_eq!(report(&mut gate, 2, 5), Some(5));
    assert_eq!(report(&mut gate, 1, 30), Some(5));
    assert_eq!(report(&mut gate, 2, 15), Some(10));
    assert_eq!(report(&mut gate, 0, 3), Some(10), "a report that goes back counts for nothing");
    assert_eq!(report(&mut gate, 0, 40), Some(15));
    assert_eq!(gate.channel_snapshot(0).unwrap().watermark, Some(40));
    // A channel whose data has ended is left out.
    producers[2].finish();
    bench.drain(&mut gate);
    assert_eq!(gate.watermark(), Some(30));
    drop((gate, producers));
    bench.assert_whole();
}

#[test]
fn an_unavailable_channel_is_left_out_unless_it_holds() {
    for holds in [false, true] {
        let bench = Bench::new();
        let mut producers = [bench.create(0, 1, config(discard())), bench.create(1, 1, config(discard()))];
        let mut gate = bench.gate(1, &[(0, 1), (1, 1)]);
        gate.hold_watermark(0, holds).unwrap();
        for (producer, time) in producers.iter_mut().zip([10, 20]) {
            producer.event(Event::Watermark(time));
        }
        bench.drain(&mut gate);
        assert_eq!(gate.watermark(), Some(10));
        producers[0].fail("over");
        bench.drain(&mut gate);
        assert_eq!(gate.watermark(), Some(if holds { 10 } else { 20 }));
        producers[1].event(Event::Watermark(25));
        bench.drain(&mut gate);
        let standing = if holds { 10 } else { 25 };
        assert_eq!(gate.watermark(), Some(standing));
        // The successor starts earlier: the gate's stands still until it has caught up.
        let mut second = bench.create(0, 2, config(discard()));
        gate.update_channel(0, bench.descriptor(0, 2)).unwrap();
        producers[1].event(Event::Watermark(50));
        bench.drain(&mut gate);
        assert_eq!(gate.watermark(), Some(standing));
        second.event(Event::Watermark(7));
        bench.drain(&mut gate);
        assert_eq!(gate.watermark(), Some(standing));
        second.event(Event::Watermark(35));
        bench.drain(&mut gate);
        assert_eq!(gate.watermark(), Some(35));
        drop((gate, producers, second));
        bench.assert_whole();
    }
}

#[test]
fn a_channel_bound_anew_counts_as_one_that_has_not_reported() {
    let bench = Bench::new();
    let mut producers = [bench.create(0, 1, config(discard())), bench.create(1, 1, config(discard()))];
    let mut gate = bench.gate(1, &[(0, 1), (1, 1)]);
    for (producer, time) in producers.iter_mut().zip([100, 20]) {
        producer.event(Event::Watermark(time));
    }
    bench.drain(&mut gate);
    producers[0].fail("over");
    bench.drain(&mut gate);
    let mut second = bench.create(0, 2, config(discard()));
    gate.update_channel(0, bench.descriptor(0, 2)).unwrap();
    bench.drain(&mut gate);
    producers[1].event(Event::Watermark(80));
    bench.drain(&mut gate);
    assert_eq!(gate.watermark(), Some(20), "the successor may begin with older records");
    second.event(Event::Watermark(90));
    bench.drain(&mut gate);
    assert_eq!(gate.watermark(), Some(80));
    drop((gate, producers, second));
    bench.assert_whole();
}
