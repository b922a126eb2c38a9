//! Transitions of a channel whose partition is another worker's: opened, answered, cut off.
//!
//! A connection that is lost is told once (`Unavailable`), and the channel opens itself again, as often as it
//! takes: the network keeps the pauses between two tries. Only what the producer's worker says ends that. A stream
//! that had come whole by then is read to its end without any notice, and the network tells of that by itself.

use super::InputGate;
use super::advance::Found;
use super::bind::Beginning;
use super::channel::State;
use super::reader::Reader;
use crate::doorbell::ReadyNode;
use crate::error::{BindError, Cause};
use crate::id::RemoteAddress;
use crate::inbox::{Delivery, Over, Popped, RemoteGrant, RemoteReader, channel};
use crate::partition::{Location, OpenChannel, OpenError};
use crate::subpartition::Amount;
use std::sync::Arc;

/// The least and the most window of a remote channel, in stream bytes.
const WINDOW_LEAST: u64 = 4 << 10;
const WINDOW_MOST: u64 = 4 << 20;

/// The window of each of so many remote channels.
pub(super) fn window(receive_bytes_max: u64, remote: usize) -> u64 {
    (receive_bytes_max / remote.max(1) as u64).clamp(WINDOW_LEAST, WINDOW_MOST)
}

impl InputGate {
    /// Opens the channel to what its newest descriptor names; the answer comes through the channel.
    pub(super) fn connect(&mut self, index: usize, peer: RemoteAddress) {
        let channel = &mut self.channels[index];
        let node = ReadyNode::new(&self.bell, index as u32);
        channel.node = Some(node.clone());
        let Some(network) = &self.network else {
            return self.answer(index, Err(BindError::NoNetwork { peer }));
        };
        let (feeder, end) = self::channel(node, network.node(&peer), self.window);
        let descriptor = channel.descriptor.clone();
        let (request, window, gate) = (self.request, self.window, Arc::downgrade(&self.life));
        let open = OpenChannel { descriptor, peer, request, window, feeder, gate };
        match network.open(open) {
            Ok(()) => {
                channel.state = State::Connecting { peer, end, waits: false };
                self.post(index);
            }
            Err(OpenError::Full { waiting }) => {
                self.answer(index, Err(BindError::TooManyWaiting { waiting }))
            }
            // Threads end once.
            Err(OpenError::Moved) => self.connect(index, peer),
            Err(OpenError::NoEndpoint) => self.answer(index, Err(BindError::NoNetwork { peer })),
            Err(OpenError::Shutdown) => self.answer(index, Err(released(Cause::Shutdown))),
        }
    }

    /// The turn of a channel that is being opened.
    pub(super) fn serve_connecting(&mut self, index: usize) -> Option<Found> {
        loop {
            let channel = &mut self.channels[index];
            let State::Connecting { end, waits, peer } = &mut channel.state else { return None };
            match end.pop() {
                Popped::Item(Delivery::Bound(grant)) => self.open_answered(index, *grant),
                Popped::Item(Delivery::Waiting) => {
                    *waits = true;
                    self.post(index);
                    continue;
                }
                Popped::Item(Delivery::Over(over)) => return self.not_opened(index, over),
                // Before the answer there is no stream.
                Popped::Item(Delivery::Data { .. } | Delivery::Event(_)) => continue,
                Popped::Closed => {
                    let cause = left(*peer);
                    return self.not_opened(index, Over::Lost(cause));
                }
                Popped::Empty if channel.pending.is_some() => self.bind(index),
                Popped::Empty => {}
            }
            return None;
        }
    }

    fn open_answered(&mut self, index: usize, grant: RemoteGrant) {
        let channel = &mut self.channels[index];
        let State::Connecting { end, .. } = std::mem::replace(&mut channel.state, State::Unbound) else {
            return;
        };
        let layout = channel.descriptor.layout;
        let reader = RemoteReader::new(end, layout, self.record_bytes_max, self.explicit);
        let RemoteGrant { epoch, lost, in_doubt, writer_lost, barriers, ended, resumed: _ } = grant;
        let begin = Amount::ZERO;
        let beginning = Beginning { epoch, begin, lost, in_doubt, writer_lost, barriers, ended };
        channel.activate(Reader::Remote(reader), beginning);
        self.ready.queue(index, &mut self.channels[index]);
        self.post(index);
    }

    fn not_opened(&mut self, index: usize, over: Over) -> Option<Found> {
        match over {
            Over::Refused(error) => self.answer(index, Err(error)),
            Over::Gone(cause) => self.answer(index, Err(released(cause))),
            // Of readers alone.
            Over::Left => {}
            Over::Lost(cause) => {
                let channel = &mut self.channels[index];
                channel.state = State::Unbound;
                if !channel.is_outage {
                    let found = self.unavailable(index, cause, Amount::ZERO);
                    self.reopen(index);
                    return Some(found);
                }
                self.ready.queue(index, channel);
                self.post(index);
            }
        }
        None
    }

    /// The channel's reader came to an end that is not the partition's.
    pub(super) fn cut_off(&mut self, index: usize, over: Over) -> Found {
        match over {
            // An older attempt of this task acknowledged the end: that is the end for this one too.
            Over::Gone(Cause::Consumed) => {
                self.channels[index].is_ended_before = true;
                self.ended(index)
            }
            Over::Gone(Cause::Fenced { newer }) => {
                let found = self.lose(index, Cause::Fenced { newer });
                self.fence(index, newer);
                self.post(index);
                found
            }
            Over::Gone(cause) => self.lose(index, cause),
            Over::Left => match self.channels[index].descriptor.location {
                Location::Remote(peer) => self.cut_off(index, Over::Lost(left(peer))),
                Location::Local => self.lose(index, Cause::Shutdown),
            },
            Over::Refused(error) => self.lose(index, Cause::Protocol(error.to_string().into())),
            Over::Lost(cause) => {
                let found = self.lose(index, cause);
                self.reopen(index);
                found
            }
        }
    }

    /// The channel opens itself again at its next turn, and is in an outage until it is answered.
    fn reopen(&mut self, index: usize) {
        let channel = &mut self.channels[index];
        channel.state = State::Unbound;
        channel.is_outage = true;
        self.ready.queue(index, channel);
        self.lift_watermark();
        self.post(index);
    }
}

/// Whoever fed the channel has ended without a word.
fn left(peer: RemoteAddress) -> Cause {
    Cause::ConnectionLost { peer, reason: "the network thread that read it has ended".into() }
}

fn released(cause: Cause) -> BindError {
    BindError::Released { cause }
}
