//! The whole logic of one network thread, turned by whoever drives it.
//!
//! One turn: what others asked for (the bell), what is due (timers), what goes out, a wait in the transport, what
//! came, and what goes out by that. It never waits anywhere else.

use super::batch::Gather;
use super::connection::Connection;
use super::ending::End;
use super::endpoint::{CHANNEL_TOKEN, COMMAND_TOKEN, Command, Dial, Endpoint};
use super::leaving::SHUTTING_DOWN;
use super::peers::{Peers, Step};
use super::reactor::Note;
use super::receiving::{Place, Reading};
use super::serving::Serving;
use super::timers::{Timer, Timers};
use crate::clock::Moment;
use crate::doorbell::ReadyNode;
use crate::error::Cause;
use crate::id::RemoteAddress;
use crate::inbox::{Delivery, Over, Popped};
use crate::memory::ReceivePool;
use crate::metrics::{Lines, cold_event};
use crate::partition::Manager;
use crate::transport::{Batch, Close, Completion, ConnectionId, Transport};
use crate::wire::{Ack, StreamId};
use slab::Slab;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Batches kept for the next sends.
const BATCHES_KEPT: usize = 16;
/// Batches with more staging memory than this aren't kept.
const BATCH_KEPT_BYTES_MAX: usize = 1 << 20;
/// Turns that a caller's turn takes at most to say what is left: a peer that doesn't read keeps nobody longer.
const TURNS_TO_SAY: usize = 8;
/// Commands obeyed in one turn, before sockets have their share.
const COMMANDS_A_TURN: usize = 256;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct NetCore {
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) manager: Arc<Manager>,
    pub(super) dialer: Arc<dyn Dial>,
    pub(super) buffers: ReceivePool,
    pub(super) now: Moment,
    pub(super) connections: Slab<Connection>,
    pub(super) by_id: HashMap<ConnectionId, usize>,
    pub(super) serving: Slab<Serving>,
    pub(super) receiving: Slab<Reading>,
    /// Channels that are read, by the tokens of their nodes.
    /// In order, so that a run by seed is the same whenever it is run.
    pub(super) channels: BTreeMap<u32, Place>,
    /// Ends that wait for a connection to be told by, by the tokens of their channels.
    pub(super) ends: BTreeMap<u32, End>,
    /// How many streams wait for the answer to an end.
    pub(super) told_ends: usize,
    pub(super) peers: Peers,
    pub(super) timers: Timers,
    /// Connections that have something to send.
    pub(super) to_send: Vec<usize>,
    /// Connections with channels that may have something to acknowledge.
    pub(super) acknowledging: Vec<usize>,
    pub(super) acks: Vec<Ack>,
    /// Channels whose tasks are to be told of what came.
    pub(super) unrung: Vec<usize>,
    #[allow(clippy::vec_box, reason = "transports take and give back boxes")]
    pub(super) batches: Vec<Box<Batch>>,
    /// Grows with everything that takes a slot.
    pub(super) generation: u64,
    /// Where the thread notes that it has woken itself, if it turns this core for itself.
    pub(super) note: Option<Arc<Note>>,
    /// What may be logged of what peers do wrong, and of how they come and go.
    pub(super) lines: Lines,
    pub(super) comings: Lines,
    rung: Vec<Arc<ReadyNode>>,
    done: Vec<Completion>,
    pub(super) stopping: bool,
    pub(super) stopped: bool,
}

impl NetCore {
    pub(crate) fn new(
        endpoint: Arc<Endpoint>,
        manager: Arc<Manager>,
        dialer: Arc<dyn Dial>,
        buffers: ReceivePool,
    ) -> Self {
        Self {
            endpoint,
            manager,
            dialer,
            buffers,
            now: Moment::default(),
            connections: Slab::new(),
            by_id: HashMap::new(),
            serving: Slab::new(),
            receiving: Slab::new(),
            channels: BTreeMap::new(),
            ends: BTreeMap::new(),
            told_ends: 0,
            peers: Peers::default(),
            timers: Timers::default(),
            to_send: Vec::new(),
            acknowledging: Vec::new(),
            acks: Vec::new(),
            unrung: Vec::new(),
            batches: Vec::new(),
            generation: 0,
            note: None,
            lines: Lines::of_all(),
            comings: Lines::of_all(),
            rung: Vec::new(),
            done: Vec::new(),
            stopping: false,
            stopped: false,
        }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// One turn; waits at most `longest` (`None`: until something comes). False when the end has come: nothing is
    /// under way any more.
    ///
    /// # Errors
    /// The transport can't go on.
    pub(crate) fn turn<T: Transport>(
        &mut self,
        transport: &mut T,
        longest: Option<Duration>,
    ) -> io::Result<bool> {
        self.now = self.manager.clock().now();
        self.listen(transport);
        self.look_at_clock(transport);
        // What a ring just made due: nothing else may wake this thread, since the producer waits for it.
        self.acknowledge_due();
        self.send(transport);
        let timeout = self.patience(transport, longest);
        let mut done = std::mem::take(&mut self.done);
        let turned = transport.turn(timeout, &mut done);
        self.endpoint.bell().stay_awake();
        turned?;
        if !done.is_empty() {
            self.now = self.manager.clock().now();
            for completion in done.drain(..) {
                self.complete(completion, transport);
            }
        }
        self.done = done;
        self.ring_fed();
        self.acknowledge_due();
        self.endpoint.counts.store(&transport.counts());
        Ok(!(self.stopped || self.stopping && self.connections.is_empty()))
    }

    /// A turn that leaves nothing unsaid: what was received is acknowledged before it returns, since nobody knows
    /// when the caller comes back.
    pub(crate) fn turn_through<T: Transport>(
        &mut self,
        transport: &mut T,
        longest: Option<Duration>,
    ) -> io::Result<bool> {
        let mut goes_on = self.turn(transport, longest)?;
        for _ in 0..TURNS_TO_SAY {
            let unsaid: Vec<_> =
                self.connections.iter().filter(|(_, live)| live.has_unsaid()).map(|(slot, _)| slot).collect();
            for slot in unsaid {
                self.acknowledge(slot, true);
            }
            // A batch under way holds back what came up since: it goes out behind its completion.
            let is_held_back = self.connections.iter().any(|(_, live)| live.is_held_back());
            if !goes_on || self.to_send.is_empty() && !is_held_back {
                break;
            }
            goes_on = self.turn(transport, Some(Duration::ZERO))?;
        }
        Ok(goes_on)
    }

    /// How long the wait may be: not at all when there is something to do.
    fn patience<T: Transport>(&self, transport: &T, longest: Option<Duration>) -> Option<Duration> {
        let is_roused = self.note.as_ref().is_some_and(|note| note.take());
        if is_roused || self.stopped || !self.to_send.is_empty() {
            return Some(Duration::ZERO);
        }
        let due = self.timers.next().map(|at| at.since(self.now));
        let timeout = match (due, longest) {
            (Some(due), Some(longest)) => Some(due.min(longest)),
            (due, longest) => due.or(longest),
        };
        if timeout == Some(Duration::ZERO) || self.endpoint.bell().may_sleep(transport.waker()) {
            timeout
        } else {
            Some(Duration::ZERO)
        }
    }

    /// Takes what the bell has.
    fn listen<T: Transport>(&mut self, transport: &mut T) {
        if self.endpoint.bell().is_silent() {
            return;
        }
        let mut rung = std::mem::take(&mut self.rung);
        self.endpoint.bell().take_all(|node| rung.push(node));
        for node in rung.drain(..) {
            // Before any look.
            node.clear();
            match node.token() {
                COMMAND_TOKEN => self.obey_all(transport),
                token if token >= CHANNEL_TOKEN => self.channel_rang(token),
                slot => self.stream_rang(slot as usize, &node),
            }
        }
        self.rung = rung;
    }

    fn obey_all<T: Transport>(&mut self, transport: &mut T) {
        for _ in 0..COMMANDS_A_TURN {
            let Popped::Item(command) = self.endpoint.commands().pop() else { return };
            match command {
                Command::Open(mut channel) if self.stopping => {
                    channel.feeder.push(Delivery::Over(Over::Gone(Cause::Shutdown)));
                }
                // Its other end sees it closed.
                Command::Adopt(_) if self.stopping => {}
                #[cfg(test)]
                Command::Panic => panic!("as it was told"),
                Command::Open(channel) => self.open(channel),
                Command::Adopt(adopted) => self.adopt(*adopted, transport),
                Command::DialFailed { peer, reason } => self.dial_failed(peer, &reason),
                Command::PeerDead(worker, reason) => self.peer_dead(worker, reason, transport),
                Command::Stop(deadline) => self.stop(deadline, transport),
            }
        }
        // They come as fast as they are obeyed: sockets have their turn first.
        self.endpoint.command_node().ring();
    }

    fn look_at_clock<T: Transport>(&mut self, transport: &mut T) {
        while let Some(timer) = self.timers.pop_due(self.now) {
            match timer {
                Timer::Look { connection, generation, stream } => {
                    if self.is_live(connection, generation) {
                        self.look(connection, stream);
                    }
                }
                Timer::Acknowledge { connection, generation } => {
                    if self.is_live(connection, generation) {
                        self.connections[connection].acknowledge_at = None;
                        self.acknowledge(connection, false);
                    }
                }
                Timer::Redial(peer) => {
                    let step = self.peers.redial(peer, self.now);
                    self.step(peer, step);
                }
                Timer::Part { connection, generation } => {
                    if self.is_live(connection, generation) {
                        self.part_is_due(connection, transport);
                    }
                }
                Timer::End(token) => self.look_after_end(token),
                Timer::Stop => {
                    self.end_all(SHUTTING_DOWN, transport);
                    self.stopped = true;
                }
            }
        }
    }

    fn complete<T: Transport>(&mut self, completion: Completion, transport: &mut T) {
        match completion {
            Completion::Received { connection, bytes } => {
                if let Some(slot) = self.by_id.get(&connection).copied() {
                    self.received(slot, &bytes, transport);
                }
            }
            Completion::Sent { connection } => {
                if let Some(slot) = self.by_id.get(&connection).copied() {
                    self.connections[slot].is_sending = false;
                    self.list(slot);
                    self.last_words(slot, transport);
                }
            }
            Completion::Recycled { batch } => self.recycle(batch),
            // Whoever says no more may still read the last words.
            Completion::Eof { connection } if self.is_parting(connection) => {}
            Completion::Eof { connection } => {
                self.lose(connection, "the other end closed it", Close::Orderly, transport);
            }
            Completion::Failed { connection, error } => {
                self.lose(connection, &error.to_string(), Close::Abortive, transport);
            }
            Completion::Closed { connection } => {
                if let Some(slot) = self.by_id.remove(&connection) {
                    self.connections.remove(slot);
                }
            }
        }
    }

    /// The connection has something to send, or may.
    pub(super) fn list(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if !connection.is_listed {
            connection.is_listed = true;
            self.to_send.push(slot);
        }
    }

    /// Whether a line about a connection may be logged: then how many were left out before.
    pub(super) fn may_log(&mut self, slot: usize) -> Option<u64> {
        let left_out = self.connections.get_mut(slot)?.lines.admit(self.now)?;
        match self.lines.admit(self.now) {
            Some(of_others) => Some(left_out + of_others),
            None => {
                self.lines.add_left_out(left_out);
                None
            }
        }
    }

    /// A name for something new that takes a slot.
    pub(super) fn next_generation(&mut self) -> u64 {
        self.generation += 1;
        self.generation
    }

    fn is_live(&self, slot: usize, generation: u64) -> bool {
        self.connections.get(slot).is_some_and(|connection| connection.generation == generation)
    }

    fn recycle(&mut self, mut batch: Box<Batch>) {
        for back in std::mem::take(&mut batch.returns) {
            if self.is_live(back.connection, back.generation) {
                self.let_go(back.connection, StreamId(back.stream), back.pieces);
            }
        }
        batch.empty();
        if self.batches.len() < BATCHES_KEPT && batch.staging.capacity() <= BATCH_KEPT_BYTES_MAX {
            self.batches.push(batch);
        }
    }

    /// Does what the table of peers says.
    pub(super) fn step(&mut self, peer: RemoteAddress, step: Step) {
        match step {
            Step::Dial => {
                if !self.dialer.dial(peer, self.endpoint.number()) {
                    let step = self.peers.failed(peer, self.now);
                    // Too many dials wait: after a pause it is tried again.
                    if let Step::At(at) = step {
                        self.timers.set(at, Timer::Redial(peer));
                    }
                }
            }
            Step::At(at) => self.timers.set(at, Timer::Redial(peer)),
            Step::Use(_) | Step::Nothing => {}
        }
    }
}

impl Drop for NetCore {
    fn drop(&mut self) {
        // A transport that failed: nobody tells them.
        self.forget_ends(None, "its network thread ends");
        self.endpoint.counts.set_ends(0);
        let of_connections: u64 =
            self.connections.iter_mut().map(|(_, live)| live.lines.take_left_out()).sum();
        let left_out = self.lines.take_left_out() + of_connections;
        if left_out > 0 {
            cold_event!(warn, left_out, "lines about other workers were left out, and none came behind them");
        }
        // First of all: channels that learn by the end of their feeders, dropped behind this, that nobody reads them
        // ask again at once, and get another thread or an answer.
        self.endpoint.close();
    }
}
