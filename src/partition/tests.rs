//! The registry: who is answered what, and when.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

use super::*;
use crate::clock::{Clock, Moment};
use crate::doorbell::{Doorbell, ReadyNode};
use crate::error::BindError;
use crate::id::{DataSetId, Incarnation, JobId};
use crate::inbox::{Inbox, Popped};
use crate::memory::{MemoryConfig, SegmentClass};
use crate::record::RecordLayout;
use crate::subpartition::BindRequest;
use crate::sync::AtomicU64;
use std::num::NonZeroU32;
use std::task::Waker;
use std::time::Duration;

/// Stands still until it is told.
#[derive(Debug, Default)]
struct Still(AtomicU64);

impl Clock for Still {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.0.load(Ordering::Relaxed))
    }
    fn wake_at(&self, _: Moment, _: &Waker) {}
}

struct Bench {
    manager: Arc<Manager>,
    clock: Arc<Still>,
    bell: Arc<Doorbell>,
}

type Answer = Arc<Inbox<BindAnswer>>;

impl Bench {
    fn new() -> Self {
        let memory = MemoryConfig::new().segments(SegmentClass::K32, 0).segments(SegmentClass::K4, 64);
        let pool = SegmentPool::new(&memory.orphan_segments(4)).unwrap();
        let clock = Arc::new(Still::default());
        let limits = WaitLimits { longest: Duration::from_secs(10), most: 2 };
        Self { manager: Manager::new(pool, clock.clone(), limits), clock, bell: Doorbell::new() }
    }

    fn create(&self, index: u32, attempt: u32) -> Result<WriterParts, CreateError> {
        let config = PartitionConfig::new(1).segment_class(SegmentClass::K4).floating_segments(2);
        self.manager.create(id(index), Attempt(attempt), config, secret(attempt))
    }

    fn bind(&self, index: u32, producer: u32, consumer: u32) -> (Result<BindOutcome, BindError>, Answer) {
        self.bind_with(&descriptor(index, producer), consumer, 1)
    }

    fn bind_with(
        &self,
        descriptor: &ChannelDescriptor,
        consumer: u32,
        incarnation: u64,
    ) -> (Result<BindOutcome, BindError>, Answer) {
        let node = ReadyNode::new(&self.bell, 0);
        let answer = Arc::new(Inbox::new(2, node.clone()));
        let request = BindRequest::new(Attempt(consumer), Incarnation(incarnation));
        (self.manager.bind(descriptor, request, &node, &answer), answer)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.bell.close();
    }
}

fn id(index: u32) -> PartitionId {
    PartitionId { job: JobId(1), data_set: DataSetId(2), index }
}

/// Every attempt has its own.
fn secret(attempt: u32) -> BindSecret {
    BindSecret::new(u128::from(attempt) + 100)
}

fn descriptor(index: u32, producer: u32) -> ChannelDescriptor {
    ChannelDescriptor {
        partition: id(index),
        producer_attempt: Attempt(producer),
        subpartition: 0,
        location: Location::Local,
        secret: secret(producer),
        layout: RecordLayout::Lengths,
    }
}

fn is_waiting(outcome: &Result<BindOutcome, BindError>) -> bool {
    matches!(outcome, Ok(BindOutcome::Waiting(_)))
}

fn refusal(outcome: Result<BindOutcome, BindError>) -> BindError {
    outcome.err().unwrap()
}

/// So that a run that went wrong can be repeated.
#[test]
fn partitions_end_in_the_order_of_their_names() {
    let ends: [fn(&Manager); 2] =
        [|manager| assert_eq!(manager.release_job(JobId(1)), 8), |manager| manager.shutdown()];
    for end in ends {
        let bench = Bench::new();
        let mut held = Vec::new();
        for index in (0..8).map(|index| index * 5 % 8) {
            let parts = bench.create(index, 1).unwrap();
            let node = ReadyNode::new(&bench.bell, index);
            let answer = Arc::new(Inbox::new(2, node.clone()));
            let request = BindRequest::new(Attempt(1), Incarnation(1));
            let bound = bench.manager.bind(&descriptor(index, 1), request, &node, &answer).unwrap();
            held.push((parts, bound));
        }
        let rung = || {
            let mut rung = Vec::new();
            bench.bell.take_all(|node| {
                node.clear();
                rung.push(node.token());
            });
            rung
        };
        rung();
        end(&bench.manager);
        assert_eq!(rung(), (0..8).collect::<Vec<_>>());
    }
}

#[test]
fn an_outdated_descriptor_is_told_so_and_a_stranger_is_told_nothing() {
    let bench = Bench::new();
    let first = bench.create(0, 1).unwrap();
    assert!(matches!(bench.bind(0, 1, 1).0, Ok(BindOutcome::Bound(_))));
    let second = bench.create(0, 3).unwrap();
    assert_eq!(first.partition.closed(), Some(Cause::Superseded { newer: Attempt(3) }));
    let stale = BindError::StaleProducer { presented: Attempt(1), current: Attempt(3) };
    assert_eq!(refusal(bench.bind(0, 1, 1).0), stale);
    let mut stranger = descriptor(0, 3);
    stranger.secret = BindSecret::new(5);
    assert_eq!(refusal(bench.bind_with(&stranger, 1, 1).0), BindError::NotFound { partition: id(0) });
    stranger.producer_attempt = Attempt(1);
    assert_eq!(refusal(bench.bind_with(&stranger, 1, 1).0), BindError::NotFound { partition: id(0) });
    // The old attempt's secret doesn't open the new attempt.
    let mut mixed = descriptor(0, 3);
    mixed.secret = secret(1);
    assert_eq!(refusal(bench.bind_with(&mixed, 1, 1).0), BindError::NotFound { partition: id(0) });
    // A newer producer attempt is waited for.
    let (outcome, _answer) = bench.bind(0, 4, 1);
    assert!(is_waiting(&outcome));
    drop((first, second));
}

#[test]
fn an_ended_partition_says_how_it_ended_to_who_knows_it() {
    let bench = Bench::new();
    let parts = bench.create(0, 2).unwrap();
    assert!(bench.manager.release(id(0), Attempt(2), Cause::Released));
    assert!(!bench.manager.release(id(0), Attempt(2), Cause::Released));
    assert_eq!(refusal(bench.bind(0, 2, 1).0), BindError::Released { cause: Cause::Released });
    let mut stranger = descriptor(0, 2);
    stranger.secret = BindSecret::new(5);
    assert_eq!(refusal(bench.bind_with(&stranger, 1, 1).0), BindError::NotFound { partition: id(0) });
    assert!(matches!(
        bench.create(0, 2),
        Err(CreateError::Stale { presented: Attempt(2), current: Attempt(2), .. })
    ));
    let next = bench.create(0, 3).unwrap();
    drop((parts, next));
}

#[test]
fn a_descriptor_that_does_not_fit_is_refused_with_what_differs() {
    let bench = Bench::new();
    let parts = bench.create(0, 1).unwrap();
    let mut wrong = descriptor(0, 1);
    wrong.layout = RecordLayout::Fixed(NonZeroU32::new(8).unwrap());
    assert!(matches!(
        refusal(bench.bind_with(&wrong, 1, 1).0),
        BindError::Layout { what: "record layout", .. }
    ));
    let mut beyond = descriptor(0, 1);
    beyond.subpartition = 1;
    assert!(matches!(
        refusal(bench.bind_with(&beyond, 1, 1).0),
        BindError::Layout { what: "number of subpartitions", .. }
    ));
    drop(parts);
}

#[test]
fn waiting_binds_are_bounded_and_the_newest_stays() {
    let bench = Bench::new();
    let (old, old_answer) = bench.bind(0, 1, 1);
    assert!(is_waiting(&old));
    let (new, new_answer) = bench.bind(0, 1, 2);
    assert!(is_waiting(&new));
    assert!(matches!(old_answer.pop(), Popped::Item(Err(BindError::Superseded { newer: Attempt(2) }))));
    assert!(matches!(old_answer.pop(), Popped::Closed));
    let stale = BindError::Stale { presented: Attempt(1), current: Attempt(2) };
    assert_eq!(refusal(bench.bind(0, 1, 1).0), stale);
    let twin = bench.bind_with(&descriptor(0, 1), 2, 99).0;
    assert_eq!(refusal(twin), BindError::DuplicateAttempt { attempt: Attempt(2) });
    let (other, _other_answer) = bench.bind(1, 1, 1);
    assert!(is_waiting(&other));
    assert_eq!(refusal(bench.bind(2, 1, 1).0), BindError::TooManyWaiting { waiting: 2 });
    // A stranger with a newer attempt takes nobody's place.
    drop(other);
    let mut stranger = descriptor(0, 1);
    stranger.secret = BindSecret::new(5);
    let (strange, strange_answer) = bench.bind_with(&stranger, 9, 1);
    assert!(is_waiting(&strange));
    assert!(matches!(new_answer.pop(), Popped::Empty));
    // One that is dropped makes room.
    let other = strange;
    drop(other);
    assert!(matches!(strange_answer.pop(), Popped::Empty));
    assert_eq!(bench.manager.waiting(), 1);
    let parts = bench.create(0, 1).unwrap();
    let Popped::Item(Ok(bound)) = new_answer.pop() else { panic!("the newest waiter gets it") };
    assert_eq!(parts.partition.subpartition(0).unwrap().newest(), Some(Attempt(2)));
    drop((bound, parts));
}

#[test]
fn a_wait_ends_in_time_with_the_job_and_with_the_worker_each_with_its_answer() {
    let bench = Bench::new();
    let (waiting, answer) = bench.bind(0, 1, 1);
    bench.clock.0.store(9_999_999_999, Ordering::Relaxed);
    bench.manager.housekeeping();
    assert!(matches!(answer.pop(), Popped::Empty));
    bench.clock.0.store(10_000_000_000, Ordering::Relaxed);
    bench.manager.housekeeping();
    assert!(matches!(answer.pop(), Popped::Item(Err(BindError::TimedOut { waited_ms: 10_000, .. }))));
    drop(waiting);
    let (_waiting, answer) = bench.bind(0, 1, 1);
    let parts = bench.create(1, 1).unwrap();
    assert_eq!(bench.manager.release_job(JobId(1)), 1);
    let released = |answer: &Answer, wanted: Cause| match answer.pop() {
        Popped::Item(Err(BindError::Released { cause })) => assert_eq!(cause, wanted),
        other => panic!("{other:?}"),
    };
    released(&answer, Cause::JobReleased);
    assert_eq!(parts.partition.closed(), Some(Cause::JobReleased));
    assert!(matches!(bench.create(0, 1), Err(CreateError::Closed { cause: Cause::JobReleased, .. })));
    let mut elsewhere = descriptor(0, 1);
    elsewhere.partition.job = JobId(2);
    let (_waiting, answer) = bench.bind_with(&elsewhere, 1, 1);
    bench.manager.shutdown();
    released(&answer, Cause::Shutdown);
    let refused = bench.bind_with(&elsewhere, 1, 1).0;
    assert_eq!(refusal(refused), BindError::Released { cause: Cause::Shutdown });
}

#[test]
fn settings_that_do_not_fit_are_named() {
    let bench = Bench::new();
    let refused = |config: PartitionConfig| {
        let made = bench.manager.create(id(0), Attempt(1), config, secret(1));
        made.err().unwrap().to_string()
    };
    assert!(refused(PartitionConfig::new(0)).contains("at least 1"));
    assert!(refused(PartitionConfig::new(1).guaranteed_segments(0)).contains("guaranteed_segments"));
    assert!(refused(PartitionConfig::new(1).record_bytes_max(10)).contains("record_bytes_max"));
    assert!(refused(PartitionConfig::new(1).guaranteed_segments(9).quota_segments(2)).contains("quota"));
    let insufficient = refused(PartitionConfig::new(100).segment_class(SegmentClass::K4));
    assert!(insufficient.contains("100") || insufficient.contains("304"), "{insufficient}");
}
