//! DATA: runs of stream bytes, each of one stream, described before the payloads.

use super::body::{Body, put_position};
use super::header::{Kind, finish_frame, start_frame};
use super::{CRC_BYTES, Features, HEADER_BYTES, RUN_BYTES, StreamId, StreamPosition, WireError};
use crate::id::BindEpoch;
use bytes::BufMut;
use std::ops::Range;

/// Consecutive bytes of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) stream: StreamId,
    pub(crate) epoch: BindEpoch,
    /// Where its first byte stands.
    pub(crate) position: StreamPosition,
    /// At least 1.
    pub(crate) bytes: u32,
    /// A hint: the payload length of all records that begin in it, if they are all equal, else `u32::MAX`.
    pub(crate) uniform: u32,
}

impl Run {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u32_le(self.stream.0);
        out.put_u32_le(self.epoch.0);
        put_position(out, self.position);
        out.put_u32_le(self.bytes);
        out.put_u32_le(self.uniform);
    }

    fn get(body: &mut Body<'_>) -> Result<Self, WireError> {
        Ok(Self {
            stream: body.stream()?,
            epoch: body.epoch()?,
            position: body.position()?,
            bytes: body.u32()?,
            uniform: body.u32()?,
        })
    }
}

/// The runs of one frame with their payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Runs<'a> {
    heads: &'a [u8],
    payload: &'a [u8],
    /// Where `payload` begins in the frame.
    at: usize,
}

impl<'a> Runs<'a> {
    /// Holds the runs to the frame: none is empty, and together they are the payload.
    pub(super) fn get(body: &mut Body<'a>, count: u16, checked: bool) -> Result<Self, WireError> {
        let heads = body.bytes(usize::from(count) * RUN_BYTES)?;
        let at = HEADER_BYTES + if checked { CRC_BYTES } else { 0 } + heads.len();
        let runs = Self { heads, payload: body.rest(), at };
        // At most 2^16 of them: the sum can't overflow.
        let mut sum = 0_u64;
        for run in runs.heads() {
            if run.bytes == 0 {
                return Err(WireError::Value { field: "the length of a run", value: 0 });
            }
            sum += u64::from(run.bytes);
        }
        let bytes = runs.payload.len() as u64;
        match sum {
            _ if sum > bytes => {
                Err(WireError::Short { what: "DATA", needed: sum as usize, left: runs.payload.len() })
            }
            _ if sum < bytes => Err(WireError::Trailing { what: "DATA", bytes: (bytes - sum) as usize }),
            _ => Ok(runs),
        }
    }

    pub(super) fn parts(self) -> (&'a [u8], &'a [u8]) {
        (self.heads, self.payload)
    }

    pub(crate) fn count(self) -> usize {
        self.heads.len() / RUN_BYTES
    }

    /// Bytes of all payloads.
    #[allow(dead_code, reason = "for tests")]
    pub(crate) fn payload_bytes(self) -> usize {
        self.payload.len()
    }

    fn heads(self) -> impl Iterator<Item = Run> + 'a {
        // The fields fill their bytes, and every value of them is one: nothing is left out here.
        self.heads.chunks_exact(RUN_BYTES).filter_map(|bytes| Run::get(&mut Body::new("DATA", bytes)).ok())
    }

    /// Each run with where its payload lies in the frame (counted from the frame's first byte).
    pub(crate) fn iter(self) -> impl Iterator<Item = (Run, Range<usize>)> + 'a {
        self.heads().scan(self.at, |at, run| {
            let from = *at;
            *at += run.bytes as usize;
            Some((run, from..*at))
        })
    }
}

/// Appends header and runs of a DATA frame; the payloads, in the order of the runs and of the lengths that
/// these say, have to follow on the wire from wherever they lie. `crc`: where a checksum is agreed on, all
/// payload bytes in that order, in any pieces. There are 1 to [`RUNS_MAX`](super::RUNS_MAX) runs, none of
/// them empty, with at most as many bytes as agreed on.
pub(crate) fn encode_data(out: &mut Vec<u8>, runs: &[Run], crc: Option<&mut dyn Iterator<Item = &[u8]>>) {
    debug_assert!((1..=super::RUNS_MAX).contains(&runs.len()), "{} runs in a frame", runs.len());
    debug_assert!(runs.iter().all(|run| run.bytes > 0), "an empty run: {runs:?}");
    let features = if crc.is_some() { Features::CRC } else { Features::NONE };
    let start = start_frame(out, features, Kind::Data, runs.len() as u16);
    runs.iter().for_each(|run| run.put(out));
    let payload: usize = runs.iter().map(|run| run.bytes as usize).sum();
    finish_frame(out, start, payload, crc);
}
