//! What came out, as a table, and whether it is right.

use crate::Counts;
use crate::shuffle::Shuffled;
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use std::time::Duration;

/// How many of the most frequent words are shown.
const SHOWN: usize = 8;

/// Both counts and how long they took.
pub(crate) struct Outcome {
    pub(crate) files: usize,
    pub(crate) bytes: u64,
    pub(crate) shuffle_time: Duration,
    pub(crate) single_time: Duration,
    pub(crate) expected: Counts,
    pub(crate) shuffled: Vec<Shuffled>,
}

impl Outcome {
    /// Whether every word has the same count on both ways, and no word came to two consumers.
    pub(crate) fn is_right(&self) -> bool {
        self.first_difference().is_none()
    }

    fn first_difference(&self) -> Option<String> {
        let distinct: usize = self.shuffled.iter().map(|part| part.counts.len()).sum();
        if distinct != self.expected.len() {
            return Some(format!("{distinct} distinct words came, {} are there", self.expected.len()));
        }
        let counts = self.shuffled.iter().flat_map(|part| &part.counts);
        counts.into_iter().find(|(word, count)| self.expected.get(*word) != Some(*count)).map(
            |(word, count)| {
                let expected = self.expected.get(word).copied().unwrap_or(0);
                format!("{:?} came {count} times, it is there {expected} times", show(word))
            },
        )
    }

    /// Prints the table on standard output.
    pub(crate) fn print(&self) {
        let words: u64 = self.expected.values().sum();
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED);
        table.set_header(["consumer", "words", "distinct", "most frequent"]);
        for (index, part) in self.shuffled.iter().enumerate() {
            let (records, distinct) = (part.records.to_string(), part.counts.len().to_string());
            table.add_row([index.to_string(), records, distinct, most_frequent(&part.counts)]);
        }
        println!("{table}");
        println!(
            "{} files, {:.1} MB, {words} words, {} distinct",
            self.files,
            self.bytes as f64 / 1e6,
            self.expected.len()
        );
        let rate = |time: Duration| words as f64 / 1e6 / time.as_secs_f64().max(1e-9);
        println!(
            "shuffled in {:.2?} ({:.1} million words/s), counted on one thread in {:.2?} ({:.1} million words/s)",
            self.shuffle_time,
            rate(self.shuffle_time),
            self.single_time,
            rate(self.single_time)
        );
        match self.first_difference() {
            None => println!("all sums are right"),
            Some(difference) => println!("WRONG: {difference}"),
        }
    }
}

fn most_frequent(counts: &Counts) -> String {
    let mut words: Vec<_> = counts.iter().collect();
    words.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    words
        .iter()
        .take(SHOWN)
        .map(|(word, count)| format!("{} {count}", show(word)))
        .collect::<Vec<_>>()
        .join(", ")
}

/// A word as text, cut to a width that a table bears.
fn show(word: &[u8]) -> String {
    String::from_utf8_lossy(&word[..word.len().min(24)]).into_owned()
}
