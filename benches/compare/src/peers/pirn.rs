//! Pirn: a partition with one subpartition in one process, a gate over it in the other, by its public interface.

use super::Peer;
use crate::common::AnyError;
use crate::common::network::{self, Cluster, Io};
use crate::work::{Maker, Progress, Reader, Stage, Totals};
use pirn::{
    Attempt, Driver, GateConfig, Incarnation, Item, PartitionConfig, PartitionId, Reactor, RecordWriter,
    Worker,
};
use serde_json::Value;
use std::time::Duration;

/// Segments that the subpartition may have beside its own: several full sends, and as many on their way.
const FLOATING_SEGMENTS: u32 = 128;
/// Records are numbered in rounds of about so many bytes, and written then: a record that is copied right behind the
/// store of its number would wait for the store buffer. Its bytes are copied once all the same.
const ROUND_BYTES: usize = 8 * 1024;
const ROUND_RECORDS_MOST: usize = 64;
/// How long the consumer may take to read the rest.
const FINISH: Duration = Duration::from_secs(10);
const SHUTDOWN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Pirn {
    name: &'static str,
    about: &'static str,
    turns: bool,
}

impl Pirn {
    /// The network is turned by a thread of its own in each process.
    pub(crate) const THREADS: Self = Self {
        name: "pirn-threads",
        about: "a writer and a gate, records with lengths, a network thread in each process",
        turns: false,
    };

    /// The network is turned by the task itself, for lack of processors or for latency.
    pub(crate) const CALLER: Self = Self {
        name: "pirn-caller",
        about: "the same, the network turned by the tasks' own threads",
        turns: true,
    };

    /// The worker of one process, with this thread's reactor if its tasks turn the network.
    fn start(&self, cluster: &Cluster) -> Result<(Worker, Option<Reactor>), AnyError> {
        let builder = cluster.join(Worker::builder());
        if !self.turns {
            return Ok((builder.start()?, None));
        }
        let worker = builder.driver(Driver::Caller).start()?;
        let reactor = worker.reactor()?;
        Ok((worker, Some(reactor)))
    }
}

impl Peer for Pirn {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn package(&self) -> Option<&'static str> {
        Some("pirn")
    }

    fn produce(&self, record_bytes: usize, stage: &Stage) -> Result<Totals, AnyError> {
        let cluster = Cluster::new(Io::Auto)?;
        let (worker, reactor) = self.start(&cluster)?;
        let config = PartitionConfig::new(1).floating_segments(FLOATING_SEGMENTS);
        let mut writer = worker.create_partition(PartitionId::default(), Attempt(1), config)?;
        stage.offer(&(&cluster, network::pack(&writer.descriptors())))?;
        let mut maker = Maker::new(record_bytes);
        match record_bytes {
            8 => write::<8>(&mut writer, &mut maker, stage)?,
            100 => write::<100>(&mut writer, &mut maker, stage)?,
            1_000 => write::<1_000>(&mut writer, &mut maker, stage)?,
            32_768 => write::<32_768>(&mut writer, &mut maker, stage)?,
            _ => write::<0>(&mut writer, &mut maker, stage)?,
        }
        writer.finish_blocking_timeout(FINISH)?;
        drop(writer);
        drop(reactor);
        end(&worker)?;
        Ok(maker.totals())
    }

    fn consume(&self, record_bytes: usize, offer: Value, progress: &Progress) -> Result<Totals, AnyError> {
        let (cluster, channels): (Cluster, Vec<Vec<u8>>) = serde_json::from_value(offer)?;
        let (worker, reactor) = self.start(&cluster)?;
        let config =
            GateConfig::new(Attempt(1), Incarnation::random()?).channels(network::unpack(&channels)?);
        let mut gate = worker.input_gate(config);
        let mut reader = Reader::new(record_bytes, progress);
        while let Some(item) = gate.next_blocking()? {
            match item {
                Item::Record(record) => reader.record(&record)?,
                // Nobody fails here, and nothing is to be lost.
                fault @ (Item::Unavailable { .. } | Item::BindFailed { .. } | Item::Loss { .. }) => {
                    return Err(format!("{fault:?} instead of a record").into());
                }
                _ => {}
            }
            for record in gate.records() {
                reader.record(record)?;
            }
            reader.publish();
        }
        drop(gate);
        drop(reactor);
        end(&worker)?;
        Ok(reader.totals())
    }
}

/// Writes records until it is told to stop. `WIDTH` is their length if the compiler is to know it, or 0.
fn write<const WIDTH: usize>(
    writer: &mut RecordWriter,
    maker: &mut Maker,
    stage: &Stage,
) -> Result<(), AnyError> {
    let width = if WIDTH == 0 { maker.pattern().len() } else { WIDTH };
    let records = (ROUND_BYTES / width).clamp(1, ROUND_RECORDS_MOST);
    let mut round = maker.pattern().repeat(records);
    while !stage.stopped() {
        for record in round.chunks_exact_mut(width) {
            maker.number(record);
        }
        if WIDTH == 0 {
            writer.write_batch_blocking(0, round.chunks_exact(width))?;
        } else {
            writer.write_batch_blocking(0, round.as_chunks::<WIDTH>().0)?;
        }
    }
    Ok(())
}

fn end(worker: &Worker) -> Result<(), AnyError> {
    match worker.shutdown(SHUTDOWN).lost_wakeups {
        0 => Ok(()),
        lost => Err(format!("{lost} wake-ups got lost").into()),
    }
}
