use super::{Figures, figures, same};
use crate::process::{Measured, Sample};
use crate::work::Totals;

fn measured(from: (u64, u64, u64), until: (u64, u64, u64)) -> Measured {
    let sample = |(at, records, processor)| Sample { at, records, processor };
    Measured { begin: sample(from), end: sample(until) }
}

#[test]
fn figures_are_of_the_stretch_alone() {
    let made = measured((0, 0, 5_000_000_000), (0, 0, 6_000_000_000));
    let read = measured((1_000_000_000, 1_000_000, 100), (3_000_000_000, 41_000_000, 1_000_000_100));
    let found = figures(100, &made, &read, 50_000_000).unwrap();
    assert_eq!(found, Figures { gb_per_s: 2.0, cpu_s_per_gb: 0.5, records: 50_000_000 });
}

#[test]
fn a_stretch_without_records_is_an_error() {
    let still = measured((1, 7, 0), (2, 7, 9));
    assert!(figures(100, &still, &still, 7).unwrap_err().to_string().contains("no record came"));
}

#[test]
fn a_record_too_few_or_another_one_is_an_error() {
    let all = Totals { records: 10, sum: 45 };
    assert_eq!(same(all, all).unwrap(), all);
    assert!(same(all, Totals { records: 9, ..all }).is_err());
    let error = same(all, Totals { sum: 44, ..all }).unwrap_err().to_string();
    assert!(error.contains("sum: 45") && error.contains("sum: 44"), "{error}");
}
