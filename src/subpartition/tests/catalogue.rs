//! Where a takeover may fall: every place of a record in its segments, by name. The oracle checks each step.

use super::oracle::{Oracle, Setup};
use super::*;

/// Payload of a record that is as long as what one segment takes with its length.
const WHOLE: usize = 4096 - 4;

fn oracle(when_absent: WhenAbsent, quota: u32) -> Oracle {
    let policies = Policies { when_absent, flush: Flush::WhenFull, ..Policies::default() };
    Oracle::new(Setup { layout: RecordLayout::Lengths, policies, quota, entries: 64 })
}

fn retaining() -> Oracle {
    oracle(WhenAbsent::Retain { quota: 20, then: WhenRetained::Block }, 20)
}

/// Both ways of a takeover: by a newer attempt while the old one reads, and after an outage.
fn in_both_ways(test: impl Fn(Oracle, bool)) {
    for outage in [false, true] {
        test(retaining(), outage);
    }
}

fn take_over(oracle: &mut Oracle, outage: bool, attempt: u32) -> usize {
    if outage {
        oracle.outage();
    }
    oracle.bind(attempt)
}

#[test]
fn a_record_begun_by_the_old_reader_ends_in_the_next_segment_and_nothing_follows() {
    in_both_ways(|mut oracle, outage| {
        let old = oracle.bind(1);
        oracle.write(3000);
        oracle.write(3000);
        // With record 0 it takes the begin of record 1.
        assert_eq!(oracle.read_records(old, 1), [0]);
        let new = take_over(&mut oracle, outage, 2);
        assert!(oracle.drain_records(new).is_empty());
        let lost = oracle.account().lost;
        assert_eq!(lost.skipped, Amount::new(1, 6008 - 4096));
        oracle.write(100);
        assert_eq!(oracle.drain_records(new), [2], "a later one arrives");
        oracle.finish(0);
    });
}

#[test]
fn a_record_begun_by_the_old_reader_ends_in_the_next_segment_and_more_follows() {
    in_both_ways(|mut oracle, outage| {
        let old = oracle.bind(1);
        for bytes in [3000, 3000, 10, 0, 20] {
            oracle.write(bytes);
        }
        assert_eq!(oracle.read_records(old, 1), [0]);
        let new = take_over(&mut oracle, outage, 2);
        assert_eq!(oracle.drain_records(new), [2, 3, 4]);
        assert_eq!(oracle.account().lost.skipped.records, 1);
        oracle.finish(1);
    });
}

#[test]
fn a_takeover_before_a_whole_record_skips_nothing_and_not_the_next_one_either() {
    in_both_ways(|mut oracle, outage| {
        let old = oracle.bind(1);
        oracle.write(100);
        assert_eq!(oracle.drain_records(old), [0]);
        let new = take_over(&mut oracle, outage, 2);
        for bytes in [200, 300, 5000] {
            oracle.write(bytes);
        }
        assert_eq!(oracle.drain_records(new), [1, 2, 3]);
        assert_eq!(oracle.account().lost.total(), Amount::ZERO);
        oracle.finish(2);
    });
}

#[test]
fn a_takeover_that_finds_whole_segments_skips_nothing() {
    in_both_ways(|mut oracle, outage| {
        oracle.bind(1);
        for bytes in [WHOLE, WHOLE, 100] {
            oracle.write(bytes);
        }
        let new = take_over(&mut oracle, outage, 2);
        assert_eq!(oracle.drain_records(new), [0, 1, 2]);
        assert_eq!(oracle.account().lost.total(), Amount::ZERO);
        oracle.finish(3);
    });
}

#[test]
fn a_takeover_within_a_growing_segment_goes_on_at_the_next_record() {
    in_both_ways(|mut oracle, outage| {
        let old = oracle.bind(1);
        for bytes in [100, 200, 300] {
            oracle.write(bytes);
        }
        assert_eq!(oracle.drain_records(old), [0, 1, 2]);
        oracle.write(400);
        let new = take_over(&mut oracle, outage, 2);
        oracle.write(500);
        assert_eq!(oracle.drain_records(new), [3, 4]);
        assert_eq!(oracle.account().lost.total(), Amount::ZERO);
        oracle.finish(4);
    });
}

#[test]
fn the_rest_of_a_long_record_is_skipped_over_whole_segments() {
    for following in [false, true] {
        in_both_ways(|mut oracle, outage| {
            let old = oracle.bind(1);
            oracle.write(1000);
            oracle.write(5 * 4096);
            if following {
                oracle.write(50);
            }
            assert_eq!(oracle.read_records(old, 1), [0]);
            let new = take_over(&mut oracle, outage, 2);
            let expected = if following { vec![2] } else { vec![] };
            assert_eq!(oracle.drain_records(new), expected);
            // All but what went with record 0.
            assert_eq!(oracle.account().lost.skipped, Amount::new(1, 5 * 4096 + 4 - (4096 - 1004)));
            oracle.write(60);
            assert_eq!(oracle.drain_records(new).len(), 1);
            oracle.finish(5);
        });
    }
}

#[test]
fn a_long_record_whose_end_is_not_written_yet_is_skipped_as_it_comes() {
    for abort in [false, true] {
        let mut oracle = oracle(WhenAbsent::Retain { quota: 3, then: WhenRetained::Block }, 3);
        let old = oracle.bind(1);
        assert_eq!(oracle.write(40_000), Some(Append::Blocked(Blocked::Memory)));
        assert!(oracle.drain_records(old).is_empty());
        let new = oracle.bind(2);
        while oracle.write(0) == Some(Append::Blocked(Blocked::Memory)) && !abort {
            assert!(oracle.drain_records(new).is_empty());
        }
        if abort {
            assert!(oracle.drain_records(new).is_empty());
            oracle.abort();
        }
        assert!(!oracle.is_waiting());
        oracle.write(10);
        assert_eq!(oracle.drain_records(new), [1]);
        assert_eq!(oracle.account().lost.total().records, 1);
        oracle.finish(6);
    }
}

#[test]
fn a_second_takeover_in_the_middle_of_another_record() {
    in_both_ways(|mut oracle, outage| {
        let first = oracle.bind(1);
        for bytes in [3000, 3000, 1500, 3000, 200] {
            oracle.write(bytes);
        }
        assert_eq!(oracle.read_records(first, 1), [0]);
        let second = take_over(&mut oracle, outage, 2);
        // The tail of 1 is skipped, 2 comes with the begin of 3.
        assert_eq!(oracle.read_records(second, 1), [2]);
        let third = take_over(&mut oracle, outage, 3);
        assert_eq!(oracle.drain_records(third), [4]);
        assert_eq!(oracle.account().lost.skipped.records, 2);
        oracle.finish(7);
    });
}

#[test]
fn a_second_takeover_while_the_first_still_skips() {
    let mut oracle = oracle(WhenAbsent::Retain { quota: 2, then: WhenRetained::Block }, 2);
    let mut reader = oracle.bind(1);
    assert_eq!(oracle.write(60_000), Some(Append::Blocked(Blocked::Memory)));
    for attempt in 2..7 {
        assert!(oracle.drain_records(reader).is_empty());
        reader = oracle.bind(attempt);
        assert_eq!(oracle.write(0), Some(Append::Blocked(Blocked::Memory)));
    }
    while oracle.is_waiting() {
        oracle.drain(reader);
        oracle.write(0);
    }
    oracle.write(5);
    assert_eq!(oracle.drain_records(reader), [1]);
    assert_eq!(oracle.account().lost.skipped.records, 1);
    oracle.finish(8);
}

#[test]
fn a_record_that_ends_exactly_with_its_segment() {
    in_both_ways(|mut oracle, outage| {
        let old = oracle.bind(1);
        // The second begins in the first segment and ends with the second one.
        for bytes in [1000, 2 * 4096 - 1004 - 4, 300] {
            oracle.write(bytes);
        }
        assert_eq!(oracle.read_records(old, 1), [0]);
        let new = take_over(&mut oracle, outage, 2);
        assert_eq!(oracle.drain_records(new), [2]);
        assert_eq!(oracle.account().lost.skipped, Amount::new(1, 4096));
        oracle.finish(9);
    });
}

#[test]
fn a_record_that_fills_a_segment_exactly_and_was_taken_whole() {
    in_both_ways(|mut oracle, outage| {
        let old = oracle.bind(1);
        oracle.write(WHOLE);
        assert_eq!(oracle.drain_records(old), [0]);
        let new = take_over(&mut oracle, outage, 2);
        assert!(oracle.drain_records(new).is_empty());
        oracle.write(WHOLE);
        assert_eq!(oracle.drain_records(new), [1], "the boundary at the segment's end is one");
        assert_eq!(oracle.account().lost.total(), Amount::ZERO);
        oracle.finish(10);
    });
}

#[test]
fn a_takeover_with_nothing_written_at_all_or_nothing_more() {
    in_both_ways(|mut oracle, outage| {
        oracle.bind(1);
        let second = take_over(&mut oracle, outage, 2);
        assert!(oracle.drain_records(second).is_empty());
        oracle.write(10);
        assert_eq!(oracle.drain_records(second), [0]);
        let third = take_over(&mut oracle, outage, 3);
        assert!(oracle.drain_records(third).is_empty());
        let fourth = take_over(&mut oracle, outage, 4);
        oracle.write(20);
        assert_eq!(oracle.drain_records(fourth), [1]);
        oracle.finish(11);
    });
}

#[test]
fn a_replay_goes_back_to_the_begin_of_what_was_not_consumed() {
    for outage in [false, true] {
        let mut oracle = oracle(WhenAbsent::Replay { quota: 20 }, 20);
        let old = oracle.bind(1);
        for bytes in [3000, 3000, 5 * 4096, WHOLE, 0] {
            oracle.write(bytes);
        }
        oracle.barrier();
        assert_eq!(oracle.read_records(old, 2), [0, 1]);
        // Record 1 was given, and the next one not asked for.
        let new = take_over(&mut oracle, outage, 2);
        assert_eq!(oracle.drain_records(new), [1, 2, 3, 4]);
        assert_eq!(oracle.account().lost.total() + oracle.account().in_doubt, Amount::ZERO);
        oracle.finish(12);
    }
}

#[test]
fn a_discard_drains_whole_records_and_the_begun_one_is_broken_off() {
    for outage in [false, true] {
        let mut oracle = oracle(WhenAbsent::Discard, 3);
        let old = oracle.bind(1);
        oracle.write(3000);
        oracle.write(3000);
        assert_eq!(oracle.write(40_000), Some(Append::Blocked(Blocked::Memory)));
        assert_eq!(oracle.read_records(old, 1), [0]);
        let new = take_over(&mut oracle, outage, 2);
        assert_eq!(oracle.write(0), Some(Append::Dropped), "its begin is gone");
        oracle.write(70);
        assert_eq!(oracle.drain_records(new), [3]);
        let lost = oracle.account().lost;
        assert_eq!((lost.drained.records, lost.aborted.records), (1, 1));
        oracle.finish(13);
    }
}

#[test]
fn records_without_lengths_over_segments() {
    for width in [1, 7, 4096, 4097, 10_000] {
        in_both_ways(|_, outage| {
            let layout = RecordLayout::Fixed(std::num::NonZeroU32::new(width).unwrap());
            let when_absent = WhenAbsent::Retain { quota: 20, then: WhenRetained::Block };
            let policies = Policies { when_absent, flush: Flush::WhenFull, ..Policies::default() };
            let mut oracle = Oracle::new(Setup { layout, policies, quota: 20, entries: 64 });
            let old = oracle.bind(1);
            let records = (20_000 / width as usize).min(50);
            for _ in 0..records {
                oracle.write(width as usize);
            }
            assert_eq!(oracle.read_records(old, 1), [0]);
            let new = take_over(&mut oracle, outage, 2);
            oracle.write(width as usize);
            let got = oracle.drain_records(new);
            assert!(
                got.ends_with(&[records]) && got.windows(2).all(|pair| pair[0] + 1 == pair[1]),
                "{got:?}"
            );
            oracle.finish(14);
        });
    }
}
