//! A connection of the simulation: bytes on their way in both directions.

use super::Dice;
use crate::protocol::Violation;
use crate::wire::{Features, HEADER_BYTES, Limits, decode, frame_bytes};
use std::collections::VecDeque;

/// One direction of a connection. What is sent arrives later, in order, unless the connection is cut.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    under_way: VecDeque<(u64, Vec<u8>)>,
    newest: u64,
}

impl Pipe {
    pub(super) fn send(&mut self, now: u64, bytes: Vec<u8>, dice: &mut Dice) {
        if !bytes.is_empty() {
            let longest = if dice.once_in(10) { 3_000_000 } else { 150_000 };
            self.newest = self.newest.max(now + dice.below(longest));
            self.under_way.push_back((self.newest, bytes));
        }
    }

    /// What has arrived by `now`, not always all of it.
    pub(super) fn receive(&mut self, now: u64, into: &mut Vec<u8>, dice: &mut Dice) {
        while let Some((at, bytes)) = self.under_way.front_mut().filter(|(at, _)| *at <= now) {
            let _ = at;
            if dice.once_in(4) {
                let part = dice.below(bytes.len() as u64 + 1) as usize;
                into.extend(bytes.drain(..part));
                return;
            }
            into.append(bytes);
            self.under_way.pop_front();
        }
    }
}

/// Both directions, and who has seen that they are of no use any more.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) to_server: Pipe,
    pub(super) to_binder: Pipe,
    /// Nothing arrives any more. Each side notices at its own time.
    pub(super) cut: bool,
    pub(super) binder_gone: bool,
    pub(super) server_gone: bool,
}

/// The next whole frame of what has come in, taken out.
pub(super) fn next_frame(bytes: &mut Vec<u8>, limits: Limits) -> Result<Option<Vec<u8>>, Violation> {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let length = frame_bytes(header, limits)?;
    if bytes.len() < length {
        return Ok(None);
    }
    Ok(Some(bytes.drain(..length).collect()))
}

/// Cuts bytes that were just encoded into their frames.
pub(super) fn frames(mut bytes: Vec<u8>, limits: Limits, features: Features) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some(frame) = next_frame(&mut bytes, limits).expect("our own") {
        assert!(decode(&frame, features).is_ok(), "our own");
        frames.push(frame);
    }
    assert!(bytes.is_empty());
    frames
}
