//! Finds whole frames in what comes from a socket.
//!
//! A frame that lies whole in a received range is used where it lies. One that runs over ranges is put together
//! in memory of its own: with receive buffers of half a mebibyte that is one of many.

use crate::wire::{HEADER_BYTES, Limits, WireError, frame_bytes};
use bytes::Bytes;
use std::ops::Range;

/// What a received range holds next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A frame lies at these bytes of the range.
    Whole(Range<usize>),
    /// A frame that began in an earlier range.
    Joined(Bytes),
    /// The range is used up.
    More,
}

/// The state of one connection's input between two ranges.
#[derive(Debug)]
pub(super) struct Framer {
    limits: Limits,
    /// The begin of a frame; its memory grows as bytes come, never by what a length says.
    carry: Vec<u8>,
}

impl Framer {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, carry: Vec::new() }
    }

    /// The next frame of `range` from `*at` on, and `*at` moved behind it.
    pub(super) fn next(&mut self, range: &[u8], at: &mut usize) -> Result<Step, WireError> {
        let rest = range.get(*at..).unwrap_or(&[]);
        if !self.carry.is_empty() {
            return self.join(rest, at);
        }
        let Some(header) = rest.first_chunk::<HEADER_BYTES>() else {
            return Ok(self.keep(rest, at));
        };
        let bytes = frame_bytes(header, self.limits)?;
        if bytes > rest.len() {
            return Ok(self.keep(rest, at));
        }
        let begin = *at;
        *at += bytes;
        Ok(Step::Whole(begin..*at))
    }

    fn keep(&mut self, rest: &[u8], at: &mut usize) -> Step {
        self.carry.extend_from_slice(rest);
        *at += rest.len();
        Step::More
    }

    fn join(&mut self, mut rest: &[u8], at: &mut usize) -> Result<Step, WireError> {
        if self.carry.len() < HEADER_BYTES {
            let come = rest.len().min(HEADER_BYTES - self.carry.len());
            self.keep(&rest[..come], at);
            rest = &rest[come..];
        }
        let Some(header) = self.carry.first_chunk::<HEADER_BYTES>() else { return Ok(Step::More) };
        let bytes = frame_bytes(header, self.limits)?;
        let come = rest.len().min(bytes - self.carry.len());
        self.carry.extend_from_slice(&rest[..come]);
        *at += come;
        if self.carry.len() < bytes {
            return Ok(Step::More);
        }
        Ok(Step::Joined(Bytes::from(std::mem::take(&mut self.carry))))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::wire::{Features, Frame, Ping, decode};
    use proptest::prelude::*;

    const LIMITS: Limits = Limits::Session { payload_bytes_max: 1024 };

    fn stream(pings: u64) -> Vec<u8> {
        let mut stream = Vec::new();
        for sequence in 0..pings {
            Frame::Ping(Ping { sequence, nanos: !sequence }).encode(&mut stream, Features::NONE);
        }
        stream
    }

    proptest! {
        #[test]
        fn every_frame_comes_once_whatever_the_ranges(cuts in prop::collection::vec(1_usize..70, 1..200)) {
            let stream = stream(40);
            let (mut framer, mut come, mut from) = (Framer::new(LIMITS), Vec::new(), 0);
            for cut in cuts.into_iter().cycle() {
                let range = &stream[from..stream.len().min(from + cut)];
                from += range.len();
                let mut at = 0;
                loop {
                    let frame = match framer.next(range, &mut at).unwrap() {
                        Step::Whole(frame) => range[frame].to_vec(),
                        Step::Joined(frame) => frame.to_vec(),
                        Step::More => break,
                    };
                    match decode(&frame, Features::NONE).unwrap() {
                        Frame::Ping(ping) => come.push(ping.sequence),
                        other => panic!("{other:?}"),
                    }
                }
                prop_assert_eq!(at, range.len());
                if from == stream.len() {
                    break;
                }
            }
            prop_assert_eq!(come, (0..40).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_length_over_its_limit_is_refused_before_anything_is_kept() {
        let mut framer = Framer::new(LIMITS);
        let mut frame = stream(1);
        frame[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(framer.next(&frame, &mut 0).is_err());
        // The same when the header comes byte by byte.
        let mut framer = Framer::new(LIMITS);
        for byte in &frame[..HEADER_BYTES - 1] {
            assert_eq!(framer.next(&[*byte], &mut 0).unwrap(), Step::More);
        }
        assert!(framer.next(&frame[HEADER_BYTES - 1..HEADER_BYTES], &mut 0).is_err());
        assert!(framer.carry.capacity() < 64);
    }
}
