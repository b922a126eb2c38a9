//! Transitions of a channel: bound, refused, over.
//!
//! Each yields at most one item and leaves the rest to the channel's next turn, so the order of notices is the
//! order of turns.

use super::InputGate;
use super::advance::Found;
use super::channel::State;
use super::error::GateError;
use super::item::Item;
use super::reader::Reader;
use super::ready::NOBODY;
use crate::doorbell::ReadyNode;
use crate::error::{BindError, Cause};
use crate::event::LostBarriers;
use crate::id::Attempt;
use crate::id::BindEpoch;
use crate::inbox::{Inbox, Over};
use crate::partition::Location;
use crate::partition::{BindAnswer, BindOutcome, BoundView};
use crate::subpartition::{Amount, LocalReader, Losses};
use std::sync::Arc;

/// What a channel's bind begins with.
#[derive(Debug)]
pub(super) struct Beginning {
    pub(super) epoch: BindEpoch,
    /// What lies before it, where that is known.
    pub(super) begin: Amount,
    pub(super) lost: Losses,
    pub(super) in_doubt: Amount,
    pub(super) writer_lost: Amount,
    pub(super) barriers: LostBarriers,
    /// There is nothing but the end of the partition.
    pub(super) ended: bool,
}

impl InputGate {
    /// Binds the channel to what its newest descriptor names, or begins to wait for it.
    pub(super) fn bind(&mut self, index: usize) {
        let channel = &mut self.channels[index];
        if let Some(newer) = channel.pending.take() {
            channel.descriptor = newer;
        }
        if let Location::Remote(peer) = channel.descriptor.location
            && !self.manager.is_home(&peer)
        {
            return self.connect(index, peer);
        }
        // A node of its own for every bind: a stuck ring of an older one is nobody's business.
        let node = ReadyNode::new(&self.bell, index as u32);
        let inbox = Arc::new(Inbox::new(1, node.clone()));
        channel.node = Some(node.clone());
        let answer = match self.manager.bind(&channel.descriptor, self.request, &node, &inbox) {
            Ok(BindOutcome::Bound(bound)) => Ok(bound),
            Ok(BindOutcome::Waiting(ticket)) => {
                channel.state = State::Waiting { ticket, inbox };
                self.post(index);
                return;
            }
            Err(error) => Err(error),
        };
        self.answer(index, answer);
    }

    /// The answer to a bind; the channel's next turn tells of it.
    pub(super) fn answer(&mut self, index: usize, answer: BindAnswer) {
        match answer {
            Ok(bound) => self.activate(index, bound),
            Err(error) => self.channels[index].state = State::Told(error),
        }
        self.ready.queue(index, &mut self.channels[index]);
        self.post(index);
    }

    fn activate(&mut self, index: usize, bound: BoundView) {
        let BoundView { view, grant, partition } = bound;
        let channel = &mut self.channels[index];
        channel.node = Some(view.node().clone());
        let beginning = Beginning {
            epoch: view.epoch(),
            begin: grant.begin,
            lost: grant.lost,
            in_doubt: grant.in_doubt,
            writer_lost: grant.writer_lost,
            barriers: grant.barriers,
            ended: grant.ended,
        };
        let reader = LocalReader::new(view, self.record_bytes_max, self.explicit);
        channel.activate(Reader::Local(reader), beginning);
        channel.look_after = partition.config.policy().flush.look_after();
        channel.partition = Some(partition);
    }

    /// An update came while the channel waits: what it waits for gives way, unless its answer is on its way.
    pub(super) fn move_waiting(&mut self, index: usize) {
        let channel = &mut self.channels[index];
        if channel.pending.is_none() {
            return;
        }
        if let State::Waiting { ticket, inbox } = &channel.state
            && ticket.withdraw()
        {
            inbox.close();
            self.bind(index);
        }
    }

    /// Tells of a bind that was refused, and decides what that means for the channel.
    pub(super) fn refuse(&mut self, index: usize) -> Option<Found> {
        let channel = &mut self.channels[index];
        let State::Told(error) = std::mem::replace(&mut channel.state, State::Unbound) else { return None };
        match error {
            BindError::Released { cause: Cause::Consumed } => return Some(self.ended(index)),
            BindError::Released { cause } => return Some(self.unavailable(index, cause, Amount::ZERO)),
            BindError::StaleProducer { current, .. } => {
                let cause = Cause::Superseded { newer: current };
                return Some(self.unavailable(index, cause, Amount::ZERO));
            }
            BindError::Stale { current: newer, .. }
            | BindError::DuplicateAttempt { attempt: newer }
            | BindError::Superseded { newer } => self.fence(index, newer),
            _ if channel.pending.is_some() => self.ready.queue(index, channel),
            _ => {
                channel.state = State::Refused(error.clone());
                self.alignment.away(index);
            }
        }
        self.post(index);
        Some(Found::Item(Item::BindFailed { channel: index as u32, error }))
    }

    /// The reader found that another view reads: of a newer attempt of this consumer, or none because the
    /// partition was closed.
    pub(super) fn severed(&mut self, index: usize) -> Found {
        let channel = &self.channels[index];
        if let Some(Reader::Remote(reader)) = &channel.reader {
            let over = reader.over().cloned().unwrap_or(Over::Gone(Cause::Released));
            return self.cut_off(index, over);
        }
        let reader = channel.reader.as_ref().and_then(Reader::local);
        let newest = reader.and_then(|reader| reader.view().subpartition().newest());
        let closed = channel.partition.as_ref().and_then(|partition| partition.closed());
        let mine = self.request.attempt;
        let newer = newest.filter(|newest| *newest != mine);
        match (newer, closed) {
            // First of all: whoever was replaced must not take the end of its successor for its own.
            (None, Some(Cause::Consumed)) => {
                self.channels[index].is_ended_before = true;
                self.ended(index)
            }
            (None, Some(cause)) => self.lose(index, cause),
            (newer, _) => {
                let newer = newer.unwrap_or(mine);
                let found = self.lose(index, Cause::Fenced { newer });
                self.fence(index, newer);
                self.post(index);
                found
            }
        }
    }

    /// Everything that the producer left is read, and it failed.
    pub(super) fn failed(&mut self, index: usize) -> Found {
        let channel = &self.channels[index];
        let cause = match &channel.reader {
            Some(Reader::Remote(reader)) => reader.failure().cloned(),
            _ => channel.partition.as_ref().and_then(|partition| partition.failure()),
        };
        self.lose(index, cause.unwrap_or(Cause::Dropped))
    }

    /// The bind is over: nothing more comes of it.
    pub(super) fn lose(&mut self, index: usize, cause: Cause) -> Found {
        let channel = &mut self.channels[index];
        let mut torn = Amount::ZERO;
        if let Some(reader) = channel.take_reader() {
            torn = reader.torn();
            match &reader {
                _ if matches!(cause, Cause::Fenced { .. }) => {}
                Reader::Local(reader) => {
                    channel.left_behind += reader.left_behind(channel.begin, channel.told);
                }
                // Read to its end: nothing is left of it.
                Reader::Remote(reader) if reader.failure().is_some() => {}
                Reader::Remote(reader) => {
                    channel.cut = Some((channel.descriptor.producer_attempt, reader.received()));
                }
            }
            self.close(reader);
        }
        self.unavailable(index, cause, torn)
    }

    pub(super) fn unavailable(&mut self, index: usize, cause: Cause, skipped: Amount) -> Found {
        let channel = &mut self.channels[index];
        debug_assert!(channel.starved.is_none(), "a turn that comes to this asks for admission first");
        channel.announce = None;
        channel.partition = None;
        channel.is_outage = false;
        if channel.pending.is_some() {
            channel.state = State::Unbound;
            self.ready.queue(index, channel);
        } else {
            channel.state = State::Unavailable(cause.clone());
        }
        let (number, epoch) = (index as u32, channel.epoch);
        self.turn = NOBODY;
        self.alignment.away(index);
        self.lift_watermark();
        self.post(index);
        Found::Item(Item::Unavailable { channel: number, epoch, cause, skipped })
    }

    /// A record is longer than what is accepted: the channel is closed before it costs anything.
    pub(super) fn too_long(&mut self, index: usize, bytes: usize, max: usize) -> Found {
        // The notice of the outage is the error itself.
        drop(self.lose(index, Cause::Released));
        let channel = &mut self.channels[index];
        if matches!(channel.state, State::Unavailable(_)) {
            channel.state = State::TooLong { bytes, max };
        }
        self.post(index);
        Found::Failed(GateError::RecordTooLong { channel: index as u32, bytes, max })
    }

    /// The end of the partition is yielded. In explicit mode the reader stays until it is acknowledged.
    pub(super) fn ended(&mut self, index: usize) -> Found {
        let channel = &mut self.channels[index];
        channel.state = State::Ended;
        channel.pending = None;
        self.turn = NOBODY;
        self.alignment.ended(index);
        self.ended += 1;
        if !self.explicit || channel.is_ended_before {
            self.retire(index);
        }
        self.lift_watermark();
        self.post(index);
        Found::Item(Item::EndOfPartition { channel: index as u32 })
    }

    /// The end is consumed: nothing is needed of the partition any more.
    pub(super) fn retire(&mut self, index: usize) {
        let channel = &mut self.channels[index];
        channel.partition = None;
        if let Some(reader) = &mut channel.reader {
            reader.settle(&mut self.admission);
        }
        if let Some(reader) = self.channels[index].take_reader() {
            self.close(reader);
        }
    }

    pub(super) fn fence(&mut self, index: usize, newer: Attempt) {
        let channel = &mut self.channels[index];
        channel.state = State::Fenced(newer);
        channel.pending = None;
        self.fenced += 1;
        self.alignment.away(index);
        self.lift_watermark();
    }

    /// Closes a reader in order, and gives back what its half record was granted.
    fn close(&mut self, mut reader: Reader) {
        reader.clear(&mut self.admission);
        drop(reader);
    }
}
