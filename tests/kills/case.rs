//! One case of the table: a control stretch, a stretch of kills, and the judgement.

use crate::child::siblings;
use crate::common::{KILLED, SUBPARTITIONS, consumer_log, control, now, pick, record_bytes, sleep, until};
use crate::consumer::Over;
use crate::log::{Log, Note};
use crate::producer::{DROPPED, Produced, Producer, QUEUED};
use crate::victim::{Starter, Victims, Way};
use pirn::{
    Account, Amount, Attempt, BindSecret, ChannelDescriptor, DataSetId, JobId, PartitionConfig, PartitionId,
    Phase, Policies, SegmentClass, WhenAbsent,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

const CONTROL: u64 = 1;
const KILLS: u64 = 2;
/// No sibling waits longer for its next record.
const GAP_MAX: u64 = 100_000_000;
/// Nor longer than so many times what it waited in the control stretch.
const GAP_FACTOR: u64 = 3;
/// A short control stretch may see less than what a machine that has other things to do takes at any time.
const CONTROL_LEAST: (u64, u64) = (10_000_000, 0);

/// A folder that goes with the case.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kills-{}-{}", std::process::id(), now()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}

/// Descriptors and threads of this process.
fn held() -> (usize, usize) {
    let count = |folder: &str| std::fs::read_dir(folder).unwrap().count();
    (count("/proc/self/fd"), count("/proc/self/task"))
}

/// A small generator: the same delays for the same case.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Runs one case. Says in one line what was seen: as an error where siblings were held up.
pub(crate) fn run(way: Way, when_absent: WhenAbsent) -> Result<String, String> {
    let outside = held();
    let folder = Folder::new();
    let worker = way.worker();
    let fresh = worker.census();
    let config = PartitionConfig::new(SUBPARTITIONS)
        .segment_class(SegmentClass::K4)
        .quota_segments(16)
        .floating_segments(64)
        .policies(Policies { when_absent, ..Policies::default() })
        .secret(BindSecret::new(0x5eed << 64 | 1));
    let id = PartitionId { job: JobId(3), data_set: DataSetId(1), index: 0 };
    let writer = worker.create_partition(id, Attempt(1), config).unwrap();
    // Threads take the local descriptors that the worker makes of its own address.
    let channels: Vec<ChannelDescriptor> = writer
        .descriptors()
        .iter()
        .map(|channel| ChannelDescriptor::from_bytes(&channel.to_bytes()).unwrap())
        .collect();
    let starter = || Starter { way, folder: &folder.0, worker: &worker };
    let producer = Producer::start(writer, &folder.0, pick(12_000, 20_000));
    let mut siblings_all = starter().start(1, &channels[1..]);
    let mut victims = Victims::new(starter(), channels[KILLED as usize].clone());
    victims.first();
    let logs: Vec<Log> =
        siblings().map(|index| Log::open(&consumer_log(&folder.0, index)).unwrap()).collect();
    until(|| logs.iter().all(|log| log.get(1, Note::Yielded) > 0), || format!("{:#?}", worker.snapshot()));
    let with_clocks = || logs.iter().zip(&producer.logs()[1..]).map(|(log, other)| (log, log.clock(other)));
    let begin = |stretch| {
        producer.begin_stretch(stretch);
        with_clocks().for_each(|(log, clock)| log.begin_stretch(stretch, clock));
    };
    let longest =
        |stretch| with_clocks().map(|(log, clock)| log.longest_gap(stretch, clock)).max().unwrap_or_default();
    begin(CONTROL);
    let (watched, is_strict) = control();
    sleep(watched);
    let (control, control_producer) = (longest(CONTROL), producer.longest_gap(CONTROL));
    let before = held();
    victims.slowest = 0;
    begin(KILLS);
    let start = now();
    let kills: u64 = pick(10, 100);
    let mut noticed = 0;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..kills {
        sleep(Duration::from_micros(random.below(20_000)));
        let absence =
            if round % 3 == 0 || matches!(way, Way::KilledEarly(_)) { random.below(100_000) } else { 0 };
        victims.replace(round % 4 == 3, || {
            if absence > 0 && matches!(way, Way::Killed(_)) {
                let gone = now();
                let phase = || worker.snapshot().partitions[0].subpartitions[KILLED as usize].phase;
                until(|| phase() == Phase::Unavailable, || "nobody notices that a process is gone".into());
                noticed = noticed.max(now() - gone);
            }
            sleep(Duration::from_micros(absence));
        });
        siblings_all.assert_alive();
    }
    let (gap, gap_producer) = (longest(KILLS), producer.longest_gap(KILLS));
    let took = now() - start;
    victims.wake_stuck();
    until(|| held() == before, || format!("{before:?} descriptors and threads, then {:?}", held()));
    let (mut produced, producer_logs) = producer.stop();
    produced.writer.finish_blocking_timeout(crate::common::STUCK).unwrap();
    victims.current.take().expect("the last attempt").end(Over::End);
    siblings_all.end(Over::End);
    let seen = judge(&produced, &producer_logs, &victims, &logs);
    drop(produced.writer);
    until(
        || worker.census() == fresh && worker.snapshot().partitions.is_empty(),
        || format!("{fresh:?}, then {:?}", worker.snapshot()),
    );
    let last = worker.shutdown(Duration::from_secs(1));
    assert_eq!((last.lost_wakeups, last.net.violations), (0, 0), "{last:?}");
    let slowest = victims.slowest;
    drop(victims);
    drop(worker);
    until(|| held() == outside, || format!("{outside:?} descriptors and threads, then {:?}", held()));
    let millis = |nanos: u64| nanos as f64 / 1e6;
    let picture = format!(
        "{kills} kills in {:.0} ms, a start {:.1} ms at most, noticed in {:.1} ms; {seen}; siblings' longest gap {:.1} ms, control of {} s {:.1} ms, \
         beside what the machine lets nobody run (the producer's rounds: {:.1} and {:.1} ms)",
        millis(took),
        millis(slowest),
        millis(noticed),
        millis(gap),
        watched.as_secs(),
        millis(control),
        millis(gap_producer),
        millis(control_producer),
    );
    let least = if is_strict { 0 } else { pick(CONTROL_LEAST.0, CONTROL_LEAST.1) };
    let control = control.max(least);
    if gap <= GAP_MAX && gap <= GAP_FACTOR * control { Ok(picture) } else { Err(picture) }
}

fn judge(produced: &Produced, producer_logs: &[Log], victims: &Victims<'_>, siblings: &[Log]) -> String {
    let accounts: Vec<Account> =
        produced.writer.snapshot().subpartitions.iter().map(|subpartition| subpartition.account).collect();
    let consumer_logs: Vec<&Log> = std::iter::once(&*victims.log).chain(siblings).collect();
    for (index, account) in accounts.iter().enumerate() {
        let (written, wrote, yielded) =
            (produced.written[index], &producer_logs[index], consumer_logs[index]);
        assert!(account.is_balanced() && account.queued == Amount::ZERO, "{index}: {account:?}");
        assert_eq!(account.written.records, written, "{index}: {account:?}");
        let bytes: u64 = (0..written).map(|record| record_bytes(record) as u64 + 4).sum();
        assert_eq!(account.written.bytes, bytes, "{index}: {account:?}");
        let (mut missing, mut missing_queued) = (0, 0);
        for record in 0..written {
            let (wrote, was_yielded) = (wrote.noted(record), yielded.noted(record) != 0);
            assert!(
                wrote == QUEUED || (wrote == DROPPED && !was_yielded),
                "{index}: record {record}, {wrote}"
            );
            missing += u64::from(!was_yielded);
            missing_queued += u64::from(!was_yielded && wrote == QUEUED);
        }
        let (lost, in_doubt) = (account.lost, account.in_doubt.records);
        let all = lost.total().records;
        let refused = lost.discarded.records + lost.overflowed.records + lost.aborted.records;
        assert!(all <= missing && missing <= all + in_doubt, "{index}: {missing} missing: {account:?}");
        let queued = all - refused;
        assert!(
            queued <= missing_queued && missing_queued <= queued + in_doubt,
            "{index}: {missing_queued} missing of the queued ones: {account:?}"
        );
        if index as u32 != KILLED {
            assert_eq!((missing, account.in_doubt), (0, Amount::ZERO), "a sibling's: {account:?}");
        }
    }
    let (log, account) = (&victims.log, &accounts[KILLED as usize]);
    // Every attempt that lived to tell of its bind told what its predecessors didn't get: nothing twice, and nothing
    // never where all lived so long.
    let told = (log.sum(Note::Lost) + log.get(victims.attempt, Note::Noticed), log.sum(Note::InDoubt));
    let (lost, in_doubt) = (account.lost.total().records, account.in_doubt.records);
    if matches!(victims.starter.way, Way::KilledEarly(_)) {
        assert!(told.0 <= lost && told.1 <= in_doubt, "{told:?} told: {account:?}");
    } else {
        assert!((1..=victims.attempt).all(|attempt| log.get(attempt, Note::Bound) == 1));
        assert_eq!(told, (lost, in_doubt), "{account:?}");
    }
    let unseen = (0..produced.written[0]).filter(|record| log.noted(*record) == 0).count();
    format!(
        "{} written, {} lost <= {unseen} missing <= {} more in doubt; full {} times, siblings {}",
        account.written.records,
        lost,
        in_doubt,
        produced.full[0],
        produced.full[1..].iter().sum::<u64>(),
    )
}
