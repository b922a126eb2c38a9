//! Random streams, cut at random, against the plain list of what was written.

use super::*;
use crate::test_size::pick;
use proptest::{collection::vec, prelude::*};

/// One thing that a producer writes.
#[derive(Clone, Debug)]
enum Written {
    Record(usize),
    /// So many bytes of a record of this length, then nothing more of it.
    Broken {
        payload: usize,
        come: usize,
    },
    Event(RemoteEvent),
}

/// How the stream reaches the reader.
#[derive(Clone, Debug)]
struct Plan {
    written: Vec<Written>,
    /// Lengths of chunks, in turn; a chunk ends at an event in any case.
    chunks: Vec<usize>,
    /// What is said of equal lengths, in turn.
    hints: Vec<u32>,
    fixed: Option<u32>,
}

fn event() -> impl Strategy<Value = RemoteEvent> {
    prop_oneof![
        any::<u64>().prop_map(RemoteEvent::Barrier),
        any::<i64>().prop_map(RemoteEvent::Watermark),
        vec(any::<u8>(), 0..40).prop_map(|bytes| RemoteEvent::Application(bytes.into())),
        (1..9_u64, 1..99_u64).prop_map(|(records, bytes)| RemoteEvent::Loss(Amount::new(records, bytes))),
        Just(RemoteEvent::EndOfData),
    ]
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..30_usize, 4 => Just(8_usize), 2 => 30..300_usize, 1 => 2_000..40_000_usize]
}

fn plan() -> impl Strategy<Value = Plan> {
    let written = prop_oneof![
        12 => length().prop_map(Written::Record),
        1 => (1..3_000_usize, any::<prop::sample::Index>()).prop_map(|(payload, cut)| {
            Written::Broken { payload, come: cut.index(payload + 4) }
        }),
        2 => event().prop_map(Written::Event),
    ];
    let chunks = vec(prop_oneof![3 => 1..9_usize, 3 => 9..200_usize, 2 => 200..32_000_usize], 1..6);
    let hint = prop_oneof![Just(UNIFORM_NONE), Just(8_u32), 0..40_u32, any::<u32>()];
    let fixed = prop_oneof![4 => Just(None), 1 => (1..50_u32).prop_map(Some)];
    (vec(written, 0..60), chunks, vec(hint, 1..5), fixed).prop_map(|(written, chunks, hints, fixed)| Plan {
        written,
        chunks,
        hints,
        fixed,
    })
}

/// What is fed, and what has to come of it.
struct Script {
    deliveries: Vec<Delivery>,
    expected: Vec<Got>,
    stream_bytes: u64,
    records: u64,
    aborted: u64,
    entries: u64,
    layout: RecordLayout,
}

impl Script {
    fn of(plan: &Plan, buffers: &mut Buffers) -> Self {
        let layout =
            plan.fixed.map_or(RecordLayout::Lengths, |width| RecordLayout::Fixed(width.try_into().unwrap()));
        let mut script = Self {
            deliveries: Vec::new(),
            expected: Vec::new(),
            stream_bytes: 0,
            records: 0,
            aborted: 0,
            entries: 0,
            layout,
        };
        let (mut chunks, mut hints) = (plan.chunks.iter().cycle(), plan.hints.iter().cycle());
        let mut stretch = Vec::new();
        for (number, written) in plan.written.iter().enumerate() {
            let body = |count: usize| -> Vec<u8> { (0..count).map(|at| (number * 7 + at) as u8).collect() };
            let width = |asked: usize| plan.fixed.map_or(asked, |width| width as usize);
            match written {
                Written::Record(asked) => {
                    let payload = body(width(*asked));
                    stretch.extend_from_slice(&layout_encoded(layout, &payload));
                    script.records += 1;
                    script.expected.push(Got::Record(payload));
                }
                Written::Broken { payload, come } => {
                    let whole = layout_encoded(layout, &body(width(*payload)));
                    let come = (*come).min(whole.len() - 1);
                    stretch.extend_from_slice(&whole[..come]);
                    script.cut(&mut stretch, &mut chunks, &mut hints, buffers);
                    script.aborted += come as u64;
                    script.push_event(RemoteEvent::Abort);
                }
                Written::Event(event) => {
                    script.cut(&mut stretch, &mut chunks, &mut hints, buffers);
                    script.push_event(event.clone());
                    script.expected.push(Got::Event(event.clone()));
                }
            }
        }
        script.cut(&mut stretch, &mut chunks, &mut hints, buffers);
        script.push_event(RemoteEvent::EndOfPartition);
        script.expected.push(Got::Event(RemoteEvent::EndOfPartition));
        script
    }

    fn push_event(&mut self, event: RemoteEvent) {
        self.entries += 1;
        self.deliveries.push(Delivery::Event(event));
    }

    fn cut<'a>(
        &mut self,
        stretch: &mut Vec<u8>,
        chunks: &mut impl Iterator<Item = &'a usize>,
        hints: &mut impl Iterator<Item = &'a u32>,
        buffers: &mut Buffers,
    ) {
        self.stream_bytes += stretch.len() as u64;
        let mut rest = &stretch[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at((*chunks.next().unwrap()).min(rest.len()));
            rest = later;
            let bytes = if buffers.free() > 1 { buffers.lend(now) } else { heap(now) };
            self.deliveries.push(Delivery::Data { uniform: *hints.next().unwrap(), bytes });
        }
        stretch.clear();
    }
}

fn layout_encoded(layout: RecordLayout, payload: &[u8]) -> Vec<u8> {
    match layout {
        RecordLayout::Lengths => encoded(payload),
        RecordLayout::Fixed(_) => payload.to_vec(),
    }
}

/// Where a bind begins.
const BEGIN: Mark = Mark { amount: Amount::ZERO, aborted: 0, events: 0, entry: 0 };

/// One channel under way.
struct Channel {
    feeder: Feeder,
    reader: RemoteReader,
    to_feed: std::vec::IntoIter<Delivery>,
    fed_bytes: u64,
    got: Vec<Got>,
    seen: Progress,
    acknowledged: Option<Mark>,
    explicit: bool,
    is_paused: bool,
    lent: Vec<(Vec<u8>, Bytes)>,
}

impl Channel {
    fn new(bench: &Bench, script: &mut Script, explicit: bool) -> Self {
        let (feeder, end) = bench.channel(64 << 10);
        Self {
            feeder,
            reader: RemoteReader::new(end, script.layout, 1 << 20, explicit),
            to_feed: std::mem::take(&mut script.deliveries).into_iter(),
            fed_bytes: 0,
            got: Vec::new(),
            seen: Progress::default(),
            acknowledged: None,
            explicit,
            is_paused: false,
            lent: Vec::new(),
        }
    }

    fn feed(&mut self) {
        if let Some(delivery) = self.to_feed.next() {
            if let Delivery::Data { bytes, .. } = &delivery {
                self.fed_bytes += bytes.len() as u64;
            }
            self.feeder.push(delivery);
        }
    }

    fn is_ended(&self) -> bool {
        self.got.last() == Some(&Got::Event(RemoteEvent::EndOfPartition))
    }

    /// Says whether an item came.
    fn read(&mut self, admission: &mut Admission, keep: bool) -> bool {
        if self.is_ended() {
            return false;
        }
        match next(&mut self.reader, admission) {
            Got::Empty | Got::NotAdmitted => {
                self.reader.settle(admission);
                return false;
            }
            Got::Record(payload) => {
                if keep {
                    self.lent.push((payload.clone(), self.reader.current_owned()));
                }
                self.got.push(Got::Record(payload));
            }
            got => self.got.push(got),
        }
        true
    }

    /// The network's picture goes forward, and is never ahead of what was fed.
    fn look(&mut self) {
        let now = self.feeder.progress();
        let before = std::mem::replace(&mut self.seen, now);
        assert!(now.left >= before.left && now.left <= self.fed_bytes, "{now:?}");
        let (consumed, was) = (now.consumed, before.consumed);
        assert!(consumed.amount.bytes >= was.amount.bytes && consumed.amount.bytes <= now.yielded.bytes);
        assert!(consumed.amount.records >= was.amount.records && consumed.entries >= was.entries);
        assert!(consumed.amount.records <= now.yielded.records && now.yielded.bytes <= now.left);
        assert!(now.pinned <= self.feeder.window() / 2);
        if self.explicit {
            let acknowledged = self.acknowledged.map_or(Amount::ZERO, |mark| mark.amount);
            assert!(consumed.amount.bytes <= acknowledged.bytes, "nothing but what was acknowledged");
        }
    }

    fn acknowledge(&mut self) {
        let mark = self.reader.mark();
        if self.explicit
            && self.acknowledged != Some(mark)
            && mark.is_after(self.acknowledged.unwrap_or(BEGIN))
        {
            let end = self.is_ended();
            assert_eq!(self.reader.acknowledge(mark), Acked::Done { end });
            assert_eq!(self.reader.acknowledge(mark), Acked::Ignored, "once");
            self.acknowledged = Some(mark);
            assert_eq!(self.feeder.progress().consumed.amount, mark.amount);
        }
    }
}

/// One step of the schedule: which channel, and what.
#[derive(Clone, Copy, Debug)]
enum Step {
    Feed(usize),
    Read { keep: bool },
    Flush,
    Pause,
    Look,
    Acknowledge,
    Release,
}

fn step() -> impl Strategy<Value = (usize, Step)> {
    let step = prop_oneof![
        4 => prop_oneof![4 => 1..4_usize, 1 => 60..120_usize].prop_map(Step::Feed),
        6 => any::<bool>().prop_map(|keep| Step::Read { keep }),
        2 => Just(Step::Flush),
        1 => Just(Step::Pause),
        2 => Just(Step::Look),
        1 => Just(Step::Acknowledge),
        1 => Just(Step::Release),
    ];
    (0..3_usize, step)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(pick(150, 6000)))]

    #[test]
    fn what_is_fed_is_read(
        plans in vec(plan(), 1..4),
        steps in vec(step(), 0..200),
        explicit: bool,
        half_max in prop_oneof![Just(1_u64), Just(3_000), Just(1 << 20)],
    ) {
        let bench = Bench::new();
        let mut buffers = Buffers::new(24);
        let mut scripts: Vec<_> = plans.iter().map(|plan| Script::of(plan, &mut buffers)).collect();
        let mut channels: Vec<_> =
            scripts.iter_mut().map(|script| Channel::new(&bench, script, explicit)).collect();
        let mut admission = Admission::new(half_max);
        for (which, step) in steps {
            let count = channels.len();
            let channel = &mut channels[which % count];
            match step {
                Step::Feed(count) => (0..count).for_each(|_| channel.feed()),
                Step::Read { keep } if !channel.is_paused => {
                    channel.read(&mut admission, keep);
                }
                Step::Read { .. } => {}
                Step::Flush => {
                    channel.feeder.flush();
                }
                Step::Pause => {
                    channel.is_paused = !channel.is_paused;
                    if channel.is_paused {
                        channel.reader.set_aside(&mut admission);
                    }
                }
                Step::Look => channel.look(),
                Step::Acknowledge => channel.acknowledge(),
                Step::Release => channel.lent.clear(),
            }
        }
        // Everything else in turn, as long as anything moves.
        loop {
            let (mut moved, eased) = (false, admission.eased());
            for channel in &mut channels {
                while channel.to_feed.len() > 0 {
                    channel.feed();
                    moved = true;
                }
                channel.feeder.flush();
                while channel.read(&mut admission, false) {
                    moved = true;
                }
                let before = channel.seen;
                channel.look();
                moved |= channel.seen.left != before.left;
                channel.acknowledge();
            }
            // Who was refused is worth another look when somebody else gave something back.
            if !moved && admission.eased() == eased {
                break;
            }
        }
        for (mut channel, script) in channels.into_iter().zip(scripts) {
            prop_assert_eq!(&channel.got, &script.expected);
            for (payload, lent) in &channel.lent {
                prop_assert_eq!(&payload[..], &lent[..]);
            }
            channel.reader.settle(&mut admission);
            channel.reader.clear(&mut admission);
            drop(channel.reader);
            prop_assert!(channel.feeder.is_closed());
            let last = channel.feeder.progress();
            let all = Amount::new(script.records, script.stream_bytes);
            prop_assert_eq!(last.left, script.stream_bytes);
            prop_assert_eq!((last.yielded, last.consumed.amount), (all, all));
            prop_assert_eq!((last.consumed.entries, last.consumed.aborted), (script.entries, script.aborted));
            drop(channel.lent);
            prop_assert_eq!(channel.feeder.progress().pinned, 0);
        }
        prop_assert_eq!(admission.admitted_bytes(), 0);
        prop_assert_eq!(buffers.free(), 24, "every buffer came back");
    }

    /// Bytes from a stranger, with whatever it says of their lengths: each record has the length that stands in
    /// the stream before it.
    #[test]
    fn lengths_are_those_of_the_stream(
        bytes in vec(prop_oneof![Just(0_u8), Just(8), any::<u8>()], 0..600),
        chunk in 1..40_usize,
        uniform in prop_oneof![Just(0_u32), Just(8), 0..300_u32, any::<u32>()],
    ) {
        let bench = Bench::new();
        let (mut feeder, mut reader) = bench.reader(1 << 20, false);
        for part in bytes.chunks(chunk) {
            feeder.push(Delivery::Data { uniform, bytes: heap(part) });
        }
        let mut admission = Admission::new(1 << 20);
        let mut rest = &bytes[..];
        loop {
            let expected = rest.first_chunk::<4>().map(|prefix| u32::from_le_bytes(*prefix) as usize);
            match next(&mut reader, &mut admission) {
                Got::Record(payload) => {
                    prop_assert_eq!(Some(payload.len()), expected);
                    prop_assert_eq!(&payload[..], &rest[4..4 + payload.len()]);
                    rest = &rest[4 + payload.len()..];
                }
                Got::TooLong(bytes) => {
                    prop_assert_eq!(Some(bytes), expected);
                    prop_assert!(bytes > 1 << 20);
                    break;
                }
                Got::Empty if !feeder.flush() || bench.task_rung() => {}
                got => {
                    prop_assert_eq!(got, Got::Empty);
                    prop_assert!(expected.is_none_or(|bytes| rest.len() < 4 + bytes), "a record is missing");
                    prop_assert_eq!(reader.torn().bytes as usize, rest.len());
                    break;
                }
            }
        }
        reader.clear(&mut admission);
    }
}
