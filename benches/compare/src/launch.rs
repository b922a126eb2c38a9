//! One launch of one peer: two processes, what they measured, and the comparison of what was made with what was read.

use crate::common::child::Child;
use crate::common::{AnyError, clock};
use crate::process::{Job, Measured, Stretch};
use crate::work::Totals;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::BufRead;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

const WARM_UP: Duration = Duration::from_millis(600);
/// What a launch may take beyond the time after which its processes end themselves.
const GRACE: Duration = Duration::from_secs(5);
const GB: f64 = 1e9;

/// What a launch gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figures {
    /// Bytes of records per second, in 1e9.
    pub(crate) gb_per_s: f64,
    /// Seconds of processor time of both processes, user and system, for 1e9 bytes of records.
    pub(crate) cpu_s_per_gb: f64,
    /// Records from begin to end, warm-up included: as many were made as read.
    pub(crate) records: u64,
}

/// Runs a job in two new processes. They have ended when this returns, by themselves or by being killed.
pub(crate) fn launch(job: &Job) -> Result<Figures, AnyError> {
    let deadline = Instant::now() + job.limit() + GRACE;
    let mut producer = Process::spawn("the producer's process", "produce", deadline)?;
    producer.child.send(job)?;
    let offer: Value = producer.receive()?;
    let mut consumer = Process::spawn("the consumer's process", "consume", deadline)?;
    consumer.child.send(&(job, offer))?;
    let () = consumer.receive()?;

    let from = clock::now() + clock::span(WARM_UP);
    let stretch = Stretch { from, until: from + clock::span(job.seconds) };
    producer.child.send(&stretch)?;
    consumer.child.send(&stretch)?;
    let (made, read): (Measured, Measured) = (producer.receive()?, consumer.receive()?);
    producer.child.send(&())?;
    let (written, found): (Totals, Totals) = (producer.receive()?, consumer.receive()?);
    producer.end()?;
    consumer.end()?;
    figures(job.record_bytes, &made, &read, same(written, found)?.records)
}

/// What was made, if it is what was read.
fn same(written: Totals, read: Totals) -> Result<Totals, AnyError> {
    if written == read { Ok(written) } else { Err(format!("written {written:?}, read {read:?}").into()) }
}

/// The figures of what both processes measured.
fn figures(record_bytes: usize, made: &Measured, read: &Measured, records: u64) -> Result<Figures, AnyError> {
    let gb = (read.end.records - read.begin.records) as f64 * record_bytes as f64 / GB;
    let seconds = (read.end.at - read.begin.at) as f64 / 1e9;
    let processor: u64 =
        [made, read].map(|process| process.end.processor - process.begin.processor).iter().sum();
    if gb == 0.0 {
        return Err("no record came while it was measured".into());
    }
    Ok(Figures { gb_per_s: gb / seconds, cpu_s_per_gb: processor as f64 / 1e9 / gb, records })
}

/// A child process that has until a deadline for everything it says. Dropping it ends it.
struct Process {
    name: &'static str,
    child: Child,
    lines: mpsc::Receiver<std::io::Result<String>>,
    deadline: Instant,
}

impl Process {
    fn spawn(name: &'static str, role: &str, deadline: Instant) -> Result<Self, AnyError> {
        let mut child = Child::spawn(name, &[role])?;
        let output = child.take_output().ok_or("a new process has an output")?;
        let (sender, lines) = mpsc::channel();
        // Ends with the process.
        thread::spawn(move || output.lines().try_for_each(|line| sender.send(line)));
        Ok(Self { name, child, lines, deadline })
    }

    /// Waits for the next message.
    fn receive<T: DeserializeOwned>(&mut self) -> Result<T, AnyError> {
        match self.lines.recv_timeout(self.deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => Ok(serde_json::from_str(&line?)?),
            Err(RecvTimeoutError::Timeout) => Err(format!("{} says nothing any more", self.name).into()),
            Err(RecvTimeoutError::Disconnected) => Err(format!("{} ended early", self.name).into()),
        }
    }

    /// Waits for its end, which must be a success.
    fn end(mut self) -> Result<(), AnyError> {
        match self.lines.recv_timeout(self.deadline.saturating_duration_since(Instant::now())) {
            Err(RecvTimeoutError::Disconnected) => self.child.wait(),
            Err(RecvTimeoutError::Timeout) => Err(format!("{} doesn't end", self.name).into()),
            Ok(line) => Err(format!("{} says too much: {}", self.name, line?).into()),
        }
    }
}

#[cfg(test)]
mod tests;
