//! Loops of which `cargo xtask instructions` counts the instructions, and compares them with `benches/instructions.toml`.
//!
//! `instructions NAME COUNT` goes round one of them so often, on one thread and without a socket: what COUNT rounds more
//! cost is what a round costs, whatever else the process does. `--list` names them. Without arguments each goes round a
//! few times, which is what `cargo test --benches` sees of it.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used, reason = "a bench")]
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    missing_docs,
    missing_debug_implementations,
    reason = "of the library's sources it uses a part, and exports nothing"
)]

#[path = "../src/clock.rs"]
mod clock;
mod common;
#[path = "../src/error.rs"]
mod error;
#[path = "../src/event.rs"]
mod event;
#[path = "../src/id.rs"]
mod id;
#[path = "../src/protocol/mod.rs"]
mod protocol;
#[path = "../src/record/mod.rs"]
mod record;
#[path = "../src/rules.rs"]
mod rules;
#[path = "common/stream.rs"]
mod stream;
#[path = "../src/test_size.rs"]
mod test_size;
#[path = "../src/wire/mod.rs"]
mod wire;

use common::{Channel, Shape, touch};
use pirn::{Flush, Item, RecordLayout, TryNext};
use std::hint::black_box;
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::time::Duration;
use stream::{Ends, acks, runs};
use wire::{Features, Frame, decode, encode_acks, encode_data};

const RECORD: [u8; 100] = [7; 100];

/// Records that are written and read in one go.
const ROW: u64 = 64;

/// A name, and what goes round so often.
type Scene = (&'static str, fn(u64));

/// A round is a record of 100 bytes, or a frame, or a turn of the protocol.
const SCENES: [Scene; 10] = [
    ("record written and read", |count| records(&Shape::default(), count)),
    ("record of a fixed length written and read", |count| {
        let layout = RecordLayout::Fixed(NonZeroU32::new(100).unwrap());
        records(&Shape { layout, ..Shape::default() }, count);
    }),
    ("record written and read, flush by interval", |count| {
        records(&Shape { flush: Flush::Interval(Duration::from_secs(3600)), ..Shape::default() }, count);
    }),
    ("record written and read in a row", rows),
    ("record discarded", discarded),
    ("frame DATA of 1 x 32 KiB encoded", |count| encoded(1, 32 * 1024, count)),
    ("frame DATA of 1 x 32 KiB decoded", |count| decoded(1, 32 * 1024, count)),
    ("frame DATA of 64 x 200 B encoded", |count| encoded(64, 200, count)),
    ("frame DATA of 64 x 200 B decoded", |count| decoded(64, 200, count)),
    ("protocol turn of 16 runs and their acknowledgement", |count| {
        let mut ends = Ends::new();
        (0..count).for_each(|_| ends.turn());
    }),
];

fn records(shape: &Shape, count: u64) {
    let (mut channel, mut sum) = (Channel::new(shape), 0);
    for _ in 0..count {
        channel.write(0, black_box(&RECORD), &mut sum);
    }
    channel.drain(&mut sum);
    black_box(sum);
}

fn rows(count: u64) {
    let (mut channel, mut sum, mut read) = (Channel::new(&Shape::default()), 0, 0);
    let mut left = count;
    while left > 0 {
        let now = left.min(ROW);
        channel.writer.write_batch_blocking(0, (0..now).map(|_| black_box(&RECORD))).unwrap();
        channel.writer.flush();
        left -= now;
        let gate = &mut channel.gates[0];
        while let Ok(TryNext::Item(item)) = gate.try_next() {
            if let Item::Record(record) = item {
                sum += touch(record.as_bytes());
                read += 1;
            }
            for record in gate.records() {
                sum += touch(record);
                read += 1;
            }
        }
    }
    assert_eq!(read, count);
    black_box(sum);
}

fn discarded(count: u64) {
    let (mut channel, mut sum) = (Channel::new(&Shape::default()), 0);
    channel.gates.clear();
    for _ in 0..count {
        channel.write(0, black_box(&RECORD), &mut sum);
    }
    black_box(sum);
}

fn encoded(streams: u32, bytes: u32, count: u64) {
    let (runs, mut out) = (runs(streams, bytes), Vec::with_capacity(64 * 1024));
    for _ in 0..count {
        out.clear();
        encode_data(black_box(&mut out), black_box(&runs), None);
    }
}

fn decoded(streams: u32, bytes: u32, count: u64) {
    let mut frame = Vec::new();
    encode_data(&mut frame, &runs(streams, bytes), None);
    frame.resize(frame.len() + (streams * bytes) as usize, 3);
    let mut sum = 0;
    for _ in 0..count {
        let Ok(Frame::Data(runs)) = decode(black_box(&frame), Features::NONE) else { panic!("no DATA") };
        sum += runs.iter().map(|(run, range)| u64::from(run.bytes) + range.start as u64).sum::<u64>();
    }
    black_box(sum);
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["--list"] => SCENES.iter().for_each(|(name, _)| println!("{name}")),
        [name, count] => {
            let scene = SCENES.iter().find(|(known, _)| *known == name);
            let (Some((_, scene)), Ok(count)) = (scene, count.parse()) else {
                eprintln!(
                    "instructions NAME COUNT: no loop has the name {name}, or {count} is no number; see --list"
                );
                return ExitCode::from(2);
            };
            scene(count);
        }
        // `--bench`, of cargo.
        [] | [_] => SCENES.iter().for_each(|(_, scene)| scene(1000)),
        _ => {
            eprintln!("instructions [NAME COUNT | --list]");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
