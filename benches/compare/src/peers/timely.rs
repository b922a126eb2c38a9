//! What carries timely dataflow's records between processes: its communication crate, with its threads for sockets.
//!
//! Blocks of records are its messages, copied into its slabs and read where they were received, which is the quickest
//! that dataflow containers can do. There is no dataflow above it, no progress protocol. It has no flow control either;
//! a dataflow gets that from its probes, and here the consumer says what it has read.

use super::{Peer, accept, connect};
use crate::common::AnyError;
use crate::work::{Maker, Progress, Reader, Stage, Totals};
use serde_json::Value;
use std::io::Write;
use std::net::TcpStream;
use timely_bytes::arc::Bytes;
use timely_communication::allocator::ProcessBuilder;
use timely_communication::allocator::zero_copy::initialize::{
    CommsGuard, initialize_networking_from_sockets,
};
use timely_communication::{Allocator, Bytesable, Hooks, Pull, Push};

/// The quickest here of 32 to 256 KiB.
const BLOCK_BYTES: usize = 128 * 1024;
/// Messages that the consumer hasn't read, at most.
const WINDOW: u64 = 32;
/// The last message: no block is so short.
const END: &[u8] = &[0];
const PRODUCER: usize = 0;
const CONSUMER: usize = 1;

#[derive(Debug)]
pub(crate) struct Timely;

impl Peer for Timely {
    fn name(&self) -> &'static str {
        "timely"
    }

    fn about(&self) -> &'static str {
        "timely's communication layer, blocks of 128 KiB read in place, no dataflow above"
    }

    fn package(&self) -> Option<&'static str> {
        Some("timely_communication")
    }

    fn produce(&self, record_bytes: usize, stage: &Stage) -> Result<Totals, AnyError> {
        let socket = accept(stage)?;
        let mut maker = Maker::new(record_bytes);
        let mut line = Line::new(vec![None, Some(socket)], PRODUCER, CONSUMER)?;
        let (mut sent, mut read) = (0, 0);
        let mut block = vec![0; maker.records_in(BLOCK_BYTES) * record_bytes];
        while !stage.stopped() {
            while sent - read >= WINDOW {
                line.receive(|counts| add_count(counts, &mut read))?;
            }
            maker.fill(&mut block);
            block = line.push(block);
            sent += 1;
        }
        line.push(END.to_vec());
        sent += 1;
        while read < sent {
            line.receive(|counts| add_count(counts, &mut read))?;
        }
        Ok(maker.totals())
    }

    fn consume(&self, record_bytes: usize, offer: Value, progress: &Progress) -> Result<Totals, AnyError> {
        let socket = connect(offer)?;
        let mut reader = Reader::new(record_bytes, progress);
        let mut line = Line::new(vec![Some(socket), None], CONSUMER, PRODUCER)?;
        let mut ended = false;
        while !ended {
            let mut count: u64 = 0;
            line.receive(|block| {
                count += 1;
                ended = block == END;
                if ended { Ok(()) } else { reader.block(block) }
            })?;
            if count > 0 {
                line.push(count.to_le_bytes().to_vec());
            }
        }
        Ok(reader.totals())
    }
}

/// Adds what the consumer says to have read.
fn add_count(message: &[u8], read: &mut u64) -> Result<(), AnyError> {
    *read += u64::from_le_bytes(message.try_into()?);
    Ok(())
}

/// A worker with one channel to that of the other process.
struct Line {
    sender: Box<dyn Push<Message>>,
    receiver: Box<dyn Pull<Message>>,
    allocator: Allocator,
    /// The last to go: waits for the threads, which end when the others have gone.
    _threads: CommsGuard,
}

impl Line {
    fn new(sockets: Vec<Option<TcpStream>>, from: usize, to: usize) -> Result<Self, AnyError> {
        let hooks = Hooks::default();
        let processes = ProcessBuilder::new_bytes_vector(1, hooks.refill.clone(), None);
        let (mut workers, threads) = initialize_networking_from_sockets(processes, sockets, from, 1, hooks)?;
        let worker = workers.pop().ok_or("a process has one worker")?;
        let mut allocator = Allocator::Tcp(worker.build());
        let (mut senders, receiver) = allocator.allocate(0);
        Ok(Self { sender: senders.swap_remove(to), receiver, allocator, _threads: threads })
    }

    /// Copies a message into a slab, which is handed to the thread that sends, and gives it back.
    fn push(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        let mut message = Some(Message::Made(bytes));
        self.sender.push(&mut message);
        self.allocator.release();
        match message {
            Some(Message::Made(bytes)) => bytes,
            _ => Vec::new(),
        }
    }

    /// Reads the messages that are there; sleeps if there are none.
    fn receive(&mut self, mut read: impl FnMut(&[u8]) -> Result<(), AnyError>) -> Result<(), AnyError> {
        self.allocator.receive();
        let mut none = true;
        while let Some(message) = self.receiver.recv() {
            none = false;
            read(message.bytes())?;
        }
        self.allocator.events().borrow_mut().clear();
        self.allocator.release();
        if none {
            self.allocator.await_events(None);
        }
        Ok(())
    }
}

/// A message as it was made, or as it lies where it was received.
enum Message {
    Made(Vec<u8>),
    Received(Bytes),
}

impl Message {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Made(bytes) => bytes,
            Self::Received(bytes) => bytes,
        }
    }
}

impl Bytesable for Message {
    fn from_bytes(bytes: Bytes) -> Self {
        Self::Received(bytes)
    }

    fn length_in_bytes(&self) -> usize {
        self.bytes().len()
    }

    fn into_bytes<W: Write>(&self, writer: &mut W) {
        // The slab has room for `length_in_bytes`, and no other error to give.
        writer.write_all(self.bytes()).expect("room was reserved");
    }
}
