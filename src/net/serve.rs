//! The streams that other workers ask for: bound, waiting, acknowledged, over.

use super::connection::Connection;
use super::core::NetCore;
use super::serving::{Served, Serving, State, to_wire};
use crate::doorbell::ReadyNode;
use crate::error::BindError;
use crate::inbox::{Inbox, Popped};
use crate::partition::{BindAnswer, BindOutcome, BoundView, ChannelDescriptor, Location};
use crate::protocol::{Feed, Outgoing, Violation};
use crate::subpartition::{Amount, BindRequest, HOLDS, Losses, Source};
use crate::wire::{self, Ack, Bind, Bound, Frame, Refused, StreamId, StreamPosition, Waiting};
use std::sync::Arc;

impl NetCore {
    pub(super) fn on_bind(&mut self, slot: usize, bind: &Bind) -> Result<(), Violation> {
        let Some(connection) = self.connections.get_mut(slot) else { return Ok(()) };
        let (names, bell) = (&mut self.names, self.endpoint.bell());
        let Some(server) = connection.server() else { return Ok(()) };
        server.on_bind(bind, |index| {
            let stream = StreamId(bind.stream.0.wrapping_add(index));
            let name = names.insert((slot, stream));
            Serving {
                name,
                attempt: bind.attempt,
                node: ReadyNode::new(bell, name as u32),
                is_listed: false,
                state: State::Asked,
            }
        })?;
        for index in 0..bind.count {
            self.bind_one(slot, bind, index);
        }
        self.list(slot);
        Ok(())
    }

    fn bind_one(&mut self, slot: usize, bind: &Bind, index: u32) {
        let stream = StreamId(bind.stream.0.wrapping_add(index));
        let descriptor = ChannelDescriptor {
            partition: bind.partition,
            producer_attempt: bind.producer_attempt,
            subpartition: bind.subpartition.wrapping_add(index),
            location: Location::Local,
            secret: bind.secret,
            layout: bind.layout,
        };
        let request = BindRequest::new(bind.attempt, bind.incarnation).holding(HOLDS);
        let Some(feed) = self.feed(slot, stream) else { return };
        let node = feed.state.node.clone();
        let inbox = Arc::new(Inbox::new(1, node.clone()));
        match self.manager.bind(&descriptor, request, &node, &inbox) {
            Ok(BindOutcome::Bound(bound)) => self.granted(slot, stream, bound, bind.limit),
            Ok(BindOutcome::Waiting(ticket)) => {
                let Some(connection) = self.connections.get_mut(slot) else { return };
                let Some(server) = connection.server() else { return };
                if server.wait(stream)
                    && let Some(feed) = server.get(stream)
                {
                    feed.state.state = State::Waiting { _ticket: ticket, inbox, limit: bind.limit };
                    connection.say(&Frame::Waiting(Waiting { stream }));
                }
            }
            Err(error) => self.refused(slot, stream, error),
        }
    }

    fn feed(&mut self, slot: usize, stream: StreamId) -> Option<&mut Feed<Serving>> {
        self.connections.get_mut(slot)?.server()?.get(stream)
    }

    /// The partition that a stream waited for is here, or will not be.
    pub(super) fn answered(&mut self, slot: usize, stream: StreamId) {
        let Some(feed) = self.feed(slot, stream) else { return };
        let State::Waiting { inbox, limit, .. } = &feed.state.state else { return };
        let limit = *limit;
        let Popped::Item(answer): Popped<BindAnswer> = inbox.pop() else { return };
        match answer {
            Ok(bound) => self.granted(slot, stream, bound, limit),
            Err(error) => self.refused(slot, stream, error),
        }
        self.list(slot);
    }

    fn granted(&mut self, slot: usize, stream: StreamId, bound: BoundView, limit: StreamPosition) {
        let BoundView { view, grant, partition } = bound;
        let source = Source::new(view);
        let frame = Frame::Bound(Bound {
            stream,
            epoch: grant.epoch,
            incarnation: partition.incarnation,
            resumed: false,
            ended: grant.ended,
            ring_entries: source.ring_entries(),
            lost: losses(&grant.lost),
            in_doubt: to_wire(grant.in_doubt),
            writer_lost: to_wire(grant.writer_lost),
        });
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let Some(server) = connection.server() else { return };
        // Without a stream the binder has taken it back: the view ends here.
        let Some(feed) = server.bind(stream, Outgoing::new(grant.epoch, limit)) else { return };
        feed.state.state = State::Bound(Box::new(Served::new(source, partition)));
        connection.say(&frame);
        self.list_stream(slot, stream);
    }

    fn refused(&mut self, slot: usize, stream: StreamId, error: BindError) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if let Some(feed) = connection.server().and_then(|server| server.remove(stream)) {
            connection.say(&Frame::Refused(Refused { stream, error }));
            self.names.try_remove(feed.state.name);
        }
    }

    pub(super) fn on_ack(&mut self, slot: usize, ack: &Ack) -> Result<(), Violation> {
        let Some(server) = self.connections.get_mut(slot).and_then(Connection::server) else { return Ok(()) };
        let Some((_, feed)) = server.on_ack(ack)? else { return Ok(()) };
        let (Some(outgoing), serving) = feed.parts() else { return Ok(()) };
        let Some(served) = serving.served() else { return Ok(()) };
        // Fenced: the next visit says so.
        if served.acknowledged(outgoing) == Ok(true) {
            let partition = served.partition.clone();
            partition.acknowledge_end();
        }
        self.list_stream(slot, ack.stream);
        Ok(())
    }

    /// The consumer has closed its stream in order, and this was its last word.
    pub(super) fn on_close(&mut self, feed: Feed<Serving>, yielded: Amount) {
        let (outgoing, mut serving) = feed.into_parts();
        self.names.try_remove(serving.name);
        let (Some(outgoing), Some(served)) = (outgoing, serving.served()) else { return };
        let is_end = served.acknowledged(&outgoing);
        served.source.close(yielded);
        if is_end == Ok(true) {
            served.partition.acknowledge_end();
        }
    }
}

fn losses(lost: &Losses) -> [wire::Amount; wire::LOSSES] {
    let Losses { discarded, overflowed, aborted, drained, dropped_oldest, skipped, unread } = *lost;
    [discarded, overflowed, aborted, drained, dropped_oldest, skipped, unread].map(to_wire)
}
