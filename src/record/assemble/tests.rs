//! Many channels of one gate under one bound on half records, and the limits of one.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

use std::num::NonZeroU32;

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::record::{
    First, UNIFORM_NONE,
    tests::{
        cases,
        stream::{Plan, Stream, plans},
    },
};

/// One channel: its whole stream lies ready, an entry is taken at a time.
struct Channel {
    stream: Stream,
    entry: usize,
    at: usize,
    assembler: Assembler,
    is_paused: bool,
    read: Vec<Vec<u8>>,
}

impl Channel {
    fn new(plan: &Plan) -> Self {
        Self {
            stream: Stream::write(plan),
            entry: 0,
            at: 0,
            assembler: Assembler::new(1 << 20),
            is_paused: false,
            read: Vec::new(),
        }
    }

    fn is_done(&self) -> bool {
        self.entry == self.stream.entries.len()
    }

    /// One visit of the gate: reads one entry, or to a refusal. Says whether anything moved.
    fn visit(&mut self, admission: &mut Admission) -> bool {
        let Some(entry) = self.stream.entries.get(self.entry) else {
            return false;
        };
        let was_at = self.at;
        let facts = entry.facts(UNIFORM_NONE);
        loop {
            let at = self.at;
            let pending = self.assembler.pending_bytes();
            match self.assembler.next(&facts, &entry.bytes, &mut self.at, admission) {
                Step::Record(payload) => self.read.push(payload.to_vec()),
                Step::More => break,
                Step::Refused(Refused::NotAdmitted { bytes }) => {
                    let reason = admission.admitted_bytes() > 0 || !self.assembler.is_next;
                    assert!(reason, "{bytes} bytes refused with nothing admitted, and no other is next");
                    assert_eq!((self.at, self.assembler.pending_bytes()), (at, pending));
                    return at > was_at;
                }
                Step::Refused(refused) => panic!("{refused:?}"),
            }
            self.assembler.settle(admission);
        }
        if entry.aborted.is_some() {
            self.assembler.clear(admission);
        }
        self.entry += 1;
        self.at = 0;
        true
    }
}

/// The books agree with what the assemblers hold, and the bounds hold.
fn census(channels: &[Channel], admission: &Admission) {
    let assemblers = || channels.iter().map(|channel| &channel.assembler);
    let admitted: Vec<u64> =
        assemblers().filter(|held| held.is_admitted).map(|held| held.whole as u64).collect();
    assert_eq!(admitted.iter().sum::<u64>(), admission.admitted);
    assert!(admission.admitted <= admission.half_bytes_max || admitted.len() == 1);
    assert_eq!(assemblers().map(|held| held.kept as u64).sum::<u64>(), admission.kept);
    assert!(admission.kept <= admission.half_bytes_max);
    for held in assemblers() {
        assert!(held.payload.capacity() <= held.kept.max(held.whole));
        assert!(held.kept <= KEPT_BYTES_MAX);
    }
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn bounded_halves_never_wait_for_each_other(
        plans in vec(plans(), 2..6),
        visits in vec((any::<prop::sample::Index>(), prop::bool::weighted(0.15)), 0..60),
        half_bytes_max in prop_oneof![Just(0), 1..400u64, 400..4000u64],
    ) {
        let mut channels: Vec<Channel> = plans.iter().map(Channel::new).collect();
        let mut admission = Admission::new(half_bytes_max);
        for (which, toggles_pause) in visits {
            let channel = which.get_mut(&mut channels);
            if toggles_pause {
                channel.is_paused = !channel.is_paused;
                channel.assembler.set_aside(&mut admission);
            } else if !channel.is_paused {
                channel.visit(&mut admission);
            }
            census(&channels, &admission);
        }
        // First without the paused channels, which may hold half records; then with them.
        for _ in 0..2 {
            while channels.iter().any(|channel| !channel.is_paused && !channel.is_done()) {
                let mut moved = false;
                for nth in 0..channels.len() {
                    if !channels[nth].is_paused {
                        moved |= channels[nth].visit(&mut admission);
                        census(&channels, &admission);
                    }
                }
                prop_assert!(moved, "every channel waits for another one");
            }
            channels.iter_mut().for_each(|channel| channel.is_paused = false);
        }
        for mut channel in channels {
            prop_assert_eq!(&channel.read, &channel.stream.whole);
            prop_assert_eq!(channel.assembler.clear(&mut admission), 0);
        }
        prop_assert_eq!((admission.admitted, admission.kept), (0, 0));
    }
}

const LENGTHS: EntryFacts =
    EntryFacts { layout: RecordLayout::Lengths, first: First::at(0), uniform: UNIFORM_NONE };

fn encoded(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_le_bytes(), payload].concat()
}

/// One step from the begin of a range, and where it led.
fn step<'a>(assembler: &'a mut Assembler, admission: &mut Admission, range: &'a [u8]) -> (Step<'a>, usize) {
    let mut at = 0;
    let step = assembler.next(&LENGTHS, range, &mut at, admission);
    (step, at)
}

fn too_long(bytes: usize, max: usize) -> Step<'static> {
    Step::Refused(Refused::TooLong { bytes, max })
}

fn not_admitted(bytes: usize) -> Step<'static> {
    Step::Refused(Refused::NotAdmitted { bytes })
}

#[test]
fn a_length_over_the_limit_is_refused_before_memory_is_taken() {
    let mut admission = Admission::new(1000);
    let mut assembler = Assembler::new(10);
    let (fits, long) = (encoded(&[7; 10]), encoded(&[7; 11]));
    assert_eq!(step(&mut assembler, &mut admission, &fits), (Step::Record(&[7; 10]), 14));
    for range in [&long[..], &long[..4], &long[..], &[0xFF; 4], &[0xFF; 90]] {
        let len = u32::from_le_bytes(range[..4].try_into().unwrap()) as usize;
        assert_eq!(step(&mut assembler, &mut admission, range), (too_long(len, 10), 0));
        assert_eq!((assembler.payload.capacity(), admission.admitted), (0, 0));
        assert!(!assembler.is_mid_record());
    }
}

#[test]
fn hints_and_widths_over_the_limit_are_refused_too() {
    let mut admission = Admission::new(1000);
    let mut assembler = Assembler::new(10);
    let mut at = 0;
    let wide = EntryFacts { layout: RecordLayout::Fixed(NonZeroU32::new(11).unwrap()), ..LENGTHS };
    assert_eq!(assembler.next(&wide, &[0; 22], &mut at, &mut admission), too_long(11, 10));
    let hinted = EntryFacts { uniform: 11, ..LENGTHS };
    assert_eq!(assembler.next(&hinted, &encoded(&[7; 11]), &mut at, &mut admission), too_long(11, 10));
    assert_eq!(at, 0);
}

#[test]
fn no_limit_admits_a_length_that_32_bits_cannot_count() {
    let mut admission = Admission::new(u64::MAX);
    let mut assembler = Assembler::new(usize::MAX);
    let (longest, beyond) = (u32::MAX - 4, u32::MAX - 3);
    let (admitted, refused) = (longest.to_le_bytes(), beyond.to_le_bytes());
    let answer = (too_long(beyond as usize, longest as usize), 0);
    assert_eq!(step(&mut assembler, &mut admission, &refused), answer);
    // Believed, but not paid for: 4 GiB are admitted and nothing is allocated.
    assert_eq!(step(&mut assembler, &mut admission, &admitted), (Step::More, 4));
    assert_eq!((admission.admitted, assembler.payload.capacity()), (u64::from(longest), 0));
    assert_eq!(assembler.clear(&mut admission), 4);
    assert_eq!(admission.admitted, 0);
}

#[test]
fn the_buffer_grows_with_what_arrives() {
    let mut admission = Admission::new(1 << 20);
    let mut assembler = Assembler::new(1 << 20);
    let record = encoded(&[5; 300_000]);
    let mut come = 0;
    for piece in record.chunks(1000) {
        let (step, at) = step(&mut assembler, &mut admission, piece);
        assert_eq!(at, piece.len());
        come += at;
        match step {
            Step::More => assert!(come < record.len()),
            Step::Record(payload) => assert!(come == record.len() && payload == &record[4..]),
            Step::Refused(refused) => panic!("{refused:?}"),
        }
        assert!(assembler.payload.capacity() <= (come * 2).min(300_000));
    }
    assert_eq!(come, record.len());
}

#[test]
fn a_buffer_is_kept_up_to_64_kib_and_given_back_beyond() {
    let mut admission = Admission::new(1 << 20);
    let mut assembler = Assembler::new(1 << 20);
    for (len, kept) in
        [(100, 100), (50, 100), (KEPT_BYTES_MAX, KEPT_BYTES_MAX), (KEPT_BYTES_MAX + 1, 0), (9, 9)]
    {
        let record = encoded(&vec![3; len]);
        assert_eq!(step(&mut assembler, &mut admission, &record[..5]), (Step::More, 5));
        assert_eq!(step(&mut assembler, &mut admission, &record[5..]).0, Step::Record(&record[4..]));
        assert_eq!(admission.admitted, len as u64);
        assembler.settle(&mut admission);
        assert_eq!((admission.admitted, admission.kept), (0, kept as u64));
        assert_eq!(assembler.payload.capacity(), kept);
    }
}

#[test]
fn kept_buffers_are_bounded_together() {
    let mut admission = Admission::new(250);
    let record = encoded(&[3; 100]);
    let mut assemblers: Vec<Assembler> = (0..4).map(|_| Assembler::new(1000)).collect();
    for assembler in &mut assemblers {
        assert_eq!(step(assembler, &mut admission, &record[..5]), (Step::More, 5));
        assert_eq!(step(assembler, &mut admission, &record[5..]).0, Step::Record(&record[4..]));
        assembler.settle(&mut admission);
    }
    let kept: Vec<usize> = assemblers.iter().map(|assembler| assembler.payload.capacity()).collect();
    assert_eq!((kept, admission.kept), (vec![100, 100, 0, 0], 200));
}

#[test]
fn a_half_record_is_admitted_by_its_whole_length() {
    let mut admission = Admission::new(100);
    let (mut one, mut two) = (Assembler::new(1000), Assembler::new(1000));
    let record = encoded(&[9; 60]);
    assert_eq!(step(&mut one, &mut admission, &record[..5]), (Step::More, 5));
    for _ in 0..2 {
        assert_eq!(step(&mut two, &mut admission, &record[..5]), (not_admitted(60), 0));
        assert_eq!((two.pending_bytes(), two.payload.capacity()), (0, 0));
    }
    // A record that lies whole in its range needs no admission.
    assert_eq!(step(&mut two, &mut admission, &record), (Step::Record(&[9; 60]), 64));
    // Lent out the first one is still there: only the step after it makes room.
    assert_eq!(step(&mut one, &mut admission, &record[5..]).0, Step::Record(&[9; 60]));
    assert_eq!(step(&mut two, &mut admission, &record[..5]), (not_admitted(60), 0));
    assert_eq!(step(&mut one, &mut admission, &[]), (Step::More, 0));
    assert_eq!(step(&mut two, &mut admission, &record[..5]), (Step::More, 5));
}

#[test]
fn one_record_over_the_bound_is_admitted_when_nothing_else_is() {
    let mut admission = Admission::new(10);
    let (mut one, mut two) = (Assembler::new(1000), Assembler::new(1000));
    let (long, short) = (encoded(&[9; 60]), encoded(&[9; 3]));
    assert_eq!(step(&mut one, &mut admission, &long[..5]), (Step::More, 5));
    assert_eq!(step(&mut two, &mut admission, &short[..5]), (not_admitted(3), 0));
    assert_eq!(one.clear(&mut admission), 5);
    assert_eq!(step(&mut two, &mut admission, &short[..5]), (Step::More, 5));
    assert_eq!(step(&mut one, &mut admission, &long[..5]), (not_admitted(60), 0));
    two.clear(&mut admission);
    // The long one was refused first, and nothing is admitted before it.
    let shortest = encoded(&[9; 1]);
    assert_eq!(step(&mut two, &mut admission, &shortest[..4]), (not_admitted(1), 0));
    assert_eq!(step(&mut one, &mut admission, &long[..5]), (Step::More, 5));
    one.clear(&mut admission);
    assert_eq!(step(&mut two, &mut admission, &shortest[..4]), (Step::More, 4));
}

#[test]
fn a_paused_half_record_makes_room_and_is_admitted_anew() {
    let mut admission = Admission::new(100);
    let (mut paused, mut other) = (Assembler::new(1000), Assembler::new(1000));
    let record = encoded(&(0..60).collect::<Vec<u8>>());
    assert_eq!(step(&mut paused, &mut admission, &record[..30]), (Step::More, 30));
    paused.set_aside(&mut admission);
    paused.set_aside(&mut admission);
    assert_eq!((admission.admitted, paused.pending_bytes()), (0, 30));
    assert_eq!(step(&mut other, &mut admission, &record[..30]), (Step::More, 30));
    assert_eq!(step(&mut paused, &mut admission, &record[30..]), (not_admitted(60), 0));
    assert_eq!(step(&mut paused, &mut admission, &[]), (Step::More, 0));
    assert_eq!(other.clear(&mut admission), 30);
    assert_eq!(step(&mut paused, &mut admission, &record[30..]), (Step::Record(&record[4..]), 34));
}

#[test]
fn a_complete_record_that_is_set_aside_leaves_nothing_behind() {
    let mut admission = Admission::new(100);
    let mut assembler = Assembler::new(1000);
    let record = encoded(&[9; 200]);
    assert_eq!(step(&mut assembler, &mut admission, &record[..9]), (Step::More, 9));
    assert_eq!(step(&mut assembler, &mut admission, &record[9..]).0, Step::Record(&[9; 200]));
    assembler.set_aside(&mut admission);
    assert_eq!((admission.admitted, assembler.payload.capacity(), assembler.pending_bytes()), (0, 0, 0));
}

#[test]
fn a_prefix_cut_by_a_transport_is_put_together() {
    let mut admission = Admission::new(10);
    let (mut cut, mut other) = (Assembler::new(20), Assembler::new(20));
    let record = encoded(&[6; 8]);
    assert_eq!(step(&mut other, &mut admission, &record[..5]), (Step::More, 5));
    assert_eq!(step(&mut cut, &mut admission, &record[..3]), (Step::More, 3));
    assert_eq!((cut.pending_bytes(), cut.is_mid_record()), (3, true));
    assert_eq!(step(&mut cut, &mut admission, &record[3..9]), (not_admitted(8), 0));
    assert_eq!(step(&mut cut, &mut admission, &record[3..]), (Step::Record(&[6; 8]), 9));
    assert_eq!(step(&mut cut, &mut admission, &record[..2]), (Step::More, 2));
    assert_eq!(step(&mut cut, &mut admission, &[0, 1]), (too_long(8 + (1 << 24), 20), 0));
    assert_eq!(cut.clear(&mut admission), 2);
}

#[test]
fn a_hint_that_is_too_large_gives_way_to_the_prefix() {
    let mut admission = Admission::new(1000);
    let mut assembler = Assembler::new(1000);
    let facts = EntryFacts { uniform: 50, ..LENGTHS };
    let mut at = 0;
    assert_eq!(assembler.next(&facts, &encoded(&[1; 8]), &mut at, &mut admission), Step::Record(&[1; 8]));
    assert_eq!(at, 12);
}

/// Short halves keep coming and would always fit in; the long one that was refused first is the next one.
#[test]
fn a_long_half_is_not_starved_by_short_ones() {
    let layout = RecordLayout::Lengths;
    let facts = EntryFacts { layout, first: First::at(0), uniform: UNIFORM_NONE };
    let mut admission = Admission::new(1_000);
    let begin = |assembler: &mut Assembler, admission: &mut Admission, bytes: u32| {
        let head = [&bytes.to_le_bytes()[..], &[1; 10]].concat();
        assembler.next(&facts, &head, &mut 0, admission) == Step::More
    };
    let finish = |assembler: &mut Assembler, admission: &mut Admission, bytes: usize| {
        let rest = vec![1; bytes - 10];
        assert!(matches!(assembler.next(&facts, &rest, &mut 0, admission), Step::Record(_)));
        assembler.settle(admission);
    };
    let mut short: Vec<_> = (0..3).map(|_| Assembler::new(1 << 20)).collect();
    let mut long = Assembler::new(1 << 20);
    assert!(begin(&mut short[0], &mut admission, 400));
    assert!(begin(&mut short[1], &mut admission, 400));
    assert!(!begin(&mut long, &mut admission, 900));
    finish(&mut short[0], &mut admission, 400);
    assert!(!begin(&mut short[2], &mut admission, 100), "the long one is next");
    finish(&mut short[1], &mut admission, 400);
    assert!(!begin(&mut short[2], &mut admission, 100), "the long one is next");
    assert!(begin(&mut long, &mut admission, 900));
    assert!(begin(&mut short[2], &mut admission, 100), "it fits beside");
    // One that is next and goes away leaves the way free.
    assert!(!begin(&mut short[0], &mut admission, 500));
    short[0].clear(&mut admission);
    finish(&mut short[2], &mut admission, 100);
    assert!(begin(&mut short[1], &mut admission, 50));
}
