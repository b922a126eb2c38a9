//! A transport of the fake network.

use super::super::sending::Sending;
use super::super::table::Table;
use super::super::{Batch, CLOSE_PATIENCE, Close, Completion, ConnectionId, Transport, TransportCounts};
use super::network::{Cut, Place, World};
use crate::clock::Moment;
use crate::memory::{ReceiveBuffer, ReceivePool};
use crate::sync::{AtomicBool, Ordering, thread};
use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

/// What a broken connection may say of itself: ECONNRESET, EPIPE, ETIMEDOUT, EHOSTUNREACH, ENETDOWN, ENOBUFS, EIO.
const ERRORS: [i32; 7] = [104, 32, 110, 113, 100, 105, 5];

#[derive(Debug)]
pub(crate) struct FakeTransport {
    world: Rc<RefCell<World>>,
    table: Table<Connection>,
    pool: ReceivePool,
    buffer: Option<ReceiveBuffer>,
    starved: bool,
    /// There is no receive buffer before this, whatever the pool says.
    starved_until: Moment,
    /// Batches to be given back, when, and what was in them.
    recycling: Vec<(Moment, u64, Box<Batch>)>,
    backlog: Vec<Completion>,
    bell: Arc<Bell>,
    waker: Waker,
    counts: TransportCounts,
}

#[derive(Debug)]
struct Connection {
    /// Keeps the descriptor's number from being given out again.
    _socket: OwnedFd,
    place: Place,
    sending: Option<(Sending, u64)>,
    phase: Phase,
    ended: bool,
    send_after: Moment,
    receive_after: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Broken,
    /// Closed, with something left to send; nothing went forward since then.
    Finishing(Moment),
    /// Closed and told; waits for the other end since then.
    Ending(Moment),
}

#[derive(Debug)]
struct Bell {
    rung: AtomicBool,
    thread: thread::Thread,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Relaxed: `unpark` orders it before the return of the `park` that it ends.
        self.rung.store(true, Ordering::Relaxed);
        self.thread.unpark();
    }
}

fn digest(batch: &Batch) -> u64 {
    let mut hasher = DefaultHasher::new();
    batch.parts.iter().for_each(|part| part.of(&batch.staging).hash(&mut hasher));
    hasher.finish()
}

impl FakeTransport {
    pub(super) fn new(world: Rc<RefCell<World>>, pool: ReceivePool) -> Self {
        let bell = Arc::new(Bell { rung: AtomicBool::new(false), thread: thread::current() });
        Self {
            world,
            table: Table::new(),
            pool,
            buffer: None,
            starved: false,
            starved_until: Moment::default(),
            recycling: Vec::new(),
            backlog: Vec::new(),
            waker: Waker::from(Arc::clone(&bell)),
            bell,
            counts: TransportCounts::default(),
        }
    }

    /// Does what can be done at this moment. Says whether there may be more.
    fn step(&mut self, done: &mut Vec<Completion>) -> bool {
        let (before, mut moved) = (done.len(), false);
        let world = Rc::clone(&self.world);
        let world = &mut *world.borrow_mut();
        world.arrive();
        let mut ids: Vec<_> = self.table.ids().collect();
        world.random.shuffle(&mut ids);
        for id in ids {
            moved |= self.send_some(id, world);
            moved |= self.receive_some(id, world, done);
            self.see_to_end(id, world);
            done.append(&mut self.backlog);
        }
        let now = world.now;
        let mut due: Vec<_> = self.recycling.extract_if(.., |(at, ..)| *at <= now).collect();
        world.random.shuffle(&mut due);
        for (_, content, batch) in due {
            assert_eq!(digest(&batch), content, "a batch was changed while the network had it");
            let at = world.random.of(before as u64..done.len() as u64 + 1) as usize;
            done.insert(at, Completion::Recycled { batch });
        }
        moved
    }

    fn send_some(&mut self, id: ConnectionId, world: &mut World) -> bool {
        let Some(connection) = self.table.get_mut(id) else { return false };
        let place = connection.place;
        let Some((sending, _)) = &mut connection.sending else { return false };
        if connection.send_after > world.now {
            return false;
        }
        if world.random.chance(world.plan.stall) {
            connection.send_after = world.pause();
            return false;
        }
        if world.random.chance(world.plan.error) {
            self.break_down(id, world);
            return false;
        }
        let pipe = &world.link(place.link).pipes[place.side];
        let room = pipe.room().min(pipe.before_cut());
        let step = world.random.of(world.plan.step_bytes.clone()).max(1) as usize;
        let bytes = sending.gather(room.min(step));
        let moved = bytes.len();
        if moved > 0 {
            sending.advance(moved);
            self.counts.sent += moved as u64;
            self.counts.calls += 1;
            if let Phase::Finishing(since) = &mut connection.phase {
                *since = world.now;
                world.remind(world.now.plus(CLOSE_PATIENCE));
            }
            world.put(place, bytes);
        }
        if sending.left() == 0 {
            self.recycle(id, world);
            self.backlog.push(Completion::Sent { connection: id });
        }
        moved > 0
    }

    /// Gives the batch back, now or later.
    fn recycle(&mut self, id: ConnectionId, world: &mut World) {
        let Some((sending, before)) = self.table.get_mut(id).and_then(|connection| connection.sending.take())
        else {
            return;
        };
        let late = world.random.chance(world.plan.late);
        let at = if late { world.pause() } else { world.now };
        self.recycling.push((at, before, sending.into_batch()));
    }

    fn break_down(&mut self, id: ConnectionId, world: &mut World) {
        let error = ERRORS[world.random.of(0..ERRORS.len() as u64) as usize];
        self.fail(id, io::Error::from_raw_os_error(error), world);
    }

    fn fail(&mut self, id: ConnectionId, error: io::Error, world: &mut World) {
        self.recycle(id, world);
        let Some(connection) = self.table.get_mut(id) else { return };
        world.reset(connection.place);
        if connection.phase == Phase::Open {
            connection.phase = Phase::Broken;
            self.backlog.push(Completion::Failed { connection: id, error });
        } else {
            self.finish(id, world);
        }
    }

    fn receive_some(&mut self, id: ConnectionId, world: &mut World, done: &mut Vec<Completion>) -> bool {
        let Some(connection) = self.table.get_mut(id) else { return false };
        let (place, now) = (connection.place, world.now);
        if connection.phase == Phase::Broken {
            return false;
        }
        let link = world.link(place.link);
        let incoming = &mut link.pipes[1 - place.side];
        if connection.phase != Phase::Open {
            incoming.discard();
        }
        if incoming.arrived() == 0 {
            if incoming.has_ended(now) && !connection.ended {
                connection.ended = true;
                if connection.phase == Phase::Open {
                    self.backlog.push(Completion::Eof { connection: id });
                }
            } else if link.is_cut(now) == Some(Cut::Reset) {
                self.fail(id, io::ErrorKind::ConnectionReset.into(), world);
            }
            return false;
        }
        if connection.receive_after > now {
            return false;
        }
        if world.random.chance(world.plan.stall) {
            connection.receive_after = world.pause();
            return false;
        }
        if world.random.chance(world.plan.error) {
            self.break_down(id, world);
            return false;
        }
        let Some(buffer) = self.room(world) else { return false };
        let step = world.random.of(world.plan.step_bytes.clone()).max(1) as usize;
        let room = buffer.spare();
        let step = room.len().min(step);
        let bytes = world.link(place.link).pipes[1 - place.side].take(&mut room[..step]);
        done.push(Completion::Received { connection: id, bytes: buffer.received(bytes) });
        self.counts.received += bytes as u64;
        self.counts.calls += 1;
        true
    }

    /// The buffer to receive into, unless there is none, or the script says so.
    fn room(&mut self, world: &mut World) -> Option<&mut ReceiveBuffer> {
        if self.starved_until <= world.now && world.random.chance(world.plan.starve) {
            self.starved_until = world.pause();
            self.counts.starved += 1;
        }
        if self.starved_until > world.now {
            return None;
        }
        if self.buffer.as_ref().is_none_or(ReceiveBuffer::is_spent) {
            self.buffer = None;
            self.buffer = ReceiveBuffer::open(&self.pool);
        }
        self.counts.starved += u64::from(self.buffer.is_none() && !self.starved);
        self.starved = self.buffer.is_none();
        self.buffer.as_mut()
    }

    fn see_to_end(&mut self, id: ConnectionId, world: &mut World) {
        let Some(connection) = self.table.get_mut(id) else { return };
        match connection.phase {
            Phase::Finishing(_) if connection.sending.is_none() => {
                connection.phase = Phase::Ending(world.now);
                world.send_end(connection.place);
                world.remind(world.now.plus(CLOSE_PATIENCE));
                self.see_to_end(id, world);
            }
            Phase::Finishing(since) if since.plus(CLOSE_PATIENCE) <= world.now => {
                world.reset(connection.place);
                self.finish(id, world);
            }
            Phase::Ending(since) if connection.ended || since.plus(CLOSE_PATIENCE) <= world.now => {
                self.finish(id, world);
            }
            _ => {}
        }
    }

    /// Closes the descriptor.
    fn finish(&mut self, id: ConnectionId, world: &mut World) {
        self.recycle(id, world);
        let Some(connection) = self.table.remove(id) else { return };
        world.link(connection.place.link).gone[connection.place.side] = true;
        self.backlog.push(Completion::Closed { connection: id });
    }

    /// Does what nobody may: changes batches that aren't given back yet.
    pub(super) fn spoil(&mut self) {
        self.recycling.iter_mut().for_each(|(.., batch)| batch.staging.fill(0xEE));
    }

    /// Sleeps until the waker is woken: nothing else will happen.
    fn sleep(&self) {
        // Relaxed: see `Bell`.
        while !self.bell.rung.load(Ordering::Relaxed) {
            thread::park();
        }
    }
}

impl Transport for FakeTransport {
    fn attach(&mut self, socket: OwnedFd) -> io::Result<ConnectionId> {
        let place = self.world.borrow_mut().take_waiting(socket.as_raw_fd());
        let place = place.ok_or_else(|| io::Error::other("not a socket of this network"))?;
        let (phase, start) = (Phase::Open, Moment::default());
        let connection = Connection {
            _socket: socket,
            place,
            sending: None,
            phase,
            ended: false,
            send_after: start,
            receive_after: start,
        };
        self.table.insert(connection).ok_or_else(|| io::Error::other("no names are left for connections"))
    }

    fn send(&mut self, connection: ConnectionId, batch: Box<Batch>) {
        match self.table.get_mut(connection) {
            Some(open) if open.phase == Phase::Open => {
                assert!(open.sending.is_none(), "one batch at a time");
                let before = digest(&batch);
                open.sending = Some((Sending::new(batch), before));
            }
            _ => self.backlog.push(Completion::Recycled { batch }),
        }
    }

    fn close(&mut self, connection: ConnectionId, how: Close) {
        let world = Rc::clone(&self.world);
        let world = &mut *world.borrow_mut();
        let Some(closed) = self.table.get_mut(connection) else { return };
        match (how, closed.phase) {
            (Close::Orderly, Phase::Open) => {
                closed.phase = Phase::Finishing(world.now);
                world.remind(world.now.plus(CLOSE_PATIENCE));
            }
            (Close::Orderly, Phase::Finishing(_) | Phase::Ending(_)) => {}
            _ => {
                world.reset(closed.place);
                self.finish(connection, world);
            }
        }
    }

    fn turn(&mut self, timeout: Option<Duration>, done: &mut Vec<Completion>) -> io::Result<()> {
        let until = timeout.map(|timeout| self.world.borrow().now.plus(timeout));
        let before = done.len();
        self.counts.enters += 1;
        loop {
            done.append(&mut self.backlog);
            let moved = self.step(done);
            // Relaxed: see `Bell`. What made the ringer ring is ordered by whatever it is.
            let rung = self.bell.rung.swap(false, Ordering::Relaxed);
            let now = self.world.borrow().now;
            if done.len() > before || rung || (!moved && until.is_some_and(|until| until <= now)) {
                return Ok(());
            }
            if moved {
                continue;
            }
            if self.starved {
                self.pool.waiter().announce(&self.waker);
                if self.pool.free() > 0 {
                    self.pool.waiter().retract();
                    self.starved = false;
                    continue;
                }
            }
            let next = self.world.borrow().next_event();
            match next.into_iter().chain(until).min() {
                Some(at) => self.world.borrow_mut().now = at.max(now),
                None => self.sleep(),
            }
        }
    }

    fn waker(&self) -> &Waker {
        &self.waker
    }

    fn counts(&self) -> TransportCounts {
        self.counts
    }

    fn untouched_buffers(&self) -> u32 {
        u32::from(self.buffer.as_ref().is_some_and(ReceiveBuffer::is_untouched))
    }
}

impl Drop for FakeTransport {
    fn drop(&mut self) {
        let mut world = self.world.borrow_mut();
        for id in self.table.ids().collect::<Vec<_>>() {
            if let Some(connection) = self.table.remove(id) {
                world.reset(connection.place);
            }
        }
    }
}
