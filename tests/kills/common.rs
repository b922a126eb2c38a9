//! What all parts share: records that show when they are torn, workers, clocks, waits that end.

use pirn::{Io, MemoryConfig, SegmentClass, Worker};
use rustix::time::{ClockId, clock_gettime};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) const SUBPARTITIONS: u32 = 4;
/// The subpartition whose consumer is killed. The others' are its healthy siblings.
pub(crate) const KILLED: u32 = 0;
/// Longer than anything here takes: whoever waits that long is stuck.
pub(crate) const STUCK: Duration = Duration::from_secs(30);

/// `small` or `full`, by `PIRN_TEST_SIZE`.
pub(crate) fn pick<T>(small: T, full: T) -> T {
    match std::env::var("PIRN_TEST_SIZE").as_deref() {
        Ok("full") => full,
        Ok("small") | Err(std::env::VarError::NotPresent) => small,
        other => panic!("PIRN_TEST_SIZE is small or full, not {other:?}"),
    }
}

/// How long siblings are watched before anybody is killed, and whether their gaps are judged once and for all: with
/// `PIRN_TEST_CONTROL_SECONDS`. Without it there is less to compare with, and who is held up gets another try.
pub(crate) fn control() -> (Duration, bool) {
    match std::env::var("PIRN_TEST_CONTROL_SECONDS") {
        Err(std::env::VarError::NotPresent) => (pick(Duration::from_secs(2), Duration::from_secs(10)), false),
        Ok(seconds) => match seconds.parse() {
            Ok(seconds @ 1..) => (Duration::from_secs(seconds), true),
            _ => panic!("PIRN_TEST_CONTROL_SECONDS is a number from 1 on, not {seconds:?}"),
        },
        Err(error) => panic!("PIRN_TEST_CONTROL_SECONDS: {error}"),
    }
}

/// Nanoseconds of the clock that all processes share.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub(crate) fn sleep(time: Duration) {
    std::thread::sleep(time);
}

/// Waits until `what` is true, and fails with `picture` if that takes too long.
#[track_caller]
pub(crate) fn until(mut what: impl FnMut() -> bool, picture: impl FnOnce() -> String) {
    let deadline = now() + STUCK.as_nanos() as u64;
    while !what() {
        assert!(now() < deadline, "stuck: {}", picture());
        sleep(Duration::from_micros(300));
    }
}

/// The payload of record `number` in bytes: now and then one that fills more than a segment, so that an attempt may
/// have a part of it only.
pub(crate) fn record_bytes(number: u64) -> usize {
    if number % 8 == 7 { 5_000 } else { 100 }
}

/// Record `number` of `subpartition`, in the place of what is in `record`.
pub(crate) fn fill(record: &mut Vec<u8>, subpartition: u32, number: u64) {
    record.clear();
    record.extend_from_slice(&subpartition.to_le_bytes());
    record.extend_from_slice(&number.to_le_bytes());
    // Words that say whose they are and where.
    let mut word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(subpartition);
    while record.len() < record_bytes(number) {
        record.extend_from_slice(&word.to_le_bytes());
        word = word.wrapping_add(1);
    }
    record.truncate(record_bytes(number));
}

/// Whose record it is and which, if it is whole. `scratch` is for the comparison.
pub(crate) fn subpartition_and_number(bytes: &[u8], scratch: &mut Vec<u8>) -> Result<(u32, u64), String> {
    let torn = || format!("a torn record of {} bytes: {bytes:?}", bytes.len());
    let subpartition = u32::from_le_bytes(*bytes.first_chunk().ok_or_else(torn)?);
    let number = bytes.get(4..).and_then(<[u8]>::first_chunk).ok_or_else(torn)?;
    let number = u64::from_le_bytes(*number);
    fill(scratch, subpartition, number);
    if bytes == &scratch[..] { Ok((subpartition, number)) } else { Err(torn()) }
}

/// A worker with small segments: a retained quota of a few is used up in an outage. Without `io`, one without a
/// network.
pub(crate) fn worker(io: Option<Io>, segments: u32) -> Worker {
    let memory = MemoryConfig::new()
        .segments(SegmentClass::K32, 0)
        .segments(SegmentClass::K4, segments)
        .orphan_segments(segments / 4);
    let mut builder = Worker::builder().memory(memory);
    if let Some(io) = io {
        builder =
            builder.io(io).listen("127.0.0.1:0".parse().unwrap()).cluster_token([7; 32]).receive_buffers(8);
    }
    builder.start().unwrap()
}

/// What came of what the producer wrote to `subpartition`.
pub(crate) fn producer_log(folder: &Path, subpartition: u32) -> PathBuf {
    folder.join(format!("producer-{subpartition}"))
}

/// What a consumer of `subpartition` yielded.
pub(crate) fn consumer_log(folder: &Path, subpartition: u32) -> PathBuf {
    folder.join(format!("consumer-{subpartition}"))
}
