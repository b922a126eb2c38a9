//! Pirn's own tasks. `cargo xtask mutants` shows that every memory ordering of the library is needed,
//! `cargo xtask instructions` that the inner loops got no longer.

#[path = "../../loom_tests/child.rs"]
mod child;
mod explore;
mod instructions;
mod mutants;
mod runner;
mod scan;
mod unseen;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask mutants [FILTER]... [--jobs N] [--list]

Weakens every sync! and check! of src/ in turn and expects a loom model to turn red.
  FILTER     only mutants whose name contains it
  --jobs N   models at a time (default: one a core)
  --list     print the mutants and the models that could catch them, and stop

cargo xtask instructions [--write]

Counts the instructions of the loops of benches/instructions.rs under valgrind, and fails where one takes over 5 % more
than benches/instructions.toml says.
  --write    write down what was counted

PIRN_LOOM_SECONDS limits the exploration of one model (default: 300 s for the models as they are,
10 times that run + 20 s for a mutant).";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let result = match arguments.next().as_deref() {
        Some("mutants") => mutants::Options::parse(arguments).and_then(|options| mutants::run(&options)),
        Some("instructions") => {
            instructions::Options::parse(arguments).and_then(|options| instructions::run(&options))
        }
        Some("--help" | "-h") => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Some(other) => Err(format!("unknown task {other}\n\n{USAGE}")),
        None => Err(USAGE.to_owned()),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}
