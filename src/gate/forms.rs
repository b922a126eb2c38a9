//! The forms of asking for the next item: polled, at once, blocking, as a future, as a stream.

use super::InputGate;
use super::advance::Found;
use super::error::GateError;
use super::item::{Item, OwnedItem, TryNext};
use crate::sync::Parker;
use futures_core::Stream;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

impl InputGate {
    /// The next item; `Ok(None)` when all channels have ended. What was yielded before counts as consumed from
    /// here on, unless the gate is in explicit mode. Binds all channels when it is first called.
    ///
    /// `Pending` leaves the waker of `cx` to be woken when there is something.
    ///
    /// # Errors
    /// See [`GateError`]: of one channel, told once, or of the task as a whole.
    #[inline]
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Item<'_>>, GateError>> {
        if let Some(index) = self.next_record() {
            return Poll::Ready(Ok(Some(Item::Record(self.record(index)))));
        }
        let found = ready!(self.poll_found(cx.waker()));
        Poll::Ready(self.lend(found))
    }

    /// The next item as a future. Dropping it before it is ready loses nothing.
    #[allow(clippy::should_implement_trait, reason = "an iterator can't lend what it yields")]
    pub fn next(&mut self) -> Next<'_> {
        Next(Some(self))
    }

    /// The next item if there is one now. Never waits, and leaves no waker.
    ///
    /// # Errors
    /// As for [`InputGate::poll_next`].
    #[inline]
    pub fn try_next(&mut self) -> Result<TryNext<'_>, GateError> {
        if let Some(index) = self.next_record() {
            return Ok(TryNext::Item(Item::Record(self.record(index))));
        }
        let found = self.advance();
        self.lend_try(found)
    }

    /// The next item. Blocks the calling thread until there is one; `Ok(None)` when all channels have ended.
    /// A channel that is unavailable doesn't end: with no other thread that updates it, and no other channel,
    /// this blocks for good.
    ///
    /// # Errors
    /// As for [`InputGate::poll_next`].
    #[inline(always)]
    pub fn next_blocking(&mut self) -> Result<Option<Item<'_>>, GateError> {
        if let Some(index) = self.next_record() {
            return Ok(Some(Item::Record(self.record(index))));
        }
        self.next_parked()
    }

    #[cold]
    #[inline(never)]
    fn next_parked(&mut self) -> Result<Option<Item<'_>>, GateError> {
        let found = loop {
            if let Some(found) = self.advance() {
                break found;
            }
            self.park(None);
        };
        self.lend(found)
    }

    /// As [`InputGate::next_blocking`], for at most `timeout`.
    ///
    /// # Errors
    /// As for [`InputGate::poll_next`].
    pub fn next_blocking_timeout(&mut self, timeout: Duration) -> Result<TryNext<'_>, GateError> {
        let mut deadline = None;
        let found = loop {
            if let Some(found) = self.advance() {
                break Some(found);
            }
            let now = self.manager.clock().now();
            let left = deadline.get_or_insert(now.plus(timeout)).since(now);
            if left.is_zero() {
                break None;
            }
            self.park(Some(left));
        };
        self.lend_try(found)
    }

    /// The gate as a stream of owned items. Records are lent or copied as
    /// [`Record::into_bytes`](super::Record::into_bytes) says.
    #[must_use]
    pub fn into_stream(self) -> GateStream {
        GateStream { gate: self, is_over: false }
    }

    fn lend_try(&self, found: Option<Found>) -> Result<TryNext<'_>, GateError> {
        let Some(found) = found else { return Ok(TryNext::Empty) };
        Ok(self.lend(found)?.map_or(TryNext::End, TryNext::Item))
    }

    #[inline]
    fn poll_found(&mut self, waker: &Waker) -> Poll<Found> {
        loop {
            if let Some(found) = self.advance() {
                return Poll::Ready(found);
            }
            if self.may_sleep(waker) {
                return Poll::Pending;
            }
        }
    }

    /// Everything that can happen from now on wakes `waker`: rings, answers and commands by the bell, looks by
    /// the clock. False if something has happened already.
    fn may_sleep(&mut self, waker: &Waker) -> bool {
        self.ready.arm(&**self.manager.clock(), waker);
        self.bell.may_sleep(waker)
    }

    fn park(&mut self, timeout: Option<Duration>) {
        // A gate may have moved to another thread since it was parked last.
        let parker = self.parker.take().filter(Parker::is_current).unwrap_or_else(Parker::current);
        if self.may_sleep(parker.waker()) {
            parker.park(timeout);
        }
        self.parker = Some(parker);
    }
}

/// The future of [`InputGate::next`]. Dropping it loses nothing: an item leaves the gate only when the future
/// is ready.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct Next<'g>(Option<&'g mut InputGate>);

impl<'g> Future for Next<'g> {
    type Output = Result<Option<Item<'g>>, GateError>;

    /// # Panics
    /// When it is polled after it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(gate) = self.0.take() else { panic!("polled after it was ready") };
        match gate.poll_found(cx.waker()) {
            Poll::Ready(found) => Poll::Ready(gate.lend(found)),
            Poll::Pending => {
                self.0 = Some(gate);
                Poll::Pending
            }
        }
    }
}

/// An [`InputGate`] as a stream of owned items. It ends when all channels have ended, or after the error of a
/// gate that is at its end.
#[derive(Debug)]
pub struct GateStream {
    gate: InputGate,
    is_over: bool,
}

impl GateStream {
    /// The gate, to steer it.
    #[must_use]
    pub fn gate(&self) -> &InputGate {
        &self.gate
    }

    /// The gate, to steer it or to acknowledge.
    #[must_use]
    pub fn gate_mut(&mut self) -> &mut InputGate {
        &mut self.gate
    }

    /// The gate back.
    #[must_use]
    pub fn into_gate(self) -> InputGate {
        self.gate
    }
}

impl Stream for GateStream {
    type Item = Result<OwnedItem, GateError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let next = ready!(self.gate.poll_next(cx)).map(|item| item.map(Item::into_owned));
        self.is_over = match &next {
            Ok(item) => item.is_none(),
            Err(error) => error.is_final(),
        };
        Poll::Ready(next.transpose())
    }
}
