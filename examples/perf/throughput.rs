//! `perf throughput`: what comes of a run in which producers write as fast as they can.

use crate::common::AnyError;
use crate::options::{Driver, Throughput};
use crate::plane::Counters;
use crate::report::{Report, Value};
use crate::run::{self, Job, Outcome};

/// The payload that calls of the system are counted by.
const STRETCH_BYTES: f64 = 65_536.0;

pub(crate) fn measure(options: &Throughput) -> Result<Report, AnyError> {
    let outcome = run::run(&Job::Throughput(options.clone()))?;
    let Some(consumers) = outcome.processes.last() else { return Err("nothing was measured".into()) };
    let seconds = (consumers.end.at - consumers.begin.at) as f64 / 1e9;
    let records = (consumers.end.records - consumers.begin.records) as f64;
    if records == 0.0 {
        return Err("no record was read in the time of the measurement; measure for longer".into());
    }
    let bytes = records * f64::from(options.path.record_bytes);
    let processor: u64 =
        outcome.processes.iter().map(|process| process.end.processor - process.begin.processor).sum();
    let network = network(&outcome);
    let count =
        |of: fn(&Counters) -> u64| network.map_or(Value::Unknown, |network| Value::Count(of(&network)));
    let enters = network.map_or(Value::Unknown, |network| {
        Value::Number((network.enters + network.wakes) as f64 * STRETCH_BYTES / bytes, 3)
    });
    Ok(Report {
        what: "throughput",
        fields: vec![
            ("record", Value::Count(options.path.record_bytes.into())),
            ("P", Value::Count(options.producers.into())),
            ("C", Value::Count(options.consumers.into())),
            ("rec_per_s", Value::Number(records / seconds, 0)),
            ("gb_per_s", Value::Number(bytes / seconds / 1e9, 4)),
            ("cpu_s_per_gb", Value::Number(processor as f64 / bytes, 4)),
            ("io", Value::Text(outcome.io)),
            ("driver", Value::Text(driver(options.path.local, options.path.driver))),
            ("zc_sends", count(|network| network.zero_copy_sends)),
            ("zc_copied", count(|network| network.zero_copy_copied)),
            ("enters_per_64k", enters),
        ],
    })
}

/// Who turned the network, in a word.
pub(crate) fn driver(local: bool, driver: Driver) -> String {
    match (local, driver) {
        (true, _) => "local",
        (false, Driver::Threads) => "threads",
        (false, Driver::Caller) => "caller",
    }
    .into()
}

/// What the networks of all processes did in the time that counts.
fn network(outcome: &Outcome) -> Option<Counters> {
    outcome.processes.iter().try_fold(Counters::default(), |sum, process| {
        let (from, to) = (process.begin.network?, process.end.network?);
        let add = |of: fn(&Counters) -> u64| of(&sum) + of(&to) - of(&from);
        Some(Counters {
            enters: add(|counters| counters.enters),
            wakes: add(|counters| counters.wakes),
            zero_copy_sends: add(|counters| counters.zero_copy_sends),
            zero_copy_copied: add(|counters| counters.zero_copy_copied),
        })
    })
}
