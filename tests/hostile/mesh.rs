//! A mesh of 4 producers and 4 consumers whose tasks are killed at random, under every policy, against an
//! account of every id: written as queued, yielded, told as lost or in doubt.

use crate::common::*;
use pirn::{
    Attempt, BeforeFirstBind, Flush, GateConfig, Incarnation, Item, Policies, TryNext, WaitError, WhenAbsent,
    WhenFull, WhenRetained, Worker, WriteError, Written,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const SIDE: u32 = 4;

/// A small generator: the same kills for the same seed, as far as threads allow.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// What one consumer yielded, in order: `(consumer attempt, producer, id)`.
type Yielded = Vec<(u32, u32, u64)>;

/// Attempts of one consumer, each of which stops at random, until the ends have come.
fn consume(
    worker: &Worker,
    channels: Vec<pirn::ChannelDescriptor>,
    target: u32,
    stop: &AtomicBool,
) -> Yielded {
    let mut random = Random(u64::from(target) * 77 + 5);
    let mut yielded = Yielded::new();
    for attempt in 1.. {
        // Half of the consumers say themselves what is consumed, now and then.
        let explicit = target.is_multiple_of(2);
        let config = GateConfig::new(Attempt(attempt), Incarnation(u64::from(attempt)))
            .channels(channels.iter().cloned())
            .explicit_acknowledge(explicit);
        let mut gate = worker.input_gate(config);
        let started = Instant::now();
        let lives = random.below(3000);
        let mut kept = Vec::new();
        let mut items = 0;
        loop {
            items += 1;
            if items > lives && !stop.load(Ordering::Relaxed) {
                break;
            }
            if explicit && random.below(20) == 0 {
                gate.acknowledge_all();
            }
            let patience = if explicit { Duration::from_millis(2) } else { STUCK };
            match gate.next_blocking_timeout(patience).unwrap() {
                TryNext::Item(Item::Record(record)) => {
                    yielded.push((attempt, record.channel(), number(&record)));
                    if kept.len() < 3 && random.below(50) == 0 {
                        kept.push(record.into_bytes());
                    }
                }
                TryNext::Item(Item::BindFailed { error, .. }) => panic!("{error}"),
                TryNext::Item(_) => {}
                // The writer may wait for what is not acknowledged.
                TryNext::Empty if explicit && started.elapsed() < STUCK => gate.acknowledge_all(),
                TryNext::Empty => panic!("stuck: {:?}", gate.snapshot()),
                TryNext::End => {
                    gate.acknowledge_all();
                    return yielded;
                }
            }
        }
        // Some stay for a while beside the attempt that replaces them.
        if random.below(4) == 0 {
            thread::spawn(move || {
                thread::park_timeout(Duration::from_millis(3));
                drop((gate, kept));
            });
        }
    }
    yielded
}

fn mesh(policies: Policies, forever: Duration) {
    let worker = worker(2048);
    let writers: Vec<_> = (0..SIDE)
        .map(|index| {
            let config = config(SIDE, policies.when_absent).policies(policies).floating_segments(64);
            worker.create_partition(id(index), Attempt(1), config).unwrap()
        })
        .collect();
    let stop = Arc::new(AtomicBool::new(false));
    let consumers: Vec<_> = (0..SIDE)
        .map(|target| {
            let channels = writers.iter().map(|writer| writer.descriptor(target)).collect();
            let (worker, stop) = (worker.clone(), stop.clone());
            thread::spawn(move || consume(&worker, channels, target, &stop))
        })
        .collect();
    let producers: Vec<_> = writers
        .into_iter()
        .zip(1_u64..)
        .map(|(mut writer, seed)| {
            let stop = stop.clone();
            thread::spawn(move || {
                let mut random = Random(seed * 1001);
                let mut queued: Vec<Vec<u64>> = vec![Vec::new(); SIDE as usize];
                let mut id = 0;
                while !stop.load(Ordering::Relaxed) {
                    let target = random.below(u64::from(SIDE));
                    let most = if random.below(30) == 0 { 5 * SEGMENT as u64 } else { 300 };
                    let record = record(id, random.below(most) as usize);
                    match writer.write_blocking_timeout(target as u32, &record, Duration::from_secs(5)) {
                        Ok(Written::Queued) => queued[target as usize].push(id),
                        Ok(_) => {}
                        Err(WaitError::Write(WriteError::Closed { cause })) => panic!("{cause}"),
                        Err(error) => panic!("{error}: {}", writer.why_blocked(target as u32)),
                    }
                    id += 1;
                }
                // The ends are read: what is in the accounts is final.
                let before_end = Duration::from_millis(1);
                while writer.finish_blocking_timeout(before_end).is_err() {
                    thread::yield_now();
                }
                (queued, writer.snapshot())
            })
        })
        .collect();
    thread::park_timeout(forever);
    stop.store(true, Ordering::Relaxed);
    let producers: Vec<_> = producers.into_iter().map(|thread| thread.join().unwrap()).collect();
    let yielded: Vec<Yielded> = consumers.into_iter().map(|thread| thread.join().unwrap()).collect();
    let replays = matches!(policies.when_absent, WhenAbsent::Replay { .. });
    for (target, yielded) in yielded.iter().enumerate() {
        let mut last: HashMap<(u32, u32), u64> = HashMap::new();
        let mut seen: HashSet<(u32, u64)> = HashSet::new();
        for (attempt, producer, id) in yielded {
            let before = last.insert((*attempt, *producer), *id);
            assert!(
                before.is_none_or(|before| before < *id),
                "{policies:?}: order of {producer} to {target}"
            );
            assert!(seen.insert((*producer, *id)) || replays, "{policies:?}: {id} of {producer} twice");
        }
        for (producer, (queued, snapshot)) in producers.iter().enumerate() {
            let account = snapshot.subpartitions[target].account;
            assert!(account.is_balanced(), "{policies:?}: {account:?}");
            let missing = queued[target].iter().filter(|id| !seen.contains(&(producer as u32, **id))).count();
            let lost = account.lost.total().records
                - account.lost.discarded.records
                - account.lost.overflowed.records
                - account.lost.aborted.records;
            let missing = missing as u64;
            assert!(
                lost <= missing && missing <= lost + account.in_doubt.records,
                "{policies:?}: {missing} missing of {producer} to {target}: {account:?}"
            );
            assert!(!replays || missing == 0, "{missing} missing: {account:?}");
        }
    }
    until(|| worker.snapshot().partitions.is_empty());
    end(&worker);
}

#[test]
fn every_policy_survives_kills_at_random() {
    let block = WhenAbsent::Retain { quota: 8, then: WhenRetained::Block };
    let oldest = WhenAbsent::Retain { quota: 4, then: WhenRetained::DropOldest };
    let all = [
        (WhenAbsent::Discard, WhenFull::Block, Flush::default()),
        (WhenAbsent::Discard, WhenFull::Discard { after: Duration::from_micros(300) }, Flush::EveryRecord),
        (block, WhenFull::Block, Flush::Interval(Duration::from_micros(200))),
        (oldest, WhenFull::Block, Flush::default()),
        (oldest, WhenFull::Discard { after: Duration::ZERO }, Flush::WhenFull),
        (WhenAbsent::Replay { quota: 8 }, WhenFull::Block, Flush::default()),
    ];
    for (round, (when_absent, when_full, flush)) in all.into_iter().enumerate() {
        let before_first_bind =
            if round.is_multiple_of(2) { BeforeFirstBind::Wait } else { BeforeFirstBind::Discard };
        let policies = Policies { before_first_bind, when_absent, when_full, flush };
        let start = Instant::now();
        mesh(policies, Duration::from_millis(pick(400, 6_000)));
        println!("{policies:?}: {:?}", start.elapsed());
    }
}
