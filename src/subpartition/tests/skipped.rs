//! The rest of a record whose begin went to an older view: nobody is sent it, and it doesn't stay.

use super::*;

/// It is longer than the quota, so that the writer gets on only as it is given back.
#[test]
fn what_is_skipped_of_a_long_record_makes_room_for_its_rest() {
    let retain = WhenAbsent::Retain { quota: 2, then: WhenRetained::Block };
    for when_absent in [retain, WhenAbsent::Discard] {
        let policies = Policies { when_absent, flush: Flush::WhenFull, ..Policies::default() };
        let mut bench = Bench::new(RecordLayout::Lengths, policies, 2, 64);
        let bind = |bench: &Bench, attempt: u32| {
            let node = ReadyNode::new(&bench.bell, 0);
            let request = BindRequest::new(Attempt(attempt), Incarnation(u64::from(attempt))).holding(HOLDS);
            let grant = bench.sub.bind(request, &node).unwrap();
            Source::new(View::new(bench.sub.clone(), node, &grant))
        };
        let mut first = bind(&bench, 1);
        let long = record(0, 100_000);
        let mut rest = &long[..];
        let blocked = Append::Blocked(Blocked::Memory);
        let writer = bench.writer.as_mut().unwrap();
        assert_eq!(writer.append(&mut rest, &mut bench.cache), blocked);
        let Offer::Data { bytes, .. } = first.offer().unwrap() else { panic!("a part of it is there") };
        first.copy(bytes, &mut Vec::new());
        let mut second = bind(&bench, 2);
        let mut appends = 0;
        let last = loop {
            assert_eq!(second.offer(), Ok(Offer::Empty), "there is only the rest of the record");
            let append = bench.writer.as_mut().unwrap().append(&mut rest, &mut bench.cache);
            appends += 1;
            if append != blocked {
                break append;
            }
            assert!(appends < 100, "the writer waits for ever: {when_absent:?}");
        };
        let expected = if when_absent == WhenAbsent::Discard { Append::Dropped } else { Append::Done };
        assert_eq!(last, expected);
        // The next record is sent.
        assert_eq!(bench.write(&record(1, 100)), Append::Done);
        assert!(matches!(second.offer().unwrap(), Offer::Data { .. } | Offer::Event));
        drop((first, second));
        bench.assert_whole();
    }
}
