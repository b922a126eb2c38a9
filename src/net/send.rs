//! What goes out: batches of control frames and of streams in turn.

use super::batch::Gather;
use super::connection::{Connection, Session};
use super::core::NetCore;
use super::serving::{Page, Serving, Visit};
use super::timers::Timer;
use crate::protocol::Feed;
use crate::transport::{Batch, Return, Transport};
use crate::wire::{Frame, Gone, StreamId};
use std::sync::Arc;
use std::time::Duration;

/// What one stream may send before the next has its turn, in bytes of payload.
const SHARE_BYTES: usize = 64 * 1024;
/// The most payload bytes of a frame, whatever was agreed on: a piece is one segment at most.
const SUBPARTITIONS_A_BATCH: usize = 64;

impl NetCore {
    /// Sends what there is on every connection that may have something, unless a batch of it is under way.
    pub(super) fn send<T: Transport>(&mut self, transport: &mut T) {
        while let Some(slot) = self.to_send.pop() {
            let Some(connection) = self.connections.get_mut(slot) else { continue };
            connection.is_listed = false;
            if connection.is_sending || connection.is_closing {
                continue;
            }
            if !connection.control.is_empty() || !connection.ready.is_empty() {
                // A frame goes out anyway: what is new goes with it.
                self.acknowledge(slot, true);
            }
            let mut batch = self.batches.pop().unwrap_or_default();
            self.fill(slot, &mut batch);
            let Some(connection) = self.connections.get_mut(slot) else { continue };
            // Listed again by what was said meanwhile: it is in the batch.
            if batch.bytes == 0 {
                self.batches.push(batch);
                continue;
            }
            connection.is_sending = true;
            transport.send(connection.id, batch);
        }
    }

    fn fill(&mut self, slot: usize, batch: &mut Batch) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if !connection.control.is_empty() {
            batch.stage(|out| out.append(&mut connection.control));
        }
        let features = connection.features();
        let payload_max = connection.agreed.payload_bytes_max as usize;
        for _ in 0..SUBPARTITIONS_A_BATCH.min(connection.ready.len().max(1) * SUBPARTITIONS_A_BATCH) {
            if batch.is_full() {
                break;
            }
            let Some(stream) = connection.ready.pop_front() else { break };
            let Session::Server(server) = &mut connection.session else { break };
            let Some(feed) = server.get(stream) else { continue };
            let (Some(outgoing), serving) = feed.parts() else {
                serving_unlisted(feed);
                continue;
            };
            let attempt = serving.attempt;
            let Some(served) = serving.served() else { continue };
            let lent = served.source.lent();
            let mut page = Page { batch, features, payload_max };
            let mut visit = served.fill(stream, outgoing, &mut page, SHARE_BYTES);
            let pieces = served.source.lent() - lent;
            let generation = connection.generation;
            if pieces > 0 {
                let stream = stream.0;
                batch.returns.push(Return { connection: slot, generation, stream, pieces });
            }
            if visit == Visit::Empty {
                match served.found_empty(outgoing.sent()) {
                    Some(Duration::ZERO) => visit = Visit::More,
                    Some(pause) => {
                        let at = self.now.plus(pause);
                        self.timers.set(at, Timer::Look { connection: slot, generation, stream });
                    }
                    None => {}
                }
            }
            match visit {
                Visit::More => connection.ready.push_back(stream),
                Visit::Empty | Visit::Parked => serving.is_listed = false,
                Visit::Fenced => {
                    let (epoch, cause) = (outgoing.epoch(), served.severed(attempt));
                    let frame = Frame::Gone(Gone { stream, epoch, cause });
                    batch.stage(|out| frame.encode(out, features));
                    if let Some(feed) = server.remove(stream) {
                        self.names.try_remove(feed.state.name);
                    }
                }
            }
        }
        if !connection.ready.is_empty() {
            self.list(slot);
        }
    }

    /// Hands over what is left to be said before the connection is closed, unless the socket is busy.
    pub(super) fn last_words<T: Transport>(&mut self, slot: usize, transport: &mut T) {
        let mut batch = self.batches.pop().unwrap_or_default();
        let Some(connection) = self.connections.get_mut(slot) else { return };
        batch.stage(|out| out.append(&mut connection.control));
        if batch.bytes == 0 || connection.is_sending {
            batch.empty();
            self.batches.push(batch);
            return;
        }
        connection.is_sending = true;
        transport.send(connection.id, batch);
    }

    /// The stream may have something.
    pub(super) fn list_stream(&mut self, slot: usize, stream: StreamId) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let Some(feed) = connection.server().and_then(|server| server.get(stream)) else { return };
        if !std::mem::replace(&mut feed.state.is_listed, true) {
            connection.ready.push_back(stream);
            self.list(slot);
        }
    }

    /// The socket is done with so many of the stream's pieces.
    pub(super) fn let_go(&mut self, slot: usize, stream: StreamId, pieces: usize) {
        let server = self.connections.get_mut(slot).and_then(Connection::server);
        let Some(feed) = server.and_then(|server| server.get(stream)) else { return };
        if let Some(served) = feed.state.served() {
            served.source.let_go(pieces);
            // It may have waited for just that.
            self.list_stream(slot, stream);
        }
    }

    /// A node of a stream that is served was rung.
    pub(super) fn stream_rang(&mut self, name: usize, node: &Arc<crate::doorbell::ReadyNode>) {
        let Some((slot, stream)) = self.names.get(name).copied() else { return };
        let server = self.connections.get_mut(slot).and_then(Connection::server);
        let Some(feed) = server.and_then(|server| server.get(stream)) else { return };
        // A node of an older bind means nothing.
        if !Arc::ptr_eq(&feed.state.node, node) {
            return;
        }
        if feed.state.served().is_some() {
            self.list_stream(slot, stream);
        } else {
            self.answered(slot, stream);
        }
    }

    /// The look that a stream was promised is due.
    pub(super) fn look(&mut self, slot: usize, stream: StreamId) {
        let server = self.connections.get_mut(slot).and_then(Connection::server);
        let Some(feed) = server.and_then(|server| server.get(stream)) else { return };
        if let Some(served) = feed.state.served() {
            served.look_is_due();
            self.list_stream(slot, stream);
        }
    }
}

fn serving_unlisted(feed: &mut Feed<Serving>) {
    feed.state.is_listed = false;
}
