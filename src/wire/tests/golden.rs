//! One frame of each kind, byte for byte: an accidental change of the layout fails here. A change on purpose
//! is a new version of the protocol.

use super::*;

fn position(bytes: u64, entries: u64) -> StreamPosition {
    StreamPosition { bytes, entries }
}

const STREAM: StreamId = StreamId(0x0403_0201);
const EPOCH: BindEpoch = BindEpoch(0x0807_0605);

fn hello() -> Hello<'static> {
    Hello {
        versions: (1, 2),
        features: Features::CRC,
        payload_bytes_max: 0x1_0000,
        purpose: Purpose::Control,
        endpoint: 3,
        worker: WorkerId(0x1122_3344_5566_7788),
        token: Some(Token([0x5a; 32])),
        address: "h:1",
    }
}

fn bind() -> Bind {
    Bind {
        stream: STREAM,
        subpartition: 5,
        count: 1,
        partition: PartitionId { job: JobId(1), data_set: DataSetId(2), index: 3 },
        producer_attempt: Attempt(4),
        secret: BindSecret::new(0xabcd),
        layout: RecordLayout::Fixed(NonZeroU32::new(100).expect("not 0")),
        attempt: Attempt(6),
        incarnation: Incarnation(7),
        limit: position(8, 9),
        resume: Some(Resume {
            incarnation: Incarnation(10),
            epoch: BindEpoch(11),
            at: position(12, 13),
            limit: position(14, 15),
            priority: 16,
        }),
        ended: Some(Ended {
            incarnation: Incarnation(17),
            epoch: BindEpoch(18),
            consumed: Consumed { records: 19, bytes: 20, entries: 21, aborted: 22 },
        }),
    }
}

fn bound() -> Bound {
    let amount = |at| Amount { records: at, bytes: 16 * at };
    Bound {
        stream: STREAM,
        epoch: EPOCH,
        incarnation: Incarnation(10),
        resumed: true,
        ended: false,
        ring_entries: 256,
        lost: std::array::from_fn(|at| amount(at as u64)),
        in_doubt: amount(7),
        writer_lost: amount(8),
        barriers: LostBarriers { before: Some(9), behind: Some((10, 11)) },
    }
}

fn frames() -> Vec<(Frame<'static>, &'static str)> {
    let consumed = Consumed { records: 1, bytes: 2, entries: 3, aborted: 4 };
    let error = BindError::Stale { presented: Attempt(1), current: Attempt(2) };
    let ping = Ping { sequence: 1, nanos: 2 };
    let event = StreamEvent::Application(b"abc");
    let priority = PriorityEvent::new(b"now").expect("not too long");
    let yielded = Amount { records: 5, bytes: 6 };
    vec![
        (Frame::Hello(hello()), HELLO),
        (Frame::Welcome(hello()), WELCOME),
        (Frame::Reject(Reject { rule: Rule::TOKEN, text: "no" }), REJECT),
        (Frame::Bind(bind()), BIND),
        (Frame::Waiting(Waiting { stream: STREAM }), WAITING),
        (Frame::Refused(Refused { stream: STREAM, error }), REFUSED),
        (Frame::Bound(bound()), BOUND),
        (Frame::Event(EventFrame { stream: STREAM, epoch: EPOCH, position: position(9, 10), event }), EVENT),
        (
            Frame::Priority(PriorityFrame { stream: STREAM, epoch: EPOCH, sequence: 9, event: priority }),
            PRIORITY,
        ),
        (
            Frame::Close(Close {
                stream: STREAM,
                epoch: EPOCH,
                received: position(9, 10),
                consumed,
                yielded,
            }),
            CLOSE,
        ),
        (Frame::Gone(Gone { stream: STREAM, epoch: EPOCH, cause: Cause::Failed("disk".into()) }), GONE),
        (Frame::Error(ErrorFrame { rule: Rule::CREDIT, stream: Some(STREAM), text: "too much" }), ERROR),
        (Frame::Ping(ping), PING),
        (Frame::Pong(ping), PONG),
        (Frame::Goodbye, GOODBYE),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn messages() {
    let mut seen: Vec<Kind> = vec![Kind::Data, Kind::Ack];
    for (frame, golden) in frames() {
        let golden: String = golden.split_whitespace().collect();
        assert_eq!(hex(&encoded(&frame, Features::NONE)), golden, "{}", frame.kind().name());
        seen.push(frame.kind());
    }
    assert!(Kind::ALL.iter().all(|kind| seen.contains(kind)), "a kind without its bytes");
}

#[test]
fn data_with_checksum() {
    let run = |position, bytes| Run { stream: STREAM, epoch: EPOCH, position, bytes, uniform: u32::MAX };
    let runs = [run(position(1, 0), 2), run(position(3, 1), 3)];
    assert_eq!(hex(&data(&runs, b"abcde", Features::CRC)), DATA.split_whitespace().collect::<String>());
}

#[test]
fn acknowledgements() {
    let ack = Ack {
        stream: STREAM,
        epoch: EPOCH,
        limit: position(0x100, 0x200),
        received: position(0x90, 0x1f0),
        consumed: Consumed { records: 1, bytes: 2, entries: 3, aborted: 4 },
        priority: 5,
    };
    let mut out = Vec::new();
    encode_acks(&mut out, Features::NONE, &[ack]);
    assert_eq!(out.len(), HEADER_BYTES + ACK_BYTES);
    assert_eq!(hex(&out), ACK.split_whitespace().collect::<String>());
}

const HELLO: &str = "
    49000000 01 00 0000 895049524e0d0a1a 0100 0200 01 01 0300 0100000000000000
    8877665544332211 00000100 5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a
    0300 683a31";
const WELCOME: &str = "
    49000000 02 00 0000 895049524e0d0a1a 0100 0200 01 01 0300 0100000000000000
    8877665544332211 00000100 5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a
    0300 683a31";
const REJECT: &str = "06000000 03 00 0000 0700 0200 6e6f";
const BIND: &str = "
    c2000000 04 00 0000 01020304 05000000 01000000 01000000000000000000000000000000
    02000000000000000000000000000000 03000000 04000000 cdab0000000000000000000000000000
    64000000 06000000 0700000000000000 0800000000000000 0900000000000000 01 0a00000000000000
    0b000000 0c00000000000000 0d00000000000000 0e00000000000000 0f00000000000000 10000000
    01 1100000000000000 12000000 1300000000000000 1400000000000000 1500000000000000 1600000000000000";
const WAITING: &str = "04000000 05 00 0000 01020304";
const REFUSED: &str = "0d000000 06 00 0000 01020304 00 01000000 02000000";
const BOUND: &str = "
    be000000 07 00 0000 01020304 05060708 0a00000000000000 01 00 0001 0000000000000000
    0000000000000000 0100000000000000 1000000000000000 0200000000000000 2000000000000000
    0300000000000000 3000000000000000 0400000000000000 4000000000000000 0500000000000000
    5000000000000000 0600000000000000 6000000000000000 0700000000000000 7000000000000000
    0800000000000000 8000000000000000 01 0900000000000000 01 0a00000000000000
    0b00000000000000";
const EVENT: &str = "1e000000 09 00 0000 01020304 05060708 0900000000000000 0a00000000000000 02 0300 616263";
const PRIORITY: &str = "11000000 0a 00 0000 01020304 05060708 09000000 0300 6e6f77";
const CLOSE: &str = "
    48000000 0c 00 0000 01020304 05060708 0900000000000000 0a00000000000000 0100000000000000
    0200000000000000 0300000000000000 0400000000000000 0500000000000000 0600000000000000";
const GONE: &str = "0f000000 0d 00 0000 01020304 05060708 00 0400 6469736b";
const ERROR: &str = "11000000 0e 00 0000 1000 01 01020304 0800 746f6f206d756368";
const PING: &str = "10000000 0f 00 0000 0100000000000000 0200000000000000";
const PONG: &str = "10000000 10 00 0000 0100000000000000 0200000000000000";
const GOODBYE: &str = "00000000 11 00 0000";
const DATA: &str = "
    49000000 08 01 0200 64285f26 01020304 05060708 0100000000000000 0000000000000000 02000000
    ffffffff 01020304 05060708 0300000000000000 0100000000000000 03000000 ffffffff 6162636465";
const ACK: &str = "
    48000000 0b 00 0100 01020304 05060708 0001000000000000 9000000000000000 f001000000000000
    0100000000000000 0200000000000000 0300000000000000 0400000000000000 05000000 10000000";
