//! What a writer put into entries comes out of the assembler, whatever the ranges it is taken in.

use proptest::{collection::vec, prelude::*};

use super::{
    cases,
    stream::{Entry, Stream, plans},
};
use crate::record::{
    Admission, Assembler, EntryFacts, First, Found, RecordLayout, UNIFORM_NONE, assemble::Step,
};

/// The ranges in which an entry is taken: ends of published prefixes, or (`anywhere`) any bytes.
fn ranges(
    entry: &Entry,
    steps: &mut impl Iterator<Item = usize>,
    anywhere: bool,
) -> Vec<std::ops::Range<usize>> {
    let published = entry.published();
    let mut ranges = Vec::new();
    let mut from = 0;
    while from < entry.bytes.len() {
        let wanted = (from + steps.next().unwrap()).min(entry.bytes.len());
        let to = if anywhere { wanted } else { *published.iter().find(|point| **point >= wanted).unwrap() };
        ranges.push(from..to);
        from = to;
    }
    ranges
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn records_come_out_as_they_went_in(
        plan in plans(),
        steps in vec(1..150usize, 1..8),
        (anywhere, hinted, by_place, vacuous) in any::<(bool, bool, bool, u32)>(),
    ) {
        let stream = Stream::write(&plan);
        let mut steps = steps.into_iter().cycle();
        let mut admission = Admission::new(1 << 20);
        let mut assembler = Assembler::new(1 << 20);
        let mut read: Vec<Vec<u8>> = Vec::new();
        for entry in &stream.entries {
            for taken in ranges(entry, &mut steps, anywhere) {
                let uniform = if hinted { entry.hint(taken.end, vacuous) } else { UNIFORM_NONE };
                let facts = entry.facts(uniform);
                let range = &entry.bytes[taken.clone()];
                let mut at = 0;
                loop {
                    let was_mid_record = assembler.is_mid_record();
                    let before = at;
                    if by_place {
                        match assembler.advance(&facts, range, &mut at, &mut admission) {
                            Found::InRange(payload) => {
                                prop_assert_eq!(payload, &range[at - payload.len()..at]);
                                read.push(payload.to_vec());
                            }
                            Found::Assembled => read.push(assembler.assembled().to_vec()),
                            Found::More => break,
                            Found::Refused(refused) => prop_assert!(false, "{:?}", refused),
                        }
                    } else {
                        match assembler.next(&facts, range, &mut at, &mut admission) {
                            Step::Record(payload) => {
                                let borrowed = payload.is_empty()
                                    || range.as_ptr_range().contains(&payload.as_ptr());
                                prop_assert!(was_mid_record || borrowed);
                                read.push(payload.to_vec());
                            }
                            Step::More => break,
                            Step::Refused(refused) => prop_assert!(false, "{:?}", refused),
                        }
                    }
                    prop_assert!(at > before, "a record without bytes");
                }
                prop_assert_eq!(at, range.len());
                prop_assert!(anywhere || taken.end == entry.bytes.len() || !assembler.is_mid_record());
            }
            if let Some(written) = entry.aborted {
                prop_assert!(assembler.is_mid_record());
                prop_assert_eq!(assembler.pending_bytes(), written as usize);
                prop_assert_eq!(assembler.clear(&mut admission), written);
                prop_assert_eq!((assembler.is_mid_record(), assembler.pending_bytes()), (false, 0));
            }
        }
        prop_assert!(!assembler.is_mid_record());
        prop_assert_eq!(read, stream.whole);
        assembler.settle(&mut admission);
        prop_assert_eq!(admission.admitted_bytes(), 0);
    }

    #[test]
    fn garbage_ends_in_records_more_or_a_refusal(
        bytes in vec(prop_oneof![3 => 0..3u8, 1 => any::<u8>()], 0..120),
        cuts in vec(1..20usize, 1..4),
        uniform in prop_oneof![Just(UNIFORM_NONE), 0..20u32, any::<u32>()],
        width: Option<std::num::NonZeroU32>,
    ) {
        let layout = width.map_or(RecordLayout::Lengths, RecordLayout::Fixed);
        let facts = EntryFacts { layout, first: First::at(0), uniform };
        let mut admission = Admission::new(64);
        let mut assembler = Assembler::new(40);
        let mut rest = &bytes[..];
        for cut in cuts.into_iter().cycle().take_while(|_| !bytes.is_empty()) {
            let (range, after) = rest.split_at(cut.min(rest.len()));
            let mut at = 0;
            while let Step::Record(payload) = assembler.next(&facts, range, &mut at, &mut admission) {
                prop_assert!(payload.len() <= 40);
            }
            if at < range.len() || after.is_empty() {
                break;
            }
            rest = after;
        }
        let pending = assembler.pending_bytes();
        prop_assert!(pending < 44);
        prop_assert_eq!(assembler.clear(&mut admission) as usize, pending);
        prop_assert_eq!(admission.admitted_bytes(), 0);
    }
}
