//! Readers that never come back: each sits on what it reads from and on two records that it was lent, and
//! is replaced under load.

use super::*;
use crate::clock::Monotonic;
use crate::test_size;
use bytes::Bytes;

/// A reader that doesn't move any more, and what its task has.
struct Stuck {
    reader: LocalReader,
    admission: Admission,
    lent: Vec<Bytes>,
    records: Vec<u64>,
}

const REPLACED: u32 = 100;

/// Where the writer stands still for a look at the account.
#[derive(Default)]
struct Quiet {
    wanted: AtomicBool,
    reached: AtomicBool,
    stop: AtomicBool,
}

impl Quiet {
    /// Writer, between two steps. False: it is over.
    fn pass(&self) -> bool {
        while self.wanted.load(Ordering::Acquire) && !self.is_over() {
            self.reached.store(true, Ordering::Release);
            thread::yield_now();
        }
        self.reached.store(false, Ordering::Release);
        !self.is_over()
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Calls `look` while the writer stands between two steps.
    fn look(&self, look: impl FnOnce()) {
        self.wanted.store(true, Ordering::Release);
        while !self.reached.load(Ordering::Acquire) {
            thread::yield_now();
        }
        look();
        self.wanted.store(false, Ordering::Release);
        while self.reached.load(Ordering::Acquire) {
            thread::yield_now();
        }
    }
}

/// The writer stops, also where its tester panics.
struct StopWriter<'a>(&'a Quiet);

impl Drop for StopWriter<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Release);
    }
}

#[test]
fn stuck_readers_are_replaced_in_no_time_and_keep_what_they_hold() {
    for when_absent in [
        WhenAbsent::Retain { quota: 20, then: WhenRetained::Block },
        WhenAbsent::Replay { quota: 20 },
        WhenAbsent::Discard,
    ] {
        for _ in 0..test_size::pick(1, 30) {
            // Room for what all of them hold.
            let lent = replace(when_absent, (512, 3 * REPLACED));
            assert!(lent > REPLACED as usize, "{lent} records lent by {REPLACED} readers");
        }
    }
}

#[test]
fn stuck_readers_beyond_the_orphans_quota_hold_up_the_writer_and_nobody_else() {
    // Six readers use up the orphans' quota; what the next ones hold stays on the subpartition's own, until
    // the writer waits and a reader finds nothing.
    let lent = replace(WhenAbsent::Retain { quota: 20, then: WhenRetained::Block }, (96, 18));
    assert!(lent > 10 && lent < REPLACED as usize, "{lent} records lent");
}

/// Says how many records were lent.
fn replace(when_absent: WhenAbsent, arena: (u32, u32)) -> usize {
    let policies = Policies { when_absent, flush: Flush::EveryRecord, ..Policies::default() };
    let mut bench = Bench::with_arena(RecordLayout::Lengths, policies, 20, 64, arena);
    let (half, cache) = (bench.writer.take().unwrap(), SegmentCache::new(&bench.pool, bench.budget()));
    let quiet = &Quiet::default();
    let clock = Monotonic::start();
    let (stuck, took) = thread::scope(|scope| {
        let stop = StopWriter(quiet);
        scope.spawn(move || write(half, cache, quiet));
        let mut stuck: Vec<Stuck> = Vec::new();
        let mut took = Vec::new();
        for attempt in 1..=REPLACED + 1 {
            let start = clock.now();
            let reader = bench.bind(attempt).unwrap();
            took.push(clock.now().since(start));
            stuck.push(get_stuck(reader, &clock));
            if let [.., old, _] = &mut stuck[..] {
                old.read_on();
            }
            quiet.look(|| {
                let account = bench.sub.account();
                assert!(account.is_balanced(), "{account:?}");
                let (used, limit) = bench.sub.segments();
                assert!(used <= limit && limit == 20, "{used} of {limit}");
                assert!(bench.pool.census().is_whole());
            });
        }
        drop(stop);
        (stuck, took)
    });
    bench.sub.release(&crate::error::Cause::Released);
    let lent = judge(when_absent, &bench, stuck, took);
    bench.assert_whole();
    lent
}

fn write(mut half: WriteHalf, mut cache: SegmentCache, quiet: &Quiet) {
    let mut dice = Dice::new(7);
    let mut seq = 0;
    while quiet.pass() {
        // With more than half of the quota used, records would be copied and not lent.
        if half.subpartition().segments().0 > 8 {
            thread::yield_now();
            continue;
        }
        let bytes = [3000, 2100, 2048, 300, 20, 4092, 6000][dice.below(7) as usize];
        let record = numbered(seq, bytes);
        seq += 1;
        let mut source = &record[..];
        while quiet.pass() && matches!(half.append(&mut source, &mut cache), Append::Blocked(_)) {
            thread::yield_now();
        }
    }
}

/// Reads until two records are lent and a third is at hand, or nothing of the kind has come for long.
fn get_stuck(reader: LocalReader, clock: &Monotonic) -> Stuck {
    let admission = Admission::new(1 << 20);
    let mut stuck = Stuck { reader, admission, lent: Vec::new(), records: Vec::new() };
    let start = clock.now();
    while clock.now().since(start) < Duration::from_millis(20) {
        let lent = stuck.segments_lent();
        match stuck.reader.next(&mut stuck.admission) {
            Next::Record => {
                let payload = stuck.reader.current();
                stuck.records.push(number_of(payload.bytes()));
                if lent == 2 {
                    break;
                }
                if payload.bytes().len() >= 2048 {
                    stuck.lent.push(payload.into_bytes());
                }
            }
            Next::Empty => thread::yield_now(),
            Next::Loss(_) => {}
            other => panic!("{other:?}"),
        }
    }
    stuck
}

impl Stuck {
    /// How many of its records lie in segments that it was lent, and aren't copies.
    fn segments_lent(&self) -> usize {
        let places = &self.reader.view().account().lent();
        let none = crate::memory::SegmentName::NONE.to_bits();
        places.iter().filter(|place| place.load(Ordering::Relaxed) != none).count()
    }

    /// It moves after all: what lies in its piece is its own, and then it is over.
    fn read_on(&mut self) {
        for _ in 0..self.records.len() % 3 {
            match self.reader.next(&mut self.admission) {
                Next::Record => self.records.push(number_of(self.reader.current().bytes())),
                Next::Fenced => return,
                other => panic!("{other:?}"),
            }
        }
    }
}

fn judge(when_absent: WhenAbsent, bench: &Bench, stuck: Vec<Stuck>, mut took: Vec<Duration>) -> usize {
    took.sort_unstable();
    let median = took[took.len() / 2];
    assert!(median < Duration::from_millis(1), "a bind took {median:?}: {took:?}");
    let mut last = None;
    for reader in &stuck {
        for lent in &reader.lent {
            assert!(reader.records.contains(&number_of(lent)), "what is lent stays as it was");
        }
        assert!(reader.records.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", reader.records);
        if !matches!(when_absent, WhenAbsent::Replay { .. }) {
            assert!(reader.records.first().is_none_or(|first| Some(*first) > last), "delivered twice");
            last = reader.records.last().copied().max(last);
        }
    }
    let account = bench.sub.account();
    assert!(account.is_balanced() && account.queued == Amount::ZERO, "{account:?}");
    let census = bench.pool.census();
    assert!(census.is_whole() && census.held() > 0, "{census:?}");
    let lent: usize = stuck.iter().map(Stuck::segments_lent).sum();
    let (kept, readers): (Vec<_>, Vec<_>) = stuck.into_iter().map(|stuck| (stuck.lent, stuck.reader)).unzip();
    drop(readers);
    let held = bench.pool.census().held() as usize;
    // Two records may lie in one segment; the ring's last entry is its own until it is dropped.
    assert!(held >= lent / 2 && held <= lent + 1, "{held} held, {lent} lent");
    drop(kept);
    lent
}
