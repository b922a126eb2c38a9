//! First offsets, `ends_until` and `boundary_at_or_after` against what the model noted down.

use proptest::prelude::*;

use super::{
    cases,
    stream::{Stream, plans},
};
use crate::record::{
    Boundary, EntryFacts, First, RecordLayout, UNIFORM_NONE, boundary_at_or_after, ends_until,
};

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn first_is_where_the_first_record_starts(plan in plans()) {
        for entry in Stream::write(&plan).entries {
            let expected = match entry.carried {
                None => First::at(0),
                Some((carried, true)) => First::at(carried),
                Some((_, false)) if entry.aborted.is_none() => First::NONE,
                // The entry was opened for more of the record than came.
                Some((carried, false)) => {
                    prop_assert!(entry.first.get().is_none_or(|first| usize::from(first) > carried));
                    continue;
                }
            };
            prop_assert_eq!(entry.first, expected);
            prop_assert_eq!(First::from_bits(entry.first.to_bits()), entry.first);
        }
    }

    #[test]
    fn walking_agrees_with_brute_force(plan in plans(), vacuous: u32) {
        for entry in Stream::write(&plan).entries {
            let starts_or_ends = |off: usize| match entry.carried {
                None if off == 0 => true,
                _ => entry.ends.contains(&off),
            };
            for published in entry.published() {
                let bytes = &entry.bytes[..published];
                for uniform in [UNIFORM_NONE, entry.hint(published, vacuous)] {
                    let facts = entry.facts(uniform);
                    for off in 0..=published {
                        let ends = entry.ends.iter().filter(|end| **end <= off).count() as u32;
                        prop_assert_eq!(ends_until(&facts, bytes, off), ends);
                        prop_assert_eq!(ends_until(&facts, &bytes[..off], off), ends);
                        let boundary = (off..=published)
                            .find(|at| starts_or_ends(*at))
                            .map_or(Boundary::Beyond, Boundary::At);
                        prop_assert_eq!(boundary_at_or_after(&facts, bytes, off), boundary);
                    }
                }
            }
        }
    }

    #[test]
    fn garbage_neither_panics_nor_leads_out_of_the_entry(
        bytes in proptest::collection::vec(prop_oneof![3 => 0..3u8, 1 => any::<u8>()], 0..80),
        (first, uniform) in (any::<u16>(), prop_oneof![Just(UNIFORM_NONE), 0..20u32, any::<u32>()]),
        width: Option<std::num::NonZeroU32>,
        off in 0..100usize,
    ) {
        let layout = width.map_or(RecordLayout::Lengths, RecordLayout::Fixed);
        for first in [First::from_bits(first), First::at(usize::from(first) % 90)] {
            let facts = EntryFacts { layout, first, uniform };
            prop_assert!(ends_until(&facts, &bytes, off) as usize <= off);
            if let Boundary::At(at) = boundary_at_or_after(&facts, &bytes, off) {
                prop_assert!((off..=bytes.len()).contains(&at));
            }
        }
    }
}

fn lengths(first: First, uniform: u32) -> EntryFacts {
    EntryFacts { layout: RecordLayout::Lengths, first, uniform }
}

#[test]
fn an_entry_of_one_long_record_has_no_boundary() {
    let facts = lengths(First::NONE, UNIFORM_NONE);
    let bytes = [0; 64];
    assert_eq!(ends_until(&facts, &bytes, 64), 0);
    assert_eq!(boundary_at_or_after(&facts, &bytes, 0), Boundary::Beyond);
    assert_eq!(boundary_at_or_after(&facts, &bytes, 64), Boundary::Beyond);
}

#[test]
fn an_earlier_record_that_ends_with_the_entry_counts_at_its_end() {
    let facts = lengths(First::at(64), 0);
    let bytes = [0; 64];
    assert_eq!(ends_until(&facts, &bytes, 63), 0);
    assert_eq!(ends_until(&facts, &bytes, 64), 1);
    assert_eq!(boundary_at_or_after(&facts, &bytes, 1), Boundary::At(64));
    assert_eq!(boundary_at_or_after(&facts, &bytes[..63], 1), Boundary::Beyond);
}

#[test]
fn nothing_published_yet_has_a_boundary_only_at_a_record_start() {
    assert_eq!(boundary_at_or_after(&lengths(First::at(0), UNIFORM_NONE), &[], 0), Boundary::At(0));
    assert_eq!(boundary_at_or_after(&lengths(First::at(7), UNIFORM_NONE), &[], 0), Boundary::Beyond);
}

#[test]
fn the_longest_length_is_beyond_every_entry() {
    let bytes = [0xFF; 64];
    let facts = lengths(First::at(0), UNIFORM_NONE);
    assert_eq!(boundary_at_or_after(&facts, &bytes, 1), Boundary::Beyond);
    assert_eq!(ends_until(&facts, &bytes, 64), 0);
}
