//! The two ends of a stream by themselves, and what its frames are made of: for benches that compile the pure parts of
//! the library in, at their root.

use crate::clock::Moment;
use crate::event;
use crate::id::{BindEpoch, Incarnation};
use crate::protocol::{Accept, Acked, Incoming, Outgoing, Progress};
use crate::wire::{Ack, Amount, Bound, Consumed, LOSSES, Run, StreamId, StreamPosition};
use std::hint::black_box;
use std::time::Duration;

pub(crate) const EPOCH: BindEpoch = BindEpoch(1);

/// `count` consecutive runs, each of a stream of its own.
pub(crate) fn runs(count: u32, bytes: u32) -> Vec<Run> {
    let position = StreamPosition::new(1 << 20, 3);
    (0..count)
        .map(|stream| Run { stream: StreamId(stream), epoch: EPOCH, position, bytes, uniform: 100 })
        .collect()
}

pub(crate) fn acks(count: u32) -> Vec<Ack> {
    let position = StreamPosition::new(1 << 20, 3);
    let consumed = Consumed { records: 10_000, bytes: 1 << 20, entries: 3, aborted: 0 };
    let ack = |stream| Ack {
        stream: StreamId(stream),
        epoch: EPOCH,
        limit: StreamPosition::new(2 << 20, 67),
        received: position,
        consumed,
        priority: 0,
    };
    (0..count).map(ack).collect()
}

/// Both ends of one stream.
pub(crate) struct Ends {
    outgoing: Outgoing,
    incoming: Incoming,
    progress: Progress,
    now: Moment,
}

impl Ends {
    /// Bytes of a run.
    const RUN: u32 = 4096;
    /// Runs of a turn: half a window.
    pub(crate) const RUNS: u64 = 16;

    pub(crate) fn new() -> Self {
        let window = u64::from(Self::RUN) * Self::RUNS * 2;
        let bound = Bound {
            stream: StreamId(0),
            epoch: EPOCH,
            incarnation: Incarnation(1),
            resumed: false,
            ended: false,
            lost: [Amount::default(); LOSSES],
            in_doubt: Amount::default(),
            writer_lost: Amount::default(),
            barriers: event::LostBarriers::default(),
            ring_entries: 256,
        };
        Self {
            outgoing: Outgoing::new(EPOCH, Incoming::initial_limit(window)),
            incoming: Incoming::new(&bound, window).expect("a window that is allowed"),
            progress: Progress::default(),
            now: Moment::default(),
        }
    }

    /// What the two decide about some runs, and about the acknowledgement of them.
    pub(crate) fn turn(&mut self) {
        for _ in 0..Self::RUNS {
            let position = self.outgoing.send(black_box(u64::from(Self::RUN)));
            let run = Run { stream: StreamId(0), epoch: EPOCH, position, bytes: Self::RUN, uniform: 100 };
            assert_eq!(self.incoming.on_run(black_box(&run)).expect("in its place"), Accept::Fresh);
        }
        self.now = self.now.plus(Duration::from_micros(10));
        self.progress.left = self.outgoing.position();
        self.progress.consumed.bytes = self.progress.left.bytes;
        self.progress.consumed.records += Self::RUNS;
        let ack =
            self.incoming.acknowledgement(&self.progress, self.now, false).expect("half a window is due");
        assert!(matches!(self.outgoing.on_ack(black_box(&ack)), Ok(Acked::Fresh(news)) if news.credit));
    }
}
