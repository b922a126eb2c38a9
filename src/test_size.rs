//! How long the tests that can be any size are: `PIRN_TEST_SIZE=full` for a night, `small` (the default)
//! for every change.
#![forbid(unsafe_code)]

/// `small` or `full`, as the environment asks.
///
/// # Panics
/// `PIRN_TEST_SIZE` is neither: a test that silently ran small would pass for a full one.
pub(crate) fn pick<T>(small: T, full: T) -> T {
    match std::env::var("PIRN_TEST_SIZE").as_deref() {
        Ok("full") => full,
        Ok("small") | Err(std::env::VarError::NotPresent) => small,
        other => panic!("PIRN_TEST_SIZE is small or full, not {other:?}"),
    }
}
