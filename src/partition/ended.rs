//! The word of a consumer elsewhere that it has consumed an end, when the bind in which it did so is over.

use super::{ChannelDescriptor, Manager};
use crate::error::BindError;
use crate::id::Incarnation;
use crate::subpartition::{BindRequest, Disbelief, LastWord};

/// Why the word isn't taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EndError {
    /// There is nothing (any more) that it could be about.
    Refused(BindError),
    /// It says what can't be.
    NotSent,
}

impl Manager {
    /// The consumer `request` has consumed the end of the subpartition that `descriptor` names, of the run
    /// `incarnation` of its producer. Never waits; without an error the end counts as acknowledged, by this word or
    /// by an earlier one.
    pub(crate) fn end_consumed(
        &self,
        descriptor: &ChannelDescriptor,
        request: BindRequest,
        incarnation: Incarnation,
        word: &LastWord,
    ) -> Result<(), EndError> {
        let partition = self.bound_at(descriptor).map_err(EndError::Refused)?;
        partition.admit(descriptor).map_err(EndError::Refused)?;
        let not_found = || EndError::Refused(BindError::NotFound { partition: partition.id });
        let sub = partition.subpartition(descriptor.subpartition).ok_or_else(not_found)?;
        if partition.incarnation != incarnation {
            return Err(not_found());
        }
        let news = sub.end_consumed(request, word).map_err(|disbelief| match disbelief {
            Disbelief::Refused(refusal) => EndError::Refused(partition.refusal(refusal)),
            Disbelief::Superseded => EndError::Refused(BindError::Superseded { newer: request.attempt }),
            Disbelief::NotSent => EndError::NotSent,
        })?;
        if news {
            partition.acknowledge_end();
        }
        Ok(())
    }
}
