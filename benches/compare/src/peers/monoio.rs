//! monoio: io_uring, a thread with its ring in each process. Without frames, as its lower bound.

use super::{Peer, accept, connect};
use crate::common::AnyError;
use crate::work::{Maker, Progress, Reader, Stage, Totals};
use monoio::buf::IoBufMut;
use monoio::io::{AsyncReadRent, AsyncWriteRentExt};
use monoio::net::TcpStream;
use monoio::{IoUringDriver, Runtime, RuntimeBuilder};
use serde_json::Value;
use std::io;

const WRITE_BYTES: usize = 128 * 1024;
/// No multiple of a page; `raw` says why.
const READ_BYTES: usize = 256 * 1024 + 1088;

#[derive(Debug)]
pub(crate) struct Monoio;

impl Peer for Monoio {
    fn name(&self) -> &'static str {
        "monoio"
    }

    fn about(&self) -> &'static str {
        "io_uring runtime, no frames, 128 KiB written, up to 256 KiB read"
    }

    fn package(&self) -> Option<&'static str> {
        Some("monoio")
    }

    fn check(&self) -> Result<(), AnyError> {
        match runtime() {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("no io_uring here: {error}").into()),
        }
    }

    fn produce(&self, record_bytes: usize, stage: &Stage) -> Result<Totals, AnyError> {
        let socket = accept(stage)?;
        let mut maker = Maker::new(record_bytes);
        let mut block = vec![0; maker.records_in(WRITE_BYTES) * record_bytes];
        runtime()?.block_on(async {
            let mut socket = TcpStream::from_std(socket)?;
            while !stage.stopped() {
                maker.fill(&mut block);
                let (result, back) = socket.write_all(block).await;
                result?;
                block = back;
            }
            Ok(maker.totals())
        })
    }

    fn consume(&self, record_bytes: usize, offer: Value, progress: &Progress) -> Result<Totals, AnyError> {
        let socket = connect(offer)?;
        let mut reader = Reader::new(record_bytes, progress);
        runtime()?.block_on(async {
            let mut socket = TcpStream::from_std(socket)?;
            let mut buffer = vec![0; READ_BYTES + record_bytes];
            let mut have = 0;
            loop {
                let (result, back) = socket.read(buffer.slice_mut(have..have + READ_BYTES)).await;
                buffer = back.into_inner();
                match result? {
                    0 if have == 0 => return Ok(reader.totals()),
                    0 => return Err(format!("the stream ends within a record, {have} bytes").into()),
                    more => have = reader.stream(&mut buffer[..have + more])?,
                }
            }
        })
    }
}

fn runtime() -> io::Result<Runtime<IoUringDriver>> {
    RuntimeBuilder::<IoUringDriver>::new().build()
}
