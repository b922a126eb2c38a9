//! The program, run as its users run it, in the size of a test: every peer once, for a moment.

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread;

/// Where the picture of one test goes.
fn picture(test: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.svg"))
}

fn compare(test: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pirn-compare"));
    command.args(["--launches", "1", "--seconds", "0.2", "--svg"]).arg(picture(test)).args(arguments);
    command.output().expect("the program can be started")
}

/// Runs one peer, and looks at what it says; a peer that can't run here has to say so.
fn peer(name: &str, record_bytes: &str) {
    let test = format!("{name}-{record_bytes}");
    let output = compare(&test, &["--json", "--only", name, "--record-bytes", record_bytes]);
    let told = String::from_utf8_lossy(&output.stderr);
    if told.contains(&format!("{name} is left out: no io_uring here")) {
        assert!(told.contains("none of these peers can run here"), "{told}");
        return;
    }
    assert!(output.status.success(), "{test}: {told}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON, and nothing else");
    let found = &report["peers"][0];
    assert_eq!(found["name"], name);
    assert!(found["launches"][0]["records"].as_u64() > Some(0), "{report}");
    assert!(found["gb_per_s"]["median"].as_f64() > Some(0.0), "{report}");
    assert!(found["cpu_s_per_gb"]["median"].as_f64() > Some(0.0), "{report}");
    assert!(std::fs::read_to_string(picture(&test)).expect("a picture").contains(name));
}

/// One after the other: they are to have the machine for themselves.
#[test]
fn every_peer_moves_records_of_usual_and_odd_lengths() {
    for name in ["raw", "raw-tuned", "tokio", "timely", "monoio", "tonic", "pirn-threads", "pirn-caller"] {
        for record_bytes in ["8", "100", "12345"] {
            peer(name, record_bytes);
        }
    }
}

#[test]
fn the_list_is_of_those_that_are_tried_here() {
    let output = Command::new(env!("CARGO_BIN_EXE_pirn-compare")).arg("--list").output().expect("it starts");
    let list = String::from_utf8(output.stdout).expect("text");
    let names: Vec<_> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let tried = ["raw", "raw-tuned", "tokio", "timely", "monoio", "tonic", "pirn-threads", "pirn-caller"];
    assert_eq!(names, tried);
}

/// Refuses io_uring to this thread and the processes that it starts.
fn refuse_io_uring() {
    const IO_URING_SETUP: i64 = 425;
    const EPERM: u32 = 1;
    let rules = BTreeMap::from([(IO_URING_SETUP, Vec::new())]);
    let arch = TargetArch::try_from(std::env::consts::ARCH).expect("a known architecture");
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(EPERM), arch);
    let program: BpfProgram = filter.and_then(TryInto::try_into).expect("a filter");
    apply_filter(&program).expect("filters are allowed");
}

#[test]
fn a_peer_that_cannot_run_here_is_left_out() {
    let run = || {
        refuse_io_uring();
        compare("refused", &["--json", "--only", "raw,monoio,pirn-threads"])
    };
    let output = thread::spawn(run).join().expect("a run");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert_eq!(told.matches("monoio is left out: no io_uring here").count(), 1, "{told}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["left_out"][0]["name"], "monoio");
    let names: Vec<_> =
        report["peers"].as_array().expect("a list").iter().map(|peer| &peer["name"]).collect();
    assert_eq!(names, ["raw", "pirn-threads"], "Pirn has another way");
}

#[test]
fn a_table_and_progress_go_to_their_places() {
    let output = compare("table", &["--only", "raw,tokio"]);
    let (table, progress) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{progress}");
    assert!(table.starts_with("| peer"), "{table}");
    assert_eq!(
        table.lines().filter(|line| line.starts_with("| raw") || line.starts_with("| tokio")).count(),
        2
    );
    assert!(table.contains("cargo run --release -p pirn-compare -- --launches 1"), "{table}");
    assert!(progress.contains("launch 1 of 1: tokio: "), "{progress}");
    assert!(!table.contains("launch 1 of 1"));
}

#[test]
fn wrong_arguments_are_told_and_nothing_runs() {
    let output = compare("wrong", &["--only", "raw,teleport"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no such peer"), "{output:?}");
    let output = compare("folder", &["--only", "raw", "--svg", "/no-such-folder/a.svg"]);
    assert!(!output.status.success());
}
