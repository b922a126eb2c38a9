//! What a peer may send that is not what it should: frames of an older epoch, twice, left out, beyond the credit.
//!
//! A batch that goes to the network is taken apart into its frames and put together anew. TCP does nothing of that
//! to them; a peer with a defect may, and the rules about streams have to hold then, too.

use super::plan::Frames;
use crate::id::BindEpoch;
use crate::transport::fake::Random;
use crate::transport::{Batch, Part};
use crate::wire::{
    Ack, EventFrame, Features, Frame, HEADER_BYTES, Limits, PAYLOAD_BYTES_MAX, Run, decode, encode_acks,
    encode_data, frame_bytes,
};

const LIMITS: Limits = Limits::Session { payload_bytes_max: PAYLOAD_BYTES_MAX };

/// Changes what one endpoint sends.
#[derive(Debug)]
pub(super) struct Forger {
    frames: Frames,
    random: Random,
    /// More than any channel's window, and no more than a frame may have: what a flood has. 0 for none.
    flood: u32,
    /// How often each thing was done.
    pub(super) stale: u64,
    pub(super) broken: u64,
}

impl Forger {
    pub(super) fn new(frames: Frames, seed: u64, flood: u32) -> Self {
        Self { frames, random: Random::new(seed), flood, stale: 0, broken: 0 }
    }

    /// The batch that goes out in the place of `batch`.
    pub(super) fn forge(&mut self, batch: Box<Batch>) -> Box<Batch> {
        let chance = match self.frames {
            Frames::Sound => return batch,
            Frames::Stale => 300,
            Frames::Broken => 60,
        };
        if !self.random.chance(chance) {
            return batch;
        }
        let bytes: Vec<u8> = batch.parts.iter().flat_map(|part| of(part, &batch.staging).to_vec()).collect();
        let frames = split(&bytes);
        let mut out = Vec::with_capacity(bytes.len());
        match self.frames {
            Frames::Broken => self.break_one(&frames, &mut out),
            _ => self.add_stale(&frames, &mut out),
        }
        let (len, returns) = (out.len(), batch.returns);
        Box::new(Batch { staging: out, parts: vec![Part::Staged(0..len)], bytes: len, returns })
    }

    /// Before some frames a copy of another epoch, with other contents.
    fn add_stale(&mut self, frames: &[&[u8]], out: &mut Vec<u8>) {
        for frame in frames {
            if self.random.chance(500) && stale(frame, out) {
                self.stale += 1;
            }
            out.extend_from_slice(frame);
        }
    }

    fn break_one(&mut self, frames: &[&[u8]], out: &mut Vec<u8>) {
        let chosen = self.random.of(0..frames.len() as u64) as usize;
        for (index, frame) in frames.iter().enumerate() {
            let run = data(frame).map(|(run, _)| run).filter(|_| index == chosen);
            let Some(run) = run else {
                out.extend_from_slice(frame);
                continue;
            };
            let goes_on = |later: &&[u8]| data(later).is_some_and(|(other, _)| other.stream == run.stream);
            self.broken += 1;
            let how = if self.flood > 0 && self.random.chance(600) { 1 } else { self.random.of(0..3) };
            match how {
                0 if frames[index + 1..].iter().any(goes_on) => {}
                1 if self.flood > 0 => {
                    out.extend_from_slice(frame);
                    let mut position = run.position;
                    position.bytes += u64::from(run.bytes);
                    let payload = vec![0xA5; self.flood as usize];
                    put(out, features(frame), Run { position, bytes: self.flood, ..run }, &payload);
                }
                _ => {
                    out.extend_from_slice(frame);
                    out.extend_from_slice(frame);
                }
            }
        }
    }
}

fn of<'a>(part: &'a Part, staging: &'a [u8]) -> &'a [u8] {
    match part {
        Part::Staged(range) => &staging[range.clone()],
        Part::Segment(lent) => lent,
    }
}

/// A batch holds whole frames.
fn split(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while let Some(header) = bytes.first_chunk::<HEADER_BYTES>() {
        let len = frame_bytes(header, LIMITS).unwrap_or(bytes.len());
        let (frame, rest) = bytes.split_at(len);
        frames.push(frame);
        bytes = rest;
    }
    frames
}

fn features(frame: &[u8]) -> Features {
    // The flags of the header: this one is all there are.
    if frame[5] == 0 { Features::NONE } else { Features::CRC }
}

/// The run of a DATA frame with one, and its payload.
fn data(frame: &[u8]) -> Option<(Run, &[u8])> {
    match decode(frame, features(frame)) {
        Ok(Frame::Data(runs)) if runs.count() == 1 => {
            let (run, range) = runs.iter().next()?;
            Some((run, frame.get(range)?))
        }
        _ => None,
    }
}

fn put(out: &mut Vec<u8>, features: Features, run: Run, payload: &[u8]) {
    let crc: &mut dyn Iterator<Item = &[u8]> = &mut std::iter::once(payload);
    encode_data(out, &[run], features.has(Features::CRC).then_some(crc));
    out.extend_from_slice(payload);
}

/// Appends what the frame might have been in another epoch.
fn stale(frame: &[u8], out: &mut Vec<u8>) -> bool {
    let features = features(frame);
    let other = |epoch: BindEpoch| BindEpoch(epoch.0 ^ 1).max_one();
    match decode(frame, features) {
        Ok(Frame::Data(_)) => {
            let Some((run, payload)) = data(frame) else { return false };
            let payload: Vec<u8> = payload.iter().map(|byte| !byte).collect();
            put(out, features, Run { epoch: other(run.epoch), ..run }, &payload);
        }
        Ok(Frame::Event(event)) => {
            Frame::Event(EventFrame { epoch: other(event.epoch), ..event }).encode(out, features);
        }
        Ok(Frame::Acks(acks)) => {
            let acks: Vec<_> = acks.iter().map(|ack| Ack { epoch: other(ack.epoch), ..ack }).collect();
            encode_acks(out, features, &acks);
        }
        _ => return false,
    }
    true
}

/// 0 is no epoch.
trait MaxOne {
    fn max_one(self) -> Self;
}

impl MaxOne for BindEpoch {
    fn max_one(self) -> Self {
        if self.0 == 0 { Self(2) } else { self }
    }
}
