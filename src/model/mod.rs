//! The loom models of this crate, and what their runner needs. Compiled under `--cfg loom` only.
//!
//! A model stands in `loom_tests/FILE.rs` and is compiled here, inside the crate, so that it drives the
//! production types through their crate-internal methods and nothing has to be widened for it. A new file
//! is one `#[path]` module and one entry in [`all`].

#![allow(clippy::unwrap_used, reason = "a panic is how a model turns red")]

#[path = "../../loom_tests/bind.rs"]
mod bind;
#[path = "../../loom_tests/doorbell.rs"]
mod doorbell;
#[path = "../../loom_tests/inbox.rs"]
mod inbox;
#[path = "../../loom_tests/memory.rs"]
mod memory;
#[path = "../../loom_tests/priority.rs"]
mod priority;
#[path = "../../loom_tests/remote.rs"]
mod remote;
#[path = "../../loom_tests/ring.rs"]
mod ring;
#[path = "../../loom_tests/shared.rs"]
mod shared;
#[path = "../../loom_tests/support.rs"]
mod support;
#[path = "../../loom_tests/sync.rs"]
mod sync;
#[path = "../../loom_tests/write.rs"]
mod write;

/// One concurrent program, explored in all its interleavings.
#[derive(Debug, Clone, Copy)]
pub struct Model {
    /// `module::what_holds`, unique in the crate.
    pub name: &'static str,
    /// Ids of the edges that this model proves: it must turn red when one of their sites is weakened.
    pub edges: &'static [&'static str],
    /// The most preemptions explored in one interleaving; `None` explores them all.
    pub preemptions: Option<usize>,
    /// Run once for every interleaving.
    pub body: fn(),
}

/// All models, in the order of their files.
pub fn all() -> Vec<Model> {
    [
        sync::MODELS,
        memory::MODELS,
        doorbell::MODELS,
        inbox::MODELS,
        remote::MODELS,
        ring::MODELS,
        shared::MODELS,
        priority::MODELS,
        bind::MODELS,
        write::MODELS,
    ]
    .concat()
}

/// The site that `PIRN_MUTANT` weakens in this process, if it names one.
///
/// # Errors
/// Says what is malformed.
pub fn mutant() -> Result<Option<String>, String> {
    crate::sync::mutant::site()
}

/// The `sync!` and `check!` sites that this process has come by, sorted.
pub fn reached() -> Vec<&'static str> {
    crate::sync::mutant::reached()
}
