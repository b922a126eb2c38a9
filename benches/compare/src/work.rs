//! The work that all peers do: records made and records read.
//!
//! Peers hand over whole blocks, so that the loops over records are these for all of them, built for the usual lengths
//! of a record as a program with a record type would be.

use crate::common::AnyError;
use bytes::BufMut;
use crossbeam_utils::CachePadded;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;

/// Bytes of the number that a record begins with.
pub(crate) const NUMBER_BYTES: usize = 8;

/// Calls a method for a length that the compiler knows if it is one of the usual ones; 0 stands for any other.
macro_rules! with_known_length {
    ($width:expr, $self:ident.$method:ident($($argument:expr),*)) => {
        match $width {
            8 => $self.$method::<8>($($argument),*),
            100 => $self.$method::<100>($($argument),*),
            1_000 => $self.$method::<1_000>($($argument),*),
            32_768 => $self.$method::<32_768>($($argument),*),
            _ => $self.$method::<0>($($argument),*),
        }
    };
}

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

/// Makes the records of a producer.
#[derive(Debug)]
pub(crate) struct Maker {
    pattern: Vec<u8>,
    totals: Totals,
}

impl Maker {
    pub(crate) fn new(record_bytes: usize) -> Self {
        let pattern = (0..record_bytes).map(|at| (at * 31 + 7) as u8).collect();
        Self { pattern, totals: Totals::default() }
    }

    /// The whole records that a block of about so many bytes has, at least one.
    pub(crate) fn records_in(&self, block_bytes: usize) -> usize {
        (block_bytes / self.pattern.len()).max(1)
    }

    /// Makes a block of whole records anew.
    pub(crate) fn fill(&mut self, block: &mut [u8]) {
        with_known_length!(self.pattern.len(), self.fill_sized(block));
    }

    fn fill_sized<const WIDTH: usize>(&mut self, block: &mut [u8]) {
        let width = if WIDTH == 0 { self.pattern.len() } else { WIDTH };
        let payload = &self.pattern[NUMBER_BYTES..width];
        let mut totals = self.totals;
        for record in block.chunks_exact_mut(width) {
            let number = totals.records;
            record[..NUMBER_BYTES].copy_from_slice(&number.to_le_bytes());
            record[NUMBER_BYTES..].copy_from_slice(payload);
            totals.add(number);
        }
        self.totals = totals;
    }

    /// Appends so many records to a block that has room for them.
    pub(crate) fn append(&mut self, block: &mut impl BufMut, records: usize) {
        with_known_length!(self.pattern.len(), self.append_sized(block, records));
    }

    fn append_sized<const WIDTH: usize>(&mut self, block: &mut impl BufMut, records: usize) {
        let width = if WIDTH == 0 { self.pattern.len() } else { WIDTH };
        let payload = &self.pattern[NUMBER_BYTES..width];
        let mut totals = self.totals;
        for _ in 0..records {
            let number = totals.records;
            block.put_u64_le(number);
            block.put_slice(payload);
            totals.add(number);
        }
        self.totals = totals;
    }

    /// Gives the next number to a record whose payload is there already.
    #[inline]
    pub(crate) fn number(&mut self, record: &mut [u8]) {
        let number = self.totals.records;
        if let Some(first) = record.first_chunk_mut() {
            *first = number.to_le_bytes();
        }
        self.totals.add(number);
    }

    /// A record's payload, behind a place for its number.
    pub(crate) fn pattern(&self) -> &[u8] {
        &self.pattern
    }

    /// What was made.
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }
}

/// Reads the records of a consumer.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    width: usize,
    totals: Totals,
    progress: &'a Progress,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(record_bytes: usize, progress: &'a Progress) -> Self {
        Self { width: record_bytes, totals: Totals::default(), progress }
    }

    /// Reads the number of every record of a block; an error if there is a part of a record in it.
    pub(crate) fn block(&mut self, block: &[u8]) -> Result<(), AnyError> {
        if !block.len().is_multiple_of(self.width) {
            return Err(format!("{} bytes aren't whole records of {} bytes", block.len(), self.width).into());
        }
        with_known_length!(self.width, self.block_sized(block));
        self.publish();
        Ok(())
    }

    fn block_sized<const WIDTH: usize>(&mut self, block: &[u8]) {
        let width = if WIDTH == 0 { self.width } else { WIDTH };
        let mut totals = self.totals;
        for record in block.chunks_exact(width) {
            totals.add(number(record));
        }
        self.totals = totals;
    }

    /// Reads the number of one record. It is for the caller to [`publish`](Self::publish) now and then.
    #[inline]
    pub(crate) fn record(&mut self, record: &[u8]) -> Result<(), AnyError> {
        if record.len() != self.width {
            return Err(wrong_length(record.len(), self.width));
        }
        self.totals.add(number(record));
        Ok(())
    }

    /// Tells how far this is.
    #[inline]
    pub(crate) fn publish(&self) {
        self.progress.records.store(self.totals.records, Ordering::Relaxed); // Relaxed: a statistic
    }

    /// Reads the whole records at the begin of `bytes`, and moves the rest there. Gives how many bytes the rest has.
    pub(crate) fn stream(&mut self, bytes: &mut [u8]) -> Result<usize, AnyError> {
        let whole = bytes.len() - bytes.len() % self.width;
        self.block(&bytes[..whole])?;
        bytes.copy_within(whole.., 0);
        Ok(bytes.len() - whole)
    }

    /// What was read.
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }
}

#[inline]
fn number(record: &[u8]) -> u64 {
    record.first_chunk().map_or(0, |number| u64::from_le_bytes(*number))
}

#[cold]
fn wrong_length(found: usize, expected: usize) -> AnyError {
    format!("a record of {found} bytes instead of {expected}").into()
}

/// How far a consumer is, for who samples it: on a cache line of its own.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    records: CachePadded<AtomicU64>,
}

impl Progress {
    pub(crate) fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed) // Relaxed: a statistic
    }
}

/// What a producer is told, and how it tells where it can be found.
#[derive(Debug)]
pub(crate) struct Stage {
    offers: mpsc::Sender<serde_json::Value>,
    stop: AtomicBool,
}

impl Stage {
    pub(crate) fn new() -> (Self, mpsc::Receiver<serde_json::Value>) {
        let (offers, offered) = mpsc::channel();
        (Self { offers, stop: AtomicBool::new(false) }, offered)
    }

    /// Tells the consumer's process what it needs to know, an address for most. Once.
    pub(crate) fn offer(&self, offer: &impl Serialize) -> Result<(), AnyError> {
        Ok(self.offers.send(serde_json::to_value(offer)?)?)
    }

    /// The producer shall make no more blocks.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed); // Relaxed: no data goes with it
    }

    #[inline]
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) // Relaxed: no data goes with it
    }
}

#[cfg(test)]
mod tests;
