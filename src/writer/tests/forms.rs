//! Every form writes, refuses what it must, and leaves the writer usable.

use super::*;

#[test]
fn every_form_of_writing_arrives() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(2, 8));
    let mut readers = bench.readers(&writer);
    let long = record(3, 3 * SEGMENT);
    assert_eq!(
        writer.poll_write(&mut idle_cx(), 0, &mut &record(0, 100)[..]),
        Poll::Ready(Ok(Written::Queued))
    );
    assert_eq!(writer.try_write(0, &record(1, 100)), Ok(Written::Queued));
    assert_eq!(writer.write_blocking(0, &record(2, 100)), Ok(Written::Queued));
    // In two chunks, so that it can't go the short way.
    let chunks = Buf::chain(&long[..5000], &long[5000..]);
    assert_eq!(now(writer.write(0, chunks)), Ok(Written::Queued));
    assert_eq!(writer.write_partitioned_blocking(&mut Forward(1), &record(4, 0x30)), Ok(Written::Queued));
    let timeout = Duration::from_secs(1);
    assert_eq!(writer.write_blocking_timeout(1, &record(5, 4), timeout), Ok(Written::Queued));
    assert_eq!(readers[0].numbers(), [0, 1, 2, 3]);
    assert_eq!(readers[1].numbers(), [4, 5]);
    for target in 0..2 {
        let account = account(&writer, target);
        assert_eq!(account.written, account.delivered + account.queued);
    }
    drop((writer, readers));
    bench.assert_whole();
}

#[test]
fn what_cannot_be_written_is_refused_and_leaves_no_trace() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(2, 8).record_bytes_max(40_000));
    let too_long = WriteError::TooLong { bytes: 40_001, max: 40_000 };
    let no_target = WriteError::NoSuchSubpartition { target: 2, count: 2 };
    let long = vec![0; 40_001];
    assert_eq!(writer.write_blocking(0, &long), Err(too_long.clone()));
    assert_eq!(writer.try_write(0, &long), Err(TryWriteError::Write(too_long.clone())));
    assert_eq!(writer.broadcast_blocking(&long), Err(too_long.clone()));
    assert_eq!(now(writer.write(0, &long[..])), Err(too_long));
    assert_eq!(writer.write_blocking(2, b"x"), Err(no_target.clone()));
    assert_eq!(writer.write_partitioned_blocking(&mut Forward(2), b"x"), Err(no_target.clone()));
    assert_eq!(writer.target_of(&mut Forward(2), b"x"), Err(no_target.clone()));
    assert_eq!(writer.event_blocking(Target::One(2), &Event::Barrier(1)), Err(no_target.clone()));
    let event = PriorityEvent::new(b"p").unwrap();
    assert_eq!(writer.priority_event_blocking(Target::One(2), event), Err(no_target));
    let bytes = vec![0; Event::APPLICATION_BYTES_MAX + 1];
    let event_too_long = WriteError::EventTooLong { bytes: 2049, max: 2048 };
    for target in [Target::One(0), Target::All] {
        let event = Event::Application(bytes.clone().into());
        assert_eq!(writer.event_blocking(target, &event), Err(event_too_long.clone()));
    }
    assert_eq!(account(&writer, 0).written, Amount::ZERO);
    assert_eq!(writer.write_blocking(0, &record(1, 4)), Ok(Written::Queued));
    let mut reader = bench.reader(&writer, 0, 1);
    assert_eq!(reader.numbers(), [1]);
    drop((writer, reader));
    bench.assert_whole();
}

#[test]
fn fixed_width_refuses_other_widths() {
    let bench = Bench::new();
    let layout = RecordLayout::Fixed(8.try_into().unwrap());
    let mut writer = bench.writer(config(1, 8).layout(layout));
    let mut reader = bench.reader(&writer, 0, 1);
    let width = WriteError::Width { bytes: 7, fixed: 8 };
    assert_eq!(writer.write_blocking(0, &[0; 7]), Err(width.clone()));
    for number in 0..2000 {
        assert_eq!(writer.write_blocking(0, &record(number, 8)), Ok(Written::Queued));
    }
    assert_eq!(writer.write_blocking(0, &[0; 7]), Err(width));
    assert_eq!(reader.numbers(), (0..2000).collect::<Vec<_>>());
    drop((writer, reader));
    bench.assert_whole();
}

#[test]
fn try_write_takes_all_or_nothing() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(1, 4));
    let mut reader = bench.reader(&writer, 0, 1);
    // Longer than the whole quota: never.
    assert_eq!(writer.try_write(0, &record(9, 4 * SEGMENT)), Err(TryWriteError::Full));
    // As long as the quota, with its prefix: if everything is free.
    assert_eq!(writer.try_write(0, &record(0, 4 * SEGMENT - 4)), Ok(Written::Queued));
    for _ in 0..3 {
        assert_eq!(writer.try_write(0, b"x"), Err(TryWriteError::Full));
    }
    assert_eq!(reader.numbers(), [0]);
    let mut written = Vec::new();
    for (number, size) in [600, 4000, 513, 3000, 2000, 511, 1000, 7, 4000, 100].into_iter().enumerate() {
        match writer.try_write(0, &record(number as u32, size)) {
            Ok(Written::Queued) => written.push(number as u32),
            other => assert_eq!(other, Err(TryWriteError::Full)),
        }
        // Nothing is under way, whatever came of it.
        assert!(!writer.lanes[0].half.is_mid_record());
    }
    assert!(written.len() >= 8, "{written:?}");
    assert_eq!(reader.numbers(), written);
    let account = account(&writer, 0);
    assert_eq!(account.lost.total(), Amount::ZERO);
    assert_eq!(account.written.records, 1 + written.len() as u64);
    drop((writer, reader));
    bench.assert_whole();
}

#[test]
fn the_description_is_that_of_the_partition() {
    let bench = Bench::new();
    let writer = bench.writer(config(3, 8));
    assert_eq!(writer.subpartitions(), 3);
    assert_eq!(writer.partition_id(), PartitionId::default());
    assert_eq!(writer.attempt(), Attempt(1));
    let descriptors = writer.descriptors();
    assert_eq!(descriptors.len(), 3);
    for (index, descriptor) in descriptors.iter().enumerate() {
        assert_eq!(descriptor.subpartition as usize, index);
        assert_eq!(*descriptor, writer.descriptor(index as u32));
    }
    drop(writer);
    bench.assert_whole();
}

#[test]
fn flush_tells_once_of_what_is_new() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(2, 8));
    let readers = bench.readers(&writer);
    for reader in &readers {
        let node = reader.reader.view().node();
        reader.bell.take_all(drop);
        node.clear();
    }
    for number in 0..10 {
        assert_eq!(writer.write_blocking(1, &record(number, 8)), Ok(Written::Queued));
    }
    assert!(readers.iter().all(|reader| reader.bell.is_silent()), "publishing never rings by itself");
    writer.flush();
    assert!(readers[0].bell.is_silent(), "nothing was written there");
    assert!(!readers[1].bell.is_silent());
    readers[1].bell.take_all(drop);
    readers[1].reader.view().node().clear();
    writer.flush();
    assert!(readers[1].bell.is_silent(), "told already");
    assert_eq!(writer.write_blocking(1, &record(10, 8)), Ok(Written::Queued));
    writer.flush();
    assert!(!readers[1].bell.is_silent());
    drop((writer, readers));
    bench.assert_whole();
}
