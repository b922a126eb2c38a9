//! The shortest whole program: one producer task, two consumer tasks in another worker, records by key, over TCP.
//!
//! The same program stands in the README.

use pirn::{Attempt, GateConfig, Hash, Incarnation, Item, PartitionConfig, PartitionId, Worker};
use std::error::Error;
use std::thread;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    // Two workers. Each would be a process of its own, on whatever machine, and have a `cluster_token`.
    let listening = || Worker::builder().listen(([127, 0, 0, 1], 0).into()).insecure_without_token();
    let (here, there) = (listening().start()?, listening().start()?);

    // The producer's side: a partition with one subpartition for each consumer.
    let partition = PartitionId::default();
    let mut writer = here.create_partition(partition, Attempt(1), PartitionConfig::new(2))?;

    // The consumers' side: a gate over the subpartitions that a task reads, here one. Descriptors say where these
    // are; `to_bytes` and `from_bytes` carry them to another process.
    let consumers: Vec<_> = writer
        .descriptors()
        .into_iter()
        .map(|descriptor| {
            let config = GateConfig::new(Attempt(1), Incarnation::random()?).channel(descriptor);
            let mut gate = there.input_gate(config);
            Ok(thread::spawn(move || -> Result<u64, Box<dyn Error + Send + Sync>> {
                let mut sum = 0;
                while let Some(item) = gate.next_blocking()? {
                    if let Item::Record(record) = item {
                        sum += u64::from_le_bytes(record.as_bytes().try_into()?);
                    }
                }
                Ok(sum)
            }))
        })
        .collect::<std::io::Result<_>>()?;

    let mut by_key = Hash::new(|record: &[u8]| record);
    for number in 0..1_000_000_u64 {
        writer.write_partitioned_blocking(&mut by_key, &number.to_le_bytes())?;
    }
    writer.finish_blocking()?;

    let mut total = 0;
    for consumer in consumers {
        total += consumer.join().expect("the consumer doesn't panic")?;
    }
    assert_eq!(total, 999_999 * 1_000_000 / 2);
    println!("one million records, sum {total}");
    Ok(())
}
