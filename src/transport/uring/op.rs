//! The table of operations: who is meant by a completion.
//!
//! A slot is used from the submission of an operation until its last completion, and its memory with it. The
//! generation tells a late completion of a former operation from one of the present.

use crate::memory::ReceiveBuffer;
use crate::transport::ConnectionId;

/// What an operation in flight keeps.
#[derive(Debug)]
pub(super) enum Op {
    Bell,
    Receive {
        connection: ConnectionId,
    },
    ReceiveOnce {
        connection: ConnectionId,
        buffer: ReceiveBuffer,
    },
    Readable {
        connection: ConnectionId,
    },
    Writable {
        connection: ConnectionId,
    },
    Send {
        connection: ConnectionId,
        outgoing: u32,
        /// It asked for zero copies.
        zero_copy: bool,
        /// The completion that isn't a notification has come.
        answered: bool,
        /// The notification has come.
        notified: bool,
    },
    Cancel {
        connection: Option<ConnectionId>,
    },
}

impl Op {
    fn kind(&self) -> u8 {
        match self {
            Self::Bell => 1,
            Self::Receive { .. } => 2,
            Self::ReceiveOnce { .. } => 3,
            Self::Readable { .. } => 4,
            Self::Writable { .. } => 5,
            Self::Send { .. } => 6,
            Self::Cancel { .. } => 7,
        }
    }
}

/// `kind 8 | generation 24 | slot 32`, as the kernel hands it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpName(pub(super) u64);

impl OpName {
    fn new(kind: u8, generation: u32, slot: u32) -> Self {
        Self(u64::from(kind) << 56 | u64::from(generation & GENERATION_MAX) << 32 | u64::from(slot))
    }

    fn slot(self) -> usize {
        self.0 as u32 as usize
    }
}

const GENERATION_MAX: u32 = (1 << 24) - 1;

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    op: Option<Op>,
}

/// All operations in flight.
#[derive(Debug, Default)]
pub(super) struct OpTable {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Completions that named no operation in flight.
    strays: u64,
}

impl OpTable {
    /// Grows as far as there were operations at once, and is never smaller.
    pub(super) fn insert(&mut self, op: Op) -> OpName {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let place = &mut self.slots[slot as usize];
        debug_assert!(place.op.is_none(), "a free slot has no operation");
        place.generation = (place.generation + 1) & GENERATION_MAX;
        let name = OpName::new(op.kind(), place.generation, slot);
        place.op = Some(op);
        name
    }

    /// The operation of that name, or `None` (counted) if it is over.
    pub(super) fn get(&mut self, name: OpName) -> Option<&mut Op> {
        let current = self.slots.get(name.slot()).is_some_and(|slot| {
            let op = slot.op.as_ref();
            op.is_some_and(|op| OpName::new(op.kind(), slot.generation, name.slot() as u32) == name)
        });
        if !current {
            self.strays += 1;
            return None;
        }
        self.slots[name.slot()].op.as_mut()
    }

    /// Ends an operation that is there.
    pub(super) fn remove(&mut self, name: OpName) -> Option<Op> {
        self.get(name)?;
        self.free.push(name.slot() as u32);
        self.slots[name.slot()].op.take()
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    #[allow(dead_code, reason = "for tests")]
    pub(super) fn strays(&self) -> u64 {
        self.strays
    }

    /// Lets go of everything without giving its memory back: the kernel may still use it.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.slots));
    }
}
