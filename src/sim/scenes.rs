//! What the simulation found, each as a short scene of its own that doesn't depend on what seeds come to.

use super::plan::{ConsumerPlan, Frames, Plan, ProducerPlan};
use super::world::World;
use crate::clock::Moment;
use crate::memory::SegmentClass;
use crate::partition::PartitionConfig;
use crate::record::RecordLayout;
use crate::subpartition::{Account, Flush, Policies};
use crate::transport::fake::{self, Random};
use std::time::Duration;

const AGES: Moment = Moment::from_nanos(u64::MAX);

/// A producer on the first machine and a consumer on the second, with nothing between them that goes wrong.
fn calm() -> World {
    let policies = Policies { flush: Flush::EveryRecord, ..Policies::default() };
    let config = PartitionConfig::new(1).segment_class(SegmentClass::K4).policies(policies);
    let producer = ProducerPlan {
        machine: 0,
        config,
        layout: RecordLayout::Lengths,
        operations: 40,
        small: 100,
        large: 100,
        broadcast: 0,
        event: 0,
        priority: 0,
        rest: 0,
    };
    let consumer = ConsumerPlan {
        machine: 1,
        receive_bytes: 1 << 20,
        half_record_bytes: 1 << 20,
        explicit: false,
        keep: 0,
        pause: 0,
        rest: 0,
    };
    let plan = Plan {
        machines: vec![1, 1],
        producers: vec![producer],
        consumers: vec![consumer],
        network: fake::Plan::calm(),
        receive_buffers: 4,
        checksums: false,
        payload_bytes: 64 * 1024,
        flood: 0,
        bind_wait: Duration::from_secs(10),
        dead_after: Duration::from_secs(5),
        deployment: 1,
        steps: 0,
        faults: 0,
        frames: Frames::Sound,
        turns_through: false,
        drift: 0,
        spurious: 0,
    };
    World::of(plan, Random::new(1), true).unwrap()
}

impl World {
    fn turn_until(&mut self, what: impl Fn(&Self) -> bool) {
        for _ in 0..10_000 {
            if what(self) {
                return;
            }
            self.turn().unwrap();
        }
        panic!("{}", self.who_waits());
    }

    /// Records that the one consumer was given.
    fn given(&self) -> u64 {
        self.oracle.logs.get(&(0, 1)).map_or(0, |log| log.sums[0].distinct.records)
    }

    fn account(&self) -> Account {
        let partition = self.oracle.logs[&(0, 1)].partition.as_ref().unwrap();
        partition.snapshot().subpartitions[0].account
    }
}

/// A worker leaves in order, and a task of it reads on in what had come: the producer's account must not say of any
/// of that that nobody got it.
#[test]
fn what_a_task_reads_after_its_worker_left_is_not_unread() {
    let mut world = calm();
    world.turn_until(|world| world.given() >= 3);
    world.consumers[0].until = AGES;
    // All of it arrives.
    world.turn_until(|world| world.producers[0].is_finishing() && world.network.next_event().is_none());
    world.consumers[0].is_outdated = true;
    world.touch(0, 0);
    world.machines[1] = None;
    world.workers[1].leave(Duration::from_millis(10));
    world.turn_until(|world| world.workers[1].is_over());
    world.consumers[0].hurry();
    let before = world.given();
    world.turn_until(|world| world.given() == 40);
    // At rest the accounts are held to what was given.
    world.turn_cores(Duration::from_secs(2)).unwrap();
    world.check_quiet().unwrap();
    let account = world.account();
    assert_eq!(account.lost.unread.records, 0, "{account:?}");
    assert!(account.in_doubt.records >= world.given() - before, "{account:?}");
    world.finish().unwrap();
}
