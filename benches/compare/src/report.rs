//! What a run gave, as a table and as JSON.

use crate::launch::Figures;
use crate::machine::{self, Machine};
use crate::options::Arguments;
use crate::placement::Placement;
use crate::run::Outcome;
use crate::statistics::{self, Launches, Spread};
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;

/// The peer that the others are measured by.
const BASE: &str = "raw";

#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) record_bytes: u32,
    pub(crate) rows: Vec<Row>,
    /// The class of placement whose launches the medians are of; `None`: of all launches.
    pub(crate) placement: Option<Placement>,
    launches: u32,
    seconds: Duration,
    left_out: Vec<LeftOut>,
}

/// A peer.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) gb_per_s: Option<Spread>,
    pub(crate) cpu_s_per_gb: Option<Spread>,
    /// Medians in those of the base: GB/s, processor time.
    pub(crate) to_base: Option<(f64, f64)>,
    /// Launches that count.
    counted: usize,
    launches: Launches,
    failures: Vec<String>,
    about: &'static str,
    version: Option<&'static str>,
}

/// A peer that can't run here.
#[derive(Debug)]
pub(crate) struct LeftOut {
    pub(crate) name: &'static str,
    pub(crate) reason: String,
}

impl Report {
    pub(crate) fn new(
        machine: Machine,
        arguments: &Arguments,
        outcomes: &[Outcome],
        left_out: Vec<LeftOut>,
    ) -> Self {
        let launches: Vec<Launches> = outcomes.iter().map(|outcome| outcome.launches.clone()).collect();
        let placement = statistics::choose(&launches);
        let base = outcomes
            .iter()
            .find(|outcome| outcome.peer.name() == BASE)
            .and_then(|outcome| medians(&spreads(&outcome.launches, placement)));
        Self {
            machine,
            record_bytes: arguments.record_bytes,
            rows: outcomes.iter().map(|outcome| Row::new(outcome, placement, base)).collect(),
            placement,
            launches: arguments.launches,
            seconds: arguments.seconds,
            left_out,
        }
    }

    /// Which launches the medians are of.
    pub(crate) fn basis(&self) -> String {
        match self.placement {
            Some(class) => format!("medians of the launches in {class} placement, of {} each", self.launches),
            None => format!("medians of all launches, {} each, whatever their placement", self.launches),
        }
    }

    pub(crate) fn json(&self) -> Value {
        let left_out =
            self.left_out.iter().map(|LeftOut { name, reason }| json!({ "name": name, "reason": reason }));
        json!({
            "machine": self.machine,
            "record_bytes": self.record_bytes,
            "launches": self.launches,
            "seconds": self.seconds.as_secs_f64(),
            "placement": self.placement.map(|class| class.to_string()),
            "peers": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
            "left_out": left_out.collect::<Vec<_>>(),
        })
    }
}

impl Row {
    fn new(outcome: &Outcome, placement: Option<Placement>, base: Option<(f64, f64)>) -> Self {
        let spreads = spreads(&outcome.launches, placement);
        Self {
            name: outcome.peer.name(),
            gb_per_s: spreads.0,
            cpu_s_per_gb: spreads.1,
            to_base: medians(&spreads).zip(base).map(|(own, base)| (own.0 / base.0, own.1 / base.1)),
            counted: statistics::of(&outcome.launches, placement).count(),
            launches: outcome.launches.clone(),
            failures: outcome.failures.clone(),
            about: outcome.peer.about(),
            version: outcome.peer.package().and_then(machine::version),
        }
    }

    fn json(&self) -> Value {
        let spread = |spread: Option<Spread>| {
            spread.map(|s| json!({ "median": s.median, "least": s.least, "most": s.most }))
        };
        let launch = |(placement, figures): &(Placement, Figures)| {
            json!({
                "placement": placement.to_string(),
                "gb_per_s": figures.gb_per_s,
                "cpu_s_per_gb": figures.cpu_s_per_gb,
                "records": figures.records,
            })
        };
        json!({
            "name": self.name,
            "about": self.about,
            "version": self.version,
            "gb_per_s": spread(self.gb_per_s),
            "cpu_s_per_gb": spread(self.cpu_s_per_gb),
            "gb_per_s_to_raw": self.to_base.map(|ratio| ratio.0),
            "cpu_s_per_gb_to_raw": self.to_base.map(|ratio| ratio.1),
            "counted": self.counted,
            "launches": self.launches.iter().map(launch).collect::<Vec<_>>(),
            "failures": self.failures,
        })
    }
}

fn spreads(launches: &Launches, placement: Option<Placement>) -> (Option<Spread>, Option<Spread>) {
    let of = |value: fn(Figures) -> f64| Spread::of(statistics::of(launches, placement).map(value));
    (of(|figures| figures.gb_per_s), of(|figures| figures.cpu_s_per_gb))
}

fn medians(spreads: &(Option<Spread>, Option<Spread>)) -> Option<(f64, f64)> {
    Some((spreads.0?.median, spreads.1?.median))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN);
        table.set_header([
            "peer",
            "GB/s",
            "least to most",
            "x raw",
            "CPU s/GB",
            "least to most",
            "x raw",
            "launches",
        ]);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        for row in &self.rows {
            let median = |spread: Option<Spread>| spread.map_or("-".into(), |s| format!("{:.2}", s.median));
            let range = |spread: Option<Spread>| {
                spread.map_or("-".into(), |s| format!("{:.2} to {:.2}", s.least, s.most))
            };
            let ratio = |ratio: Option<f64>| ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"));
            table.add_row([
                row.version.map_or(row.name.into(), |version| format!("{} {version}", row.name)),
                median(row.gb_per_s),
                range(row.gb_per_s),
                ratio(row.to_base.map(|ratio| ratio.0)),
                median(row.cpu_s_per_gb),
                range(row.cpu_s_per_gb),
                ratio(row.to_base.map(|ratio| ratio.1)),
                row.counted.to_string(),
            ]);
        }
        writeln!(f, "{table}\n")?;
        writeln!(f, "Records of {} bytes; {}.", self.record_bytes, self.basis())?;
        let Machine { cpu, cores, kernel, command } = &self.machine;
        writeln!(f, "{cpu}, {cores} cores, {kernel}: `{command}`")?;
        for LeftOut { name, reason } in &self.left_out {
            writeln!(f, "Left out: {name}: {reason}")?;
        }
        for row in &self.rows {
            for error in &row.failures {
                writeln!(f, "FAILED: {}: {error}", row.name)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
