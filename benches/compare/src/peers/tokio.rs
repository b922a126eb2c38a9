//! tokio with tokio-util's frames of a length and so many bytes, a task in each process.

use super::{Peer, accept, connect};
use crate::common::AnyError;
use crate::work::{Maker, Progress, Reader, Stage, Totals};
use bytes::BytesMut;
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use std::io;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio_util::codec::{FramedRead, FramedWrite, LengthDelimitedCodec};

/// The quickest here of 32 to 256 KiB.
const FRAME_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub(crate) struct Tokio;

impl Peer for Tokio {
    fn name(&self) -> &'static str {
        "tokio"
    }

    fn about(&self) -> &'static str {
        "multi-thread runtime, LengthDelimitedCodec, frames of 256 KiB"
    }

    fn package(&self) -> Option<&'static str> {
        Some("tokio")
    }

    fn produce(&self, record_bytes: usize, stage: &Stage) -> Result<Totals, AnyError> {
        let socket = accept(stage)?;
        let mut maker = Maker::new(record_bytes);
        let records = maker.records_in(FRAME_BYTES);
        runtime()?.block_on(async {
            let mut frames = FramedWrite::new(asynchronous(socket)?, codec());
            let mut block = BytesMut::new();
            while !stage.stopped() {
                block.reserve(records * record_bytes);
                maker.append(&mut block, records);
                frames.send(block.split().freeze()).await?;
            }
            Ok(maker.totals())
        })
    }

    fn consume(&self, record_bytes: usize, offer: Value, progress: &Progress) -> Result<Totals, AnyError> {
        let socket = connect(offer)?;
        let mut reader = Reader::new(record_bytes, progress);
        runtime()?.block_on(async {
            let buffer_bytes = 4 * FRAME_BYTES.max(record_bytes);
            let mut frames = FramedRead::with_capacity(asynchronous(socket)?, codec(), buffer_bytes);
            while let Some(frame) = frames.next().await {
                reader.block(&frame?)?;
            }
            Ok(reader.totals())
        })
    }
}

/// As `#[tokio::main]` has it.
pub(super) fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().build()
}

fn asynchronous(socket: std::net::TcpStream) -> io::Result<TcpStream> {
    socket.set_nonblocking(true)?;
    TcpStream::from_std(socket)
}

fn codec() -> LengthDelimitedCodec {
    LengthDelimitedCodec::new()
}
