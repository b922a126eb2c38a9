//! `docs/PROTOCOL.md` names every rule once, and tests that there are.

use super::*;

const PAGE: &str = include_str!("../../../docs/PROTOCOL.md");

/// Where the tests of rules stand.
const TESTS: [&str; 11] = [
    include_str!("handshake.rs"),
    include_str!("incoming.rs"),
    include_str!("outgoing.rs"),
    include_str!("session.rs"),
    include_str!("simulation/mod.rs"),
    include_str!("../../wire/tests/hostile.rs"),
    include_str!("../../wire/tests/round_trip.rs"),
    include_str!("../../net/tests/share.rs"),
    include_str!("../../worker/control/tests/garbage.rs"),
    include_str!("../../worker/tests/hostile/endings.rs"),
    include_str!("../../worker/tests/hostile/unread.rs"),
];

/// The problems of a page: rules without a row or with several, rows without tests, names of no test.
fn problems(page: &str, tests: &[&str], last: Rule) -> Vec<String> {
    let mut problems = Vec::new();
    for number in 1..=last.0 {
        let rows = page.lines().filter(|line| line.starts_with(&format!("| P-{number} |"))).count();
        if rows != 1 {
            problems.push(format!("P-{number} has {rows} rows"));
        }
    }
    for row in page.lines().filter(|line| line.starts_with("| P-")) {
        let cell = row.trim_end_matches('|').rsplit('|').next().unwrap_or("");
        let names: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            problems.push(format!("no test: {row}"));
        }
        for name in names {
            if !tests.iter().any(|file| file.contains(&format!("fn {name}("))) {
                problems.push(format!("there is no test {name}"));
            }
        }
    }
    problems
}

#[test]
fn every_rule_is_told_and_tested() {
    assert_eq!(problems(PAGE, &TESTS, Rule::LAST), [""; 0]);
    // And no more of them than errors can name.
    assert!(!PAGE.contains(&format!("| P-{} |", Rule::LAST.0 + 1)));
}

#[test]
fn the_search_for_rules_can_fail() {
    let tests = ["fn one() {}"];
    let check = |page| problems(page, &tests, Rule(1));
    assert_eq!(check("| P-1 | x | `one` |"), [""; 0]);
    assert_eq!(check("| P-1 | x | `two` |"), ["there is no test two"]);
    assert_eq!(check("| P-1 | x | |"), ["no test: | P-1 | x | |"]);
    assert_eq!(check("| P-2 | x | `one` |"), ["P-1 has 0 rows"]);
}

/// The numbers of the page are those of the code.
#[test]
fn limits_are_told_as_they_are() {
    let told = [
        (format!("{RUNS_MAX} runs, {ACKS_MAX}"), "runs and acknowledgements"),
        (format!("payload of a DATA {} KiB", PAYLOAD_BYTES_MAX / 1024), "payload"),
        (format!("at least {} KiB", PAYLOAD_BYTES_MIN / 1024), "least payload"),
        (format!("other bodies {} KiB", MESSAGE_BYTES_MAX / 1024), "bodies"),
        (format!("{BIND_COUNT_MAX} subpartitions in a BIND"), "range"),
        (format!("{EVENTS_MAX} events and {} KiB of", EVENT_BYTES_MAX / 1024), "events"),
        (format!("{VIOLATIONS_MAX} errors about streams"), "errors"),
        (format!("acknowledgements of {ACK_BYTES} bytes"), "acknowledgement"),
        (format!("runs of {RUN_BYTES} bytes"), "run"),
        ("65,536 streams".to_owned(), "streams"),
    ];
    assert_eq!(STREAMS_MAX, 65_536);
    for (text, what) in told {
        assert!(PAGE.contains(&text), "{what}: {text}");
    }
    for kind in Kind::ALL {
        assert!(PAGE.contains(&format!("| {} | {} |", kind as u8, kind.name())), "{kind:?}");
    }
}
