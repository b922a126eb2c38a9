//! Every ordering above `Relaxed` is one end of a named edge, and every edge is documented.

use crate::scan::{self, Site};
use crate::source::{File, file, files, library, matches_at, root};
use crate::{expect_none, expect_one};
use std::collections::BTreeSet;

/// The facade itself: it names orderings to give them out.
const FACADE: &[&str] = &["src/sync/mod.rs", "src/sync/mutant.rs"];

const STRONG: &[&str] = &["Acquire", "Release", "AcqRel", "SeqCst"];

fn literals(file: &File) -> Vec<String> {
    if FACADE.contains(&file.path.as_str()) || file.is_tests() {
        return Vec::new();
    }
    let tokens = file.tokens();
    let mut problems = Vec::new();
    for at in 0..tokens.len() {
        if !matches_at(&tokens, at, "Ordering : :") || at + 3 == tokens.len() {
            continue;
        }
        let name = tokens[at + 3].text.as_str();
        if STRONG.contains(&name) {
            let problem = format!("Ordering::{name} outside of sync!(ID.site, {name})");
            problems.push(file.problem(tokens[at].line, &problem));
        } else if ["*", "{"].contains(&name) {
            problems.push(
                file.problem(tokens[at].line, "import Ordering whole, so that orderings are read as such"),
            );
        }
    }
    problems
}

/// Full fences, and the two sides of an asymmetric one.
const FENCES: &[&str] = &["fence", "fence_light", "fence_heavy"];

/// Loom takes a `SeqCst` access for `AcqRel` and can't check it; a `SeqCst` fence it can.
fn seq_cst(file: &File) -> Vec<String> {
    if FACADE.contains(&file.path.as_str()) || file.is_tests() {
        return Vec::new();
    }
    let tokens = file.tokens();
    let mut problems = Vec::new();
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.text == "SeqCst") {
        // fence ( sync ! ( ID . site , SeqCst ) )
        let fence = at >= 9
            && FENCES.contains(&tokens[at - 9].text.as_str())
            && matches_at(&tokens, at - 8, "( sync ! (")
            && matches_at(&tokens, at, "SeqCst ) )");
        if !fence {
            problems.push(file.problem(token.line, "SeqCst is for fence(sync!(ID.site, SeqCst)) only"));
        }
    }
    problems
}

/// The first cell of a row and the row, of every table row whose first cell is code.
fn rows(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| Some((line.strip_prefix("| `")?.split_once('`')?.0, line)))
}

/// What stands between backticks.
fn code(row: &str) -> impl Iterator<Item = &str> {
    row.split('`').skip(1).step_by(2)
}

fn documented(sites: &[Site], document: &File, models: &BTreeSet<String>) -> Vec<String> {
    let mut problems = Vec::new();
    for site in sites {
        match rows(&document.text).find(|(edge, _)| *edge == site.edge) {
            None => problems.push(format!("{}: {} has no row in {}", site.place, site.edge, document.path)),
            Some((_, row)) if !code(row).any(|code| code == site.name) => {
                let problem = format!("{}: the row of {} lacks `{}`", site.place, site.edge, site.name);
                problems.push(problem);
            }
            Some(_) => {}
        }
    }
    for (edge, row) in rows(&document.text) {
        if !sites.iter().any(|site| site.edge == edge) {
            problems.push(format!("{}: the source has no edge {edge}", document.path));
        }
        let mut named = code(row).filter(|code| models.contains(*code));
        if named.next().is_none() {
            problems.push(format!("{}: the row of {edge} names no model", document.path));
        }
    }
    problems
}

/// The names in `Model { name: "...", .. }`.
pub(crate) fn model_names(files: &[File]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in files {
        let tokens = file.tokens();
        for at in 0..tokens.len().saturating_sub(2) {
            if matches_at(&tokens, at, "name :") {
                names.insert(tokens[at + 2].text.trim_matches('"').to_owned());
            }
        }
    }
    names
}

/// A model of another crate's queue, compiled for loom only: its orderings are that crate's, and weakening
/// them would prove nothing about ours.
const MODELLED: &str = "src/sync/queue_model.rs";

#[test]
fn strong_orderings_are_named_ends_of_edges() {
    expect_none(library().iter().filter(|file| file.path != MODELLED).flat_map(literals).collect());
}

#[test]
fn the_rule_of_literals_can_fail() {
    let check = |path: &str, text: &str| literals(&File::sample(path, text));
    assert_eq!(check("src/gate/mod.rs", "fn f() { a.load(Ordering::Relaxed); }"), [""; 0]);
    assert_eq!(check("src/gate/mod.rs", "fn f() { a.load(sync!(A_E1.a, Acquire)); }"), [""; 0]);
    assert_eq!(check("src/gate/mod.rs", "fn f() { a.cmp(b) == std::cmp::Ordering::Less }"), [""; 0]);
    let acquire = check("src/gate/mod.rs", "fn f() {\n a.load(Ordering::Acquire); }");
    expect_one(&acquire, "src/gate/mod.rs:2: Ordering::Acquire outside of sync!");
    expect_one(&check("src/sync/waker.rs", "fn f() { fence(Ordering::SeqCst); }"), "Ordering::SeqCst");
    expect_one(&check("src/gate/mod.rs", "use crate::sync::Ordering::*;"), "import Ordering whole");
}

#[test]
fn seq_cst_is_for_fences() {
    expect_none(library().iter().flat_map(seq_cst).collect());
}

#[test]
fn the_rule_of_seq_cst_can_fail() {
    let check = |text: &str| seq_cst(&File::sample("src/gate/mod.rs", text));
    assert_eq!(check("fn f() { fence(sync!(A_F1.a, SeqCst)); } // SeqCst"), [""; 0]);
    assert_eq!(check("fn f() { fence_light(sync!(A_F1.a, SeqCst)); }"), [""; 0]);
    expect_one(&check("fn f() { fenced(sync!(A_F1.a, SeqCst)); }"), "SeqCst is for");
    expect_one(&check("fn f() { a.load(sync!(A_E1.a, SeqCst)); }"), "SeqCst is for");
    expect_one(&check("fn f() { fence(SeqCst); }"), "SeqCst is for");
}

#[test]
fn every_edge_has_its_row_with_sites_and_model() {
    let sites = scan::sources(&root().join("src")).expect("the source's sites");
    assert!(!sites.is_empty(), "no site found in the source");
    let models = model_names(&files("loom_tests", "rs"));
    expect_none(documented(&sites, &file("docs/MEMORY_MODEL.md"), &models));
}

#[test]
fn the_rule_of_rows_can_fail() {
    let sites =
        scan::text_sites("a.rs", "fn f() { sync!(A_E1.a, Release); sync!(A_E1.b, Acquire); }").unwrap();
    let sample = r#"const MODELS: &[Model] = &[Model { name: "a::holds", edges: &["A_E1"] }];"#;
    let models = model_names(&[File::sample("loom_tests/a.rs", sample)]);
    let check = |row: &str| documented(&sites, &File::sample("docs/M.md", row), &models);
    let whole = "| `A_E1` | `A_E1.a` in `f` | `A_E1.b` in `f` | x | y | `a::holds` |";
    assert_eq!(check(&format!("| id | release |\n|---|---|\n{whole}\n")), [""; 0]);
    expect_one(&check(&whole.replace("`A_E1.b`", "`A_E1.c`")), "the row of A_E1 lacks `A_E1.b`");
    expect_one(&check(&whole.replace("a::holds", "a::held")), "names no model");
    expect_one(&check(&format!("{whole}\n{}", whole.replace("| `A_E1` |", "| `B_E1` |"))), "no edge B_E1");
    assert_eq!(check("").len(), 2, "a site without a row");
}
