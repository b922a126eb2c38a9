//! What the library has to say of this machine, for who runs an example.

use tracing_subscriber::filter::LevelFilter;

/// Shows warnings on standard error from now on: standard output is for results. Once per process.
pub(crate) fn show_warnings() {
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::WARN)
        .with_writer(std::io::stderr)
        .with_target(false)
        .init();
}
