//! What must hold of the accounts: checked whenever everything has come to rest, and at the end.

use super::log::{Log, Sums};
use super::oracle::{Oracle, Verdict};
use crate::subpartition::{Account, Amount};

impl Oracle {
    /// `is_idle`: whether the writer of this attempt has nothing under way.
    pub(super) fn check_accounts(&self, is_idle: impl Fn(usize, u32) -> bool) -> Verdict {
        for log in self.logs.values() {
            let Some(partition) = &log.partition else { continue };
            let snapshot = partition.snapshot();
            let is_idle = is_idle(log.producer, log.attempt);
            for (index, (sub, sums)) in snapshot.subpartitions.iter().zip(&log.sums).enumerate() {
                check(&sub.account, sums, log, is_idle).map_err(|what| {
                    let (producer, attempt) = (log.producer, log.attempt);
                    let account = &sub.account;
                    format!("{what}: producer {producer}, attempt {attempt}, subpartition {index}: {account:?}, {sums:?}")
                })?;
            }
        }
        Ok(())
    }
}

fn within(less: Amount, more: Amount) -> bool {
    less.records <= more.records && less.bytes <= more.bytes
}

fn check(account: &Account, sums: &Sums, log: &Log, is_idle: bool) -> Verdict {
    let Sums { accepted, distinct, yields, .. } = *sums;
    let (lost, in_doubt) = (account.lost.total(), account.in_doubt);
    // Between two tries of a record some of its bytes may be published and none of it counted.
    if !is_idle {
        return Ok(());
    }
    if !account.is_balanced() {
        return Err("not balanced".into());
    }
    // What met the end of its partition may count as written or not.
    if !log.closed && account.written != accepted {
        return Err("written is not what was given".into());
    }
    if account.written.records < distinct.records {
        return Err("more was given to consumers than was written".into());
    }
    if !within(account.delivered, if log.replays { yields } else { distinct }) {
        return Err("more was delivered than was given to consumers".into());
    }
    if distinct.records > (account.delivered + in_doubt + account.queued).records {
        return Err("more was given to consumers than is delivered, in doubt or queued".into());
    }
    if sums.told_lost + sums.told_since > lost.records || sums.told_doubt > in_doubt.records {
        return Err("consumers were told of more than is lost or in doubt".into());
    }
    if lost.records > account.written.records - distinct.records {
        return Err("something is lost that was given to a consumer".into());
    }
    Ok(())
}
