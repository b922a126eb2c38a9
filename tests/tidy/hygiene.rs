//! Sizes, leftovers, and manifests that say why.

use crate::source::{File, file, files, group_end, matches_at};
use crate::{expect_none, expect_one};

const LINES_MAX: usize = 500;

/// Files that may be longer: `(path, reason)`.
const LONG_FILES: &[(&str, &str)] = &[];

const FOLDERS: &[&str] = &["src", "tests", "benches", "examples", "loom_tests", "xtask"];

fn code() -> Vec<File> {
    FOLDERS.iter().flat_map(|folder| files(folder, "rs")).collect()
}

fn sizes(files: &[File], allowed: &[(&str, &str)]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files {
        let lines = file.text.lines().count();
        let allowed = allowed.iter().any(|(path, _)| *path == file.path);
        if lines > LINES_MAX && !allowed {
            problems
                .push(format!("{}: {lines} lines; over {LINES_MAX} it does two things: split it", file.path));
        }
        if lines <= LINES_MAX && allowed {
            problems.push(format!("{}: {lines} lines: take it off the list of long files", file.path));
        }
    }
    for (path, _) in allowed {
        if !files.iter().any(|file| file.path == *path) {
            problems.push(format!("{path} is on the list of long files, but there is no such file"));
        }
    }
    problems
}

fn leftovers(file: &File) -> Vec<String> {
    let tokens = file.tokens();
    let mut problems = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        for name in ["todo", "unimplemented", "dbg"] {
            if token.text == name && matches_at(&tokens, at + 1, "! (") {
                problems.push(file.problem(token.line, &format!("{name}! left over")));
            }
        }
        if matches_at(&tokens, at, "# [") || matches_at(&tokens, at, "# ! [") {
            let open = at + 1 + usize::from(tokens[at + 1].text == "!");
            problems.extend(attribute(file, &tokens[open..group_end(&tokens, open)]));
        }
    }
    problems
}

/// The problems of one attribute, brackets included.
fn attribute(file: &File, tokens: &[crate::source::Token]) -> Vec<String> {
    let mut problems = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if token.text == "ignore" {
            problems.push(file.problem(token.line, "a test that doesn't run proves nothing"));
        }
        if ["allow", "expect"].contains(&token.text.as_str()) && matches_at(tokens, at + 1, "(") {
            let inner = &tokens[at + 1..group_end(tokens, at + 1)];
            if !inner.iter().any(|token| token.text == "reason") {
                problems.push(file.problem(token.line, &format!("#[{}] without a reason", token.text)));
            }
        }
    }
    problems
}

fn notes(file: &File) -> Vec<String> {
    // Written apart, so that this file doesn't find itself.
    let words = [concat!("TO", "DO"), concat!("FIX", "ME")];
    let mut problems = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        for word in words.iter().filter(|word| line.contains(**word)) {
            problems.push(file.problem(at + 1, &format!("{word}: finish it or leave it out")));
        }
    }
    problems
}

/// Every line that opens a dependency stands below a comment that says what it is for.
fn manifest(file: &File) -> Vec<String> {
    let mut problems = Vec::new();
    let (mut dependencies, mut before, mut open) = (false, "", 0_usize);
    for (at, line) in file.text.lines().enumerate() {
        if let Some(table) = line.strip_prefix('[') {
            dependencies = table.contains("dependencies");
        } else if dependencies
            && open == 0
            && line.contains('=')
            && !line.starts_with('#')
            && !before.starts_with('#')
        {
            problems.push(file.problem(at + 1, &format!("no comment says why: {line}")));
        }
        if !line.starts_with('#') {
            // A list over several lines isn't a line of its own.
            open += line.matches(['[', '{']).count();
            open -= line.matches([']', '}']).count();
        }
        before = line;
    }
    problems
}

fn length(file: &File, most: usize) -> Vec<String> {
    let lines = file.text.lines().count();
    if lines > most { vec![format!("{}: {lines} lines, at most {most}", file.path)] } else { Vec::new() }
}

#[test]
fn files_do_one_thing() {
    expect_none(sizes(&code(), LONG_FILES));
}

#[test]
fn the_rule_of_sizes_can_fail() {
    let long = [File::sample("src/a.rs", &"\n".repeat(501))];
    let short = [File::sample("src/a.rs", &"\n".repeat(500))];
    let listed = [("src/a.rs", "a table")];
    assert_eq!(sizes(&short, &[]), [""; 0]);
    assert_eq!(sizes(&long, &listed), [""; 0]);
    expect_one(&sizes(&long, &[]), "src/a.rs: 501 lines");
    expect_one(&sizes(&short, &listed), "take it off");
    expect_one(&sizes(&[], &listed), "no such file");
}

#[test]
fn nothing_is_left_over() {
    expect_none(code().iter().flat_map(leftovers).collect());
}

#[test]
fn the_rule_of_leftovers_can_fail() {
    let check = |text: &str| leftovers(&File::sample("src/a.rs", text));
    let fine = "#[allow(dead_code, reason = \"x\")] #[test] fn f() { a.expect(\"b\"); } // todo!() #[ignore]";
    assert_eq!(check(fine), [""; 0]);
    expect_one(&check("fn f() {\n todo!() }"), "src/a.rs:2: todo!");
    expect_one(&check("fn f() { dbg!(x); }"), "dbg!");
    expect_one(&check("fn f() { unimplemented!(\"x\") }"), "unimplemented!");
    expect_one(&check("#[test] #[ignore = \"slow\"] fn f() {}"), "proves nothing");
    expect_one(&check("#[allow(dead_code)] fn f() {}"), "#[allow] without a reason");
    expect_one(&check("#![allow(dead_code)]"), "#[allow] without a reason");
    expect_one(&check("#[cfg_attr(test, expect(dead_code))] fn f() {}"), "#[expect] without a reason");
}

#[test]
fn no_notes_to_self() {
    let documents = files("docs", "md");
    let top = ["README.md", "CONTRIBUTING.md", "Cargo.toml"].map(file);
    expect_none(code().iter().chain(&documents).chain(&top).flat_map(notes).collect());
}

#[test]
fn the_rule_of_notes_can_fail() {
    let sample = File::sample("src/a.rs", concat!("fn f() {}\n// TO", "DO later\n"));
    expect_one(&notes(&sample), "src/a.rs:2: ");
    assert_eq!(notes(&File::sample("src/a.rs", "// nothing to do")), [""; 0]);
}

#[test]
fn every_dependency_has_its_reason() {
    let manifests = ["Cargo.toml", "xtask/Cargo.toml", "benches/compare/Cargo.toml"];
    expect_none(manifests.map(file).iter().flat_map(manifest).collect());
}

#[test]
fn the_rule_of_reasons_can_fail() {
    let check = |text: &str| manifest(&File::sample("Cargo.toml", text));
    let fine = "[package]\nname = \"a\"\n[dependencies]\n# Bytes.\nb = { version = \"1\", features = [\n  \"x\",\n  \"y=z\",\n] }\n";
    assert_eq!(check(fine), [""; 0]);
    expect_one(&check("[dependencies]\n# Bytes.\nb = \"1\"\nc = \"2\"\n"), "Cargo.toml:4: no comment");
    expect_one(&check("[target.'cfg(not(loom))'.dev-dependencies]\nb = \"1\"\n"), "Cargo.toml:2");
}

#[test]
fn the_first_pages_are_short() {
    let pages = [(file("README.md"), 250), (file("CONTRIBUTING.md"), 150)];
    expect_none(pages.iter().flat_map(|(page, most)| length(page, *most)).collect());
}

#[test]
fn the_rule_of_short_pages_can_fail() {
    let page = File::sample("README.md", &"x\n".repeat(4));
    assert_eq!(length(&page, 4), [""; 0]);
    expect_one(&length(&page, 3), "README.md: 4 lines, at most 3");
}
