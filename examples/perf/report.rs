//! Results: a line or JSON on standard output, table and progress bar on standard error if that is a terminal.

use crate::common::{AnyError, clock};
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};

/// Nanoseconds from one move of the bar to the next.
const BAR_STEP: u64 = 100_000_000;

/// One value of a result.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Count(u64),
    /// With so many decimals.
    Number(f64, usize),
    /// There is nothing to be measured: no network, no counters of one.
    Unknown,
}

/// A result: the words of its line, in order.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) what: &'static str,
    pub(crate) fields: Vec<(&'static str, Value)>,
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Count(count) => write!(f, "{count}"),
            Self::Number(number, decimals) => write!(f, "{number:.decimals$}"),
            Self::Unknown => f.write_str("-"),
        }
    }
}

impl From<&Value> for serde_json::Value {
    fn from(value: &Value) -> Self {
        match value {
            Value::Text(text) => text.as_str().into(),
            Value::Count(count) => (*count).into(),
            Value::Number(number, _) => (*number).into(),
            Value::Unknown => Self::Null,
        }
    }
}

impl Report {
    pub(crate) fn print(&self, json: bool) -> Result<(), AnyError> {
        if std::io::stderr().is_terminal() {
            let mut table = Table::new();
            table.load_style(UTF8_FULL_CONDENSED);
            table.set_header([self.what, ""]);
            for (name, value) in &self.fields {
                table.add_row([(*name).to_owned(), value.to_string()]);
            }
            eprintln!("{table}");
        }
        let mut output = std::io::stdout().lock();
        if json {
            let mut object: serde_json::Map<_, _> =
                self.fields.iter().map(|(name, value)| ((*name).to_owned(), value.into())).collect();
            object.insert("pirn".into(), self.what.into());
            writeln!(output, "{}", serde_json::Value::from(object))?;
        } else {
            write!(output, "pirn {}", self.what)?;
            for (name, value) in &self.fields {
                write!(output, " {name}={value}")?;
            }
            writeln!(output)?;
        }
        Ok(output.flush()?)
    }
}

/// A bar that moves with the time of a measurement. Without a terminal it is hidden and costs no wake-ups.
#[derive(Debug)]
pub(crate) struct Bar {
    bar: ProgressBar,
    from: u64,
}

impl Bar {
    /// From warm-up to end.
    pub(crate) fn new(measured_from: u64, until: u64) -> Result<Self, AnyError> {
        let from = clock::now();
        let bar = ProgressBar::new(until.saturating_sub(from) / 1_000_000)
            .with_style(ProgressStyle::with_template("{msg:>10} {bar:40} {pos}/{len} ms")?)
            .with_message(if measured_from > from { "measuring" } else { "" });
        Ok(Self { bar, from })
    }

    pub(crate) fn hidden() -> Self {
        Self { bar: ProgressBar::hidden(), from: 0 }
    }

    /// Sleeps, and moves the bar meanwhile.
    pub(crate) fn sleep_until(&self, at: u64) {
        while !self.bar.is_hidden() && clock::now() + BAR_STEP < at {
            clock::sleep_until(clock::now() + BAR_STEP);
            self.bar.set_position((clock::now() - self.from) / 1_000_000);
        }
        clock::sleep_until(at);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
