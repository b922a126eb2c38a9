//! What happened, step by step, for whoever replays a seed; and how often each kind of thing did.

use crate::clock::Moment;
use std::collections::BTreeMap;

/// A story of one run, or nothing.
#[derive(Debug, Default)]
pub(super) struct Trace {
    lines: Option<Vec<String>>,
    pub(super) now: Moment,
    pub(super) step: u64,
}

impl Trace {
    pub(super) fn new(is_on: bool) -> Self {
        Self { lines: is_on.then(Vec::new), ..Self::default() }
    }

    /// Notes what `line` says; without a listener nothing is made of it.
    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            let micros = self.now.as_nanos() / 1000;
            let line = format!("{:>6} {micros:>9} us  {}", self.step, line());
            lines.push(line);
        }
    }

    pub(super) fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or(&[])
    }
}

/// How often each thing happened: what never does isn't tested.
#[derive(Debug, Default)]
pub(super) struct Marks(BTreeMap<&'static str, u64>);

impl Marks {
    pub(super) fn note(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    pub(super) fn add(&mut self, what: &'static str, times: u64) {
        if times > 0 {
            *self.0.entry(what).or_default() += times;
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(what, times)| self.add(what, *times));
    }

    pub(super) fn get(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }
}
