use super::{LeftOut, Report};
use crate::launch::Figures;
use crate::machine::Machine;
use crate::options::Arguments;
use crate::peers;
use crate::placement::Placement::{self, Far, Near};
use crate::run::Outcome;
use clap::Parser;

fn outcome(name: &str, launches: &[(Placement, f64, f64)], failures: &[&str]) -> Outcome {
    let peer = *peers::ALL.iter().find(|peer| peer.name() == name).unwrap();
    let figures = |gb_per_s, cpu_s_per_gb| Figures { gb_per_s, cpu_s_per_gb, records: 7 };
    Outcome {
        peer,
        launches: launches.iter().map(|(class, gb, cpu)| (*class, figures(*gb, *cpu))).collect(),
        failures: failures.iter().map(|error| (*error).to_owned()).collect(),
    }
}

pub(crate) fn report(outcomes: &[Outcome]) -> Report {
    let machine = Machine {
        cpu: "a processor".into(),
        cores: 2,
        kernel: "Linux 6".into(),
        command: "the command".into(),
    };
    let arguments = Arguments::parse_from(["pirn-compare", "--launches", "4"]);
    let left_out = vec![LeftOut { name: "monoio", reason: "no io_uring".into() }];
    Report::new(machine, &arguments, outcomes, left_out)
}

pub(crate) fn two() -> [Outcome; 2] {
    [
        outcome("raw", &[(Near, 2.0, 0.5), (Near, 2.5, 0.6), (Near, 3.0, 0.4), (Far, 1.0, 1.0)], &[]),
        outcome("tonic", &[(Near, 1.0, 2.0), (Near, 1.2, 1.0), (Near, 1.25, 1.0)], &["it broke"]),
    ]
}

#[test]
fn the_table_has_medians_spreads_and_ratios_of_one_class() {
    let text = report(&two()).to_string();
    let cells = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("| {name}"))).unwrap();
        line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(cells("raw"), ["raw", "2.50", "2.00 to 3.00", "1.00", "0.50", "0.40 to 0.60", "1.00", "3"]);
    assert_eq!(cells("tonic")[1..], ["1.20", "1.00 to 1.25", "0.48", "1.00", "1.00 to 2.00", "2.00", "3"]);
    assert!(text.contains("Records of 100 bytes; medians of the launches in near placement, of 4 each."));
    assert!(text.contains("a processor, 2 cores, Linux 6: `the command`"));
    assert!(text.contains("Left out: monoio: no io_uring\n"));
    assert!(text.contains("FAILED: tonic: it broke\n"));
}

#[test]
fn without_the_base_there_is_no_ratio() {
    let [_, tonic] = two();
    let report = report(&[tonic]);
    assert_eq!(report.rows[0].to_base, None);
    assert!(report.to_string().contains(" - "));
}

#[test]
fn a_peer_that_always_failed_has_no_figures() {
    let [raw, _] = two();
    let report = report(&[raw, outcome("tonic", &[], &["it broke"])]);
    assert_eq!(report.placement, None, "no class has enough launches of every peer");
    assert_eq!((report.rows[1].gb_per_s, report.rows[1].to_base), (None, None));
    assert!(report.rows[0].gb_per_s.is_some());
    assert!(report.to_string().contains("medians of all launches, 4 each"));
}

#[test]
fn json_has_every_launch() {
    let json = report(&two()).json();
    assert_eq!(json["placement"], "near");
    assert_eq!(json["machine"]["kernel"], "Linux 6");
    assert_eq!(json["peers"][0]["gb_per_s"]["most"], 3.0);
    assert_eq!(json["peers"][0]["counted"], 3);
    assert_eq!(json["peers"][0]["launches"].as_array().map(Vec::len), Some(4));
    assert_eq!(json["peers"][0]["launches"][3]["placement"], "far");
    assert_eq!(json["peers"][1]["gb_per_s_to_raw"], 0.48);
    assert_eq!(json["peers"][1]["failures"][0], "it broke");
    assert_eq!(json["left_out"][0]["name"], "monoio");
}
