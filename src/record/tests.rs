//! Random streams against a trivial model, and limits and garbage one by one.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod limits;
mod reading;
pub(crate) mod stream;
mod walking;

use proptest::test_runner::Config;

/// Cases of one property: small by default, `PIRN_TEST_SIZE=full` for the long run.
pub(crate) fn cases(small: u32) -> Config {
    let is_full = std::env::var("PIRN_TEST_SIZE").is_ok_and(|size| size == "full");
    Config::with_cases(if is_full { small * 40 } else { small })
}
