//! Child processes that end with their parent, whatever happened to it, and programs that end at all.
//!
//! A child is this program again, with a hidden subcommand. Parent and child talk by lines of JSON on the child's
//! standard input and output. A parent that is gone, killed or not, is seen by the end of the standard input.

use super::AnyError;
use serde::{Serialize, de::DeserializeOwned};
use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// A child process. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Child {
    name: String,
    process: std::process::Child,
    /// Stays open until the child has ended: the child takes its end for the parent's.
    input: ChildStdin,
    output: Option<BufReader<ChildStdout>>,
}

impl Child {
    /// Starts this program again with `arguments`; `name` stands in errors. Environment and standard error are the
    /// parent's.
    pub(crate) fn spawn(name: impl Into<String>, arguments: &[&str]) -> Result<Self, AnyError> {
        let name = name.into();
        let mut process = Command::new(std::env::current_exe()?)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{name} can't be started: {error}"))?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(format!("{name} has no pipes").into());
        };
        Ok(Self { name, process, input, output: Some(BufReader::new(output)) })
    }

    /// Sends one message.
    pub(crate) fn send(&mut self, message: &impl Serialize) -> Result<(), AnyError> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.input.write_all(&line).map_err(|error| format!("{} takes no message: {error}", self.name).into())
    }

    /// Waits for the next message.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self) -> Result<T, AnyError> {
        let output = self.output.as_mut().ok_or_else(|| format!("the output of {} is taken", self.name))?;
        let mut line = String::new();
        if output.read_line(&mut line)? == 0 {
            return Err(format!("{} ended early, {}", self.name, self.process.wait()?).into());
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// The child's standard output, for who reads something else than messages.
    pub(crate) fn take_output(&mut self) -> Option<BufReader<ChildStdout>> {
        self.output.take()
    }

    /// Waits for the end of the child, which must be a success.
    pub(crate) fn wait(&mut self) -> Result<(), AnyError> {
        let status = self.process.wait()?;
        if status.success() { Ok(()) } else { Err(format!("{} failed, {status}", self.name).into()) }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        if self.process.kill().is_ok()
            && let Err(error) = self.process.wait()
        {
            eprintln!("{} can't be waited for: {error}", self.name);
        }
    }
}

/// The parent, as its child sees it.
#[derive(Debug)]
pub(crate) struct Parent {
    lines: mpsc::Receiver<String>,
}

impl Parent {
    /// Listens to the parent from now on. Once per process: when the parent is gone, so is this process.
    pub(crate) fn attach() -> Self {
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in io::stdin().lock().lines() {
                match line {
                    // Nobody listens any more: the child is about to end, and the parent still to be watched.
                    Ok(line) => drop(sender.send(line)),
                    Err(error) => fail(format!("no word from the parent: {error}")),
                }
            }
            // Nobody reads an error of this.
            std::process::exit(1);
        });
        Self { lines }
    }

    /// Waits for the next message.
    pub(crate) fn receive<T: DeserializeOwned>(&self) -> Result<T, AnyError> {
        Ok(serde_json::from_str(&self.lines.recv()?)?)
    }

    /// Sends one message.
    pub(crate) fn send(&self, message: &impl Serialize) -> Result<(), AnyError> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let mut output = io::stdout().lock();
        output.write_all(&line)?;
        Ok(output.flush()?)
    }
}

/// Ends this process, and with it its children, after `longest`: a hang shall be an error, and `picture` say where.
pub(crate) fn limit(longest: Duration, picture: impl FnOnce() -> String + Send + 'static) {
    thread::spawn(move || {
        thread::sleep(longest);
        fail(format!("not done after {longest:?}. {}", picture()))
    });
}

/// Ends this process, and with it its children, with exit code 1: for threads that nobody waits for yet.
pub(crate) fn fail(error: impl std::fmt::Display) -> ! {
    eprintln!("error in process {}: {error}", std::process::id());
    std::process::exit(1)
}
