//! `perf latency`: how long a lone record takes from its write until its consumer has it.

use crate::common::{AnyError, clock};
use crate::options::Latency;
use crate::records::{self, Progress, Totals};
use crate::report::{Report, Value};
use crate::run::{self, Job};
use crate::throughput::driver;
use hdrhistogram::Histogram;
use pirn::{InputGate, Item};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// The longest latency that is told from a longer one, in nanoseconds: a minute.
const LONGEST: u64 = 60_000_000_000;

pub(crate) fn measure(options: &Latency) -> Result<Report, AnyError> {
    let outcome = run::run(&Job::Latency(options.clone()))?;
    let found = outcome.read.quantiles.filter(|found| found.count > 0);
    let found = found.ok_or("no record was measured; measure for longer or at a higher rate")?;
    let micros = |nanos: u64| Value::Number(nanos as f64 / 1e3, 1);
    Ok(Report {
        what: "latency",
        fields: vec![
            ("record", Value::Count(options.path.record_bytes.into())),
            ("rate", Value::Count(options.rate.into())),
            ("p50_us", micros(found.p50)),
            ("p99_us", micros(found.p99)),
            ("p999_us", micros(found.p999)),
            ("max_us", micros(found.max)),
            ("driver", Value::Text(driver(options.path.local, options.path.driver))),
            ("io", Value::Text(outcome.io)),
            ("count", Value::Count(found.count)),
        ],
    })
}

/// What is told of a histogram, in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Quantiles {
    pub(crate) count: u64,
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) p999: u64,
    pub(crate) max: u64,
}

impl From<&Histogram<u64>> for Quantiles {
    fn from(histogram: &Histogram<u64>) -> Self {
        Self {
            count: histogram.len(),
            p50: histogram.value_at_quantile(0.5),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
            max: histogram.max(),
        }
    }
}

/// A histogram of nanoseconds with three digits.
pub(crate) fn histogram() -> Result<Histogram<u64>, AnyError> {
    Ok(Histogram::new_with_bounds(1, LONGEST, 3)?)
}

/// When latencies count: records that were due from one point of the monotonic clock until another.
#[derive(Debug)]
pub(crate) struct Window {
    from: AtomicU64,
    until: AtomicU64,
}

impl Default for Window {
    /// Never.
    fn default() -> Self {
        Self { from: AtomicU64::new(u64::MAX), until: AtomicU64::new(0) }
    }
}

impl Window {
    /// Set before it begins.
    pub(crate) fn set(&self, from: u64, until: u64) {
        // Relaxed: either order of the two is empty until both are set.
        self.until.store(until, Ordering::Relaxed);
        self.from.store(from, Ordering::Relaxed);
    }

    fn has(&self, time: u64) -> bool {
        time >= self.from.load(Ordering::Relaxed) && time < self.until.load(Ordering::Relaxed) // Relaxed: as above
    }

    /// Reads records whose number is the time at which they were due, until the channel has ended.
    pub(crate) fn consume(
        &self,
        gate: &mut InputGate,
        progress: &Progress,
    ) -> Result<(Totals, Quantiles), AnyError> {
        let mut histogram = histogram()?;
        let mut totals = Totals::default();
        while let Some(item) = &gate.next_blocking()? {
            let Item::Record(record) = item else {
                records::look(item, progress)?;
                continue;
            };
            let due = records::number(record.as_bytes());
            let now = clock::now();
            totals.add(due);
            // Records of bursts have 0, which is never in the window.
            if self.has(due) {
                histogram.saturating_record(now.saturating_sub(due).max(1));
            }
        }
        Ok((totals, Quantiles::from(&histogram)))
    }
}
