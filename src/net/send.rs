//! What goes out: batches of control frames and of streams in turn.

use super::batch::Gather;
use super::core::NetCore;
use super::leaving::SHUTTING_DOWN;
use super::serving::{Page, Serving, Visit};
use super::timers::Timer;
use crate::doorbell::ReadyNode;
use crate::transport::{Batch, Close, Return, Transport};
use crate::wire::{Frame, Gone, StreamId};
use std::sync::Arc;
use std::time::Duration;

/// What one stream may send before the next has its turn, in bytes of payload.
const SHARE_BYTES: usize = 64 * 1024;
/// Turns of streams that one batch takes.
const TURNS_A_BATCH: usize = 64;

impl NetCore {
    /// Sends what there is on every connection that may have something, unless a batch of it is under way.
    pub(super) fn send<T: Transport>(&mut self, transport: &mut T) {
        while let Some(slot) = self.to_send.pop() {
            let Some(connection) = self.connections.get_mut(slot) else { continue };
            connection.is_listed = false;
            if connection.is_sending || connection.is_closing {
                continue;
            }
            if !connection.control.is_empty() && !connection.unacknowledged.is_empty() {
                // A frame goes out anyway: what is new goes with it.
                self.acknowledge(slot, true);
            }
            let mut batch = self.batches.pop().unwrap_or_default();
            self.fill(slot, &mut batch);
            match self.connections.get_mut(slot) {
                Some(connection) if batch.bytes > 0 => {
                    let (id, is_last) = (connection.id, connection.has_left());
                    connection.is_sending = true;
                    transport.send(id, batch);
                    if is_last {
                        let reason = if self.stopping { SHUTTING_DOWN } else { "it takes no more streams" };
                        self.lose(id, reason, Close::Orderly, transport);
                    }
                }
                Some(connection) if !connection.ready.is_empty() => {
                    self.batches.push(batch);
                    self.list(slot);
                }
                _ => self.batches.push(batch),
            }
        }
    }

    fn fill(&mut self, slot: usize, batch: &mut Batch) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if !connection.control.is_empty() {
            batch.stage(|out| out.append(&mut connection.control));
        }
        let (features, generation) = (connection.features(), connection.generation);
        let payload_max = connection.agreed.payload_bytes_max as usize;
        for _ in 0..TURNS_A_BATCH {
            if batch.is_full() {
                break;
            }
            let Some(stream) = connection.ready.pop_front() else { break };
            let Some(place) = connection.session.get(stream) else { continue };
            let Some(serving) = self.serving.get_mut(place) else { continue };
            let attempt = serving.attempt;
            let Some(served) = serving.served() else {
                serving.is_listed = false;
                continue;
            };
            let lent = served.source.lent();
            let mut visit = served.fill(stream, &mut Page { batch, features, payload_max }, SHARE_BYTES);
            let pieces = served.source.lent() - lent;
            // It goes out when one before it was taken, whatever becomes of the data.
            let is_owed_priority = served.source.has_priority();
            if pieces > 0 {
                batch.returns.push(Return { connection: slot, generation, stream: stream.0, pieces });
            }
            if visit == Visit::Empty {
                match served.found_empty() {
                    Some(Duration::ZERO) => visit = Visit::More,
                    Some(pause) => {
                        let timer = Timer::Look { connection: slot, generation, stream };
                        self.timers.set(self.now.plus(pause), timer);
                    }
                    None => {}
                }
            }
            match visit {
                // Who leaves visits each once.
                Visit::More if !connection.is_leaving => connection.ready.push_back(stream),
                Visit::More => {}
                Visit::Empty | Visit::Parked => {
                    serving.is_listed = false;
                    serving.is_parked = visit == Visit::Parked || is_owed_priority;
                }
                Visit::Fenced => {
                    let (epoch, cause) = (served.outgoing.epoch(), served.severed(attempt));
                    let frame = Frame::Gone(Gone { stream, epoch, cause });
                    batch.stage(|out| frame.encode(out, features));
                    connection.session.close(stream);
                    self.serving.try_remove(place);
                }
            }
        }
        if connection.has_left() {
            batch.stage(|out| Frame::Goodbye.encode(out, features));
        }
        // Nothing more is looked for before this batch is sent: its completion lists the connection again.
    }

    /// The stream in this slot may have something.
    pub(super) fn list_stream(&mut self, slot: usize) {
        let Some(serving) = self.serving.get_mut(slot) else { return };
        let Some(connection) = self.connections.get_mut(serving.connection) else { return };
        // Who leaves has visited everybody a last time, or is about to.
        if connection.is_leaving {
            return;
        }
        if !std::mem::replace(&mut serving.is_listed, true) {
            connection.ready.push_back(serving.stream);
            let connection = serving.connection;
            self.list(connection);
        }
    }

    /// The socket is done with so many of the stream's pieces.
    pub(super) fn let_go(&mut self, connection: usize, stream: StreamId, pieces: usize) {
        let place = self.connections.get(connection).and_then(|live| live.session.get(stream));
        let Some(slot) = place else { return };
        if let Some(served) = self.serving.get_mut(slot).and_then(Serving::served) {
            served.source.let_go(pieces);
            // It may have waited for just that.
            self.list_parked(slot);
        }
    }

    /// The same for one that waits. What it waits for is here, or may be; a look at one that was found empty would
    /// only bring small sends.
    pub(super) fn list_parked(&mut self, slot: usize) {
        if self.serving.get(slot).is_some_and(|serving| serving.is_parked) {
            self.list_stream(slot);
        }
    }

    /// A node of a stream that is served was rung.
    pub(super) fn stream_rang(&mut self, slot: usize, node: &Arc<ReadyNode>) {
        // A node of an older bind means nothing.
        let Some(serving) = self.serving.get_mut(slot).filter(|serving| Arc::ptr_eq(&serving.node, node))
        else {
            return;
        };
        if serving.served().is_some() {
            self.list_stream(slot);
        } else {
            self.answered(slot);
        }
    }

    /// The look that a stream was promised is due.
    pub(super) fn look(&mut self, connection: usize, stream: StreamId) {
        let place = self.connections.get(connection).and_then(|live| live.session.get(stream));
        let Some(slot) = place else { return };
        if let Some(served) = self.serving.get_mut(slot).and_then(Serving::served) {
            served.look_is_due();
            self.list_stream(slot);
        }
    }
}
