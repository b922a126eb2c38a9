//! What may stand in some modules only: `unsafe`, the primitives of synchronisation, clocks, `cfg(loom)`.

use crate::source::{File, PathUse, group_end, library, matches_at, paths};
use crate::{expect_none, expect_one};

/// The modules that may hold `unsafe`. The models drive their methods.
const UNSAFE_ROOMS: &[&str] =
    &["sync", "memory", "doorbell", "subpartition", "inbox", "transport", "model", "lib"];

/// Names that come from `crate::sync` everywhere else, or a model would not see them.
const PRIMITIVES: &[&str] = &[
    "std::sync::atomic",
    "std::sync::Mutex",
    "std::sync::MutexGuard",
    "std::sync::Condvar",
    "std::sync::RwLock",
    "std::sync::Barrier",
    "std::sync::mpsc",
    "std::cell::UnsafeCell",
    "std::thread",
    "loom",
    "crossbeam_queue",
    "crossbeam_utils::CachePadded",
];

/// Calls that read a clock or wait for one: time is passed in.
const CLOCKS: &[&str] = &["Instant::now", "SystemTime::now", "thread::sleep"];

/// The one file that reads the clock, and the one that waits for other processors, which no clock tells of.
const CLOCK_FILES: &[&str] = &["src/clock.rs", "src/sync/asymmetric.rs"];

/// Where the two builds may differ.
const LOOM_FILES: &[&str] = &["src/sync/", "src/model/", "src/memory/backing.rs", "src/lib.rs"];

fn room(file: &File) -> &str {
    file.module().first().copied().unwrap_or("lib")
}

fn unsafe_rooms(file: &File) -> Vec<String> {
    if UNSAFE_ROOMS.contains(&room(file)) {
        return Vec::new();
    }
    let tokens = file.tokens();
    let mut problems: Vec<String> = tokens
        .iter()
        .filter(|token| token.text == "unsafe")
        .map(|token| file.problem(token.line, &format!("{} is no room for unsafe", room(file))))
        .collect();
    let forbids = (0..tokens.len()).any(|at| matches_at(&tokens, at, "# ! [ forbid ( unsafe_code ) ]"));
    if file.module().len() == 1 && !forbids {
        problems.push(file.problem(1, "the module lacks #![forbid(unsafe_code)]"));
    }
    problems
}

fn primitives(file: &File) -> Vec<String> {
    if ["sync", "model"].contains(&room(file)) || file.is_tests() {
        return Vec::new();
    }
    let mut problems = Vec::new();
    for path in paths(&file.tokens()) {
        let path = with_std(path);
        // `cfg(loom)` is no path.
        let qualified = path.segments.len() > 1;
        let named = PRIMITIVES.iter().find(|primitive| qualified && path.starts_with(primitive));
        if named == Some(&"std::thread") && room(file) == "worker" {
            continue;
        }
        let whole = ["std::sync", "std::cell"].iter().any(|module| {
            path.starts_with(module)
                && matches!(path.segments[2..].first().map(String::as_str), None | Some("self" | "*"))
        });
        if let Some(name) = named {
            problems.push(file.problem(path.line, &format!("{name} is named in crate::sync only")));
        } else if whole {
            let name = path.segments.join("::");
            problems.push(file.problem(path.line, &format!("{name} as a whole hides what is taken from it")));
        }
    }
    problems
}

/// `core` and `alloc` are `std` by another name.
fn with_std(mut path: PathUse) -> PathUse {
    if matches!(path.segments[0].as_str(), "core" | "alloc") {
        "std".clone_into(&mut path.segments[0]);
    }
    path
}

fn clocks(file: &File) -> Vec<String> {
    if CLOCK_FILES.contains(&file.path.as_str()) || file.is_tests() {
        return Vec::new();
    }
    let mut problems = Vec::new();
    for path in paths(&file.tokens()) {
        if let Some(call) = CLOCKS.iter().find(|call| path.ends_with(call)) {
            problems
                .push(file.problem(path.line, &format!("{call}: time is passed in, src/clock.rs reads it")));
        }
    }
    problems
}

fn builds(file: &File) -> Vec<String> {
    if LOOM_FILES.iter().any(|place| file.path.starts_with(place)) {
        return Vec::new();
    }
    let tokens = file.tokens();
    let mut problems = Vec::new();
    for at in 0..tokens.len() {
        let open = match tokens[at].text.as_str() {
            "cfg" | "cfg_attr" if at + 1 < tokens.len() => at + 1 + usize::from(tokens[at + 1].text == "!"),
            _ => continue,
        };
        if !matches_at(&tokens, open, "(") {
            continue;
        }
        let inner = &tokens[open..group_end(&tokens, open)];
        let special = inner.iter().any(|token| ["loom", "pirn_tsan"].contains(&token.text.as_str()));
        // How unit tests stay out of a build in which the primitives only work inside of a model.
        if special && !matches_at(&tokens, at, "cfg ( all ( test , not ( loom ) ) )") {
            problems.push(file.problem(tokens[at].line, "only sync and its like know which build this is"));
        }
    }
    problems
}

fn over(files: &[File], check: impl Fn(&File) -> Vec<String>) -> Vec<String> {
    files.iter().flat_map(check).collect()
}

#[test]
fn unsafe_stands_in_its_rooms() {
    expect_none(over(&library(), unsafe_rooms));
}

#[test]
fn the_rule_of_unsafe_can_fail() {
    let check = |path: &str, text: &str| unsafe_rooms(&File::sample(path, text));
    assert_eq!(check("src/gate/mod.rs", "#![forbid(unsafe_code)] // unsafe"), [""; 0]);
    assert_eq!(check("src/gate/fair.rs", "/// unsafe\nfn f() {}"), [""; 0]);
    assert_eq!(check("src/memory/pool.rs", "fn f() { unsafe { g() } }"), [""; 0]);
    expect_one(&check("src/gate/fair.rs", "fn f() {\n unsafe { g() } }"), "fair.rs:2: gate is no room");
    expect_one(&check("src/gate/mod.rs", "mod fair;"), "lacks #![forbid(unsafe_code)]");
    expect_one(&check("src/id.rs", "// #![forbid(unsafe_code)]"), "lacks #![forbid(unsafe_code)]");
}

#[test]
fn primitives_come_from_sync() {
    expect_none(over(&library(), primitives));
}

#[test]
fn the_rule_of_primitives_can_fail() {
    let check = |path: &str, text: &str| primitives(&File::sample(path, text));
    assert_eq!(
        check("src/gate/mod.rs", "use crate::sync::{AtomicU32, thread}; use std::sync::Arc;"),
        [""; 0]
    );
    assert_eq!(check("src/worker/mod.rs", "use std::thread;"), [""; 0]);
    assert_eq!(check("src/sync/mod.rs", "use std::sync::Mutex;"), [""; 0]);
    assert_eq!(check("src/gate/tests.rs", "use std::thread;"), [""; 0]);
    for (text, part) in [
        ("use std::{\n fmt, sync::{Arc, Mutex}};", "std::sync::Mutex"),
        ("use core::sync::atomic::AtomicU8;", "std::sync::atomic"),
        ("fn f(x: std::cell::UnsafeCell<u8>) {}", "std::cell::UnsafeCell"),
        ("use loom::thread;", "loom"),
        ("fn f() { std::thread::spawn(g); }", "std::thread"),
        ("use crossbeam_queue::ArrayQueue;", "crossbeam_queue"),
        ("use std::sync as s;", "std::sync as a whole"),
        ("use std::sync::{self};", "std::sync::self as a whole"),
        ("use std::cell::*;", "std::cell::* as a whole"),
    ] {
        expect_one(&check("src/gate/mod.rs", text), part);
    }
    expect_one(&check("src/worker/mod.rs", "use std::sync::RwLock;"), "std::sync::RwLock");
}

#[test]
fn time_is_passed_in() {
    expect_none(over(&library(), clocks));
}

#[test]
fn the_rule_of_clocks_can_fail() {
    let check = |path: &str, text: &str| clocks(&File::sample(path, text));
    assert_eq!(check("src/clock.rs", "fn now() { Instant::now() }"), [""; 0]);
    assert_eq!(check("src/gate/mod.rs", "fn f(now: Instant) { now.elapsed_since(x); }"), [""; 0]);
    expect_one(&check("src/gate/mod.rs", "fn f() { std::time::Instant::now(); }"), "Instant::now");
    expect_one(&check("src/gate/mod.rs", "fn f() { SystemTime::now(); }"), "SystemTime::now");
    expect_one(&check("src/gate/mod.rs", "fn f() { thread::sleep(x); }"), "thread::sleep");
}

#[test]
fn one_algorithm_for_both_builds() {
    expect_none(over(&library(), builds));
}

#[test]
fn the_rule_of_builds_can_fail() {
    let check = |path: &str, text: &str| builds(&File::sample(path, text));
    assert_eq!(check("src/memory/backing.rs", "#[cfg(loom)] fn f() {}"), [""; 0]);
    assert_eq!(check("src/memory/pool.rs", "#[cfg(all(test, not(loom)))] mod tests;"), [""; 0]);
    assert_eq!(check("src/memory/pool.rs", "#[cfg(test)] fn loom() {}"), [""; 0]);
    for text in
        ["#[cfg(not(loom))] fn f() {}", "#[cfg_attr(loom, inline)] fn f() {}", "fn f() { cfg!(loom); }"]
    {
        expect_one(&check("src/memory/pool.rs", text), "only sync and its like");
    }
    expect_one(&check("src/gate/mod.rs", "#[cfg(pirn_tsan)] fn f() {}"), "only sync and its like");
}
