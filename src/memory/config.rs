//! What the memory of a worker is made of, and the errors that say what is missing.

use std::fmt;
use std::io;

/// Size class of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SegmentClass {
    /// 4 KiB.
    K4,
    /// 8 KiB.
    K8,
    /// 16 KiB.
    K16,
    /// 32 KiB.
    K32,
}

impl SegmentClass {
    /// Every class, smallest first.
    pub const ALL: [Self; 4] = [Self::K4, Self::K8, Self::K16, Self::K32];

    /// Bytes of one segment of the class.
    #[must_use]
    pub const fn bytes(self) -> usize {
        4096 << self.index()
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for SegmentClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} KiB", self.bytes() / 1024)
    }
}

/// How many segments of each class a worker maps at its start. It never maps more.
///
/// **Memory**: the worker maps exactly `sum over classes (segments x bytes)`; 64 MiB by default. Pages
/// become resident when they are first written, and stay.
///
/// **Sizing**: a result partition of P subpartitions reserves, in one class, `P + floating` segments: one
/// open segment per subpartition, and a floating share that whichever subpartition has most to send
/// uses. A class can take partitions as long as
/// `sum over partitions (P + floating) + orphan_segments <= segments`. A partition that doesn't fit is
/// refused when it is created, with these numbers; one that was created never runs out of what it
/// reserved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryConfig {
    segments: [u32; 4],
    orphan_segments: u32,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self { segments: [0, 0, 0, 2048], orphan_segments: 64 }
    }
}

impl MemoryConfig {
    /// The default: 2,048 segments of 32 KiB (64 MiB), 64 of them orphan segments.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of segments of `class`, and leaves the other classes as they are: for small segments
    /// alone set those of 32 KiB to 0. Default: 2,048 of 32 KiB, none of the others. Costs
    /// `count x class.bytes()` bytes of memory.
    #[must_use]
    pub fn segments(mut self, class: SegmentClass, count: u32) -> Self {
        self.segments[class.index()] = count;
        self
    }

    /// Sets how many segments of every class in use are kept for what replaced readers still hold, in
    /// segments. Default: 64. They are part of the class's segments, and no partition can reserve them.
    /// When all are in use, readers of local channels get copies instead of borrowed segments.
    #[must_use]
    pub fn orphan_segments(mut self, count: u32) -> Self {
        self.orphan_segments = count;
        self
    }

    /// Segments of `class`.
    #[must_use]
    pub fn count(&self, class: SegmentClass) -> u32 {
        self.segments[class.index()]
    }

    /// Bytes that the worker maps.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        SegmentClass::ALL.iter().map(|class| u64::from(self.count(*class)) * class.bytes() as u64).sum()
    }

    /// Checks that a worker could start with this.
    ///
    /// # Errors
    /// [`MemoryError::Config`] if there are no segments at all, more than 2^31, more bytes than the
    /// address space has, or a class whose segments are all orphan segments.
    pub fn validate(&self) -> Result<(), MemoryError> {
        let segments: u64 = self.segments.iter().map(|count| u64::from(*count)).sum();
        if segments == 0 {
            return Err(MemoryError::Config { reason: "no segments in any class".to_owned() });
        }
        if segments > 1 << 31 || isize::try_from(self.bytes()).is_err() {
            let reason = format!("{segments} segments of {} bytes together are too many", self.bytes());
            return Err(MemoryError::Config { reason });
        }
        for class in SegmentClass::ALL {
            let count = self.count(class);
            if count > 0 && count <= self.orphan_segments {
                return Err(MemoryError::Config {
                    reason: format!(
                        "all {count} segments of {class} would be orphan segments ({} kept); give the class \
                         more segments or keep fewer",
                        self.orphan_segments
                    ),
                });
            }
        }
        Ok(())
    }

    pub(super) fn geometry(&self) -> [(usize, u32); 4] {
        SegmentClass::ALL.map(|class| (class.bytes(), self.count(class)))
    }

    pub(super) fn orphans(&self) -> u32 {
        self.orphan_segments
    }
}

/// Why memory could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The class has too few segments that nobody reserved.
    #[error(
        "{needed} segments of {class} needed (one per subpartition plus the floating share), {free} of {limit} \
         are not reserved: create fewer or narrower partitions at a time, lower the floating share, or give the \
         class at least {} segments more in MemoryConfig::segments",
        needed.saturating_sub(*free)
    )]
    Insufficient {
        /// The class asked for.
        class: SegmentClass,
        /// Segments asked for: subpartitions plus floating share.
        needed: u32,
        /// Segments that are not reserved.
        free: u32,
        /// Segments of the class that partitions can reserve together (orphan segments are not among
        /// them).
        limit: u32,
    },
    /// The system refused the mapping.
    #[error(
        "mapping {bytes} bytes for segments failed; lower MemoryConfig::segments or raise the memory limit"
    )]
    Map {
        /// Bytes asked for.
        bytes: usize,
        /// What the system said.
        source: io::Error,
    },
    /// The configuration contradicts itself.
    #[error("memory configuration: {reason}")]
    Config {
        /// What contradicts what.
        reason: String,
    },
}
