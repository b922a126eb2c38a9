//! The world that the transports of a test share.

use super::link::Link;
use super::random::Random;
use super::transport::FakeTransport;
use crate::clock::Moment;
use crate::memory::ReceivePool;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

/// How rough a network is. Chances are in thousandths, times in microseconds.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// How long bytes are on their way.
    pub(crate) delay: Range<u64>,
    /// Bytes that are between two ends before a send stalls, for each direction of each connection.
    pub(crate) capacity: Range<u64>,
    /// The most bytes that move at once are picked from this.
    pub(crate) step_bytes: Range<u64>,
    /// That a connection stands still for a while when it could send or receive.
    pub(crate) stall: u64,
    /// That a batch is given back late.
    pub(crate) late: u64,
    /// That there is no receive buffer though there is one.
    pub(crate) starve: u64,
    /// That a connection breaks when it could send or receive.
    pub(crate) error: u64,
    /// How long a stall, a delayed batch or a scripted lack of buffers lasts.
    pub(crate) pause: Range<u64>,
}

impl Plan {
    /// Everything at once and whole, after 10 microseconds.
    pub(crate) fn calm() -> Self {
        Self {
            delay: 10..11,
            capacity: 4 << 20..(4 << 20) + 1,
            step_bytes: 1 << 30..(1 << 30) + 1,
            stall: 0,
            late: 0,
            starve: 0,
            error: 0,
            pause: 0..1,
        }
    }

    /// Whatever can happen without a connection breaking.
    pub(crate) fn rough(random: &mut Random) -> Self {
        let step = 1 << random.of(10..21);
        Self {
            delay: 0..1 << random.of(0..12),
            capacity: 64..1 << random.of(9..22),
            step_bytes: step / 4..step,
            stall: random.of(0..200),
            late: random.of(0..500),
            starve: random.of(0..100),
            error: 0,
            pause: 1..1 << random.of(2..12),
        }
    }
}

/// Names a connection of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LinkId(usize);

/// How a connection ends that nobody closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Both ends see a reset, behind what has arrived.
    Reset,
    /// Nothing arrives any more, and nobody is told.
    Silence,
}

/// A connection whose ends weren't attached yet.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) link: LinkId,
    pub(crate) sockets: (OwnedFd, OwnedFd),
}

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) link: LinkId,
    pub(super) side: usize,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) now: Moment,
    pub(super) random: Random,
    pub(super) plan: Plan,
    links: Vec<Link>,
    /// Those with an end that isn't closed.
    open: Vec<LinkId>,
    /// Ends that wait to be attached, by their descriptors, and how to find out that one was closed instead.
    waiting: BTreeMap<RawFd, (Place, UnixStream)>,
    timers: BinaryHeap<Reverse<Moment>>,
}

impl World {
    pub(super) fn link(&mut self, id: LinkId) -> &mut Link {
        &mut self.links[id.0]
    }

    /// Something will happen at `at`.
    pub(super) fn remind(&mut self, at: Moment) {
        self.timers.push(Reverse(at));
    }

    /// A moment of the plan's choosing after now.
    pub(super) fn soon(&mut self, micros: Range<u64>) -> Moment {
        let after = Duration::from_micros(self.random.of(micros));
        self.now.plus(after)
    }

    /// Ends a pause at a moment of the plan's choosing, which is after now.
    pub(super) fn pause(&mut self) -> Moment {
        let pause = self.plan.pause.clone();
        let until = self.soon(pause).max(self.now.plus(Duration::from_nanos(1)));
        self.remind(until);
        until
    }

    pub(super) fn take_waiting(&mut self, socket: RawFd) -> Option<Place> {
        self.waiting.remove(&socket).map(|(place, _)| place)
    }

    /// Moves what is due.
    pub(super) fn arrive(&mut self) {
        let now = self.now;
        while self.timers.peek().is_some_and(|Reverse(at)| *at <= now) {
            self.timers.pop();
        }
        let mut dropped = Vec::new();
        self.waiting.retain(|_, (place, leash)| {
            let open = !matches!(leash.read(&mut [0]), Ok(0));
            dropped.extend((!open).then_some(*place));
            open
        });
        // Descriptors have any numbers; what comes of a seed must not depend on them.
        dropped.sort();
        dropped.into_iter().for_each(|place| self.leave(place));
        let links = &mut self.links;
        self.open.retain(|id| {
            let link = &mut links[id.0];
            link.arrive(now);
            link.gone != [true, true]
        });
    }

    /// Sends `bytes` from an end to the other.
    pub(super) fn put(&mut self, from: Place, bytes: Vec<u8>) {
        let delay = self.plan.delay.clone();
        let at = self.soon(delay);
        let link = self.link(from.link);
        let pipe = &mut link.pipes[from.side];
        let at = pipe.put(bytes, at);
        if let Some((_, how)) = pipe.cut_after
            && pipe.before_cut() == 0
        {
            link.cut(at, how);
        }
        self.remind(at);
    }

    /// Closes an end that has sent everything.
    pub(super) fn leave(&mut self, place: Place) {
        let at = self.send_end(place);
        self.remind(at);
        self.link(place.link).gone[place.side] = true;
    }

    pub(super) fn send_end(&mut self, place: Place) -> Moment {
        let delay = self.plan.delay.clone();
        let at = self.soon(delay);
        let at = self.link(place.link).pipes[place.side].put_end(at);
        self.remind(at);
        at
    }

    /// Closes an end with a reset, which the other one sees when it arrives.
    pub(super) fn reset(&mut self, place: Place) {
        let delay = self.plan.delay.clone();
        let at = self.soon(delay);
        let link = self.link(place.link);
        link.gone[place.side] = true;
        link.cut(at, Cut::Reset);
        self.remind(at);
    }

    pub(super) fn next_event(&self) -> Option<Moment> {
        self.timers.peek().map(|Reverse(at)| *at)
    }
}

/// The network, shared by its transports.
#[derive(Clone, Debug)]
pub(crate) struct FakeNetwork(Rc<RefCell<World>>);

impl FakeNetwork {
    pub(crate) fn new(seed: u64, plan: Plan) -> Self {
        Self(Rc::new(RefCell::new(World {
            now: Moment::default(),
            random: Random::new(seed),
            plan,
            links: Vec::new(),
            open: Vec::new(),
            waiting: BTreeMap::new(),
            timers: BinaryHeap::new(),
        })))
    }

    /// A transport that receives into `pool`, which is its own.
    pub(crate) fn transport(&self, pool: &ReceivePool) -> FakeTransport {
        FakeTransport::new(Rc::clone(&self.0), pool.clone())
    }

    /// A connection.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub(crate) fn pair(&self) -> io::Result<Pair> {
        let world = &mut *self.0.borrow_mut();
        let capacity = [(); 2].map(|()| world.random.of(world.plan.capacity.clone()) as usize);
        let link = LinkId(world.links.len());
        world.links.push(Link::new(capacity));
        world.open.push(link);
        let mut socket = |side| {
            // The socket that is given away carries nothing: it is a name, and tells when it is dropped.
            let (given, leash) = UnixStream::pair()?;
            leash.set_nonblocking(true)?;
            let place = Place { link, side };
            if let Some((older, _)) = world.waiting.insert(given.as_raw_fd(), (place, leash)) {
                // Its descriptor was closed, or it wouldn't have been given out again.
                world.leave(older);
            }
            io::Result::Ok(OwnedFd::from(given))
        };
        let sockets = (socket(0)?, socket(1)?);
        Ok(Pair { link, sockets })
    }

    pub(crate) fn now(&self) -> Moment {
        self.0.borrow().now
    }

    /// When something happens next that nobody has to do anything for.
    pub(crate) fn next_event(&self) -> Option<Moment> {
        self.0.borrow().next_event()
    }

    /// Lets time go on to `at`, if that is later.
    pub(crate) fn advance_to(&self, at: Moment) {
        let world = &mut *self.0.borrow_mut();
        world.now = world.now.max(at);
        world.arrive();
    }

    /// Changes what the network does from now on.
    pub(crate) fn set_plan(&self, plan: Plan) {
        self.0.borrow_mut().plan = plan;
    }

    /// Cuts a connection now: what is on its way is lost.
    pub(crate) fn cut(&self, link: LinkId, how: Cut) {
        let world = &mut *self.0.borrow_mut();
        let now = world.now;
        world.link(link).cut(now, how);
        world.remind(now);
    }

    /// Cuts a connection when the first `bytes` bytes that side 0 or 1 of the pair ever sent have arrived.
    pub(crate) fn cut_after(&self, link: LinkId, side: usize, bytes: u64, how: Cut) {
        let world = &mut *self.0.borrow_mut();
        let (now, pipe) = (world.now, &mut world.link(link).pipes[side]);
        pipe.cut_after = Some((bytes, how));
        if pipe.before_cut() == 0 {
            // When what was sent already has arrived.
            let at = pipe.last().max(now);
            world.link(link).cut(at, how);
            world.remind(at);
        }
    }

    /// Nothing that side 0 or 1 of the pair has sent or sends arrives before `until`.
    pub(crate) fn hold(&self, link: LinkId, side: usize, until: Moment) {
        let world = &mut *self.0.borrow_mut();
        world.link(link).pipes[side].hold(until);
        world.remind(until);
    }
}
