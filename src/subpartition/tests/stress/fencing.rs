//! Attempts 1 to 8 bind in any order, all at once: the newest one owns the view in the end, and at no time
//! do two readers have the same.

use super::*;
use crate::test_size;

/// What one of the threads saw.
#[derive(Debug)]
enum Saw {
    Read { epoch: u32, records: Vec<u64>, fenced: bool, ended: bool },
    Refused(Refusal),
}

const ATTEMPTS: u32 = 8;
const RECORDS: u64 = 60;

fn policies(round: u64) -> Policies {
    let when_absent = match round % 4 {
        0 => WhenAbsent::Retain { quota: 8, then: WhenRetained::Block },
        1 => WhenAbsent::Retain { quota: 4, then: WhenRetained::DropOldest },
        2 => WhenAbsent::Replay { quota: 8 },
        _ => WhenAbsent::Discard,
    };
    Policies { when_absent, flush: Flush::EveryRecord, ..Policies::default() }
}

#[test]
fn the_newest_attempt_owns_the_view_whatever_the_order() {
    for round in 0..test_size::pick(500, 10_000) {
        play(round);
    }
}

fn play(round: u64) {
    let policies = policies(round);
    let mut bench = Bench::with_arena(RecordLayout::Lengths, policies, 8, 32, (96, 30));
    let (half, cache) = (bench.writer.take().unwrap(), SegmentCache::new(&bench.pool, bench.budget()));
    let (bench_ref, start) = (&bench, &AtomicBool::new(false));
    let mut dice = Dice::new(round + 1);
    // The last thread presents the newest attempt's number as another run of it.
    let mut seen: Vec<(u32, Saw)> = thread::scope(|scope| {
        let threads: Vec<_> = (1..=ATTEMPTS + 1)
            .map(|thread| {
                let attempt = thread.min(ATTEMPTS);
                let delay = dice.below(40);
                scope.spawn(move || {
                    await_start(start, delay);
                    (attempt, read(bench_ref, attempt, u64::from(thread)))
                })
            })
            .collect();
        let seed = dice.below(1 << 40);
        let writer = scope.spawn(move || write(Writer::new(half, cache), seed, start));
        start.store(true, Ordering::Release);
        let seen = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        writer.join().unwrap();
        seen
    });
    judge(policies, &bench.sub, &mut seen);
    bench.assert_whole();
}

fn await_start(start: &AtomicBool, delay: u64) {
    while !start.load(Ordering::Acquire) {
        thread::yield_now();
    }
    (0..delay).for_each(|_| thread::yield_now());
}

fn write(mut writer: Writer, seed: u64, start: &AtomicBool) {
    let mut dice = Dice::new(seed);
    await_start(start, dice.below(20));
    for seq in 0..RECORDS {
        let bytes = match dice.below(20) {
            0 => 8 + dice.below(9000),
            1..4 => 8 + dice.below(3000),
            _ => 8 + dice.below(60),
        };
        writer.write(&numbered(seq, bytes as usize));
    }
    writer.half.append_end(EndKind::Finished);
}

fn read(bench: &Bench, attempt: u32, incarnation: u64) -> Saw {
    let bell = Doorbell::new();
    let node = ReadyNode::new(&bell, 0);
    let request = BindRequest::new(Attempt(attempt), Incarnation(incarnation));
    let grant = match bench.sub.bind(request, &node) {
        Ok(grant) => grant,
        Err(refusal) => return Saw::Refused(refusal),
    };
    let epoch = grant.epoch.0;
    let mut reader = LocalReader::new(View::new(bench.sub.clone(), node.clone(), &grant), 1 << 20, false);
    let mut admission = Admission::new(1 << 20);
    let (mut records, mut fenced, mut ended) = (Vec::new(), false, grant.ended);
    let bed = Bed::new();
    while !(fenced || ended) {
        bell.take_all(|node| node.clear());
        loop {
            match reader.next(&mut admission) {
                Next::Record => records.push(number_of(reader.current().bytes())),
                Next::Empty => break,
                Next::Fenced => fenced = true,
                Next::EndOfPartition { .. } => ended = true,
                Next::Loss(_) | Next::EndOfData => {}
                other => panic!("{other:?}"),
            }
            if fenced || ended {
                break;
            }
        }
        if !(fenced || ended) && bell.may_sleep(&bed.waker()) {
            bed.sleep("reader");
        }
    }
    reader.clear(&mut admission);
    bell.close();
    Saw::Read { epoch, records, fenced, ended }
}

fn judge(policies: Policies, sub: &Subpartition, seen: &mut [(u32, Saw)]) {
    assert_eq!(sub.newest(), Some(Attempt(ATTEMPTS)));
    let newest = |saw: &&(u32, Saw)| saw.0 == ATTEMPTS;
    let owners = seen.iter().filter(newest).filter(|saw| matches!(saw.1, Saw::Read { .. })).count();
    assert_eq!(owners, 1, "one run of the newest attempt: {seen:?}");
    for (attempt, saw) in seen.iter() {
        match saw {
            Saw::Read { fenced, ended, .. } => {
                assert!(*fenced != *ended, "{seen:?}");
                assert!(*ended || *attempt < ATTEMPTS, "the newest reads to the end: {seen:?}");
            }
            Saw::Refused(Refusal::Stale { presented, current }) => {
                assert!(*presented == Attempt(*attempt) && current > presented && *attempt < ATTEMPTS);
            }
            Saw::Refused(refusal) => {
                assert_eq!(*refusal, Refusal::DuplicateAttempt { attempt: Attempt(ATTEMPTS) });
                assert_eq!(*attempt, ATTEMPTS);
            }
        }
    }
    let replays = matches!(policies.when_absent, WhenAbsent::Replay { .. });
    let mut streams: Vec<_> = seen
        .iter()
        .filter_map(|(attempt, saw)| match saw {
            Saw::Read { epoch, records, .. } => Some((*epoch, *attempt, records)),
            Saw::Refused(_) => None,
        })
        .collect();
    streams.sort_unstable();
    assert!(streams.windows(2).all(|pair| pair[0].0 < pair[1].0), "an epoch for each: {streams:?}");
    assert!(streams.windows(2).all(|pair| pair[0].1 < pair[1].1), "newer by newer: {streams:?}");
    for (_, _, records) in &streams {
        assert!(records.windows(2).all(|pair| pair[0] < pair[1]), "no duplicate, in order: {records:?}");
    }
    let account = sub.account();
    assert!(account.is_balanced(), "{account:?}");
    assert_eq!((account.written.records, account.queued), (RECORDS, Amount::ZERO));
    let all: Vec<u64> = streams.iter().flat_map(|stream| stream.2.iter().copied()).collect();
    let yielded = all.len() as u64;
    assert!(account.delivered.records <= yielded, "{account:?} {streams:?}");
    if replays {
        let mut distinct = all;
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct, (0..RECORDS).collect::<Vec<_>>(), "every record at least once");
    } else {
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "every record at most once: {streams:?}");
        assert!(yielded <= account.delivered.records + account.in_doubt.records, "{account:?} {streams:?}");
    }
}
