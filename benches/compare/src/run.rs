//! The whole run: all peers in turn, again and again, then what it gave.

use crate::chart;
use crate::common::AnyError;
use crate::launch::{self, Figures};
use crate::machine::{self, Machine};
use crate::options::Arguments;
use crate::peers::{self, Peer};
use crate::placement::Placement;
use crate::process::Job;
use crate::report::{LeftOut, Report};
use crate::statistics::Launches;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::Write;
use std::process::ExitCode;

/// A peer with what its launches gave.
pub(crate) struct Outcome {
    pub(crate) peer: &'static dyn Peer,
    pub(crate) launches: Launches,
    /// The errors of those that failed.
    pub(crate) failures: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, AnyError> {
    if arguments.list {
        return list();
    }
    if cfg!(debug_assertions) {
        eprintln!("this is built without --release: its figures say nothing");
    }
    let machine = Machine::this()?;
    let (mut outcomes, left_out) = usable(arguments.peers());
    if outcomes.is_empty() {
        return Err("none of these peers can run here".into());
    }
    launch_all(arguments, &mut outcomes)?;
    let failed = outcomes.iter().any(|outcome| !outcome.failures.is_empty());
    let report = Report::new(machine, arguments, &outcomes, left_out);
    if report.rows.iter().any(|row| row.gb_per_s.is_some()) {
        chart::draw(&report, &arguments.svg)?;
        eprintln!("the picture is in {}", arguments.svg.display());
    }
    let mut output = std::io::stdout().lock();
    if arguments.json {
        writeln!(output, "{:#}", report.json())?;
    } else {
        write!(output, "{report}")?;
    }
    output.flush()?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn list() -> Result<ExitCode, AnyError> {
    let mut output = std::io::stdout().lock();
    for peer in peers::ALL {
        let version = peer.package().and_then(machine::version).unwrap_or_default();
        writeln!(output, "{:13} {version:8} {}", peer.name(), peer.about())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The peers that can run here; those that can't are told.
fn usable(peers: Vec<&'static dyn Peer>) -> (Vec<Outcome>, Vec<LeftOut>) {
    let (mut outcomes, mut left_out) = (Vec::new(), Vec::new());
    for peer in peers {
        match peer.check() {
            Ok(()) => outcomes.push(Outcome { peer, launches: Vec::new(), failures: Vec::new() }),
            Err(error) => {
                eprintln!("{} is left out: {error}", peer.name());
                left_out.push(LeftOut { name: peer.name(), reason: error.to_string() });
            }
        }
    }
    (outcomes, left_out)
}

fn launch_all(arguments: &Arguments, outcomes: &mut [Outcome]) -> Result<(), AnyError> {
    let bar = ProgressBar::new(u64::from(arguments.launches) * outcomes.len() as u64)
        .with_style(ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}")?);
    for number in 1..=arguments.launches {
        for outcome in &mut *outcomes {
            let name = outcome.peer.name();
            bar.set_message(name);
            let job = Job {
                peer: name.to_owned(),
                record_bytes: arguments.record_bytes as usize,
                seconds: arguments.seconds,
            };
            let before = Placement::probe();
            let result = launch::launch(&job);
            let placement = Placement::between(before, Placement::probe());
            say(
                &bar,
                &format!("launch {number} of {}: {name}: {}", arguments.launches, told(placement, &result)),
            );
            match result {
                Ok(figures) => outcome.launches.push((placement, figures)),
                Err(error) => outcome.failures.push(error.to_string()),
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn told(placement: Placement, result: &Result<Figures, AnyError>) -> String {
    match result {
        Ok(Figures { gb_per_s, cpu_s_per_gb, .. }) => {
            format!("{gb_per_s:.2} GB/s, {cpu_s_per_gb:.2} CPU s/GB, placement {placement}")
        }
        Err(error) => format!("failed: {error}"),
    }
}

/// On standard error, above the bar if that is a terminal.
fn say(bar: &ProgressBar, line: &str) {
    bar.suspend(|| eprintln!("{line}"));
}
