//! Random scripts of the kernel's side against the transport.

use super::super::zero_copy::{Ability, ZeroCopy};
use super::super::{Settings, Uring};
use super::play::{Dice, End, Socket, pattern};
use super::script::Script;
use crate::memory::{Lent, ReceivePool};
use crate::test_size;
use crate::transport::{Batch, Close, Completion, ConnectionId, Part, Transport};
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// What the test knows of one connection.
#[derive(Debug)]
struct Side {
    fd: RawFd,
    salt: usize,
    incoming: usize,
    end: End,
    /// The other end takes everything.
    takes_all: bool,
    received: usize,
    /// Bytes handed over in batches, and batches still to hand over.
    handed: usize,
    to_hand: usize,
    may_send: bool,
    over: bool,
    failed: bool,
    close: Option<Close>,
    aborted: bool,
    closed: bool,
}

struct Run {
    seed: u64,
    dice: Dice,
    uring: Uring<Script>,
    sides: HashMap<ConnectionId, Side>,
    /// Batches with the transport, by number.
    out: HashMap<u64, std::ops::Range<usize>>,
    numbers: u64,
    /// Batches given back, scribbled over, and kept so that a late look at them shows.
    #[allow(clippy::vec_box, reason = "a look at them is by their old addresses")]
    back: Vec<Box<Batch>>,
    held: Vec<Lent>,
}

fn socket(dice: &mut Dice, salt: usize) -> Socket {
    let incoming = match dice.below(10) {
        0 => 0,
        1 => 1_000_000 + dice.below(1_000_000),
        2..5 => dice.below(300_000),
        _ => dice.below(3000),
    };
    Socket {
        salt,
        incoming,
        end: dice.pick(&[End::Eof, End::Eof, End::Eof, End::Reset, End::Silence]),
        here: dice.once_in(3),
        takes: if dice.once_in(8) { dice.below(2000) } else { usize::MAX },
        read: 0,
        sent: 0,
        shut: None,
        broken: false,
        low_water: 1,
    }
}

impl Run {
    fn new(seed: u64, pool: &ReceivePool) -> Self {
        let mut dice = Dice(seed ^ 0x5EED);
        let settings = Settings {
            zero_copy: dice.pick(&[ZeroCopy::Auto, ZeroCopy::Always, ZeroCopy::Always, ZeroCopy::Never]),
            ability: dice.pick(&[Ability::None, Ability::Silent, Ability::Reporting, Ability::Reporting]),
            lazy: !dice.once_in(4),
        };
        let uring = Uring::new(Script::new(seed), pool.clone(), settings).unwrap();
        let (sides, out) = (HashMap::new(), HashMap::new());
        let mut run = Self { seed, dice, uring, sides, out, numbers: 0, back: Vec::new(), held: Vec::new() };
        for salt in 0..1 + run.dice.below(4) {
            run.attach(salt);
        }
        run
    }

    fn attach(&mut self, salt: usize) {
        let owned = OwnedFd::from(File::open("/dev/null").unwrap());
        let fd = owned.as_raw_fd();
        let socket = socket(&mut self.dice, salt);
        let side = Side {
            fd,
            salt,
            incoming: socket.incoming,
            end: socket.end,
            takes_all: socket.takes == usize::MAX,
            received: 0,
            handed: 0,
            to_hand: self.dice.below(6),
            may_send: true,
            over: false,
            failed: false,
            close: None,
            aborted: false,
            closed: false,
        };
        self.uring.ring.sockets.insert(fd, socket);
        let id = self.uring.attach(owned).unwrap();
        assert!(self.sides.insert(id, side).is_none(), "a name is used once");
    }

    /// A batch of a few parts; its bytes go on where the ones before ended.
    fn hand(&mut self, id: ConnectionId) {
        let side = self.sides.get_mut(&id).unwrap();
        let most = if self.dice.once_in(6) { 200_000 } else { 3000 };
        let bytes = 1 + self.dice.below(most);
        let staging = pattern(side.salt, side.handed, bytes).to_vec();
        let mut cuts = [0, self.dice.below(bytes), self.dice.below(bytes), bytes];
        cuts.sort_unstable();
        let parts = cuts.windows(2).map(|cut| Part::Staged(cut[0]..cut[1])).collect();
        let memory = staging.as_ptr().expose_provenance();
        self.out.insert(self.numbers, memory..memory + bytes);
        self.numbers += 1;
        (side.handed, side.to_hand, side.may_send) = (side.handed + bytes, side.to_hand - 1, false);
        self.uring.send(id, Box::new(Batch { staging, parts, bytes, returns: Vec::new() }));
    }

    fn act(&mut self) {
        let mut ids: Vec<ConnectionId> = self.sides.keys().copied().collect();
        ids.sort_by_key(|id| (id.index, id.generation));
        for id in ids {
            let side = &self.sides[&id];
            if side.closed {
                // A name of before means nothing any more.
                if self.dice.once_in(10) {
                    self.uring.close(id, Close::Abortive);
                }
                continue;
            }
            if side.may_send && side.to_hand > 0 && side.close.is_none() && !self.dice.once_in(3) {
                self.hand(id);
            }
            let side = &self.sides[&id];
            let finished = side.over && (side.to_hand == 0 || side.failed);
            let hangs = side.end == End::Silence && side.received == side.incoming;
            if side.close.is_none() && (finished || hangs && side.to_hand == 0 || self.dice.once_in(60)) {
                self.close(id);
            } else if side.close == Some(Close::Orderly) && self.dice.once_in(40) {
                self.sides.get_mut(&id).unwrap().aborted = true;
                self.uring.close(id, Close::Abortive);
            } else if side.close.is_none() && !side.may_send && !side.takes_all && self.dice.once_in(20) {
                self.close(id);
            }
        }
        while self.held.len() > 6 || !self.held.is_empty() && self.dice.once_in(2) {
            let which = self.dice.below(self.held.len());
            self.held.swap_remove(which);
        }
    }

    fn close(&mut self, id: ConnectionId) {
        let how = self.dice.pick(&[Close::Orderly, Close::Orderly, Close::Abortive]);
        let side = self.sides.get_mut(&id).unwrap();
        side.close = Some(how);
        side.aborted |= how == Close::Abortive;
        self.uring.close(id, how);
    }

    fn turn(&mut self) {
        let timeout = self.dice.pick(&[0, 0, 50, 200, 10_000, 2_000_000]);
        if self.dice.once_in(10) {
            self.uring.waker().wake_by_ref();
        }
        let mut done = Vec::new();
        self.uring.turn(Some(Duration::from_micros(timeout)), &mut done).unwrap();
        for completion in done {
            self.completed(completion);
        }
    }

    fn side(&mut self, id: ConnectionId) -> &mut Side {
        let side = self.sides.get_mut(&id).expect("a connection of ours");
        assert!(!side.closed, "nothing names a connection after `Closed`");
        side
    }

    fn completed(&mut self, completion: Completion) {
        match completion {
            Completion::Received { connection, bytes } => {
                let side = self.side(connection);
                assert!(!side.over && side.close.is_none(), "received behind the end");
                assert!(*bytes == *pattern(side.salt, side.received, bytes.len()), "bytes in order, once");
                side.received += bytes.len();
                self.held.push(bytes);
            }
            Completion::Eof { connection } => {
                let side = self.side(connection);
                assert!(!side.over && side.close.is_none(), "one end");
                assert_eq!((side.received, side.end), (side.incoming, End::Eof));
                side.over = true;
            }
            Completion::Sent { connection } => {
                let side = self.side(connection);
                let (fd, salt, handed) = (side.fd, side.salt, side.handed);
                assert!(!side.may_send && !side.failed, "one for each batch");
                side.may_send = true;
                let ring = &self.uring.ring;
                let open = ring.sockets.get(&fd).filter(|it| it.salt == salt).map(|it| it.sent);
                let closed = || ring.closed.iter().find(|it| it.0 == salt).map(|it| it.2);
                assert_eq!(open.or_else(closed), Some(handed), "sent whole");
            }
            Completion::Recycled { mut batch } => {
                let base = batch.staging.as_ptr().expose_provenance();
                let number =
                    *self.out.iter().find(|(_, memory)| memory.start == base).expect("a batch of ours").0;
                let memory = self.out.remove(&number).unwrap();
                assert!(!self.uring.ring.reads(&memory), "given back under the kernel's eyes");
                batch.staging.fill(0xEE);
                self.back.push(batch);
            }
            Completion::Failed { connection, .. } => {
                let side = self.side(connection);
                assert!(!side.failed && side.close.is_none(), "fails once");
                (side.failed, side.over) = (true, true);
            }
            Completion::Closed { connection } => {
                let side = self.side(connection);
                assert!(side.close.is_some(), "closed as asked");
                side.closed = true;
                let (salt, handed) = (side.salt, side.handed);
                let whole =
                    side.close == Some(Close::Orderly) && !side.aborted && !side.failed && side.takes_all;
                let end = side.end;
                let (_, aborted, sent) =
                    *self.uring.ring.closed.iter().find(|it| it.0 == salt).expect("closed");
                if !aborted {
                    assert_eq!(sent, handed, "a stream that was cut short ends in a reset");
                }
                if whole && end == End::Eof {
                    // Without a buffer the other end's end can't be found in time.
                    let starved = self.uring.counts().starved > 0;
                    assert!(sent == handed && (!aborted || starved), "an orderly close loses nothing");
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        self.sides.values().all(|side| side.closed) && self.out.is_empty()
    }

    /// Until everything is closed and given back, and beyond: the transport itself.
    fn go(mut self, pool: &ReceivePool) {
        let midway = self.dice.once_in(5).then(|| self.dice.below(60));
        for turns in 0.. {
            assert!(turns < 20_000, "hangs: seed {} {:?} {:?}", self.seed, self.sides, self.uring);
            if self.is_over() || Some(turns) == midway {
                break;
            }
            self.act();
            self.turn();
        }
        self.held.clear();
        let Self { uring, back, .. } = self;
        // Batches are kept until the kernel is done, also those that the transport drops with itself.
        drop(uring);
        drop(back);
        assert_eq!(pool.free(), pool.slots(), "all memory is back");
    }
}

/// Bytes come in order and once; each batch is given back once, after its last completion; nothing hangs.
#[test]
fn whatever_the_kernel_does_in_whatever_order() {
    let pools = [ReceivePool::new(1).unwrap(), ReceivePool::new(2).unwrap(), ReceivePool::new(5).unwrap()];
    let first = std::env::var("PIRN_SEED").ok().map(|seed| seed.parse().unwrap());
    let count = if first.is_some() { 1 } else { test_size::pick(10_000, 100_000) };
    let first = first.unwrap_or(0);
    for seed in first..first + count {
        let pool = &pools[seed as usize % pools.len()];
        let result = std::panic::catch_unwind(|| Run::new(seed, pool).go(pool));
        if result.is_err() {
            panic!("seed {seed}: PIRN_SEED={seed} runs it alone");
        }
    }
}

/// A kernel that never answers keeps the memory; nothing is freed under it.
#[test]
fn what_the_kernel_keeps_is_leaked() {
    let pool = ReceivePool::new(2).unwrap();
    let mut script = Script::new(3);
    (script.calm, script.deaf, script.gives_buffers) = (true, true, true);
    let settings = Settings { zero_copy: ZeroCopy::Never, ability: Ability::None, lazy: false };
    let mut uring = Uring::new(script, pool.clone(), settings).unwrap();
    let owned = OwnedFd::from(File::open("/dev/null").unwrap());
    let mut socket = socket(&mut Dice(1), 1);
    (socket.incoming, socket.end) = (0, End::Silence);
    uring.ring.sockets.insert(owned.as_raw_fd(), socket);
    let id = uring.attach(owned).unwrap();
    let staging = pattern(1, 0, 100).to_vec();
    uring.send(
        id,
        Box::new(Batch { staging, parts: vec![Part::Staged(0..100)], bytes: 100, returns: Vec::new() }),
    );
    let mut done = Vec::new();
    uring.turn(Some(Duration::from_millis(1)), &mut done).unwrap();
    assert!(done.is_empty());
    drop(uring);
    assert_eq!(pool.free(), 0, "the provided buffers stay with the kernel");
}
