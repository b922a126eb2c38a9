use super::Arguments;
use clap::Parser;
use std::time::Duration;

fn parse(arguments: &[&str]) -> Result<Arguments, String> {
    let line = ["pirn-compare"].iter().chain(arguments);
    Arguments::try_parse_from(line).map_err(|error| error.to_string())
}

fn names(arguments: &[&str]) -> Vec<&'static str> {
    parse(arguments).unwrap().peers().iter().map(|peer| peer.name()).collect()
}

/// The error of wrong arguments must say `part`.
fn refused(arguments: &[&str], part: &str) {
    let error = parse(arguments).expect_err("these are wrong");
    assert!(error.contains(part), "{arguments:?}: {error}");
}

#[test]
fn without_arguments_all_peers_run() {
    let arguments = parse(&[]).unwrap();
    assert_eq!((arguments.launches, arguments.record_bytes), (7, 100));
    assert_eq!(arguments.seconds, Duration::from_secs(2));
    assert_eq!(arguments.svg.to_str(), Some("compare.svg"));
    assert!(!arguments.json);
    let all: Vec<_> = crate::peers::ALL.iter().map(|peer| peer.name()).collect();
    assert_eq!(names(&[]), all);
}

#[test]
fn names_choose_peers_in_the_order_of_the_table() {
    assert_eq!(names(&["--only", "pirn-caller,raw"]), ["raw", "pirn-caller"]);
    assert_eq!(names(&["--only", "tokio", "--only", "raw"]), ["raw", "tokio"]);
    assert_eq!(names(&["--only", "pirn"]), ["pirn-threads", "pirn-caller"]);
    assert_eq!(names(&["--only", "raw"]), ["raw"], "the name of one peer stands for no other");
    assert_eq!(names(&["--only", "raw,raw"]), ["raw"]);
}

#[test]
fn wrong_arguments_are_told() {
    refused(&["--only", "toki"], "there is no such peer; there are: raw,");
    refused(&["--only", ""], "there is no such peer");
    refused(&["--seconds", "0"], "above 0 and at most 600");
    refused(&["--seconds", "NaN"], "above 0 and at most 600");
    refused(&["--seconds", "601"], "above 0 and at most 600");
    refused(&["--launches", "0"], "0 is not in 1..=1000");
    refused(&["--record-bytes", "7"], "7 is not in 8..=1048576");
    refused(&["--record-bytes", "many"], "invalid digit");
    refused(&["--lunches", "3"], "unexpected argument");
}
