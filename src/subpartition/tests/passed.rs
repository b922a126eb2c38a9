//! An entry may end after all that is in it was read: nothing more of it comes, and the writer needs its memory.

use super::*;

const RETAIN: WhenAbsent = WhenAbsent::Retain { quota: 1, then: WhenRetained::Block };
const ALL: [WhenAbsent; 3] = [WhenAbsent::Discard, RETAIN, WhenAbsent::Replay { quota: 1 }];
/// Under `Replay` partitions have more than one.
const LOCAL: [WhenAbsent; 2] = [WhenAbsent::Discard, RETAIN];

/// One segment for everything.
fn bench(when_absent: WhenAbsent) -> Bench {
    let policies = Policies { when_absent, flush: Flush::WhenFull, ..Policies::default() };
    Bench::new(RecordLayout::Lengths, policies, 1, 64)
}

fn source(bench: &Bench) -> Source {
    let node = ReadyNode::new(&bench.bell, 0);
    let request = BindRequest::new(Attempt(1), Incarnation(1)).holding(HOLDS);
    let grant = bench.sub.bind(request, &node).unwrap();
    Source::new(View::new(bench.sub.clone(), node, &grant))
}

fn send_all(source: &mut Source) -> u64 {
    let (mut sent, mut out) = (0, Vec::new());
    while let Offer::Data { bytes, .. } = source.offer().unwrap() {
        source.copy(bytes, &mut out);
        sent += bytes as u64;
    }
    sent
}

fn acknowledge(source: &mut Source, records: u64, bytes: u64) {
    source.received(bytes, 0).unwrap();
    let consumed = Consumed { amount: Amount::new(records, bytes), aborted: 0, entries: 0 };
    assert_eq!(source.consumed(consumed), Ok(false));
}

/// Goes on with a record, which waits where there is no room.
fn write(bench: &mut Bench, rest: &mut &[u8]) -> Append {
    bench.writer.as_mut().unwrap().append(rest, &mut bench.cache)
}

#[test]
fn an_entry_that_ends_behind_its_acknowledgement_makes_room() {
    for when_absent in ALL {
        let mut bench = bench(when_absent);
        let mut source = source(&bench);
        assert_eq!(bench.write(&record(0, 4000)), Append::Done);
        let sent = send_all(&mut source);
        acknowledge(&mut source, 1, sent);
        let next = record(1, 400);
        let mut rest = &next[..];
        assert_eq!(write(&mut bench, &mut rest), Append::Blocked(Blocked::Memory));
        assert_eq!(send_all(&mut source), 0);
        assert_eq!(write(&mut bench, &mut rest), Append::Done, "{when_absent:?}");
        assert_eq!(send_all(&mut source), 404);
        drop(source);
        bench.assert_whole();
    }
}

#[test]
fn an_entry_that_ends_before_its_acknowledgement_makes_room_by_it() {
    for when_absent in ALL {
        let mut bench = bench(when_absent);
        let mut source = source(&bench);
        assert_eq!(bench.write(&record(0, 4000)), Append::Done);
        let sent = send_all(&mut source);
        let next = record(1, 400);
        let mut rest = &next[..];
        assert_eq!(write(&mut bench, &mut rest), Append::Blocked(Blocked::Memory));
        assert_eq!(send_all(&mut source), 0);
        acknowledge(&mut source, 1, sent);
        assert_eq!(write(&mut bench, &mut rest), Append::Done, "{when_absent:?}");
        assert_eq!(send_all(&mut source), 404);
        drop(source);
        bench.assert_whole();
    }
}

#[test]
fn a_task_that_reads_by_itself_makes_room_when_it_has_read_everything() {
    for when_absent in LOCAL {
        let mut bench = bench(when_absent);
        let mut reader = bench.bind(1).unwrap();
        assert_eq!(bench.write(&record(0, 4000)), Append::Done);
        assert_eq!(bench.drain(&mut reader).len(), 1);
        let next = record(1, 400);
        let mut rest = &next[..];
        assert_eq!(write(&mut bench, &mut rest), Append::Blocked(Blocked::Memory));
        assert_eq!(bench.read(&mut reader), Got::Empty);
        assert_eq!(write(&mut bench, &mut rest), Append::Done, "{when_absent:?}");
        drop(reader);
        bench.assert_whole();
    }
}
