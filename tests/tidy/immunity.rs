//! `docs/IMMUNITY.md`: no number of the checklist is missing, and every test, model and type that it names exists.

use crate::edges::model_names;
use crate::source::{File, file, files, library, matches_at};
use crate::{expect_none, expect_one};
use std::collections::BTreeSet;

const PAGE: &str = "docs/IMMUNITY.md";

/// Behind this line nothing is named: what is there waits to be built.
const NOT_YET: &str = "## Not yet";

/// Scenarios of exchanges, and reports about io_uring, that concern the data path. Numbers between them were taken
/// back.
const SCENARIOS: &[u32] = &[
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 17, 19, 20, 21, 22, 24, 25, 26, 27, 29, 30, 31, 32, 33,
    34, 35, 36, 37, 39, 40, 41, 42, 43, 44, 46,
];
const REPORTS: &[u32] = &[
    1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 23, 24, 25, 26, 27, 29, 30, 31,
    32, 34, 36, 37, 38, 39, 40, 41, 42, 43, 46, 47, 48, 49, 50, 52, 53, 54, 55, 56, 57, 58, 59, 61, 62, 63,
];

/// All numbers that have to stand somewhere on the page.
fn checklist() -> BTreeSet<String> {
    let lists = [("A1-", 30), ("A3-", 20), ("A4-", 1), ("B-", 12)];
    let counted = lists.iter().flat_map(|(list, last)| (1..=*last).map(move |at| format!("{list}{at}")));
    let scenarios = SCENARIOS.iter().map(|at| format!("E{at}"));
    counted.chain(scenarios).chain(REPORTS.iter().map(|at| format!("U{at}"))).collect()
}

/// What a row can name: functions of tests, also as `file::function`, types, and models.
struct Names(BTreeSet<String>);

impl Names {
    fn of(library: &[File], tests: &[File], models: BTreeSet<String>) -> Self {
        let mut names = Self(models);
        for file in library {
            let is_tests = file.is_tests() || file.path.starts_with("src/sim/");
            names.add(file, is_tests);
        }
        for file in tests {
            names.add(file, true);
        }
        names
    }

    /// Of files with tests among other things only the functions that are marked as tests.
    fn add(&mut self, file: &File, is_tests: bool) {
        let tokens = file.tokens();
        let stem = file.module().last().map(|stem| (*stem).to_owned()).unwrap_or_default();
        let mut is_marked = false;
        for (at, token) in tokens.iter().enumerate() {
            let Some(name) = tokens.get(at + 1).filter(|name| name.is_word()) else { continue };
            match token.text.as_str() {
                "#" => is_marked = false,
                "fn" if is_tests || is_marked => {
                    self.0.insert(name.text.clone());
                    self.0.insert(format!("{stem}::{}", name.text));
                    is_marked = false;
                }
                "struct" | "enum" | "trait" => drop(self.0.insert(name.text.clone())),
                _ => {}
            }
            is_marked |= matches_at(&tokens, at, "[ test ]");
        }
    }
}

fn problems(page: &File, names: &Names, mut wanted: BTreeSet<String>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut is_kept = true;
    for (line, text) in (1..).zip(page.text.lines()) {
        is_kept &= text != NOT_YET;
        let Some(row) = text.strip_prefix("| ") else { continue };
        let cells: Vec<_> = row.trim_end_matches(" |").split(" | ").collect();
        let [number, _, kept_by] = cells[..] else { continue };
        if number.is_empty() || number == "|" {
            continue;
        }
        if !wanted.remove(number) {
            problems.push(page.problem(line, &format!("{number} comes twice, or isn't on the list")));
        }
        let named: Vec<_> = kept_by.split('`').skip(1).step_by(2).collect();
        if is_kept && named.is_empty() {
            problems.push(page.problem(line, &format!("{number} names neither a test nor a type")));
        }
        for name in named.iter().filter(|name| is_kept && !names.0.contains(**name)) {
            problems.push(page.problem(line, &format!("{number}: there is no {name}")));
        }
    }
    problems.extend(wanted.iter().map(|number| page.problem(1, &format!("{number} is missing"))));
    problems
}

#[test]
fn every_fault_has_what_keeps_it_away() {
    let models = model_names(&files("loom_tests", "rs"));
    let names = Names::of(&library(), &files("tests", "rs"), models);
    expect_none(problems(&file(PAGE), &names, checklist()));
}

#[test]
fn the_rule_of_faults_can_fail() {
    let library = [
        File::sample("src/ring/mod.rs", "struct Ring; fn shipped() {} #[test] fn inline() {} fn other() {}"),
        File::sample("src/ring/tests/all.rs", "fn case() {}"),
    ];
    let tests = [File::sample("tests/kills/case.rs", "fn run() {}")];
    let models = BTreeSet::from(["ring::model".to_owned()]);
    let names = Names::of(&library, &tests, models);
    let check = |rows: &str| {
        let wanted = ["E1", "E2"].map(str::to_owned).into();
        problems(&File::sample(PAGE, &format!("| | what | kept by |\n|---|---|---|\n{rows}")), &names, wanted)
    };
    let whole = "| E1 | a | `Ring`, `inline`, `case`, `case::run` |\n| E2 | b | `ring::model` |\n";
    assert_eq!(check(whole), [""; 0]);
    expect_one(&check(&whole.replace("`inline`", "`shipped`")), "E1: there is no shipped");
    expect_one(&check(&whole.replace("`inline`", "`other`")), "E1: there is no other");
    expect_one(&check(&whole.replace("ring::model", "ring::muddle")), "E2: there is no ring::muddle");
    expect_one(&check(&whole.replace("`ring::model`", "nothing")), "E2 names neither a test nor a type");
    expect_one(&check("| E1 | a | `Ring` |\n"), "E2 is missing");
    expect_one(&check(&format!("{whole}| E2 | again | `Ring` |\n")), "E2 comes twice");
    expect_one(&check(&format!("{whole}| E9 | more | `Ring` |\n")), "E9 comes twice, or isn't on the list");
    let later = format!("| E1 | a | `Ring` |\n{NOT_YET}\n\n| | what | waits for |\n| E2 | b | `nothing` |\n");
    assert_eq!(check(&later), [""; 0]);
}
