//! The shuffle itself: producer tasks, consumer tasks, one partition for each producer.

use crate::text::{self, TextFile};
use crate::{AnyError, Counts, add};
use indicatif::ProgressBar;
use pirn::{
    Attempt, ChannelDescriptor, DataSetId, GateConfig, Hash, Incarnation, Item, JobId, PartitionConfig,
    PartitionId, RecordWriter, Worker,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// The longest word, in bytes: a file may be one word.
const WORD_BYTES_MAX: usize = 1 << 30;

/// One consumer's words and how often each was there.
#[derive(Debug)]
pub(crate) struct Shuffled {
    pub(crate) counts: Counts,
    pub(crate) records: u64,
}

/// Counts the words of `files` with `producers` reading and `consumers` counting tasks.
pub(crate) fn count(
    files: &[TextFile],
    producers: u32,
    consumers: u32,
    bar: &ProgressBar,
) -> Result<Vec<Shuffled>, AnyError> {
    let worker = Worker::builder().start()?;
    let writers = (0..producers)
        .map(|index| {
            let partition = PartitionId { job: JobId(1), data_set: DataSetId(1), index };
            let config = PartitionConfig::new(consumers).record_bytes_max(WORD_BYTES_MAX);
            worker.create_partition(partition, Attempt(1), config)
        })
        .collect::<Result<Vec<_>, _>>()?;
    // Consumer i reads subpartition i of every producer.
    let inputs: Vec<Vec<ChannelDescriptor>> =
        (0..consumers).map(|index| writers.iter().map(|writer| writer.descriptor(index)).collect()).collect();

    let next_file = AtomicUsize::new(0);
    thread::scope(|scope| {
        let worker = &worker;
        let next_file = &next_file;
        let counting: Vec<_> =
            inputs.into_iter().map(|channels| scope.spawn(move || consume(worker, channels))).collect();
        let reading: Vec<_> = writers
            .into_iter()
            .map(|writer| scope.spawn(move || produce(writer, files, next_file, bar)))
            .collect();
        let produced: Vec<_> = reading.into_iter().map(join).collect();
        let consumed: Vec<_> = counting.into_iter().map(join).collect();
        produced.into_iter().collect::<Result<(), _>>()?;
        let shuffled = consumed.into_iter().collect::<Result<Vec<_>, _>>()?;
        let last = worker.shutdown(Duration::from_secs(1));
        assert_eq!(last.lost_wakeups, 0, "a wake-up got lost");
        Ok(shuffled)
    })
}

fn join<T>(task: thread::ScopedJoinHandle<'_, Result<T, AnyError>>) -> Result<T, AnyError> {
    task.join().unwrap_or_else(|_| Err("a task panicked".into()))
}

/// A producer task: takes file after file and sends each word to the consumer that owns it. An error drops
/// the writer, and its consumers learn that the producer failed.
fn produce(
    mut writer: RecordWriter,
    files: &[TextFile],
    next_file: &AtomicUsize,
    bar: &ProgressBar,
) -> Result<(), AnyError> {
    let mut by_word = Hash::new(|word: &[u8]| word);
    while let Some(file) = files.get(next_file.fetch_add(1, Ordering::Relaxed)) {
        text::for_each_word(
            &file.path,
            |read| bar.inc(read),
            |word| {
                writer.write_partitioned_blocking(&mut by_word, word)?;
                Ok::<_, AnyError>(())
            },
        )?;
    }
    writer.finish_blocking()?;
    Ok(())
}

/// A consumer task: counts until every producer has finished.
fn consume(worker: &Worker, channels: Vec<ChannelDescriptor>) -> Result<Shuffled, AnyError> {
    let config = GateConfig::new(Attempt(1), Incarnation::random()?)
        .channels(channels)
        .record_bytes_max(WORD_BYTES_MAX);
    let mut gate = worker.input_gate(config);
    let mut shuffled = Shuffled { counts: Counts::new(), records: 0 };
    while let Some(item) = gate.next_blocking()? {
        match item {
            Item::Record(record) => {
                add(&mut shuffled.counts, record.as_bytes());
                shuffled.records += 1;
            }
            Item::Unavailable { channel, cause, .. } => {
                return Err(format!("producer {channel} is gone: {cause}").into());
            }
            Item::BindFailed { channel, error } => {
                return Err(format!("producer {channel} can't be read: {error}").into());
            }
            _ => {}
        }
    }
    Ok(shuffled)
}
