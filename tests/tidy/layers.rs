//! Modules import from lower layers only, and never in a circle.

use crate::source::{File, PathUse, library, paths};
use crate::{expect_none, expect_one};
use std::collections::{BTreeMap, BTreeSet};

/// Every top-level module and its layer. A new module takes its place here first.
const LAYERS: &[(&str, u8)] = &[
    // What all else is made of.
    ("sync", 0),
    ("id", 0),
    ("clock", 0),
    ("event", 0),
    ("error", 0),
    ("config", 0),
    ("metrics", 0),
    // How far tests go; compiled for them alone.
    ("test_size", 0),
    // What the simulation can switch off; in what ships a condition.
    ("rules", 0),
    // Bytes and bells.
    ("memory", 1),
    ("record", 1),
    ("wire", 1),
    ("doorbell", 1),
    // What a task hands to a network thread, and the other way.
    ("subpartition", 2),
    ("inbox", 2),
    // Decisions without I/O, and the I/O.
    ("protocol", 3),
    ("store", 3),
    ("control", 3),
    ("transport", 3),
    ("partition", 4),
    ("net", 5),
    // The public handles.
    ("writer", 6),
    ("gate", 6),
    ("worker", 7),
    ("agent", 7),
    ("cache", 7),
    // Drives all of it; compiled for tests alone.
    ("sim", 8),
];

/// The only imports between modules of one layer.
const SIBLINGS: &[(&str, &str)] = &[
    ("error", "id"),
    ("config", "error"),
    ("config", "id"),
    ("metrics", "clock"),
    ("metrics", "id"),
    ("metrics", "sync"),
    ("clock", "sync"),
    // A remote channel says and yields what a subpartition does.
    ("inbox", "subpartition"),
    // The layout of a partition's records is a part of a bind.
    ("wire", "record"),
];

/// The crate's face re-exports from everywhere, the models drive everything.
const FREE: &[&str] = &["lib", "model"];

fn layer(module: &str) -> Option<u8> {
    LAYERS.iter().find(|(name, _)| *name == module).map(|(_, layer)| *layer)
}

/// The top-level module that a path goes to, if it leaves the module of its file by name.
fn target<'a>(path: &'a PathUse, module: &[&str]) -> Option<&'a str> {
    let segments: Vec<&str> = path.segments.iter().map(String::as_str).collect();
    match segments.as_slice() {
        ["crate", next, ..] => Some(next),
        ["super", ..] => {
            let up = segments.iter().take_while(|segment| **segment == "super").count();
            // Inside of an inline module this may be a name of the file's own module; only names of
            // modules count.
            let next = segments.get(up).filter(|_| up >= module.len())?;
            layer(next).map(|_| *next)
        }
        _ => None,
    }
}

fn check(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        let module = file.module();
        let own = *module.first().unwrap_or(&"lib");
        if FREE.contains(&own) {
            continue;
        }
        let Some(own_layer) = layer(own) else {
            problems.push(file.problem(1, &format!("the module {own} has no layer in tests/tidy/layers.rs")));
            continue;
        };
        for path in paths(&file.tokens()) {
            let Some(to) = target(&path, &module) else { continue };
            if to == own {
                continue;
            }
            imports.entry(own.to_owned()).or_default().insert(to.to_owned());
            let allowed = match layer(to) {
                Some(to_layer) => to_layer < own_layer || SIBLINGS.contains(&(own, to)),
                None => false,
            };
            if !allowed {
                let what = match layer(to) {
                    Some(to_layer) => format!("{own} (L{own_layer}) must not import {to} (L{to_layer})"),
                    None => format!("crate::{to} is no module: import it from the module that owns it"),
                };
                problems.push(file.problem(path.line, &what));
            }
        }
    }
    problems.extend(circle(&imports));
    problems
}

/// One circle of imports, if there is any: modules that import nothing unvisited are taken away in turn.
fn circle(imports: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
    let mut left = imports.clone();
    loop {
        let stuck: BTreeSet<String> = left.keys().cloned().collect();
        left.retain(|_, to| to.iter().any(|to| stuck.contains(to)));
        if left.is_empty() {
            return None;
        }
        if left.len() == stuck.len() {
            return Some(format!("these modules import each other in a circle: {stuck:?}"));
        }
    }
}

#[test]
fn imports_go_down() {
    expect_none(check(&library()));
}

#[test]
fn the_rule_of_layers_can_fail() {
    let check_one = |path: &str, text: &str| check(&[File::sample(path, text)]);
    assert_eq!(check_one("src/memory/pool.rs", "use crate::{sync::lock, id::X}; use super::Arena;"), [""; 0]);
    assert_eq!(check_one("src/lib.rs", "pub use crate::gate::Gate;"), [""; 0]);
    let up = check_one("src/memory/pool.rs", "use crate::sync::lock;\nuse crate::{id::X, gate::Gate};");
    expect_one(&up, "src/memory/pool.rs:2: memory (L1) must not import gate (L6)");
    let beside = check_one("src/record/mod.rs", "fn f() { crate::memory::take() }");
    expect_one(&beside, "record (L1) must not import memory (L1)");
    let by_super = check_one("src/memory/pool.rs", "use super::super::partition::Manager;");
    expect_one(&by_super, "must not import partition");
    let through_the_face = check_one("src/gate/mod.rs", "use crate::Attempt;");
    expect_one(&through_the_face, "crate::Attempt is no module");
    expect_one(&check_one("src/novel.rs", ""), "the module novel has no layer");
}

#[test]
fn the_search_for_circles_can_fail() {
    let graph = |edges: &[(&str, &str)]| {
        let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in edges {
            graph.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        circle(&graph)
    };
    assert_eq!(graph(&[("a", "b"), ("b", "c"), ("a", "c")]), None);
    assert!(graph(&[("a", "b"), ("b", "c"), ("c", "b")]).is_some());
    assert_eq!(graph(SIBLINGS), None);
}
