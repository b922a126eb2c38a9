//! Tasks that have consumed the end of their stream.

use super::super::{Dice, Marks};
use super::{ChannelState, Consumer, Link, LinkState};
use crate::wire::*;

impl Consumer {
    /// A task that has consumed the end goes: the last word of its stream, or of another connection.
    pub(in super::super) fn conclude(&mut self, dice: &mut Dice, marks: &mut Marks) {
        for channel in &mut self.channels {
            let (ChannelState::Bound(incoming) | ChannelState::Whole(incoming)) = &channel.state else {
                continue;
            };
            let Some(ended) = incoming.ended(channel.progress.consumed) else { continue };
            if matches!(channel.state, ChannelState::Whole(_)) {
                marks.note("read to its end without a connection");
                channel.state = ChannelState::ToTell(ended);
                continue;
            }
            // Before, an acknowledgement may say the same.
            if dice.once_in(2) {
                continue;
            }
            let Some(Link { state: LinkState::Open(agreed, _), out, .. }) = &mut self.link else { continue };
            let left = channel.progress.left.bytes;
            let yielded = Amount { records: left, bytes: left };
            let close = incoming.closing(channel.progress.consumed, yielded);
            Frame::Close(close).encode(out, agreed.features);
            channel.state = ChannelState::Told(ended);
            channel.unsaid = None;
        }
    }

    /// Whether the server was told of an end and hasn't answered.
    pub(in super::super) fn waits_for_confirmation(&self) -> bool {
        self.channels.iter().any(|channel| matches!(channel.state, ChannelState::Told(..)))
    }

    pub(in super::super) fn is_done(&self) -> bool {
        self.channels.iter().all(|channel| matches!(channel.state, ChannelState::Done))
    }
}
