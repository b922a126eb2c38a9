//! Records written in a row: what as many single writes would have done.

use super::*;

fn batch(queued: u64, dropped: u64) -> BatchWritten {
    BatchWritten { queued, dropped }
}

#[test]
fn batches_of_any_sizes_arrive_whole_in_order_and_once() {
    for (flush, layout) in [
        (Flush::WhenFull, RecordLayout::Lengths),
        (Flush::EveryRecord, RecordLayout::Lengths),
        (Flush::Interval(Duration::from_millis(1)), RecordLayout::Lengths),
        (Flush::WhenFull, RecordLayout::Fixed(40.try_into().unwrap())),
    ] {
        let bench = Bench::new();
        let config = config(1, 64).policies(Policies { flush, ..policies() }).layout(layout);
        let mut writer = bench.writer(config);
        let mut reader = bench.reader(&writer, 0, 1);
        let (mut random, mut next, mut came) = (Random(0x2545_f491_4f6c_dd1d), 0_u32, Vec::new());
        while next < 4000 {
            let count = random.below(40);
            let mut len = || match (layout, random.below(100)) {
                (RecordLayout::Fixed(len), _) => len.get() as usize,
                // Over several segments, once in a while; mostly of one length, which is told of them all.
                (_, 0) => 4 + 3 * SEGMENT,
                (_, 1..10) => 4 + random.below(500) as usize,
                _ => 40,
            };
            let records: Vec<_> = (next..next + count).map(|number| record(number, len())).collect();
            assert_eq!(writer.write_batch_blocking(0, &records), Ok(batch(count.into(), 0)));
            next += count;
            came.extend(reader.numbers());
        }
        writer.flush();
        came.extend(reader.numbers());
        assert_eq!(came, (0..next).collect::<Vec<_>>(), "{flush:?}");
        let account = account(&writer, 0);
        assert_eq!((account.written.records, account.queued.records), (u64::from(next), 0));
        drop((writer, reader));
        bench.assert_whole();
    }
}

/// Each is there before the next is asked for, and its reader rung for if it sleeps.
#[test]
fn whoever_makes_the_records_may_take_his_time() {
    let interval = Flush::Interval(Duration::from_millis(1));
    for (flush, rings) in [(Flush::EveryRecord, true), (interval, true), (Flush::WhenFull, false)] {
        let bench = Bench::new();
        let mut writer = bench.writer(config(1, 8).policies(Policies { flush, ..policies() }));
        let mut reader = bench.reader(&writer, 0, 1);
        // Of its bind.
        reader.bell.take_all(|node| node.clear());
        let records = (0..20).map(|number| {
            if number > 0 {
                assert_eq!(reader.numbers(), [number - 1]);
                assert_eq!(!reader.bell.is_silent(), rings, "{flush:?}");
                reader.bell.take_all(|node| node.clear());
            }
            // Its reader sleeps again.
            reader.reader.view().node().stir();
            reader.reader.view().node().fall_quiet();
            record(number, 100)
        });
        assert_eq!(writer.write_batch_blocking(0, records), Ok(batch(20, 0)));
        assert_eq!(reader.numbers(), [19]);
        drop((writer, reader));
        bench.assert_whole();
    }
}

#[test]
fn a_batch_waits_for_room_as_a_future_and_goes_on_where_it_was() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(1, 2));
    let mut reader = bench.reader(&writer, 0, 1);
    let mut came = Vec::new();
    let written = {
        let records = (0..40).map(|number| record(number, 100 + 50 * number as usize));
        let mut write = pin!(writer.write_batch(0, records));
        loop {
            match write.as_mut().poll(&mut idle_cx()) {
                Poll::Ready(written) => break written,
                Poll::Pending => came.extend(reader.numbers()),
            }
        }
    };
    assert_eq!(written, Ok(batch(40, 0)));
    writer.flush();
    came.extend(reader.numbers());
    assert_eq!(came, (0..40).collect::<Vec<_>>());
    drop((writer, reader));
    bench.assert_whole();
}

#[test]
fn a_batch_that_is_dropped_gives_up_the_record_under_way_and_leaves_the_rest() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(1, 2));
    let mut reader = bench.reader(&writer, 0, 1);
    let mut records = (0..10).map(|number| record(number, SEGMENT));
    {
        let mut write = pin!(writer.write_batch(0, &mut records));
        assert!(write.as_mut().poll(&mut idle_cx()).is_pending());
    }
    let next = number(&records.next().unwrap());
    assert_eq!(account(&writer, 0).lost.aborted.records, 1);
    assert_eq!(reader.numbers(), (0..next - 1).collect::<Vec<_>>());
    assert_eq!(writer.try_write(0, &record(99, 10)), Ok(Written::Queued));
    writer.flush();
    assert_eq!(reader.numbers(), [99]);
    drop((writer, reader));
    bench.assert_whole();
}

#[test]
fn a_batch_for_nobody_and_one_beside_a_record_under_way_are_refused() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(2, 2));
    let reader = bench.reader(&writer, 0, 1);
    let refused = writer.write_batch_blocking(2, [[0; 8]]);
    assert_eq!(refused, Err(WriteError::NoSuchSubpartition { target: 2, count: 2 }));
    let long = record(0, 9 * SEGMENT);
    assert!(writer.poll_write(&mut idle_cx(), 0, &mut &long[..]).is_pending());
    let under_way = Err(WriteError::RecordInProgress { target: 0 });
    assert_eq!(writer.write_batch_blocking(1, [[0; 8]]), under_way);
    assert_eq!(now(writer.write_batch(0, [[0; 8]])), under_way);
    writer.abort_record();
    assert_eq!(writer.write_batch_blocking(1, [[0; 8]; 3]), Ok(batch(3, 0)));
    drop((writer, reader));
    bench.assert_whole();
}

#[test]
fn what_a_policy_drops_of_a_batch_is_told() {
    let bench = Bench::new();
    let absent = Policies { before_first_bind: BeforeFirstBind::Discard, ..policies() };
    let mut writer = bench.writer(config(1, 2).policies(absent));
    assert_eq!(writer.write_batch_blocking(0, [[0; 8]; 5]), Ok(batch(0, 5)));
    assert_eq!(account(&writer, 0).lost.discarded.records, 5);
    drop(writer);
    bench.assert_whole();
}

/// What was written before is there and counted, and a flush tells of it.
#[test]
fn records_whose_maker_panics_leave_those_before_them() {
    let bench = Bench::new();
    let mut writer = bench.writer(config(1, 2));
    let mut reader = bench.reader(&writer, 0, 1);
    let records = (0..5).map(|number| {
        assert!(number < 3, "the maker's fault");
        record(number, 10)
    });
    let caught = catch_unwind(AssertUnwindSafe(|| writer.write_batch_blocking(0, records)));
    assert!(caught.is_err());
    reader.bell.take_all(|node| node.clear());
    writer.flush();
    assert!(!reader.bell.is_silent(), "its reader is told");
    assert_eq!(reader.numbers(), [0, 1, 2]);
    assert_eq!(writer.write_batch_blocking(0, [record(3, 10)]), Ok(batch(1, 0)));
    assert_eq!(reader.numbers(), [3]);
    assert_eq!(account(&writer, 0).written.records, 4);
    drop((writer, reader));
    bench.assert_whole();
}
