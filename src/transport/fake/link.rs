//! Two ends and what is between them.

use super::Cut;
use crate::clock::Moment;
use std::collections::VecDeque;

/// One direction: bytes on their way, and those that came and weren't received yet.
#[derive(Debug)]
pub(super) struct Pipe {
    flight: VecDeque<(Moment, Vec<u8>)>,
    arrived: VecDeque<u8>,
    /// Bytes in the two, and those that fell into silence.
    filled: usize,
    pub(super) capacity: usize,
    /// When the newest of what was sent arrives: nothing overtakes.
    last: Moment,
    /// When the end of the stream arrives.
    end: Option<Moment>,
    /// Bytes that were ever sent.
    sent: u64,
    pub(super) cut_after: Option<(u64, Cut)>,
    /// Nothing arrives before.
    pub(super) held_until: Moment,
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) pipes: [Pipe; 2],
    /// From when on it is cut, and how.
    cut: Option<(Moment, Cut)>,
    /// The end is closed: what arrives there is answered with a reset.
    pub(super) gone: [bool; 2],
}

impl Pipe {
    fn new(capacity: usize) -> Self {
        Self {
            flight: VecDeque::new(),
            arrived: VecDeque::new(),
            filled: 0,
            capacity,
            last: Moment::default(),
            end: None,
            sent: 0,
            cut_after: None,
            held_until: Moment::default(),
        }
    }

    /// Bytes that it takes now.
    pub(super) fn room(&self) -> usize {
        self.capacity.saturating_sub(self.filled)
    }

    /// How many bytes may still go before the cut that is planned.
    pub(super) fn before_cut(&self) -> usize {
        self.cut_after
            .map_or(usize::MAX, |(at, _)| usize::try_from(at.saturating_sub(self.sent)).unwrap_or(usize::MAX))
    }

    /// When the newest of what was sent arrives.
    pub(super) fn last(&self) -> Moment {
        self.last
    }

    /// Sends `bytes`, to arrive not before `at`. Says when they do.
    pub(super) fn put(&mut self, bytes: Vec<u8>, at: Moment) -> Moment {
        self.last = self.last.max(at).max(self.held_until);
        self.filled += bytes.len();
        self.sent += bytes.len() as u64;
        self.flight.push_back((self.last, bytes));
        self.last
    }

    pub(super) fn put_end(&mut self, at: Moment) -> Moment {
        self.last = self.last.max(at).max(self.held_until);
        *self.end.get_or_insert(self.last)
    }

    pub(super) fn hold(&mut self, until: Moment) {
        self.held_until = until;
        self.last = self.last.max(until);
        for (at, _) in &mut self.flight {
            *at = (*at).max(until);
        }
        self.end = self.end.map(|at| at.max(until));
    }

    /// What is on its way at `now` is lost, as if a cable were cut. Its room isn't given back.
    fn lose(&mut self, now: Moment) {
        self.flight.retain(|(at, _)| *at <= now);
        self.end = self.end.filter(|at| *at <= now);
    }

    fn arrive(&mut self, now: Moment) {
        while self.flight.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, bytes)) = self.flight.pop_front() {
                self.arrived.extend(bytes);
            }
        }
    }

    pub(super) fn arrived(&self) -> usize {
        self.arrived.len()
    }

    /// Receives so many bytes as `room` has, or as are there.
    pub(super) fn take(&mut self, room: &mut [u8]) -> usize {
        let bytes = room.len().min(self.arrived.len());
        let (first, second) = self.arrived.as_slices();
        let of_first = bytes.min(first.len());
        room[..of_first].copy_from_slice(&first[..of_first]);
        room[of_first..bytes].copy_from_slice(&second[..bytes - of_first]);
        self.arrived.drain(..bytes);
        self.filled -= bytes;
        bytes
    }

    pub(super) fn discard(&mut self) {
        self.filled -= self.arrived.len();
        self.arrived.clear();
    }

    /// Whether the end has come, and nothing is left before it.
    pub(super) fn has_ended(&self, now: Moment) -> bool {
        self.arrived.is_empty() && self.flight.is_empty() && self.end.is_some_and(|at| at <= now)
    }
}

impl Link {
    pub(super) fn new(capacity: [usize; 2]) -> Self {
        Self { pipes: capacity.map(Pipe::new), cut: None, gone: [false; 2] }
    }

    /// Moves what is due by `now`.
    pub(super) fn arrive(&mut self, now: Moment) {
        if let Some((at, _)) = self.cut.filter(|(at, _)| *at <= now) {
            self.pipes.iter_mut().for_each(|pipe| pipe.lose(at));
        }
        for side in 0..2 {
            // From one side to the other.
            self.pipes[side].arrive(now);
            if self.gone[1 - side] && self.pipes[side].arrived() > 0 {
                self.pipes[side].discard();
                self.cut(now, Cut::Reset);
            }
        }
    }

    /// Cuts it at `at`. Of two cuts the earlier holds.
    pub(super) fn cut(&mut self, at: Moment, how: Cut) {
        if self.cut.is_none_or(|(other, _)| at < other) {
            self.cut = Some((at, how));
        }
    }

    /// How it is cut by now.
    pub(super) fn is_cut(&self, now: Moment) -> Option<Cut> {
        self.cut.filter(|(at, _)| *at <= now).map(|(_, how)| how)
    }
}
