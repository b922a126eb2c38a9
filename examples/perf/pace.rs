//! A producer that keeps a pace: records at points of time fixed beforehand, whatever became of those before.

use crate::common::{AnyError, clock};
use crate::options::{Latency, Layout};
use crate::plane::Seat;
use crate::records::{Totals, pattern};
use pirn::{RecordWriter, WriteError};
use std::sync::atomic::{AtomicBool, Ordering};

const SECOND: u64 = 1_000_000_000;
/// A wait that ends this late, in nanoseconds, was not just a timer's: the record counts from when it was due.
const LATE: u64 = 1_000_000;
/// Bytes of a burst's record where lengths may differ: with its length it fills a segment.
const BURST_RECORD_BYTES: usize = 32 * 1024 - 4;

/// Writes records with the time from which they count, until it is told to stop.
///
/// A record that is due while the writer is still held up by the one before counts from when it was due, so that a
/// stall shows in all records that it delays and not in one. Otherwise it counts from its write: how late the kernel
/// ends a sleep is no matter of this measurement.
pub(crate) fn produce(
    writer: &mut RecordWriter,
    options: &Latency,
    stop: &AtomicBool,
    seat: &Seat,
) -> Result<Totals, AnyError> {
    clock::exact_timers()?;
    let mut record: Vec<u8> = pattern(options.path.record_bytes as usize).collect();
    let mut burst = Burst::new(options);
    let mut totals = Totals::default();
    let begin = clock::now();
    // What was due until it was told to stop is written all the same: it would be missing among the slowest.
    let mut until = u64::MAX;
    for count in 1_u64.. {
        // From the begin, so that a rate that doesn't divide a second is kept as well.
        let due = begin + (u128::from(count) * u128::from(SECOND) / u128::from(options.rate)) as u64;
        // Relaxed: no data goes with it.
        if until == u64::MAX && stop.load(Ordering::Relaxed) {
            until = clock::now();
        }
        if due > until {
            break;
        }
        let in_time = clock::now() <= due;
        if in_time {
            seat.wait_until(due)?;
        }
        let now = clock::now();
        write(writer, &mut record, if in_time && now < due + LATE { now } else { due }, &mut totals)?;
        burst.write_if_due(writer, &mut totals)?;
    }
    Ok(totals)
}

/// Makes a record of this time, and writes it.
fn write(
    writer: &mut RecordWriter,
    record: &mut [u8],
    time: u64,
    totals: &mut Totals,
) -> Result<(), WriteError> {
    if let Some(first) = record.first_chunk_mut() {
        *first = time.to_le_bytes();
    }
    totals.add(time);
    writer.write_blocking(0, record).map(drop)
}

/// Much at once from time to time, in records that aren't measured.
struct Burst {
    record: Vec<u8>,
    records: u64,
    every: u64,
    next: u64,
}

impl Burst {
    fn new(options: &Latency) -> Self {
        let bytes = match options.path.layout {
            Layout::Fixed => options.path.record_bytes as usize,
            // Long ones: each is flushed for itself.
            Layout::Length => BURST_RECORD_BYTES,
        };
        let every = u64::from(options.burst_every_ms) * 1_000_000;
        let records = options.burst_bytes.div_ceil(bytes as u64);
        Self { record: pattern(bytes).collect(), records, every, next: clock::now() + every }
    }

    fn write_if_due(&mut self, writer: &mut RecordWriter, totals: &mut Totals) -> Result<(), WriteError> {
        if self.records > 0 && clock::now() >= self.next {
            for _ in 0..self.records {
                write(writer, &mut self.record, 0, totals)?;
            }
            // From its end: records that were held up get their turn before the next one.
            self.next = clock::now() + self.every;
        }
        Ok(())
    }
}
