//! The shuffle over processes: producer tasks here, each consumer task in a child.

use crate::common::AnyError;
use crate::common::child::{Child, Parent};
use crate::common::network::{self, Cluster, Io, ZeroCopy};
use crate::results;
use crate::shuffle::{self, Shuffled};
use crate::text::TextFile;
use indicatif::ProgressBar;
use pirn::Worker;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;
use std::thread;

/// How all workers move bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transport {
    pub(crate) io: Io,
    pub(crate) zero_copy: ZeroCopy,
}

/// The one message to a consumer's process.
#[derive(Debug, Serialize, Deserialize)]
struct Begin {
    cluster: Cluster,
    zero_copy: ZeroCopy,
    channels: Vec<Vec<u8>>,
}

/// What happens while everybody works.
enum Event {
    /// A producer has read its files, and its consumers have read it; or it failed.
    Produced(Result<(), AnyError>),
    /// A consumer's process has told its counts; or it ended before.
    Counted(usize, io::Result<Shuffled>),
}

/// Counts the words of `files` with `producers` reading tasks here and `consumers` counting processes. The first
/// failure of anybody ends everything.
pub(crate) fn count(
    files: &[TextFile],
    producers: u32,
    consumers: u32,
    Transport { io, zero_copy }: Transport,
    bar: &ProgressBar,
) -> Result<Vec<Shuffled>, AnyError> {
    let cluster = Cluster::new(io)?;
    let worker = cluster.join(Worker::builder()).zero_copy(zero_copy.into()).start()?;
    let writers = shuffle::partitions(&worker, producers, consumers)?;
    let (events, happened) = mpsc::channel();
    let mut children = Vec::new();
    for (index, channels) in shuffle::inputs(&writers, consumers).iter().enumerate() {
        let mut child = Child::spawn(format!("consumer {index}"), &["--consume"])?;
        child.send(&Begin { cluster: cluster.clone(), zero_copy, channels: network::pack(channels) })?;
        let (events, output) = (events.clone(), child.take_output());
        thread::spawn(move || {
            let counted = output.ok_or_else(|| io::ErrorKind::BrokenPipe.into()).and_then(results::read);
            // Nobody listens when another failure came first.
            drop(events.send(Event::Counted(index, counted)));
        });
        children.push(child);
    }

    let files: Arc<[TextFile]> = files.into();
    let next_file = Arc::new(AtomicUsize::new(0));
    for mut writer in writers {
        let (events, files, next_file, bar) = (events.clone(), files.clone(), next_file.clone(), bar.clone());
        thread::spawn(move || {
            let produced = shuffle::produce(&mut writer, &files, &next_file, &bar);
            // Before the writer goes, and its consumers fail in turn: the cause is told first.
            drop(events.send(Event::Produced(produced)));
        });
    }
    drop(events);
    let shuffled = gather(&happened, producers as usize, &mut children)?;
    shuffle::end(&worker)?;
    Ok(shuffled)
}

/// Waits for everybody's end, or the first failure.
fn gather(
    happened: &mpsc::Receiver<Event>,
    producers: usize,
    children: &mut [Child],
) -> Result<Vec<Shuffled>, AnyError> {
    let mut counted: Vec<_> = children.iter().map(|_| None).collect();
    for _ in 0..producers + children.len() {
        match happened.recv().map_err(|_| "a task panicked")? {
            Event::Produced(produced) => produced?,
            Event::Counted(index, Ok(shuffled)) => counted[index] = Some(shuffled),
            Event::Counted(index, Err(error)) => {
                // If its process ended, its exit code says more than the pipe.
                children[index].wait()?;
                return Err(format!("consumer {index} told no counts: {error}").into());
            }
        }
    }
    for child in children {
        child.wait()?;
    }
    Ok(counted.into_iter().flatten().collect())
}

/// The process of a consumer. Its standard output is for its counts alone.
pub(crate) fn consume() -> Result<(), AnyError> {
    let parent = Parent::attach();
    let Begin { cluster, zero_copy, channels } = parent.receive()?;
    let worker = cluster.join(Worker::builder()).zero_copy(zero_copy.into()).start()?;
    let shuffled = shuffle::consume(&worker, network::unpack(&channels)?)?;
    shuffle::end(&worker)?;
    Ok(results::write(&shuffled, io::stdout().lock())?)
}
