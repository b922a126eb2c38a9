//! Frames made up for tests, and what they have in common.

mod golden;
mod hostile;
mod round_trip;

use super::*;
use crate::error::{BindError, Cause};
use crate::event::{LostBarriers, PriorityEvent};
use crate::id::{
    Attempt, BindEpoch, BindSecret, DataSetId, Incarnation, JobId, PartitionId, RemoteAddress, WorkerId,
};
use crate::record::RecordLayout;
use proptest::prelude::*;
use std::num::NonZeroU32;
use std::sync::Arc;

const SESSION: Limits = Limits::Session { payload_bytes_max: PAYLOAD_BYTES_MAX };

fn encoded(frame: &Frame<'_>, features: Features) -> Vec<u8> {
    let mut out = Vec::new();
    frame.encode(&mut out, features);
    out
}

/// A DATA frame with its payload behind it.
fn data(runs: &[Run], payload: &[u8], features: Features) -> Vec<u8> {
    let mut out = Vec::new();
    let mut pieces = payload.chunks(7);
    let pieces: &mut dyn Iterator<Item = &[u8]> = &mut pieces;
    encode_data(&mut out, runs, features.has(Features::CRC).then_some(pieces));
    out.extend_from_slice(payload);
    out
}

/// The whole length as a receiver finds it out.
fn length(frame: &[u8], limits: Limits) -> Result<usize, WireError> {
    frame_bytes(frame.first_chunk().expect("a header"), limits)
}

fn position() -> impl Strategy<Value = StreamPosition> {
    any::<(u64, u64)>().prop_map(|(bytes, entries)| StreamPosition { bytes, entries })
}

fn amount() -> impl Strategy<Value = Amount> {
    any::<(u64, u64)>().prop_map(|(records, bytes)| Amount { records, bytes })
}

fn stream() -> impl Strategy<Value = (StreamId, BindEpoch)> {
    any::<(u32, u32)>().prop_map(|(stream, epoch)| (StreamId(stream), BindEpoch(epoch)))
}

fn consumed() -> impl Strategy<Value = Consumed> {
    any::<(u64, u64, u64, u64)>().prop_map(|(records, bytes, entries, aborted)| Consumed {
        records,
        bytes,
        entries,
        aborted,
    })
}

fn text() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "a", "no route to host", "größer als ein Byte: → 木", "\0\u{10ffff}"])
}

fn partition() -> impl Strategy<Value = PartitionId> {
    any::<(u128, u128, u32)>().prop_map(|(job, data_set, index)| PartitionId {
        job: JobId(job),
        data_set: DataSetId(data_set),
        index,
    })
}

fn layout() -> impl Strategy<Value = RecordLayout> {
    any::<u32>().prop_map(|width| NonZeroU32::new(width).map_or(RecordLayout::Lengths, RecordLayout::Fixed))
}

fn address() -> impl Strategy<Value = RemoteAddress> {
    let socket = prop_oneof![
        any::<([u8; 4], u16)>().prop_map(|(ip, port)| (ip, port).into()),
        any::<([u8; 16], u16, u32, u32)>().prop_map(|(ip, port, flow, scope)| {
            std::net::SocketAddrV6::new(ip.into(), port, flow, scope).into()
        }),
    ];
    (socket, any::<u16>()).prop_map(|(socket, endpoint)| RemoteAddress { socket, endpoint })
}

fn cause() -> impl Strategy<Value = Cause> {
    prop_oneof![
        text().prop_map(|text| Cause::Failed(text.into())),
        Just(Cause::Dropped),
        Just(Cause::Panicked),
        Just(Cause::Released),
        Just(Cause::JobReleased),
        Just(Cause::Consumed),
        any::<u32>().prop_map(|newer| Cause::Superseded { newer: Attempt(newer) }),
        Just(Cause::Shutdown),
        (address(), text()).prop_map(|(peer, reason)| Cause::ConnectionLost { peer, reason: reason.into() }),
        text().prop_map(|text| Cause::Protocol(text.into())),
        any::<u32>().prop_map(|newer| Cause::Fenced { newer: Attempt(newer) }),
    ]
}

fn bind_error() -> impl Strategy<Value = BindError> {
    let attempts = || any::<(u32, u32)>().prop_map(|(one, other)| (Attempt(one), Attempt(other)));
    let what = prop::sample::select(vec!["record layout", "number of subpartitions", "description"]);
    prop_oneof![
        attempts().prop_map(|(presented, current)| BindError::Stale { presented, current }),
        attempts().prop_map(|(presented, current)| BindError::StaleProducer { presented, current }),
        attempts().prop_map(|(attempt, _)| BindError::DuplicateAttempt { attempt }),
        partition().prop_map(|partition| BindError::NotFound { partition }),
        (partition(), any::<u64>())
            .prop_map(|(partition, waited_ms)| BindError::TimedOut { partition, waited_ms }),
        any::<usize>().prop_map(|waiting| BindError::TooManyWaiting { waiting }),
        attempts().prop_map(|(newer, _)| BindError::Superseded { newer }),
        cause().prop_map(|cause| BindError::Released { cause }),
        address().prop_map(|peer| BindError::NoNetwork { peer }),
        (what, text(), text()).prop_map(|(what, partition, descriptor)| BindError::Layout {
            what,
            partition: partition.into(),
            descriptor: descriptor.into(),
        }),
    ]
}

fn hello() -> impl Strategy<Value = Hello<'static>> {
    let token = prop::option::of(any::<[u8; 32]>().prop_map(Token));
    let purpose = prop_oneof![Just(Purpose::Data), Just(Purpose::Control)];
    (any::<(u16, u16, u64, u32, u16, u64)>(), purpose, token, text()).prop_map(
        |((oldest, newest, features, payload_bytes_max, endpoint, worker), purpose, token, address)| Hello {
            versions: (oldest, newest),
            features: Features(features),
            payload_bytes_max,
            purpose,
            endpoint,
            worker: WorkerId(worker),
            token,
            address,
        },
    )
}

fn bind() -> impl Strategy<Value = Bind> {
    let resume = (any::<(u64, u32, u32)>(), position(), position()).prop_map(
        |((incarnation, epoch, priority), at, limit)| Resume {
            incarnation: Incarnation(incarnation),
            epoch: BindEpoch(epoch),
            at,
            limit,
            priority,
        },
    );
    let ended = (any::<(u64, u32)>(), consumed()).prop_map(|((incarnation, epoch), consumed)| Ended {
        incarnation: Incarnation(incarnation),
        epoch: BindEpoch(epoch),
        consumed,
    });
    let numbers = any::<(u32, u32, u32, u32, u128, u32, u64)>();
    let more = (prop::option::of(resume), prop::option::of(ended));
    (numbers, partition(), layout(), position(), more).prop_map(
        |(
            (stream, subpartition, count, producer, secret, attempt, incarnation),
            partition,
            layout,
            limit,
            (resume, ended),
        )| {
            Bind {
                stream: StreamId(stream),
                subpartition,
                count,
                partition,
                producer_attempt: Attempt(producer),
                secret: BindSecret::new(secret),
                layout,
                attempt: Attempt(attempt),
                incarnation: Incarnation(incarnation),
                limit,
                resume,
                ended,
            }
        },
    )
}

fn bound() -> impl Strategy<Value = Bound> {
    let numbers = any::<(u64, bool, bool, u16)>();
    let amounts = (prop::array::uniform7(amount()), amount(), amount());
    (stream(), numbers, amounts, any::<(Option<u64>, Option<(u64, u64)>)>()).prop_map(
        |(stream, numbers, amounts, (before, behind))| {
            let ((stream, epoch), (incarnation, resumed, ended, ring_entries)) = (stream, numbers);
            let (lost, in_doubt, writer_lost) = amounts;
            Bound {
                stream,
                epoch,
                incarnation: Incarnation(incarnation),
                resumed,
                ended,
                ring_entries,
                lost,
                in_doubt,
                writer_lost,
                barriers: LostBarriers { before, behind },
            }
        },
    )
}

static APPLICATION: [u8; 2048] = [0xa5; 2048];

fn stream_event() -> impl Strategy<Value = StreamEvent<'static>> {
    prop_oneof![
        any::<u64>().prop_map(StreamEvent::Barrier),
        any::<i64>().prop_map(StreamEvent::Watermark),
        (0..=APPLICATION.len()).prop_map(|len| StreamEvent::Application(&APPLICATION[..len])),
        Just(StreamEvent::Abort),
        amount().prop_map(StreamEvent::Loss),
        Just(StreamEvent::EndOfData),
        Just(StreamEvent::EndOfPartition),
        cause().prop_map(StreamEvent::Failed),
    ]
}

fn priority_event() -> impl Strategy<Value = PriorityEvent> {
    prop::collection::vec(any::<u8>(), 0..=PriorityEvent::BYTES_MAX)
        .prop_map(|bytes| PriorityEvent::new(&bytes).expect("not too long"))
}

fn ack() -> impl Strategy<Value = Ack> {
    (stream(), any::<(u64, u32, u32)>(), position(), consumed()).prop_map(
        |((stream, epoch), (limit, ahead, priority), received, consumed)| Ack {
            stream,
            epoch,
            limit: StreamPosition::new(limit, received.entries.saturating_add(u64::from(ahead))),
            received,
            consumed,
            priority,
        },
    )
}

/// Every kind but those whose count isn't 0.
fn message() -> impl Strategy<Value = Frame<'static>> {
    let ping = || any::<(u64, u64)>().prop_map(|(sequence, nanos)| Ping { sequence, nanos });
    let streams = || any::<u32>().prop_map(StreamId);
    prop_oneof![
        hello().prop_map(Frame::Hello),
        hello().prop_map(Frame::Welcome),
        (any::<u16>(), text()).prop_map(|(rule, text)| Frame::Reject(Reject { rule: Rule(rule), text })),
        bind().prop_map(Frame::Bind),
        streams().prop_map(|stream| Frame::Waiting(Waiting { stream })),
        (streams(), bind_error()).prop_map(|(stream, error)| Frame::Refused(Refused { stream, error })),
        bound().prop_map(Frame::Bound),
        (stream(), position(), stream_event()).prop_map(|((stream, epoch), position, event)| {
            Frame::Event(EventFrame { stream, epoch, position, event })
        }),
        (stream(), any::<u32>(), priority_event()).prop_map(|((stream, epoch), sequence, event)| {
            Frame::Priority(PriorityFrame { stream, epoch, sequence, event })
        }),
        (stream(), position(), consumed(), amount()).prop_map(
            |((stream, epoch), received, consumed, yielded)| {
                Frame::Close(Close { stream, epoch, received, consumed, yielded })
            }
        ),
        (stream(), cause()).prop_map(|((stream, epoch), cause)| Frame::Gone(Gone { stream, epoch, cause })),
        (any::<u16>(), prop::option::of(streams()), text())
            .prop_map(|(rule, stream, text)| { Frame::Error(ErrorFrame { rule: Rule(rule), stream, text }) }),
        ping().prop_map(Frame::Ping),
        ping().prop_map(Frame::Pong),
        Just(Frame::Goodbye),
    ]
}

/// Runs that go together in a frame, and their payload.
fn runs() -> impl Strategy<Value = (Vec<Run>, Vec<u8>)> {
    let run = (stream(), position(), 1..600_u32, any::<u32>()).prop_map(
        |((stream, epoch), position, bytes, uniform)| Run { stream, epoch, position, bytes, uniform },
    );
    prop::collection::vec(run, 1..=RUNS_MAX).prop_flat_map(|mut runs| {
        // To what fits in a frame.
        let mut sum = 0;
        runs.retain(|run| {
            sum += run.bytes;
            sum <= PAYLOAD_BYTES_MAX
        });
        let bytes: usize = runs.iter().map(|run| run.bytes as usize).sum();
        any::<u8>().prop_map(move |salt| {
            let payload = (0..bytes).map(|at| (at as u8).wrapping_mul(31).wrapping_add(salt)).collect();
            (runs.clone(), payload)
        })
    })
}

fn features() -> impl Strategy<Value = Features> {
    prop_oneof![Just(Features::NONE), Just(Features::CRC)]
}

/// A frame of any kind.
fn frame_with(features: Features) -> impl Strategy<Value = Vec<u8>> {
    let acks = prop::collection::vec(ack(), 1..=ACKS_MAX);
    prop_oneof![
        8 => message().prop_map(move |frame| encoded(&frame, features)),
        1 => acks.prop_map(move |acks| {
            let mut out = Vec::new();
            encode_acks(&mut out, features, &acks);
            out
        }),
        1 => runs().prop_map(move |(runs, payload)| data(&runs, &payload, features)),
    ]
}

/// The same, with what is agreed on.
fn any_frame() -> impl Strategy<Value = (Vec<u8>, Features)> {
    features().prop_flat_map(|features| (frame_with(features), Just(features)))
}
