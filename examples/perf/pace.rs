//! A producer that keeps a pace: records at points of time fixed beforehand, whatever became of those before.

use crate::common::{AnyError, clock};
use crate::options::Latency;
use crate::plane::Seat;
use crate::records::{Totals, pattern};
use pirn::RecordWriter;
use std::sync::atomic::{AtomicBool, Ordering};

const SECOND: u64 = 1_000_000_000;
/// A wait that ends this late, in nanoseconds, was not just a timer's: the record counts from when it was due.
const LATE: u64 = 1_000_000;

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
    let mut totals = Totals::default();
    let mut write = |writer: &mut RecordWriter, time: u64| {
        if let Some(first) = record.first_chunk_mut() {
            *first = time.to_le_bytes();
        }
        totals.add(time);
        writer.write_blocking(0, &record)
    };

    let begin = clock::now();
    let burst_records = options.burst_bytes.div_ceil(options.path.record_bytes.into());
    let burst_every = u64::from(options.burst_every_ms) * 1_000_000;
    let mut next_burst = begin + burst_every;
    // Relaxed: no data goes with it.
    for count in 1_u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        // From the begin, so that a rate that doesn't divide a second is kept as well.
        let due = begin + (u128::from(count) * u128::from(SECOND) / u128::from(options.rate)) as u64;
        let in_time = clock::now() <= due;
        if in_time {
            seat.wait_until(due)?;
        }
        let now = clock::now();
        write(writer, if in_time && now < due + LATE { now } else { due })?;
        if burst_records > 0 && now >= next_burst {
            next_burst += burst_every;
            for _ in 0..burst_records {
                write(writer, 0)?;
            }
        }
    }
    Ok(totals)
}
