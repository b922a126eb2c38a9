//! The writer as a sink of owned records.

use super::*;
use bytes::Bytes;
use futures_sink::Sink;
use std::pin::Pin;

#[test]
fn it_holds_one_record_and_closes_with_the_partition() {
    let bench = Bench::new();
    let writer = bench.writer(config(1, 2));
    let mut reader = bench.reader(&writer, 0, 1);
    let mut sink = RecordSink::new(writer);
    let mut sink = Pin::new(&mut sink);
    let cx = &mut idle_cx();
    let mut sent = 0;
    while sink.as_mut().poll_ready(cx).is_ready() {
        sink.as_mut().start_send((0, record(sent, 1000).into())).unwrap();
        sent += 1;
        assert!(sent < 20);
    }
    assert_eq!(
        sink.as_mut().start_send((0, Bytes::new())),
        Err(WriteError::RecordInProgress { target: 0 }),
        "one at most"
    );
    assert!(sink.as_mut().poll_flush(cx).is_pending());
    assert!(sink.as_mut().poll_close(cx).is_pending());
    let mut got = reader.numbers();
    assert_eq!(sink.as_mut().poll_flush(cx), Poll::Ready(Ok(())));
    got.extend(reader.numbers());
    assert_eq!(got, (0..sent).collect::<Vec<_>>());
    assert!(sink.as_mut().poll_close(cx).is_pending());
    assert_eq!(reader.drain(), [Got::EndOfData, Got::EndOfPartition]);
    assert_eq!(sink.as_mut().poll_close(cx), Poll::Ready(Ok(())));
    assert_eq!(sink.as_mut().start_send((0, Bytes::new())), Err(WriteError::Finished));
    assert_eq!(sink.writer().subpartitions(), 1);
    drop(reader);
    bench.assert_whole();
}

#[test]
fn a_bad_record_costs_nobody_else() {
    let bench = Bench::new();
    let writer = bench.writer(config(1, 2));
    let mut reader = bench.reader(&writer, 0, 1);
    let mut sink = RecordSink::from(writer);
    let error = WriteError::NoSuchSubpartition { target: 7, count: 1 };
    assert_eq!(Pin::new(&mut sink).start_send((7, Bytes::new())), Err(error));
    let cx = &mut idle_cx();
    assert_eq!(Pin::new(&mut sink).poll_ready(cx), Poll::Ready(Ok(())));
    Pin::new(&mut sink).start_send((0, record(0, 10).into())).unwrap();
    assert_eq!(Pin::new(&mut sink).poll_flush(cx), Poll::Ready(Ok(())));
    assert_eq!(reader.numbers(), [0]);
    // Given back in the middle of a record, the writer is free again.
    Pin::new(&mut sink).start_send((0, record(1, 5 * SEGMENT).into())).unwrap();
    assert!(Pin::new(&mut sink).poll_flush(cx).is_pending());
    let mut writer = sink.into_writer();
    assert_eq!(reader.drain(), []);
    assert_eq!(writer.write_blocking(0, &record(2, 10)), Ok(Written::Queued));
    assert_eq!(reader.numbers(), [2]);
    assert_eq!(account(&writer, 0).lost.aborted.records, 1);
    drop((writer, reader));
    bench.assert_whole();
}
