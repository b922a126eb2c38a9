//! A blocking socket and two threads, without frames, flow control but TCP's, or anything: what the others are
//! measured by.

use super::{Peer, accept, connect};
use crate::common::AnyError;
use crate::work::{Maker, Progress, Reader, Stage, Totals};
use serde_json::Value;
use std::io::{Read, Write};

#[derive(Debug)]
pub(crate) struct Raw {
    name: &'static str,
    about: &'static str,
    write_bytes: usize,
    read_bytes: usize,
}

impl Raw {
    /// As one writes it.
    pub(crate) const PLAIN: Self = Self {
        name: "raw",
        about: "blocking TCP, 128 KiB written, up to 256 KiB read",
        write_bytes: 128 * 1024,
        read_bytes: 256 * 1024,
    };

    /// Larger steps. The read is no multiple of a page: on some processors the kernel copies many times slower while
    /// source and destination lie a few bytes apart in their pages, and reads of whole pages keep a bad distance.
    pub(crate) const TUNED: Self = Self {
        name: "raw-tuned",
        about: "the same with 512 KiB, and reads of another length than whole pages",
        write_bytes: 512 * 1024,
        read_bytes: 512 * 1024 + 1088,
    };
}

impl Peer for Raw {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn produce(&self, record_bytes: usize, stage: &Stage) -> Result<Totals, AnyError> {
        let mut socket = accept(stage)?;
        let mut maker = Maker::new(record_bytes);
        let mut block = vec![0; maker.records_in(self.write_bytes) * record_bytes];
        while !stage.stopped() {
            maker.fill(&mut block);
            socket.write_all(&block)?;
        }
        Ok(maker.totals())
    }

    fn consume(&self, record_bytes: usize, offer: Value, progress: &Progress) -> Result<Totals, AnyError> {
        let mut socket = connect(offer)?;
        let mut reader = Reader::new(record_bytes, progress);
        // Behind a part of a record.
        let mut buffer = vec![0; self.read_bytes + record_bytes];
        let mut have = 0;
        loop {
            match socket.read(&mut buffer[have..have + self.read_bytes])? {
                0 if have == 0 => return Ok(reader.totals()),
                0 => return Err(format!("the stream ends within a record, {have} bytes").into()),
                more => have = reader.stream(&mut buffer[..have + more])?,
            }
        }
    }
}
