//! Where every segment is.

use super::config::SegmentClass;

/// A count of all segments: a moment's picture, exact while nothing moves.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Census {
    /// One row for each class that has segments.
    pub classes: Vec<ClassCensus>,
}

/// The segments of one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassCensus {
    /// The class.
    pub class: SegmentClass,
    /// Segments of the class.
    pub total: u32,
    /// Segments that nobody writes to or holds.
    pub free: u32,
    /// Of the free ones, those in the list that every writer takes from.
    pub listed: u32,
    /// Of the free ones, those that single writers keep at hand.
    pub cached: u32,
    /// Segments that somebody writes to or holds, each counted once.
    pub held: u32,
    /// Of the held ones, those that somebody still writes to.
    pub open: u32,
    /// Of the held ones, those that stand on somebody's account.
    pub charged: u32,
    /// Segments reserved by partitions and for orphans, in use or not.
    pub reserved: u32,
}

impl Census {
    /// Whether no segment is lost, counted twice or on nobody's account. False also while segments are on
    /// their way from one place to another.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.classes.iter().all(|class| {
            class.free + class.held == class.total
                && class.listed + class.cached == class.free
                && class.charged == class.held
                && class.reserved <= class.total
                && class.held + class.cached <= class.reserved
        })
    }

    /// Segments held in all classes.
    #[must_use]
    pub fn held(&self) -> u32 {
        self.classes.iter().map(|class| class.held).sum()
    }
}
