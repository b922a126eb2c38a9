//! One suite of behaviours, which every transport has to show.
//!
//! A transport takes part by its [`Backend`] and a line `suite!` below.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

pub(super) mod backend;
mod ends;
pub(super) mod rig;
mod starvation;
mod stream;
mod wakes;

use backend::Backend;
use rig::Rig;

/// A module `$name` of tests, each of them one behaviour shown by `$backend`.
macro_rules! suite {
    ($name:ident, $backend:ident) => {
        suite!($name, $backend:
            stream: bytes_come_in_order_and_once, both_directions_at_once, single_bytes_go_to_and_fro,
                a_slow_reader_gets_everything, hundreds_of_parts_go_whole;
            ends: orderly_close_sends_what_was_handed_over, orderly_close_runs_out_of_patience,
                orderly_close_is_patient_with_who_reads, abortive_close_is_a_reset_and_gives_the_batch_back,
                abortive_after_orderly_is_obeyed, both_ends_close_at_once, half_closed_connections_still_send,
                broken_connections_give_batches_back, thousands_of_connections_leave_nothing_behind;
            starvation: reading_goes_on_when_buffers_come_free, buffers_freed_by_another_thread_end_a_wait,
                closing_goes_on_without_buffers;
            wakes: a_wake_from_another_thread_ends_a_wait, a_wake_before_a_turn_ends_it;
        );
    };
    ($name:ident, $backend:ident: $($file:ident: $($test:ident),*;)*) => {
        mod $name {
            type Backend = super::backend::$backend;
            $($(
                #[test]
                fn $test() {
                    super::$file::$test::<Backend>();
                }
            )*)*
        }
    };
}

suite!(epoll, EpollBackend);
suite!(fake_calm, CalmFake);
suite!(fake_rough, RoughFake);
suite!(uring, UringBackend);
suite!(uring_zero_copy, ZeroCopyBackend);
suite!(uring_of_old, OldUringBackend);
