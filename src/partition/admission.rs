//! Whether a descriptor leads to this attempt of a partition.

use super::Partition;
use super::descriptor::ChannelDescriptor;
use crate::error::{BindError, Cause};
use crate::subpartition::Refusal;

impl Partition {
    /// Whether the descriptor is meant for this attempt of the partition, and fits it.
    pub(super) fn admit(&self, descriptor: &ChannelDescriptor) -> Result<(), BindError> {
        if !self.knows(descriptor.secret) {
            return Err(BindError::NotFound { partition: self.id });
        }
        if self.attempt > descriptor.producer_attempt {
            return Err(BindError::StaleProducer {
                presented: descriptor.producer_attempt,
                current: self.attempt,
            });
        }
        if !self.secret.matches(descriptor.secret) {
            return Err(BindError::NotFound { partition: self.id });
        }
        let differ = |what, partition: String, descriptor: String| {
            Err(BindError::Layout { what, partition, descriptor })
        };
        if self.config.record_layout() != descriptor.layout {
            return differ(
                "record layout",
                format!("{:?}", self.config.record_layout()),
                format!("{:?}", descriptor.layout),
            );
        }
        let count = self.config.subpartition_count();
        if descriptor.subpartition >= count {
            return differ(
                "number of subpartitions",
                count.to_string(),
                format!("to have number {}", descriptor.subpartition),
            );
        }
        Ok(())
    }

    /// What a bind is told that a subpartition refused.
    pub(super) fn refusal(&self, refusal: Refusal) -> BindError {
        match refusal {
            Refusal::Stale { presented, current } => BindError::Stale { presented, current },
            Refusal::DuplicateAttempt { attempt } => BindError::DuplicateAttempt { attempt },
            Refusal::Released => BindError::Released { cause: self.closed().unwrap_or(Cause::Released) },
        }
    }
}
