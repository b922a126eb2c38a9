//! tonic: gRPC server streaming over HTTP/2, as engines exchange batches with it. The consumer calls, and the producer's
//! task hands messages to the stream through a bounded queue.
//!
//! A message is the bytes of a block: no protobuf around them, which would cost more.

use super::Peer;
use super::tokio::runtime;
use crate::common::AnyError;
use crate::work::{Maker, Progress, Reader, Stage, Totals};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::StreamExt;
use serde_json::Value;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::{self, uri::PathAndQuery};
use tonic::codegen::{BoxFuture, Service};
use tonic::server::ServerStreamingService;
use tonic::{Request, Response, Status, body::Body, client, server, transport};

/// The quickest here of 32 to 256 KiB.
const FRAME_BYTES: usize = 128 * 1024;
/// Blocks between the producer's task and the stream.
const QUEUE: usize = 16;
/// Windows of HTTP/2: the defaults of 64 KiB would hold it up.
const STREAM_WINDOW_BYTES: u32 = 32 << 20;
const CONNECTION_WINDOW_BYTES: u32 = (1 << 31) - 1;

#[derive(Debug)]
pub(crate) struct Tonic;

impl Peer for Tonic {
    fn name(&self) -> &'static str {
        "tonic"
    }

    fn about(&self) -> &'static str {
        "gRPC server streaming, messages of 128 KiB, a window of 32 MiB"
    }

    fn package(&self) -> Option<&'static str> {
        Some("tonic")
    }

    fn produce(&self, record_bytes: usize, stage: &Stage) -> Result<Totals, AnyError> {
        let mut maker = Maker::new(record_bytes);
        let records = maker.records_in(FRAME_BYTES);
        runtime()?.block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            stage.offer(&listener.local_addr()?)?;
            let (blocks, queue) = mpsc::channel(QUEUE);
            let (done, until) = oneshot::channel::<()>();
            let exchange = Exchange(Arc::new(Mutex::new(Some(queue))));
            let server = tokio::spawn(
                transport::Server::builder()
                    .initial_stream_window_size(STREAM_WINDOW_BYTES)
                    .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
                    .serve_with_incoming_shutdown(exchange, TcpListenerStream::new(listener), async {
                        // Told or dropped, it is the end.
                        let _ = until.await;
                    }),
            );
            let mut block = BytesMut::new();
            while !stage.stopped() {
                block.reserve(records * record_bytes);
                maker.append(&mut block, records);
                blocks.send(Ok(block.split().freeze())).await?;
            }
            drop(blocks);
            drop(done);
            server.await??;
            Ok(maker.totals())
        })
    }

    fn consume(&self, record_bytes: usize, offer: Value, progress: &Progress) -> Result<Totals, AnyError> {
        let address: SocketAddr = serde_json::from_value(offer)?;
        let mut reader = Reader::new(record_bytes, progress);
        runtime()?.block_on(async {
            let channel = transport::Endpoint::from_shared(format!("http://{address}"))?
                .initial_stream_window_size(STREAM_WINDOW_BYTES)
                .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
                .connect()
                .await?;
            let mut client = client::Grpc::new(channel);
            client.ready().await?;
            let path = PathAndQuery::from_static("/compare.Exchange/Blocks");
            let mut blocks =
                client.server_streaming(Request::new(Bytes::new()), path, Plain).await?.into_inner();
            while let Some(block) = blocks.next().await {
                reader.block(&block?)?;
            }
            Ok(reader.totals())
        })
    }
}

type Block = Result<Bytes, Status>;

/// The service: the first call gets the queue of blocks.
#[derive(Clone)]
struct Exchange(Arc<Mutex<Option<mpsc::Receiver<Block>>>>);

impl ServerStreamingService<Bytes> for Exchange {
    type Response = Bytes;
    type ResponseStream = ReceiverStream<Block>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, _: Request<Bytes>) -> Self::Future {
        let queue = self.0.lock().ok().and_then(|mut queue| queue.take());
        ready(match queue {
            Some(queue) => Ok(Response::new(ReceiverStream::new(queue))),
            None => Err(Status::failed_precondition("there is one consumer")),
        })
    }
}

impl Service<http::Request<Body>> for Exchange {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(server::Grpc::new(Plain).server_streaming(service, request).await) })
    }
}

/// Messages as they are.
#[derive(Clone, Copy, Debug)]
struct Plain;

impl Codec for Plain {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(message.len());
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let bytes = buffer.remaining();
        Ok(Some(buffer.copy_to_bytes(bytes)))
    }
}
