//! The oracle: any operations in any order, on a subpartition and on a model of it side by side. After every
//! one of them both say the same of everything that can be seen.

mod check;
mod drive;
mod model;
mod ops;
mod random;

pub(super) use drive::Oracle;
pub(super) use model::Expect;

use super::*;

/// What a subpartition is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) layout: RecordLayout,
    pub(super) policies: Policies,
    /// Segments a bound reader may let pile up.
    pub(super) quota: u32,
    /// Slots of the ring.
    pub(super) entries: u16,
}
