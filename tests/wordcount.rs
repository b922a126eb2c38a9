//! The main job as a whole program, where the kernel refuses what it would rather use.
//!
//! A filter on system calls belongs to a thread and is inherited by the processes that it starts, and theirs.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test of processes")]

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

/// What a worker says that falls back to epoll.
const REFUSED: &str = "io_uring is refused";

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

/// Each of the three processes has one line that contains all of `said`, and no other.
fn counts_right(call: i64, errno: i32, said: &[&str]) {
    let output = refused(call, errno, wordcount());
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("all sums are right"), "{text}");
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(" WARN ")).collect();
    let expected = if said.is_empty() || cfg!(not(feature = "tracing")) { 0 } else { 3 };
    assert_eq!(lines.len(), expected, "{text}");
    assert!(lines.iter().all(|line| said.iter().all(|said| line.contains(said))), "{said:?}: {text}");
}

#[test]
fn words_are_counted_where_a_ring_may_not_be_set_up() {
    counts_right(libc::SYS_io_uring_setup, libc::EPERM, &[REFUSED, "io_uring_setup", "errno=1 "]);
}

#[test]
fn words_are_counted_where_a_ring_may_not_be_entered() {
    counts_right(libc::SYS_io_uring_enter, libc::EPERM, &[REFUSED, "NOP", "errno=1 "]);
}

#[test]
fn words_are_counted_where_the_kernel_knows_no_ring() {
    counts_right(libc::SYS_io_uring_setup, libc::ENOSYS, &[REFUSED, "io_uring_setup", "errno=38 "]);
}

/// The fences of the quiet protocol are plain ones there.
#[test]
fn words_are_counted_where_the_kernel_has_no_membarrier() {
    counts_right(libc::SYS_membarrier, libc::ENOSYS, &[]);
}

#[test]
fn who_insists_on_a_ring_is_told_what_to_do() {
    let mut command = wordcount();
    command.args(["--io", "uring"]);
    let output = refused(libc::SYS_io_uring_setup, libc::EPERM, command);
    assert!(!output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("Io::Epoll"), "{}", text(&output));
}

/// A folder that everybody may enter, with the program and a text: other users don't reach those of the one who built
/// them. Goes with the test.
struct Everybodys(PathBuf);

impl Everybodys {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("pirn-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        let made = Self(folder);
        std::fs::copy(wordcount().get_program(), made.program()).unwrap();
        // Enough for sends of every size; no word is whole in every piece that is sent.
        let words: String = (0..400_000).map(|word| format!("word-{} ", word % 7001)).collect();
        std::fs::write(made.text(), words).unwrap();
        made
    }

    fn program(&self) -> PathBuf {
        self.0.join("wordcount")
    }

    fn text(&self) -> PathBuf {
        self.0.join("text")
    }

    /// What becomes of the program where a user's processes may lock `bytes` of memory; as an ordinary user, if this
    /// one may become one: root isn't held to the limit.
    fn with_locked_memory(&self, bytes: u64, zero_copy: &str) -> Output {
        let mut command = Command::new("setpriv");
        if rustix::process::geteuid().is_root() {
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
            command.args(["--inh-caps=-all", "--bounding-set=-ipc_lock"]);
        } else {
            println!("not tried: only root may become another user");
        }
        command.args(["prlimit", &format!("--memlock={bytes}:{bytes}")]);
        command.arg(self.program()).args(["--zero-copy", zero_copy]).arg(self.text());
        command.current_dir(&self.0).output().expect("setpriv and prlimit come with util-linux")
    }
}

impl Drop for Everybodys {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}

/// The arena is not registered there, and each of the three processes says once how much is missing.
#[test]
fn words_are_counted_where_little_memory_may_be_locked() {
    let folder = Everybodys::new("locked-memory");
    for bytes in [64 << 10, 8 << 20] {
        for zero_copy in ["always", "auto"] {
            let output = folder.with_locked_memory(bytes, zero_copy);
            let text = text(&output);
            assert!(output.status.success(), "{text}");
            assert!(text.contains("all sums are right"), "{text}");
            let lines: Vec<&str> = text.lines().filter(|line| line.contains("RLIMIT_MEMLOCK")).collect();
            let limit = format!("(RLIMIT_MEMLOCK) is {bytes} bytes, raise it by ");
            assert!(lines.iter().all(|line| line.contains(&limit)), "{text}");
            // On one machine the kernel is asked to take bytes from where they lie only if that is insisted on.
            let expected = if cfg!(feature = "tracing") && zero_copy == "always" { 3 } else { 0 };
            assert!(lines.len() == expected || (zero_copy == "auto" && lines.len() <= 3), "{text}");
        }
    }
}
