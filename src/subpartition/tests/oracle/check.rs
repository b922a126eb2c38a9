//! What is compared after every operation.

use super::drive::Oracle;
use crate::sync::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Wake;

/// The payload of a record: from its own place in a table of noise, so that bytes of another record, or of
/// another place in the same one, show.
pub(super) fn pattern(record: usize, bytes: usize) -> &'static [u8] {
    static NOISE: OnceLock<Vec<u8>> = OnceLock::new();
    let noise = NOISE.get_or_init(|| {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        (0..1 << 18).map(|_| next()).collect()
    });
    let start = record * 769 % (1 << 17);
    &noise[start..start + bytes]
}

/// Whether somebody was woken.
#[derive(Debug)]
pub(super) struct Flag(AtomicBool);

impl Flag {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicBool::new(true)))
    }

    pub(super) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn lower(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.raise();
    }
}

impl Oracle {
    pub(super) fn check(&self) {
        let sub = &self.bench.sub;
        let account = sub.account();
        assert_eq!(account, self.model.account());
        assert!(account.is_balanced(), "{account:?}");
        assert_eq!(sub.segments(), self.model.segments(), "segments charged, and their limit");
        let census = self.bench.pool.census();
        assert!(census.is_whole(), "{census:?}");
        assert_eq!(census.held(), self.model.held(), "{census:?}");
        assert_eq!(sub.phase(), self.model.phase());
        assert_eq!(sub.is_end_acknowledged(), self.model.is_acknowledged());
        assert_eq!(sub.released().is_some(), self.model.is_released());
        if let Some(writer) = &self.bench.writer {
            assert_eq!(writer.is_mid_record(), self.model.is_mid_record());
            self.check_bell(writer.is_dirty());
        }
        for kept in &self.kept {
            assert!(kept.bytes == pattern(kept.record, kept.bytes.len()), "record {} changed", kept.record);
        }
    }

    /// A reader that sleeps over something to read is called, unless the flush policy says later.
    fn check_bell(&self, dirty: bool) {
        if self.idle && self.model.is_something_there() && !dirty {
            assert!(!self.bench.bell.is_silent(), "there is something to read, and nobody rang");
        }
    }
}
