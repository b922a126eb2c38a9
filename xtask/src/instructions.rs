//! The task: how many instructions a round of each inner loop takes, and whether that is what it was.
//!
//! Time can't be compared between machines that others use, too; instructions can. Each loop runs twice under callgrind,
//! once for more rounds than the other time: the difference is what those rounds took, and what the process does else
//! falls out.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A round may take so much more than is written down.
const TOLERANCE: f64 = 1.05;

/// Rounds of the shorter run; the longer has twice as many.
const ROUNDS: u64 = 20_000;

const WRITTEN_DOWN: &str = "benches/instructions.toml";

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    write: bool,
}

impl Options {
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { write: false };
        for argument in arguments {
            match argument.as_str() {
                "--write" => options.write = true,
                other => return Err(format!("unknown argument {other}")),
            }
        }
        Ok(options)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    instructions: BTreeMap<String, f64>,
}

/// Whether no loop takes more than is written down for it.
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    let root = crate::root();
    let bench = build(&root)?;
    let mut counted = BTreeMap::new();
    for name in loops(&bench)? {
        let (few, many) = (count(&bench, &name, ROUNDS)?, count(&bench, &name, ROUNDS * 2)?);
        counted.insert(name, many.saturating_sub(few) as f64 / ROUNDS as f64);
    }
    let path = root.join(WRITTEN_DOWN);
    if options.write {
        std::fs::write(&path, text_of(&counted)).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let known: File = toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let lines = compare(&counted, &known.instructions);
    lines.iter().for_each(|line| println!("{}", line.text));
    Ok(lines.iter().all(|line| line.holds))
}

/// The bench's executable.
fn build(root: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let output = Command::new(cargo)
        .args(["bench", "--locked", "--package", "pirn", "--bench", "instructions", "--no-run"])
        .args(["--message-format", "json-render-diagnostics"])
        .env_remove("RUSTFLAGS")
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo can't be run: {error}"))?;
    if !output.status.success() {
        return Err("the bench doesn't compile".to_owned());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    crate::runner::executable(&messages, "instructions").ok_or("cargo built no bench".to_owned())
}

fn loops(bench: &Path) -> Result<Vec<String>, String> {
    let output = Command::new(bench).arg("--list").output();
    let output = output.map_err(|error| format!("{}: {error}", bench.display()))?;
    if !output.status.success() {
        return Err(format!("--list: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// All instructions of a process that goes round so often.
fn count(bench: &Path, name: &str, rounds: u64) -> Result<u64, String> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(bench)
        .args([name, &rounds.to_string()])
        .output()
        .map_err(|error| format!("valgrind can't be run ({error}): install the package valgrind"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{name}: {told}"));
    }
    collected(&told).ok_or_else(|| format!("{name}: callgrind told no count: {told}"))
}

fn collected(told: &str) -> Option<u64> {
    told.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok())
}

/// What there is to say of one loop.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    text: String,
    holds: bool,
}

fn compare(counted: &BTreeMap<String, f64>, known: &BTreeMap<String, f64>) -> Vec<Line> {
    let mut lines: Vec<_> = counted
        .iter()
        .map(|(name, now)| {
            let (verdict, holds) = match known.get(name) {
                None => ("isn't written down: `--write`".to_owned(), false),
                Some(then) if *now > then * TOLERANCE => (format!("MORE than {then:.1}"), false),
                Some(then) if *now * TOLERANCE < *then => (format!("fewer than {then:.1}: `--write`"), true),
                Some(then) => (format!("of {then:.1}"), true),
            };
            Line { text: format!("{name:<60} {now:>8.1} {verdict}"), holds }
        })
        .collect();
    let gone = known.keys().filter(|name| !counted.contains_key(*name));
    lines.extend(gone.map(|name| Line { text: format!("{name:<60} isn't counted any more"), holds: false }));
    lines
}

fn text_of(counted: &BTreeMap<String, f64>) -> String {
    let mut text = "# Instructions for one round of each loop of benches/instructions.rs, by callgrind: written by\n\
                    # `cargo xtask instructions --write`, compared by `cargo xtask instructions`.\n\n[instructions]\n"
        .to_owned();
    for (name, count) in counted {
        text += &format!("{name:?} = {count:.1}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(of: &[(&str, f64)]) -> BTreeMap<String, f64> {
        of.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn more_than_is_written_down_does_not_hold() {
        let known = table(&[("a", 100.0), ("b", 100.0), ("c", 100.0), ("gone", 1.0)]);
        let lines = compare(&table(&[("a", 104.9), ("b", 105.1), ("c", 50.0), ("new", 1.0)]), &known);
        let verdicts: Vec<_> = lines.iter().map(|line| line.holds).collect();
        assert_eq!(verdicts, [true, false, true, false, false], "{lines:?}");
        assert!(lines[1].text.contains("MORE than 100.0") && lines[2].text.contains("fewer"), "{lines:?}");
    }

    #[test]
    fn the_count_is_found_among_what_callgrind_says() {
        assert_eq!(collected("==1== Events    : Ir\n==1== Collected : 405648\n==1==\n"), Some(405_648));
        assert_eq!(collected("==1== nothing"), None);
    }

    #[test]
    fn what_is_written_is_read() {
        let counted = table(&[("a \"b\"", 12.5), ("c", 3.0)]);
        let read: File = toml::from_str(&text_of(&counted)).unwrap();
        assert_eq!(read.instructions, counted);
    }

    #[test]
    fn unknown_arguments_are_named() {
        assert_eq!(Options::parse(["--write".to_owned()].into_iter()), Ok(Options { write: true }));
        assert_eq!(Options::parse(["-x".to_owned()].into_iter()), Err("unknown argument -x".to_owned()));
    }
}
