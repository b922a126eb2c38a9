//! A consumer attempt: checks every record, and logs it before the gate is asked for the next one.

use crate::common::{consumer_log, producer_log, sleep, subpartition_and_number};
use crate::log::{Log, Note};
use pirn::{Attempt, Cause, ChannelDescriptor, GateConfig, Incarnation, Item, TryNext, Worker};
use std::path::Path;
use std::time::Duration;

/// Orders to an attempt, in its log.
pub(crate) const READ: u64 = 0;
/// Stop where you are, with everything in your hands.
pub(crate) const STOP: u64 = 1;
/// It has stopped.
pub(crate) const STOPPED: u64 = 2;
/// Drop the gate.
pub(crate) const DROP: u64 = 3;

/// How an attempt came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// All channels have ended.
    End,
    /// A newer attempt reads.
    Fenced,
    /// It was told to drop the gate.
    Dropped,
}

/// Reads `descriptor` as attempt `attempt` until something ends it.
///
/// # Errors
/// What is wrong: a torn record, one that came twice or out of order, an end that nobody ordered.
pub(crate) fn consume(
    worker: &Worker,
    descriptor: &ChannelDescriptor,
    attempt: u8,
    folder: &Path,
) -> Result<Over, String> {
    let mine = descriptor.subpartition;
    let open = |path: &Path| Log::open(path).map_err(|error| format!("{}: {error}", path.display()));
    let (log, producer) = (open(&consumer_log(folder, mine))?, open(&producer_log(folder, mine))?);
    let incarnation = Incarnation(attempt.into());
    let mut config = GateConfig::new(Attempt(attempt.into()), incarnation).channel(descriptor.clone());
    if attempt.is_multiple_of(2) {
        // The smallest window there is: credit ends in the middle of a record, and so may the attempt.
        config = config.receive_bytes_max(0);
    }
    let mut gate = worker.input_gate(config);
    let (mut next, mut scratch) = (0, Vec::new());
    loop {
        match log.get(attempt, Note::Order) {
            DROP => return Ok(Over::Dropped),
            STOP => log.set(attempt, Note::Order, STOPPED),
            STOPPED => {
                sleep(Duration::from_millis(1));
                continue;
            }
            _ => {}
        }
        let item =
            gate.next_blocking_timeout(Duration::from_millis(20)).map_err(|error| error.to_string())?;
        match item {
            TryNext::Item(Item::Record(record)) => {
                let (subpartition, number) = subpartition_and_number(record.as_bytes(), &mut scratch)?;
                if subpartition != mine {
                    return Err(format!("a record of subpartition {subpartition} in {mine}"));
                }
                if number < next {
                    return Err(format!("record {number} came behind {}", next - 1));
                }
                next = number + 1;
                let before = log.note(number, attempt);
                if before != 0 {
                    return Err(format!("record {number} came to attempts {before} and {attempt}"));
                }
                log.add(attempt, Note::Yielded, 1);
                log.tick(log.clock(&producer));
            }
            TryNext::Item(Item::Available { loss, .. }) => {
                log.add(attempt, Note::Lost, loss.lost.total().records);
                log.add(attempt, Note::InDoubt, loss.in_doubt.records);
                log.add(attempt, Note::Bound, 1);
            }
            TryNext::Item(Item::Loss { lost, .. }) => log.add(attempt, Note::Noticed, lost.records),
            TryNext::Item(Item::EndOfPartition { .. }) => log.add(attempt, Note::Ended, 1),
            TryNext::Item(Item::EndOfData { .. }) | TryNext::Empty => {}
            TryNext::Item(Item::Unavailable { cause: Cause::Fenced { newer }, .. })
                if newer > Attempt(attempt.into()) =>
            {
                log.add(attempt, Note::Fenced, 1);
                return Ok(Over::Fenced);
            }
            TryNext::End => return Ok(Over::End),
            TryNext::Item(other) => {
                return Err(format!("{other:?} at record {next}"));
            }
        }
    }
}
