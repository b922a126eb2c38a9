//! What a seed chooses before anything moves: who is there, how rough it is, and what may go wrong.

use crate::memory::SegmentClass;
use crate::partition::PartitionConfig;
use crate::record::RecordLayout;
use crate::subpartition::{BeforeFirstBind, Flush, Policies, WhenAbsent, WhenFull, WhenRetained};
use crate::transport::fake::{self, Random};
use crate::wire::{PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MIN};
use std::num::NonZeroU32;
use std::time::Duration;

/// The window of a channel whose gate may hold next to nothing, in bytes.
const LEAST_WINDOW: u32 = 4096;

/// What goes wrong with the frames of a connection, which a network alone never does to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frames {
    /// Nothing.
    Sound,
    /// Copies of an older epoch come in between, which nobody may notice.
    Stale,
    /// They come twice, or don't, or more than was granted: the stream has to end by that.
    Broken,
}

/// One producer task.
#[derive(Clone, Debug)]
pub(super) struct ProducerPlan {
    pub(super) machine: usize,
    pub(super) config: PartitionConfig,
    pub(super) layout: RecordLayout,
    /// Operations until it finishes.
    pub(super) operations: u64,
    /// The most payload bytes of most records, and of a few.
    pub(super) small: u64,
    pub(super) large: u64,
    /// In thousandths: that an operation is a broadcast, an event, a priority event; that it sleeps between two.
    pub(super) broadcast: u64,
    pub(super) event: u64,
    pub(super) priority: u64,
    pub(super) rest: u64,
}

/// One consumer task.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConsumerPlan {
    pub(super) machine: usize,
    /// The window of all channels together.
    pub(super) receive_bytes: usize,
    pub(super) half_record_bytes: usize,
    pub(super) explicit: bool,
    /// In thousandths: that a record is kept for a while; that a channel is paused.
    pub(super) keep: u64,
    pub(super) pause: u64,
    pub(super) rest: u64,
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Endpoints of each machine's worker.
    pub(super) machines: Vec<u16>,
    pub(super) producers: Vec<ProducerPlan>,
    pub(super) consumers: Vec<ConsumerPlan>,
    pub(super) network: fake::Plan,
    pub(super) receive_buffers: u32,
    pub(super) checksums: bool,
    pub(super) payload_bytes: u32,
    /// Bytes that come beyond a channel's credit, if they do.
    pub(super) flood: u32,
    pub(super) bind_wait: Duration,
    pub(super) dead_after: Duration,
    /// How long deployments take, in microseconds.
    pub(super) deployment: u64,
    /// Steps with faults; after them everything comes to its end.
    pub(super) steps: u64,
    pub(super) faults: u64,
    pub(super) frames: Frames,
    /// Cores are turned as by a task's own thread, which leaves nothing unsaid.
    pub(super) turns_through: bool,
    /// In thousandths, after each step: that time goes on though there is something to do.
    pub(super) drift: u64,
    /// In thousandths: that a task is polled that nobody woke.
    pub(super) spurious: u64,
}

impl Plan {
    pub(super) fn new(random: &mut Random) -> Self {
        let machines: Vec<u16> = (0..random.of(1..4) + 1).map(|_| random.of(1..3) as u16).collect();
        let consumers = random.of(1..4);
        let mut consumers: Vec<_> = (0..consumers).map(|_| consumer(random, machines.len())).collect();
        let producers = random.of(1..4);
        let subpartitions = consumers.len() as u32;
        let producers: Vec<_> =
            (0..producers).map(|_| producer(random, machines.len(), subpartitions)).collect();
        let network = if random.chance(250) { fake::Plan::calm() } else { rough(random) };
        let frames = match random.of(0..8) {
            0 => Frames::Stale,
            1 => Frames::Broken,
            _ => Frames::Sound,
        };
        let mut payload_bytes = [PAYLOAD_BYTES_MIN, PAYLOAD_BYTES_MAX][random.of(0..2) as usize];
        let mut flood = 0;
        if frames == Frames::Broken && random.chance(500) {
            // More than the least window, and no more than a frame may have.
            (flood, payload_bytes) = (LEAST_WINDOW + 1, PAYLOAD_BYTES_MAX);
            consumers.iter_mut().for_each(|consumer| consumer.receive_bytes = 1);
        }
        Self {
            machines,
            producers,
            consumers,
            network,
            receive_buffers: random.of(4..9) as u32,
            checksums: random.chance(300),
            payload_bytes,
            flood,
            bind_wait: Duration::from_millis(random.of(20..3000)),
            dead_after: Duration::from_millis(random.of(20..400)),
            deployment: 1 << random.of(6..15),
            steps: random.of(100..2000),
            faults: if random.chance(150) { 0 } else { random.of(1..9) },
            frames,
            turns_through: random.chance(200),
            drift: random.of(0..60),
            spurious: if random.chance(500) { 0 } else { random.of(1..100) },
        }
    }
}

/// Rough, and with connections that break by themselves now and then.
pub(super) fn rough(random: &mut Random) -> fake::Plan {
    let mut plan = fake::Plan::rough(random);
    if random.chance(200) {
        plan.error = random.of(1..4);
    }
    plan
}

fn policies(random: &mut Random) -> Policies {
    let quota = random.of(2..12) as u32;
    let when_absent = match random.of(0..5) {
        0 | 1 => WhenAbsent::Discard,
        2 => WhenAbsent::Retain { quota, then: WhenRetained::Block },
        3 => WhenAbsent::Retain { quota, then: WhenRetained::DropOldest },
        _ => WhenAbsent::Replay { quota: quota + 2 },
    };
    let flush = match random.of(0..4) {
        0 => Flush::WhenFull,
        1 => Flush::EveryRecord,
        _ => Flush::Interval(Duration::from_micros(random.of(50..3000))),
    };
    let when_full = match random.of(0..6) {
        0 => WhenFull::Discard { after: Duration::ZERO },
        1 => WhenFull::Discard { after: Duration::from_micros(random.of(10..5000)) },
        _ => WhenFull::Block,
    };
    let before_first_bind = if random.chance(250) { BeforeFirstBind::Discard } else { BeforeFirstBind::Wait };
    Policies { before_first_bind, when_absent, when_full, flush }
}

fn producer(random: &mut Random, machines: usize, subpartitions: u32) -> ProducerPlan {
    let layout = if random.chance(200) {
        RecordLayout::Fixed(NonZeroU32::new(random.of(8..300) as u32).unwrap_or(NonZeroU32::MIN))
    } else {
        RecordLayout::Lengths
    };
    let config = PartitionConfig::new(subpartitions)
        .layout(layout)
        .policies(policies(random))
        .record_bytes_max(64 * 1024)
        .segment_class(SegmentClass::K4)
        .quota_segments(random.of(2..20) as u32)
        .floating_segments(random.of(2..24) as u32)
        .broadcast_segments(random.of(0..4) as u32);
    let often = |random: &mut Random, most| if random.chance(400) { 0 } else { random.of(0..most) };
    ProducerPlan {
        machine: random.of(0..machines as u64) as usize,
        config,
        layout,
        operations: random.of(10..250),
        small: 8 + random.of(1..400),
        large: 8 + if random.chance(300) { random.of(4000..40_000) } else { random.of(1..6000) },
        broadcast: often(random, 200),
        event: often(random, 200),
        priority: often(random, 60),
        rest: often(random, 200),
    }
}

fn consumer(random: &mut Random, machines: usize) -> ConsumerPlan {
    let receive_bytes = match random.of(0..3) {
        // The least window there is.
        0 => 1,
        1 => random.of(8_000..200_000),
        _ => 8 << 20,
    };
    ConsumerPlan {
        machine: random.of(0..machines as u64) as usize,
        receive_bytes: receive_bytes as usize,
        half_record_bytes: if random.chance(300) { random.of(1..30_000) as usize } else { 1 << 20 },
        explicit: random.chance(250),
        keep: if random.chance(300) { random.of(0..200) } else { 0 },
        pause: if random.chance(300) { random.of(0..40) } else { 0 },
        rest: if random.chance(500) { 0 } else { random.of(0..100) },
    }
}
