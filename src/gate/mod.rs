//! The input gate.
#![forbid(unsafe_code)]

mod config;
mod error;
mod item;
mod snapshot;
mod why;

pub use config::GateConfig;
pub use error::{GateError, HandleError};
pub use item::{Item, ItemOf, LossReport, OwnedItem, OwnedRecord, Receipt, Record, TryNext, Update};
pub use snapshot::{ChannelSnapshot, ChannelState};
pub use why::WhyBlocked;

use crate::partition::{ChannelDescriptor, Manager};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The consumer task's end of its input channels.
#[derive(Debug)]
pub struct InputGate {
    _manager: Arc<Manager>,
    _config: GateConfig,
}

/// The future of [`InputGate::next`].
#[derive(Debug)]
pub struct Next<'g>(Option<&'g mut InputGate>);

impl<'g> Future for Next<'g> {
    type Output = Result<Option<Item<'g>>, GateError>;
    fn poll(self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(None))
    }
}

/// The gate as a stream of owned items.
#[derive(Debug)]
pub struct GateStream(InputGate);

impl futures_core::Stream for GateStream {
    type Item = Result<OwnedItem, GateError>;
    fn poll_next(self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let _ = &self.0;
        Poll::Ready(None)
    }
}

/// Steers a gate from other threads.
#[derive(Clone, Debug)]
pub struct GateHandle(());

#[allow(missing_docs, reason = "signatures first")]
impl GateHandle {
    pub fn update_channel(&self, _channel: u32, _descriptor: ChannelDescriptor) -> Result<(), HandleError> {
        Ok(())
    }
    pub fn pause(&self, _channel: u32) -> Result<(), HandleError> {
        Ok(())
    }
    pub fn resume(&self, _channel: u32) -> Result<(), HandleError> {
        Ok(())
    }
    pub fn retry_bind(&self, _channel: u32) -> Result<(), HandleError> {
        Ok(())
    }
    pub fn why_blocked(&self, _channel: u32) -> Result<WhyBlocked, HandleError> {
        Ok(WhyBlocked::NoData)
    }
}

#[allow(missing_docs, reason = "signatures first")]
impl InputGate {
    pub(crate) fn new(manager: Arc<Manager>, config: GateConfig) -> Self {
        Self { _manager: manager, _config: config }
    }
    pub fn poll_next(&mut self, _cx: &mut Context<'_>) -> Poll<Result<Option<Item<'_>>, GateError>> {
        Poll::Pending
    }
    pub fn try_next(&mut self) -> Result<TryNext<'_>, GateError> {
        Ok(TryNext::Empty)
    }
    pub fn next_blocking(&mut self) -> Result<Option<Item<'_>>, GateError> {
        Ok(None)
    }
    pub fn next_blocking_timeout(&mut self, _timeout: Duration) -> Result<TryNext<'_>, GateError> {
        Ok(TryNext::Empty)
    }
    pub fn next(&mut self) -> Next<'_> {
        Next(Some(self))
    }
    pub fn into_stream(self) -> GateStream {
        GateStream(self)
    }
    pub fn handle(&self) -> GateHandle {
        GateHandle(())
    }
    pub fn channels(&self) -> u32 {
        0
    }
    pub fn watermark(&self) -> Option<i64> {
        None
    }
    pub fn hold_watermark(&mut self, _channel: u32, _hold: bool) -> Result<(), GateError> {
        Ok(())
    }
    pub fn pause(&mut self, _channel: u32) -> Result<(), GateError> {
        Ok(())
    }
    pub fn resume(&mut self, _channel: u32) -> Result<(), GateError> {
        Ok(())
    }
    pub fn receipt(&self, _channel: u32) -> Option<Receipt> {
        None
    }
    pub fn acknowledge(&mut self, _receipt: Receipt) -> bool {
        false
    }
    pub fn acknowledge_all(&mut self) {}
    pub fn update_channel(
        &mut self,
        _channel: u32,
        _descriptor: ChannelDescriptor,
    ) -> Result<Update, GateError> {
        Ok(Update::Accepted)
    }
    pub fn retry_bind(&mut self, _channel: u32) -> Result<bool, GateError> {
        Ok(false)
    }
    pub fn why_blocked(&self, _channel: u32) -> Option<WhyBlocked> {
        None
    }
    pub fn channel_snapshot(&self, _channel: u32) -> Option<ChannelSnapshot> {
        None
    }
    pub fn snapshot(&self) -> Vec<ChannelSnapshot> {
        Vec::new()
    }
}
