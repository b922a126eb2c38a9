//! Binds that wait for a partition that is not there yet.
//!
//! Bounded in number and time; of several consumers' attempts that wait for one subpartition the newest stays.
//! Each way in which waiting ends has its own answer.

use super::descriptor::ChannelDescriptor;
use super::manager::{BoundView, Manager};
use crate::clock::Moment;
use crate::doorbell::ReadyNode;
use crate::error::BindError;
use crate::id::{BindSecret, PartitionId};
use crate::inbox::Inbox;
use crate::subpartition::BindRequest;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How a waiting bind ended.
pub(crate) type BindAnswer = Result<BoundView, BindError>;

/// What is waited for, and with which secret: who has another one takes nobody's place.
pub(super) type Key = (PartitionId, u32, BindSecret);

/// One bind that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) descriptor: ChannelDescriptor,
    pub(super) request: BindRequest,
    pub(super) node: Arc<ReadyNode>,
    pub(super) answer: Arc<Inbox<BindAnswer>>,
    pub(super) since: Moment,
    /// Given by the list: tells a bind from another that took its place.
    pub(super) number: u64,
}

impl Waiting {
    /// Ends the wait. An answer that finds no place belongs to a channel that is gone.
    pub(super) fn answer(self, answer: BindAnswer) {
        drop(self.answer.push(answer));
        self.answer.close();
    }
}

/// Dropping it takes the bind off the list.
#[derive(Debug)]
pub(crate) struct Ticket {
    manager: Weak<Manager>,
    key: Key,
    number: u64,
}

impl Ticket {
    /// Takes the bind off the list. False if it isn't there any more: then its answer is on its way.
    pub(crate) fn withdraw(&self) -> bool {
        let manager = self.manager.upgrade();
        manager.is_some_and(|manager| manager.cancel(&self.key, self.number).is_some())
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(manager) = self.manager.upgrade() {
            drop(manager.cancel(&self.key, self.number));
        }
    }
}

/// All that wait, under the manager's lock.
#[derive(Debug, Default)]
pub(super) struct WaitingList {
    by_key: HashMap<Key, Waiting>,
    next_number: u64,
}

impl WaitingList {
    /// Adds a bind. Gives back the one whose place it took, to be answered outside of the lock.
    pub(super) fn add(
        &mut self,
        manager: &Weak<Manager>,
        mut waiting: Waiting,
        most: usize,
    ) -> Result<(Ticket, Option<Waiting>), BindError> {
        let request = waiting.request;
        let wanted = &waiting.descriptor;
        let key = (wanted.partition, wanted.subpartition, wanted.secret);
        match self.by_key.get(&key) {
            Some(there) if there.request.attempt > request.attempt => {
                return Err(BindError::Stale { presented: request.attempt, current: there.request.attempt });
            }
            Some(there)
                if there.request.attempt == request.attempt
                    && there.request.incarnation != request.incarnation =>
            {
                return Err(BindError::DuplicateAttempt { attempt: request.attempt });
            }
            None if self.by_key.len() >= most => {
                return Err(BindError::TooManyWaiting { waiting: self.by_key.len() });
            }
            _ => {}
        }
        let number = self.next_number;
        self.next_number += 1;
        waiting.number = number;
        let replaced = self.by_key.insert(key, waiting);
        Ok((Ticket { manager: manager.clone(), key, number }, replaced))
    }

    pub(super) fn cancel(&mut self, key: &Key, number: u64) -> Option<Waiting> {
        match self.by_key.get(key) {
            Some(waiting) if waiting.number == number => self.by_key.remove(key),
            _ => None,
        }
    }

    /// Takes out what `which` picks: first come, first served.
    pub(super) fn take_where(&mut self, mut which: impl FnMut(&Waiting) -> bool) -> Vec<Waiting> {
        let mut taken: Vec<_> =
            self.by_key.extract_if(|_, waiting| which(waiting)).map(|(_, waiting)| waiting).collect();
        taken.sort_unstable_by_key(|waiting| waiting.number);
        taken
    }

    pub(super) fn take_expired(&mut self, now: Moment, longest: Duration) -> Vec<Waiting> {
        self.take_where(|waiting| now.since(waiting.since) >= longest)
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }
}
