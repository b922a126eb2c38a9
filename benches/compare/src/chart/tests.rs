use super::draw;
use crate::report::tests::{report, two};
use std::path::Path;

#[test]
fn the_picture_has_names_medians_and_machine() {
    let file = std::env::temp_dir().join(format!("pirn-compare-{}.svg", std::process::id()));
    draw(&report(&two()), &file).unwrap();
    let picture = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    for text in ["raw", "tonic", "2.50", "1.20", "a processor, 2 cores, Linux 6", "CPU seconds per GB"] {
        assert!(picture.contains(text), "no {text} in {picture}");
    }
}

#[test]
fn one_peer_is_a_picture_too() {
    let file = std::env::temp_dir().join(format!("pirn-compare-one-{}.svg", std::process::id()));
    draw(&report(&two()[..1]), &file).unwrap();
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_file_that_cannot_be_written_is_told() {
    let error = draw(&report(&two()), Path::new("/no-such-folder/compare.svg")).unwrap_err();
    assert!(error.to_string().contains("/no-such-folder/compare.svg can't be drawn"), "{error}");
}
