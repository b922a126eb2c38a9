//! Random cases.

use super::ops::{Case, Op, play};
use super::*;
use crate::event::Event;
use crate::test_size;
use proptest::{collection::vec, option, prelude::*};
use std::num::NonZeroU32;
use std::time::Duration;

fn layout() -> impl Strategy<Value = RecordLayout> {
    let widths =
        prop_oneof![Just(1), Just(4), Just(12), Just(100), Just(512), Just(513), Just(2048), Just(4096)];
    let widths = prop_oneof![3 => widths, 1 => prop_oneof![Just(5000), Just(8192), Just(12_289)]];
    let fixed = widths.prop_map(|width| RecordLayout::Fixed(NonZeroU32::new(width).unwrap()));
    prop_oneof![3 => Just(RecordLayout::Lengths), 2 => fixed]
}

fn policies() -> impl Strategy<Value = Policies> {
    let before = prop_oneof![3 => Just(BeforeFirstBind::Wait), 1 => Just(BeforeFirstBind::Discard)];
    let absent = prop_oneof![
        2 => Just(WhenAbsent::Discard),
        2 => (1..8_u32).prop_map(|quota| WhenAbsent::Retain { quota, then: WhenRetained::Block }),
        2 => (1..8_u32).prop_map(|quota| WhenAbsent::Retain { quota, then: WhenRetained::DropOldest }),
        3 => (2..8_u32).prop_map(|quota| WhenAbsent::Replay { quota }),
    ];
    let flush = prop_oneof![
        Just(Flush::WhenFull),
        Just(Flush::EveryRecord),
        Just(Flush::Interval(Duration::from_millis(1)))
    ];
    (before, absent, flush).prop_map(|(before_first_bind, when_absent, flush)| Policies {
        before_first_bind,
        when_absent,
        when_full: WhenFull::Block,
        flush,
    })
}

fn setup() -> impl Strategy<Value = Setup> {
    let entries = prop_oneof![Just(8_u16), Just(16), Just(64)];
    (layout(), policies(), 1..12_u32, entries).prop_map(|(layout, policies, quota, entries)| Setup {
        layout,
        policies,
        quota,
        entries,
    })
}

/// Small ones, those around the size that is still kept whole, those that end with a segment, and long ones.
fn bytes() -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => 0..40_usize,
        2 => 500..520_usize,
        4 => 40..3000_usize,
        2 => (1..4_usize, 0..9_usize).prop_map(|(segments, off)| segments * 4096 - 8 + off),
        2 => 3000..16_000_usize,
        1 => 16_000..50_000_usize,
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let who = prop_oneof![5 => Just(0_usize), 1 => 1..4_usize];
    let items = prop_oneof![3 => 1..4_usize, 2 => 4..40_usize, 1 => Just(usize::MAX)];
    prop_oneof![
        20 => bytes().prop_map(Op::Write),
        4 => (0..700_usize, 2..30_usize).prop_map(|(bytes, times)| Op::Burst(bytes, times)),
        2 => Just(Op::Abort),
        2 => Just(Op::Overflow),
        2 => Just(Op::Barrier),
        1 => any::<i64>().prop_map(Op::Watermark),
        2 => (0..=Event::APPLICATION_BYTES_MAX).prop_map(Op::Application),
        2 => Just(Op::Priority),
        1 => Just(Op::Flush),
        16 => (who.clone(), items, any::<bool>())
            .prop_map(|(who, items, keep)| Op::Read { who, items, keep }),
        4 => (who.clone(), 0..6_usize).prop_map(|(who, back)| Op::Acknowledge { who, back }),
        6 => (prop_oneof![1 => Just(0_u32), 4 => 1..3_u32], any::<bool>())
            .prop_map(|(newer, explicit)| Op::Bind { newer, explicit }),
        1 => Just(Op::BindStale),
        1 => Just(Op::BindDuplicate),
        2 => Just(Op::Outage),
        3 => who.prop_map(|who| Op::Close { who }),
        3 => (0..8_usize).prop_map(Op::LetGo),
    ]
}

/// Most of the operations come before the end.
fn ops() -> impl Strategy<Value = Vec<Op>> {
    let end = option::weighted(0.7, any::<bool>().prop_map(Op::End));
    let release = option::weighted(0.3, Just(Op::Release));
    (vec(op(), 1..80), end, vec(op(), 0..20), release, vec(op(), 0..8)).prop_map(
        |(mut ops, end, after, release, last)| {
            ops.extend(end);
            ops.extend(after);
            ops.extend(release);
            ops.extend(last);
            ops
        },
    )
}

fn case() -> impl Strategy<Value = Case> {
    (setup(), ops(), any::<usize>()).prop_map(|(setup, ops, seed)| Case { setup, ops, seed })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: test_size::pick(600, 40_000),
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_operations_in_any_order_are_as_the_model_says(case in case()) {
        play(&case);
    }
}
