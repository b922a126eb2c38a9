//! Steering a gate from other threads.

use super::InputGate;
use super::board::Board;
use super::error::HandleError;
use super::why::WhyBlocked;
use crate::inbox::{Inbox, Popped};
use crate::partition::ChannelDescriptor;
use std::sync::Arc;

/// The least number of commands that may wait.
const COMMANDS_LEAST: usize = 64;

/// How many commands may wait for a gate of so many channels.
pub(super) fn commands_max(channels: usize) -> usize {
    channels.saturating_mul(2).max(COMMANDS_LEAST)
}

#[derive(Debug)]
pub(super) enum Command {
    Update(u32, Box<ChannelDescriptor>),
    Pause(u32),
    Resume(u32),
    RetryBind(u32),
}

/// Steers a gate from other threads. Commands wait in a bounded queue, wake the gate's task, and take effect
/// between two turns of channels, that is after at most 256 records of one; what becomes of them is seen in
/// the gate's items and snapshots.
#[derive(Clone, Debug)]
pub struct GateHandle {
    pub(super) commands: Arc<Inbox<Command>>,
    pub(super) board: Arc<Board>,
    pub(super) channels: u32,
}

impl GateHandle {
    /// As [`InputGate::update_channel`].
    ///
    /// # Errors
    /// The queue is full, the gate is gone, or there is no such channel.
    pub fn update_channel(&self, channel: u32, descriptor: ChannelDescriptor) -> Result<(), HandleError> {
        self.send(channel, Command::Update(channel, Box::new(descriptor)))
    }

    /// As [`InputGate::pause`].
    ///
    /// # Errors
    /// The queue is full, the gate is gone, or there is no such channel.
    pub fn pause(&self, channel: u32) -> Result<(), HandleError> {
        self.send(channel, Command::Pause(channel))
    }

    /// As [`InputGate::resume`].
    ///
    /// # Errors
    /// The queue is full, the gate is gone, or there is no such channel.
    pub fn resume(&self, channel: u32) -> Result<(), HandleError> {
        self.send(channel, Command::Resume(channel))
    }

    /// As [`InputGate::retry_bind`].
    ///
    /// # Errors
    /// The queue is full, the gate is gone, or there is no such channel.
    pub fn retry_bind(&self, channel: u32) -> Result<(), HandleError> {
        self.send(channel, Command::RetryBind(channel))
    }

    /// Why a channel yields nothing right now, as far as other threads can see: what the task has in its hands
    /// they can't. Takes no part of the gate's time.
    ///
    /// # Errors
    /// The gate is gone, or there is no such channel.
    pub fn why_blocked(&self, channel: u32) -> Result<WhyBlocked, HandleError> {
        self.check(channel)?;
        self.board.why(channel).ok_or(HandleError::Gone)
    }

    fn check(&self, channel: u32) -> Result<(), HandleError> {
        if channel < self.channels {
            return Ok(());
        }
        Err(HandleError::NoSuchChannel { channel, channels: self.channels })
    }

    fn send(&self, channel: u32, command: Command) -> Result<(), HandleError> {
        self.check(channel)?;
        self.commands.push(command).map_err(|_| {
            if self.commands.is_closed() {
                HandleError::Gone
            } else {
                HandleError::Full { commands: commands_max(self.channels as usize) }
            }
        })
    }
}

impl InputGate {
    /// A handle that steers this gate from other threads.
    #[must_use]
    pub fn handle(&self) -> GateHandle {
        GateHandle {
            commands: self.commands.clone(),
            board: self.board.clone(),
            channels: self.channels.len() as u32,
        }
    }

    /// Obeys what waits. The node was cleared before: what comes later rings again.
    pub(super) fn obey_all(&mut self) {
        for _ in 0..commands_max(self.channels.len()) {
            let Popped::Item(command) = self.commands.pop() else { return };
            // Handles check the channel; what an update came to shows in the items that follow.
            match command {
                Command::Update(channel, descriptor) => {
                    self.update(channel as usize, *descriptor);
                }
                Command::Pause(channel) => self.set_paused(channel as usize, true),
                Command::Resume(channel) => self.set_paused(channel as usize, false),
                Command::RetryBind(channel) => {
                    self.retry(channel as usize);
                }
            }
        }
        // They come as fast as they are obeyed: others have their turn first.
        self.command_node.ring();
    }
}
