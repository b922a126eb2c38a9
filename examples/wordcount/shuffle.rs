//! The shuffle itself: producer tasks, consumer tasks, one partition for each producer; within one process.

use crate::common::AnyError;
use crate::text::{self, TextFile};
use crate::{Counts, add};
use indicatif::ProgressBar;
use pirn::{
    Attempt, ChannelDescriptor, CreateError, DataSetId, GateConfig, Hash, Incarnation, Item, JobId,
    PartitionConfig, PartitionId, RecordWriter, Worker,
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
    let writers = partitions(&worker, producers, consumers)?;
    let inputs = inputs(&writers, consumers);

    let next_file = AtomicUsize::new(0);
    thread::scope(|scope| {
        let worker = &worker;
        let next_file = &next_file;
        let counting: Vec<_> =
            inputs.into_iter().map(|channels| scope.spawn(move || consume(worker, channels))).collect();
        let reading: Vec<_> = writers
            .into_iter()
            .map(|mut writer| scope.spawn(move || produce(&mut writer, files, next_file, bar)))
            .collect();
        let produced: Vec<_> = reading.into_iter().map(join).collect();
        let consumed: Vec<_> = counting.into_iter().map(join).collect();
        produced.into_iter().collect::<Result<(), _>>()?;
        let shuffled = consumed.into_iter().collect::<Result<Vec<_>, _>>()?;
        end(worker)?;
        Ok(shuffled)
    })
}

/// A partition for each producer, with a subpartition for each consumer.
pub(crate) fn partitions(
    worker: &Worker,
    producers: u32,
    consumers: u32,
) -> Result<Vec<RecordWriter>, CreateError> {
    (0..producers)
        .map(|index| {
            let partition = PartitionId { job: JobId(1), data_set: DataSetId(1), index };
            let config = PartitionConfig::new(consumers).record_bytes_max(WORD_BYTES_MAX);
            worker.create_partition(partition, Attempt(1), config)
        })
        .collect()
}

/// The channels of each consumer: consumer i reads subpartition i of every producer.
pub(crate) fn inputs(writers: &[RecordWriter], consumers: u32) -> Vec<Vec<ChannelDescriptor>> {
    (0..consumers).map(|index| writers.iter().map(|writer| writer.descriptor(index)).collect()).collect()
}

/// Ends a worker that has nothing left to do.
pub(crate) fn end(worker: &Worker) -> Result<(), AnyError> {
    match worker.shutdown(Duration::from_secs(1)).lost_wakeups {
        0 => Ok(()),
        lost => Err(format!("{lost} wake-ups got lost").into()),
    }
}

fn join<T>(task: thread::ScopedJoinHandle<'_, Result<T, AnyError>>) -> Result<T, AnyError> {
    task.join().unwrap_or_else(|_| Err("a task panicked".into()))
}

/// A producer task: takes file after file and sends each word to the consumer that owns it. On an error its caller
/// drops the writer, and the consumers learn that the producer failed.
pub(crate) fn produce(
    writer: &mut RecordWriter,
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
pub(crate) fn consume(worker: &Worker, channels: Vec<ChannelDescriptor>) -> Result<Shuffled, AnyError> {
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
