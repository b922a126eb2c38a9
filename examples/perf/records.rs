//! The loops that are measured: records made and written, and records read.

use crate::common::AnyError;
use crossbeam_utils::CachePadded;
use pirn::{InputGate, Item, RecordWriter, WriteError};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Records are made in rounds of about so many bytes, and written then: a record that is copied right behind the
/// store of its number waits for the store buffer, a cost of the measuring program and not of the writer.
const ROUND_BYTES: usize = 8 * 1024;
const ROUND_RECORDS_MAX: usize = 64;

/// How many records, and the sum of their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Totals {
    pub(crate) records: u64,
    pub(crate) sum: u64,
}

impl Totals {
    #[inline]
    pub(crate) fn add(&mut self, number: u64) {
        self.records += 1;
        self.sum = self.sum.wrapping_add(number);
    }
}

impl std::iter::Sum for Totals {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |all, part| Self {
            records: all.records + part.records,
            sum: all.sum.wrapping_add(part.sum),
        })
    }
}

/// How far a consumer is, for who samples it: on cache lines of its own.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) records: CachePadded<AtomicU64>,
    /// Channels that are bound.
    pub(crate) bound: AtomicU32,
}

/// The number of a record.
#[inline]
pub(crate) fn number(record: &[u8]) -> u64 {
    record.first_chunk().map_or(0, |number| u64::from_le_bytes(*number))
}

/// A record of so many bytes with a pattern behind its number.
pub(crate) fn pattern(bytes: usize) -> impl Iterator<Item = u8> {
    (0..bytes).map(|at| (at * 31 + 7) as u8)
}

/// Calls a function for a length that the compiler knows if it is one of the usual ones; 0 stands for any other.
macro_rules! with_known_length {
    ($bytes:expr, $function:ident($($argument:expr),*)) => {
        match $bytes {
            8 => $function::<8>($($argument),*),
            100 => $function::<100>($($argument),*),
            1_000 => $function::<1_000>($($argument),*),
            32_768 => $function::<32_768>($($argument),*),
            _ => $function::<0>($($argument),*),
        }
    };
}
/// Writes records to all subpartitions in turn until it is told to stop.
pub(crate) fn produce(
    writer: &mut RecordWriter,
    bytes: usize,
    stop: &AtomicBool,
) -> Result<Totals, WriteError> {
    with_known_length!(bytes, produce_sized(writer, bytes, stop))
}

fn produce_sized<const BYTES: usize>(
    writer: &mut RecordWriter,
    bytes: usize,
    stop: &AtomicBool,
) -> Result<Totals, WriteError> {
    let bytes = if BYTES == 0 { bytes } else { BYTES };
    let targets = writer.subpartitions();
    let round = (ROUND_BYTES / bytes).clamp(1, ROUND_RECORDS_MAX);
    let mut made: Vec<u8> = (0..round).flat_map(move |_| pattern(bytes)).collect();
    let mut totals = Totals::default();
    let mut target = 0;
    // Relaxed: no data goes with it.
    while !stop.load(Ordering::Relaxed) {
        for record in made.chunks_exact_mut(bytes) {
            let number = totals.records;
            if let Some(first) = record.first_chunk_mut() {
                *first = number.to_le_bytes();
            }
            totals.add(number);
        }
        if targets == 1 {
            match BYTES {
                0 => writer.write_batch_blocking(0, made.chunks_exact(bytes))?,
                // Their length is known as that of a type is.
                _ => writer.write_batch_blocking(0, made.chunks_exact(bytes).map(known::<BYTES>))?,
            };
            continue;
        }
        for record in made.chunks_exact(bytes) {
            writer.write_blocking(target, record)?;
            target += 1;
            if target == targets {
                target = 0;
            }
        }
    }
    Ok(totals)
}

/// A record of a length that the compiler knows.
fn known<const BYTES: usize>(record: &[u8]) -> &[u8; BYTES] {
    record.first_chunk().unwrap_or(&[0; BYTES])
}

/// Reads records until all channels have ended.
pub(crate) fn consume(gate: &mut InputGate, bytes: usize, progress: &Progress) -> Result<Totals, AnyError> {
    with_known_length!(bytes, consume_sized(gate, bytes, progress))
}

fn consume_sized<const BYTES: usize>(
    gate: &mut InputGate,
    bytes: usize,
    progress: &Progress,
) -> Result<Totals, AnyError> {
    let bytes = if BYTES == 0 { bytes } else { BYTES };
    let mut totals = Totals::default();
    while let Some(item) = gate.next_blocking()? {
        match item {
            Item::Record(record) => touch(&record, bytes, &mut totals)?,
            notice => look(&notice, progress)?,
        }
        for record in gate.records() {
            touch(record, bytes, &mut totals)?;
        }
        // Relaxed: a statistic.
        progress.records.store(totals.records, Ordering::Relaxed);
    }
    Ok(totals)
}

#[inline]
fn touch(record: &[u8], bytes: usize, totals: &mut Totals) -> Result<(), AnyError> {
    if record.len() != bytes {
        return Err(wrong_length(record.len(), bytes));
    }
    totals.add(number(record));
    Ok(())
}

#[cold]
fn wrong_length(found: usize, expected: usize) -> AnyError {
    format!("a record of {found} bytes instead of {expected}").into()
}

/// What a consumer makes of anything but a record: nobody fails here, and nothing is to be lost.
pub(crate) fn look(item: &Item<'_>, progress: &Progress) -> Result<(), AnyError> {
    match item {
        Item::Available { .. } => {
            progress.bound.fetch_add(1, Ordering::Relaxed); // Relaxed: a statistic
            Ok(())
        }
        Item::Unavailable { channel, cause, .. } => Err(format!("channel {channel} is gone: {cause}").into()),
        Item::BindFailed { channel, error } => Err(format!("channel {channel}: {error}").into()),
        Item::Loss { channel, lost, .. } => Err(format!("channel {channel} lost {lost:?}").into()),
        _ => Ok(()),
    }
}
