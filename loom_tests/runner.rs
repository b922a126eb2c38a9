//! Choosing models by name, running them as children, and telling what came out.

use crate::child::{self, Outcome, Verdict};
use pirn::model::{self, Model};
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Children at a time: each explores on one core.
const AT_A_TIME: usize = 2;
const SECONDS: u64 = 300;
/// Above any model of ours that ends; loom's own default of 1,000 is below some.
const BRANCHES: usize = 100_000;
/// A usage or environment error, apart from the 101 of a panic.
const MISUSE: u8 = 2;

enum Wish {
    /// One line a model: its name, a tab, its edges.
    List,
    /// Explore this model in this process.
    One(String),
    /// Run the models whose names contain one of these, or all of them.
    Run(Vec<String>),
}

pub(crate) fn main() -> ExitCode {
    match dispatch() {
        Ok(code) => code,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(MISUSE)
        }
    }
}

fn dispatch() -> Result<ExitCode, String> {
    let models = model::all();
    let mut names = BTreeSet::new();
    if let Some(twice) = models.iter().find(|model| !names.insert(model.name)) {
        return Err(format!("two models are named {}", twice.name));
    }
    match parse(std::env::args().skip(1))? {
        Wish::List => {
            for model in models {
                println!("{}\t{}", model.name, model.edges.join(" "));
            }
            Ok(ExitCode::SUCCESS)
        }
        Wish::One(name) => {
            let model = models.iter().find(|model| model.name == name);
            explore(model.ok_or_else(|| format!("no model is named {name}"))?)
        }
        Wish::Run(filters) => run(&select(models, &filters)?),
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Wish, String> {
    let mut filters = Vec::new();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--list" => return Ok(Wish::List),
            "--one" => return arguments.next().map(Wish::One).ok_or("--one needs a name".to_owned()),
            // What cargo and people hand to libtest; output and order are this runner's own.
            "-q" | "--quiet" | "--nocapture" | "--no-capture" | "--show-output" | "--test" => {}
            "--test-threads" | "--color" | "--format" => {
                arguments.next();
            }
            flag if flag.starts_with("--test-threads=") || flag.starts_with("--color=") => {}
            flag if flag.starts_with('-') => return Err(format!("unknown argument {flag}")),
            _ => filters.push(argument),
        }
    }
    Ok(Wish::Run(filters))
}

fn select(models: Vec<Model>, filters: &[String]) -> Result<Vec<Model>, String> {
    if let Some(filter) =
        filters.iter().find(|filter| !models.iter().any(|model| model.name.contains(filter.as_str())))
    {
        return Err(format!("no model's name contains {filter}"));
    }
    let wanted = |model: &Model| filters.iter().any(|filter| model.name.contains(filter.as_str()));
    Ok(models.into_iter().filter(|model| filters.is_empty() || wanted(model)).collect())
}

/// The child's side: every interleaving of one model, then the report. A violation panics.
fn explore(model: &Model) -> Result<ExitCode, String> {
    model::mutant()?;
    static INTERLEAVINGS: AtomicU64 = AtomicU64::new(0);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = model.preemptions;
    builder.max_branches = BRANCHES;
    // Loom takes these from the environment and then calls a part of the exploration the whole.
    builder.max_permutations = None;
    builder.max_duration = None;
    builder.checkpoint_file = None;
    let body = model.body;
    builder.check(move || {
        INTERLEAVINGS.fetch_add(1, Ordering::Relaxed);
        body();
    });
    let interleavings = INTERLEAVINGS.load(Ordering::Relaxed);
    println!("{} {interleavings} {}", child::REPORT, model::reached().join(" "));
    Ok(ExitCode::SUCCESS)
}

/// The parent's side.
fn run(models: &[Model]) -> Result<ExitCode, String> {
    let runner = std::env::current_exe().map_err(|error| format!("where am I? {error}"))?;
    let limit = Duration::from_secs(seconds()?);
    let mutant = model::mutant()?;
    let (next, passed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || -> std::io::Result<()> {
        while let Some(model) = models.get(next.fetch_add(1, Ordering::Relaxed)) {
            // The child inherits PIRN_MUTANT.
            let outcome = child::explore(&runner, model.name, None, limit)?;
            if tell(model, &outcome, mutant.as_deref()) {
                passed.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers = [(); AT_A_TIME].map(|()| scope.spawn(work));
        let ends = workers.map(|worker| worker.join().expect("a worker doesn't panic"));
        ends.into_iter().collect::<std::io::Result<()>>()
    })
    .map_err(|error| format!("a model can't be run: {error}"))?;
    let passed = passed.into_inner();
    println!("\n{passed} passed, {} failed", models.len() - passed);
    Ok(if passed == models.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn seconds() -> Result<u64, String> {
    match std::env::var("PIRN_LOOM_SECONDS") {
        Ok(text) => text.parse().map_err(|_| format!("PIRN_LOOM_SECONDS: {text} is no number of seconds")),
        Err(_) => Ok(SECONDS),
    }
}

/// One line, and the output below it where something is wrong. Whether the model passed.
fn tell(model: &Model, outcome: &Outcome, mutant: Option<&str>) -> bool {
    const TAIL: usize = 60;
    let problem = match &outcome.verdict {
        Verdict::Green { interleavings: 0 | 1, .. } => {
            "FAILED: one interleaving: nothing runs concurrently".to_owned()
        }
        Verdict::Green { interleavings, sites } => {
            let unreached = mutant.filter(|mutant| !sites.iter().any(|site| site == mutant));
            let note = unreached.map(|site| format!("  ({site} not reached)")).unwrap_or_default();
            let seconds = outcome.elapsed.as_secs_f64();
            println!("{:<64} {interleavings:>9} interleavings {seconds:>7.2} s{note}", model.name);
            return true;
        }
        Verdict::Red(reason) => format!("FAILED: {reason}"),
        Verdict::Undecided(reason) => format!("FAILED, undecided: {reason}"),
        Verdict::Broken(reason) => format!("FAILED, not run: {reason}"),
    };
    let lines: Vec<&str> = outcome.output.lines().collect();
    let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n    ");
    let seconds = outcome.elapsed.as_secs_f64();
    println!("{:<64} {problem} ({seconds:.2} s)\n    {tail}", model.name);
    false
}
