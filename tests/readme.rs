//! The README tells the truth about the source.

#![allow(clippy::disallowed_types, reason = "a test of texts")]

/// The program in the README is the example, so that the one who runs the example has seen the program.
#[test]
fn the_program_in_the_readme_is_the_example() {
    let readme = include_str!("../README.md");
    let example = include_str!("../examples/embed.rs");
    let (_, program) = example.split_once("\n\n").expect("docs, an empty line, the program");
    assert!(readme.contains(program.trim_end()), "README.md and examples/embed.rs differ");
}
