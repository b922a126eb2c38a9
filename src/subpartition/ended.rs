//! A reader's last word that comes when its view is gone already: it has consumed the end of the partition.
//!
//! The connection of a consumer may be lost between its consuming the end and its saying so. It never binds again,
//! having nothing to read any more, so the word alone has to do what the view's own would have done.
//!
//! # Why the word of an older epoch may be believed
//! Frames of older epochs change nothing, since a newer reader may have what they speak of. Here there is none: the
//! word is taken only while its bind is the newest there ever was, by the same run of the same attempt, and only if
//! that bind had taken everything with the end. Then what it says is all there is to say: each record up to the end
//! was delivered to this reader, and none is to be had for another one.
//!
//! # The account
//! When the view was severed, what it had taken and not acknowledged was in doubt, or queued again to be replayed.
//! Exactly that amount becomes delivered, but for what was broken off or skipped of it. No bind came between, so
//! nobody was told of the doubt, and nothing was sent again.

use super::account::{Losses, ViewAccount};
use super::bind::{BindRequest, Ending, Refusal, Subpartition};
use super::policy::WhenAbsent;
use super::position::{Amount, Position};
use super::ring::Deferred;
use super::settle::{BindRecord, Severed};
use crate::id::BindEpoch;
use crate::sync::lock;
use std::sync::Arc;

/// What the reader says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastWord {
    /// Of its bind.
    pub(crate) epoch: BindEpoch,
    /// Stream bytes that it consumed, from the first one sent to the end.
    pub(crate) bytes: u64,
    /// Those of them that are of records broken off.
    pub(crate) aborted: u64,
}

/// Why it isn't taken. The subpartition is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disbelief {
    /// As a bind would be.
    Refused(Refusal),
    /// Another bind came later: its reader speaks for itself.
    Superseded,
    /// That bind never had the end, or something else before it.
    NotSent,
}

/// The newest view that was severed, and how its account was closed.
#[derive(Debug)]
pub(super) struct LastView {
    pub(super) epoch: BindEpoch,
    pub(super) account: Arc<ViewAccount>,
    /// All that it had taken.
    pub(super) progress: Amount,
    /// What of it was not acknowledged.
    pub(super) open: Amount,
    /// What of it was counted as skipped, and how many bytes as broken off.
    pub(super) skipped: Amount,
    pub(super) aborted: u64,
    /// It had taken the end of the partition.
    pub(super) had_end: bool,
}

impl LastView {
    /// Whether the word speaks of all that this view had.
    fn agrees(&self, word: &LastWord) -> bool {
        self.had_end && is_all(&self.account, self.progress, word)
    }
}

/// What was consumed and what was skipped are all of `progress`.
fn is_all(account: &ViewAccount, progress: Amount, word: &LastWord) -> bool {
    account.skipped().bytes.checked_add(word.bytes) == Some(progress.bytes) && word.aborted <= word.bytes
}

impl Subpartition {
    /// The reader of an older view has consumed the end of the partition. True if this is news.
    pub(crate) fn end_consumed(&self, request: BindRequest, word: &LastWord) -> Result<bool, Disbelief> {
        let mut later = Deferred::new(self.pool());
        let mut record = lock(&self.record);
        record.admit(request).map_err(Disbelief::Refused)?;
        if record.acknowledged {
            return Ok(false);
        }
        let severed = match &record.view {
            // Its connection's end was not seen here yet.
            Some(bound) if record.epoch == word.epoch => {
                // The glance is as old as the round trip of what was taken, at the least.
                let taken = self.ring.taken_glance().position;
                let progress = self.ring.amount_at(taken, &mut later).since(bound.start);
                if !self.is_past_end(taken) || !is_all(&bound.account, progress, word) {
                    return Err(Disbelief::NotSent);
                }
                record.acknowledged = true;
                let severed = self.sever(&mut record, Ending::Consumed { aborted: word.aborted }, &mut later);
                // A release that came between is final and says more than Unavailable.
                let _ = self.state.unavailable(record.epoch);
                severed
            }
            None => self.settle_late(&mut record, word, &mut later)?,
            Some(_) => return Err(Disbelief::Superseded),
        };
        drop(record);
        self.inherited.sweep(&self.ring);
        severed.finish(self, later);
        Ok(true)
    }

    /// Nobody reads; the account of the view that was severed last is closed anew.
    fn settle_late(
        &self,
        record: &mut BindRecord,
        word: &LastWord,
        later: &mut Deferred<'_>,
    ) -> Result<Severed, Disbelief> {
        let newest = record.last.as_ref().filter(|last| last.epoch.next() == record.epoch);
        let Some(last) = newest.filter(|last| last.epoch == word.epoch) else {
            return Err(Disbelief::Superseded);
        };
        if !last.agrees(word) {
            return Err(Disbelief::NotSent);
        }
        let written = self.ring.written();
        let open = if matches!(self.policies.when_absent, WhenAbsent::Replay { .. }) {
            let taken = self.ring.taken_glance().position;
            self.ring.amount_at(written, later).since(self.ring.amount_at(taken, later))
        } else {
            record.in_doubt = record.in_doubt.since(last.open);
            last.open
        };
        let skipped = last.account.skipped().beyond(last.skipped).at_most(open);
        let rest = open.since(skipped);
        let aborted = Amount::new(0, word.aborted.saturating_sub(last.aborted).min(rest.bytes));
        record.delivered += rest.since(aborted);
        let Losses { skipped: all_skipped, aborted: all_aborted, .. } = &mut record.lost;
        *all_skipped += skipped;
        *all_aborted += aborted;
        record.acknowledged = true;
        record.last = None;
        self.ring.set_taken(record.epoch, written);
        self.release_until(record, written, later);
        Ok(Severed { at: written, skip: false, node: None, held: Vec::new() })
    }

    /// Whether a view that stands at `taken` has had the end of the partition.
    pub(super) fn is_past_end(&self, taken: Position) -> bool {
        let last = taken.entry.wrapping_sub(1);
        taken == self.ring.written()
            && taken.offset == 0
            && self.ring.slot(last).entry().kind == super::slot::Kind::EndOfPartition
    }
}
