//! The main job as a whole program, where the kernel refuses what it would rather use.
//!
//! A filter on system calls belongs to a thread and is inherited by the processes that it starts, and theirs.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test of processes")]

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output};

/// The program, which cargo builds beside the tests.
fn wordcount() -> Command {
    let mut folder: PathBuf = std::env::current_exe().unwrap();
    assert!(folder.pop() && folder.pop(), "target/PROFILE/deps/TEST");
    let program = folder.join("examples/wordcount");
    assert!(program.exists(), "{} isn't built: `cargo build --examples`", program.display());
    let mut command = Command::new(program);
    command.args(["README.md", "docs/PROTOCOL.md", "docs/ARCHITECTURE.md"]);
    command
}

/// What becomes of `command` where `call` is answered with `errno`.
fn refused(call: i64, errno: i32, mut command: Command) -> Output {
    let starter = std::thread::spawn(move || {
        let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
        let action = SeccompAction::Errno(errno.unsigned_abs());
        let rules = BTreeMap::from([(call, Vec::new())]);
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch).unwrap();
        apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
        command.output().unwrap()
    });
    starter.join().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn counts_right(call: i64, errno: i32) {
    let output = refused(call, errno, wordcount());
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("all sums are right"), "{}", text(&output));
}

#[test]
fn words_are_counted_where_a_ring_may_not_be_set_up() {
    counts_right(libc::SYS_io_uring_setup, libc::EPERM);
}

#[test]
fn words_are_counted_where_a_ring_may_not_be_entered() {
    counts_right(libc::SYS_io_uring_enter, libc::EPERM);
}

#[test]
fn words_are_counted_where_the_kernel_knows_no_ring() {
    counts_right(libc::SYS_io_uring_setup, libc::ENOSYS);
}

/// The fences of the quiet protocol are plain ones there.
#[test]
fn words_are_counted_where_the_kernel_has_no_membarrier() {
    counts_right(libc::SYS_membarrier, libc::ENOSYS);
}

#[test]
fn who_insists_on_a_ring_is_told_what_to_do() {
    let mut command = wordcount();
    command.args(["--io", "uring"]);
    let output = refused(libc::SYS_io_uring_setup, libc::EPERM, command);
    assert!(!output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("Io::Epoll"), "{}", text(&output));
}
