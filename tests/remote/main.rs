//! Channels between workers over real sockets, and the same over memory: one table of cases runs over all of them.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that can't go on panics, and measures real time"
)]

mod answers;
mod barriers;
mod ends;
mod flow;
mod lost;
mod proxy;
mod scale;
mod silence;
mod stage;
mod workers;

use stage::Stage;

/// Runs every case over memory, over epoll, and over whatever the kernel has.
macro_rules! everywhere {
    ($($module:ident::$case:ident),* $(,)?) => {
        mod over_memory { $(#[test] fn $case() { crate::$module::$case(crate::Stage::local()); })* }
        mod over_epoll { $(#[test] fn $case() { crate::$module::$case(crate::Stage::remote(pirn::Io::Epoll)); })* }
        mod over_auto { $(#[test] fn $case() { crate::$module::$case(crate::Stage::remote(pirn::Io::Auto)); })* }
    };
}

everywhere!(
    answers::an_attempt_that_comes_late_is_out_of_date,
    answers::of_two_attempts_that_overlap_the_newer_reads,
    answers::another_run_of_the_same_attempt_is_refused,
    answers::the_newest_of_two_that_wait_gets_the_late_partition,
    answers::a_bind_while_the_producer_finishes_gets_the_rest_and_the_end,
    answers::a_bind_after_the_end_was_acknowledged_gets_the_end_alone,
    answers::a_bind_after_the_release_is_told_so,
    answers::a_wrong_secret_is_a_stranger,
    answers::a_wrong_layout_and_a_wrong_number_are_told_apart,
    answers::an_older_producer_attempt_is_superseded,
    answers::a_newer_producer_attempt_is_waited_for,
    answers::a_partition_that_never_comes_is_given_up_in_time,
    answers::who_waits_learns_of_the_end_of_the_job,
    barriers::a_barrier_that_went_with_the_consumer_before_is_told,
    barriers::a_barrier_that_nobody_was_there_for_is_told,
    barriers::a_producer_that_fails_breaks_the_barrier_that_others_brought,
    flow::records_and_events_come_in_order,
    flow::priority_events_overtake_and_all_come,
    flow::what_is_lent_stays_as_it_was,
    flow::broadcasts_reach_everybody,
    flow::many_events_without_records_come_through,
    flow::records_of_one_width_come_without_lengths,
    flow::a_paused_channel_stands_still_alone,
    ends::a_failure_is_told_behind_the_records,
    ends::a_writer_that_is_dropped_or_abandons_says_so,
    ends::the_end_counts_when_it_is_acknowledged,
    ends::what_was_not_acknowledged_is_in_doubt,
    ends::an_absent_consumer_is_told_what_it_missed,
    ends::retained_records_wait_for_the_next_attempt,
    ends::a_record_too_long_closes_its_channel_alone,
);
