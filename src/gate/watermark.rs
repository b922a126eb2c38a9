//! The gate's watermark: the least of its channels', which never goes back.
//!
//! A channel that has ended its data leaves the minimum; so does one that is unavailable, unless it was told
//! to hold it. A channel that is bound anew counts as one that has not reported: the gate's watermark stands
//! still until it does, since nothing is known of what the new attempt will send.

use super::InputGate;
use super::channel::Channel;

impl InputGate {
    /// A channel reports: none of its records will be older.
    pub(super) fn note_watermark(&mut self, index: usize, time: i64) {
        let channel = &mut self.channels[index];
        let before = channel.watermark;
        if before.is_some_and(|before| before >= time) {
            return;
        }
        channel.watermark = Some(time);
        // A channel that was ahead of the minimum doesn't move it.
        if before.is_none_or(|before| self.watermark.is_none_or(|least| before <= least)) {
            self.lift_watermark();
        }
    }

    /// Computes the minimum anew: after a report of the last one, or when a channel leaves it.
    pub(super) fn lift_watermark(&mut self) {
        let mut bounding = self.channels.iter().filter(|channel| channel.bounds_watermark());
        // `None` is the least of all: one channel without a report holds the rest.
        let least = bounding.by_ref().map(|channel: &Channel| channel.watermark).min();
        if let Some(least) = least.flatten() {
            self.watermark = self.watermark.max(Some(least));
        }
    }
}
