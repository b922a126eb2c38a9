//! One model in a process of its own: started with a limit of time, its verdict read from how it ended.
//! Shared by the runner of the models and by `cargo xtask mutants`.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Opens the line that a green child ends its standard output with; the number of interleavings and the
/// sites reached follow.
pub(crate) const REPORT: &str = "pirn-loom:";

/// What the exploration of one model came to.
#[derive(Debug, Clone)]
pub(crate) enum Verdict {
    /// Every interleaving holds.
    Green {
        /// How many there are.
        interleavings: u64,
        /// The `sync!` and `check!` sites that were reached.
        sites: Vec<String>,
    },
    /// An interleaving violates the model; the first line of what it said.
    Red(String),
    /// Neither: the limit of time or of branches came first.
    Undecided(String),
    /// The child didn't do its work: a bad environment, an unknown name, killed from outside.
    Broken(String),
}

/// A finished exploration.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// What it came to.
    pub(crate) verdict: Verdict,
    /// Wall-clock time of the process.
    pub(crate) elapsed: Duration,
    /// All that it wrote, standard error last.
    pub(crate) output: String,
}

/// Explores the model `name` by `runner --one name`, for at most `limit`, with `mutant` weakened.
///
/// # Errors
/// When the process can't be started or waited for.
pub(crate) fn explore(
    runner: &Path,
    name: &str,
    mutant: Option<&str>,
    limit: Duration,
) -> std::io::Result<Outcome> {
    let mut command = Command::new(runner);
    command.args(["--one", name]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(mutant) = mutant {
        command.env("PIRN_MUTANT", mutant);
    }
    let started = Instant::now();
    let mut child = command.spawn()?;
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    let status = wait(&mut child, started, limit)?;
    let elapsed = started.elapsed();
    let (stdout, stderr) = (collect(stdout), collect(stderr));
    let verdict = match status {
        Some(status) => judge(status, &stdout, &stderr),
        None => Verdict::Undecided(format!("no result after {} s", limit.as_secs())),
    };
    Ok(Outcome { verdict, elapsed, output: stdout + &stderr })
}

/// `None` if the child had to be killed.
fn wait(child: &mut Child, started: Instant, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() >= limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Reads on a thread of its own: a full pipe must not stop the child.
fn drain(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe
            && let Err(error) = pipe.read_to_end(&mut bytes)
        {
            bytes.extend_from_slice(format!("\n(output lost: {error})\n").as_bytes());
        }
        bytes
    })
}

fn collect(reader: thread::JoinHandle<Vec<u8>>) -> String {
    match reader.join() {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => "(output lost: its reader panicked)".to_owned(),
    }
}

/// Only a panic or a fault is red. Another end must not pass for a violation found.
fn judge(status: ExitStatus, stdout: &str, stderr: &str) -> Verdict {
    const PANIC: i32 = 101;
    /// SIGILL, SIGABRT (a panic while panicking), SIGBUS, SIGSEGV.
    const FAULTS: [i32; 4] = [4, 6, 7, 11];
    /// Loom's own bound against models that don't end.
    const BRANCHES: &str = "exceeded maximum number of branches";

    if status.success() {
        return read_report(stdout).unwrap_or_else(|| Verdict::Broken("it reported nothing".to_owned()));
    }
    let reason = first_panic(stderr);
    if status.code() == Some(PANIC) || status.signal().is_some_and(|signal| FAULTS.contains(&signal)) {
        if stderr.contains(BRANCHES) {
            return Verdict::Undecided(reason);
        }
        return Verdict::Red(reason);
    }
    Verdict::Broken(format!("{status}: {}", stderr.lines().last().unwrap_or_default()))
}

fn read_report(stdout: &str) -> Option<Verdict> {
    let line = stdout.lines().rev().find_map(|line| line.strip_prefix(REPORT))?;
    let mut words = line.split_whitespace();
    let interleavings = words.next()?.parse().ok()?;
    Some(Verdict::Green { interleavings, sites: words.map(str::to_owned).collect() })
}

/// The message of the first panic, which stands on the line below the place.
fn first_panic(stderr: &str) -> String {
    let mut lines = stderr.lines();
    let place = lines.by_ref().find(|line| line.contains("panicked at "));
    let message = lines.find(|line| !line.trim().is_empty());
    match (place, message) {
        (Some(_), Some(message)) => message.trim().to_owned(),
        _ => "it died without a word".to_owned(),
    }
}
