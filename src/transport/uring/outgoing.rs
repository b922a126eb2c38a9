//! Batches in the kernel's hands.

use crate::memory::OpenSegment;
use crate::transport::{Batch, ConnectionId};
use std::ops::Range;
use std::{ptr, slice};

/// The most stretches of memory that one send takes (`IOV_MAX`).
const STRETCHES_MAX: usize = 1024;

/// One batch: its memory as the kernel wants it described, and who may still look at it.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) connection: ConnectionId,
    batch: Option<Box<Batch>>,
    /// Copies of what lay outside of the arena.
    staged: Vec<OpenSegment>,
    stretches: Vec<libc::iovec>,
    /// The first stretch that isn't sent whole.
    first: usize,
    left: usize,
    message: libc::msghdr,
    /// Operations that name it, and have completions to come.
    pub(super) ops: u32,
    /// No operation more: it is sent, or never will be.
    pub(super) over: bool,
}

impl Outgoing {
    fn new() -> Self {
        // SAFETY: a `msghdr` is made of pointers and integers, for which zeros are null and 0.
        let message = unsafe { std::mem::zeroed() };
        let connection = ConnectionId { index: 0, generation: 0 };
        Self {
            connection,
            batch: None,
            staged: Vec::new(),
            stretches: Vec::new(),
            first: 0,
            left: 0,
            message,
            ops: 0,
            over: true,
        }
    }

    fn load(&mut self, connection: ConnectionId, batch: Box<Batch>) {
        (self.connection, self.first, self.ops, self.over) = (connection, 0, 0, false);
        self.stretches.clear();
        self.stretches.extend(batch.parts.iter().map(|part| {
            let bytes = part.of(&batch.staging);
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
        }));
        self.stretches.retain(|stretch| stretch.iov_len > 0);
        self.left = self.stretches.iter().map(|stretch| stretch.iov_len).sum();
        self.batch = Some(batch);
    }

    /// Bytes that aren't sent.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Bytes that the next send would take, which is all that is left but for very many stretches.
    pub(super) fn reach(&self) -> usize {
        self.window().iter().map(|stretch| stretch.iov_len).sum()
    }

    fn window(&self) -> &[libc::iovec] {
        let end = self.stretches.len().min(self.first + STRETCHES_MAX);
        &self.stretches[self.first..end]
    }

    /// What the next send takes, for the region that it has to lie in.
    pub(super) fn stretches(&self) -> &[libc::iovec] {
        self.window()
    }

    /// Copies whatever lies outside of `addresses` into segments; nothing, if there aren't enough of them.
    pub(super) fn stage(
        &mut self,
        addresses: &Range<usize>,
        mut segment: impl FnMut() -> Option<OpenSegment>,
    ) {
        let (mut stretches, mut staged) = (Vec::with_capacity(self.stretches.len()), Vec::new());
        let mut at = 0;
        for stretch in &self.stretches[self.first..] {
            if addresses.contains(&stretch.iov_base.addr()) {
                stretches.push(*stretch);
                continue;
            }
            // SAFETY: bytes of the batch's staging memory, which nobody writes to while it is here.
            let mut bytes: &[u8] = unsafe { slice::from_raw_parts(stretch.iov_base.cast(), stretch.iov_len) };
            while !bytes.is_empty() {
                if staged.last().is_none_or(|open: &OpenSegment| open.capacity() == at) {
                    let Some(open) = segment() else { return };
                    staged.push(open);
                    at = 0;
                }
                let Some(open) = staged.last_mut() else { return };
                let here = bytes.len().min(open.capacity() - at);
                let place = open.spare(at..at + here);
                place.copy_from_slice(&bytes[..here]);
                stretches.push(libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: here });
                at += here;
                bytes = &bytes[here..];
            }
        }
        self.staged.append(&mut staged);
        (self.stretches, self.first) = (stretches, 0);
    }

    /// The next send's description: valid, and at its address, until the batch is unloaded or advanced.
    pub(super) fn message(&mut self) -> *const libc::msghdr {
        let count = self.window().len();
        self.message.msg_iov = self.stretches[self.first..].as_mut_ptr();
        self.message.msg_iovlen = count as _;
        ptr::from_ref(&self.message)
    }

    /// `bytes` of what was left are sent.
    pub(super) fn advance(&mut self, bytes: usize) {
        let mut bytes = bytes.min(self.left);
        self.left -= bytes;
        while bytes > 0 {
            let stretch = &mut self.stretches[self.first];
            let here = bytes.min(stretch.iov_len);
            stretch.iov_base = stretch.iov_base.cast::<u8>().wrapping_add(here).cast();
            stretch.iov_len -= here;
            bytes -= here;
            if stretch.iov_len == 0 {
                self.first += 1;
            }
        }
    }
}

/// All of them. A place keeps its vector for the next batch, so that in the long run nothing is allocated.
#[derive(Debug, Default)]
pub(super) struct Outgoings {
    /// Boxed: the kernel knows the addresses.
    #[allow(clippy::vec_box, reason = "a description must not move while the kernel may read it")]
    places: Vec<Box<Outgoing>>,
    free: Vec<u32>,
}

impl Outgoings {
    pub(super) fn insert(&mut self, connection: ConnectionId, batch: Box<Batch>) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Box::new(Outgoing::new()));
            (self.places.len() - 1) as u32
        });
        self.places[place as usize].load(connection, batch);
        place
    }

    pub(super) fn get(&mut self, place: u32) -> &mut Outgoing {
        &mut self.places[place as usize]
    }

    /// Gives the batch back if nothing of it is under way any more, and never will be.
    pub(super) fn unload(&mut self, place: u32) -> Option<Box<Batch>> {
        let outgoing = &mut self.places[place as usize];
        if !outgoing.over || outgoing.ops > 0 {
            return None;
        }
        outgoing.staged.clear();
        let batch = outgoing.batch.take();
        if batch.is_some() {
            self.free.push(place);
        }
        batch
    }

    /// Batches that aren't given back.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Lets go of everything without giving its memory back: the kernel may still read it.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.places));
    }
}
