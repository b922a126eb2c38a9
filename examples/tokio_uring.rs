//! Tasks of a tokio-uring application that await writers and gates, over TCP: these are plain futures with wakers.
//!
//! `cargo run --release --example tokio_uring --features tokio-uring`. Under the feature the control threads of the
//! workers sleep in runtimes of tokio-uring, too; the tasks below would do without it.

use pirn::{
    Attempt, GateConfig, Incarnation, InputGate, Item, PartitionConfig, PartitionId, RecordWriter, Worker,
};
use std::error::Error;

const RECORDS: u64 = 1_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    tokio_uring::start(async {
        // Two workers. Each would be a process of its own, on whatever machine, and have a `cluster_token`.
        let listening = || Worker::builder().listen(([127, 0, 0, 1], 0).into()).insecure_without_token();
        let (here, there) = (listening().start()?, listening().start()?);
        let writer = here.create_partition(PartitionId::default(), Attempt(1), PartitionConfig::new(1))?;
        let config = GateConfig::new(Attempt(1), Incarnation::random()?).channel(writer.descriptor(0));
        // Both on this thread: whoever waits lets the other go on.
        let producer = tokio_uring::spawn(produce(writer));
        let consumer = tokio_uring::spawn(consume(there.input_gate(config)));
        producer.await??;
        let sum = consumer.await??;
        assert_eq!(sum, (RECORDS - 1) * RECORDS / 2);
        println!("{RECORDS} records, sum {sum}");
        Ok(())
    })
}

async fn produce(mut writer: RecordWriter) -> Result<(), pirn::WriteError> {
    for number in 0..RECORDS {
        writer.write(0, &number.to_le_bytes()[..]).await?;
    }
    // Until the consumer has acknowledged the end.
    writer.finish().await
}

async fn consume(mut gate: InputGate) -> Result<u64, Box<dyn Error>> {
    let mut sum = 0;
    while let Some(item) = gate.next().await? {
        if let Item::Record(record) = item {
            sum += u64::from_le_bytes(record.as_bytes().try_into()?);
        }
    }
    Ok(sum)
}
