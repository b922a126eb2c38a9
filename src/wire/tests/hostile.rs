//! Bytes that are no frames: each is refused by its own rule, and nothing panics.

use super::*;
use crate::test_size;

fn cases() -> ProptestConfig {
    ProptestConfig { cases: test_size::pick(512, 50_000), ..ProptestConfig::default() }
}

/// Takes everything out of a frame that can be asked for.
fn read(bytes: &[u8], features: Features) -> Result<(), WireError> {
    match decode(bytes, features)? {
        Frame::Data(runs) => {
            let read: usize = runs.iter().map(|(_, range)| bytes[range].len()).sum();
            assert_eq!(read, runs.payload_bytes());
        }
        Frame::Acks(acks) => assert!(acks.iter().count() <= ACKS_MAX),
        _ => {}
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300), features in features()) {
        let _ = read(&bytes, features);
        let _ = decode_descriptor(&bytes);
        let _ = versions_of(&bytes);
    }

    /// With a header that fits, so that more than the header is tried.
    #[test]
    fn random_bodies(
        kind in prop::sample::select(Kind::ALL.to_vec()), count in 0..3_u16,
        body in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
        bytes.extend([kind as u8, 0]);
        bytes.extend(count.to_le_bytes());
        bytes.extend(body);
        if let Err(error) = read(&bytes, Features::NONE) {
            prop_assert!(error.rule() >= Rule::KIND, "{}", error);
            let named = error.to_string().starts_with(&format!("{}:", error.rule()));
            prop_assert!(named, "{} is of {}", error, error.rule());
        }
    }

    #[test]
    fn mutated_frames(
        (mut bytes, features) in any_frame(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = read(&bytes, features);
        let _ = length(&bytes, SESSION);
    }

    #[test]
    fn frames_cut_or_with_a_tail((bytes, features) in any_frame(), at in any::<prop::sample::Index>()) {
        prop_assert!(decode(&bytes[..at.index(bytes.len())], features).is_err());
        let tail = [&bytes[..], &[0]].concat();
        prop_assert!(decode(&tail, features).is_err());
        // The same with a header that agrees.
        let mut longer = tail;
        let body = (longer.len() - HEADER_BYTES) as u32;
        longer[..4].copy_from_slice(&body.to_le_bytes());
        // A newer version's HELLO may say more.
        let may_be_longer = longer[4] == Kind::Hello as u8;
        prop_assert_eq!(decode(&longer, features).is_ok(), may_be_longer);
    }

    /// Every changed bit of a frame with a checksum is noticed.
    #[test]
    fn checksums_notice_every_bit(
        bytes in frame_with(Features::CRC), at in any::<prop::sample::Index>(), bit in 0..8_u32,
    ) {
        if bytes[5] == 0 {
            // Of a handshake, which has none.
            return Ok(());
        }
        let mut changed = bytes.clone();
        changed[at.index(bytes.len())] ^= 1_u8 << bit;
        prop_assert!(decode(&changed, Features::CRC).is_err());
    }
}

fn header(bytes: u32, kind: u8, flags: u8, count: u16) -> [u8; HEADER_BYTES] {
    let [a, b, c, d] = bytes.to_le_bytes();
    let [e, f] = count.to_le_bytes();
    [a, b, c, d, kind, flags, e, f]
}

#[test]
fn lengths_are_held_to_the_limit_of_their_kind() {
    let length = |bytes, kind: Kind, count, limits| frame_bytes(&header(bytes, kind as u8, 0, count), limits);
    let too_long = |bytes, kind: Kind, max| Err(WireError::TooLong { kind: kind as u8, bytes, max });
    let most = PAYLOAD_BYTES_MAX + 2 * RUN_BYTES as u32;
    assert_eq!(length(most, Kind::Data, 2, SESSION), Ok(HEADER_BYTES + most as usize));
    assert_eq!(length(most + 1, Kind::Data, 2, SESSION), too_long(most + 1, Kind::Data, most));
    assert_eq!(length(u32::MAX, Kind::Data, 2, SESSION), too_long(u32::MAX, Kind::Data, most));
    let most = 3 * ACK_BYTES as u32;
    assert_eq!(length(most, Kind::Ack, 3, SESSION), Ok(HEADER_BYTES + most as usize));
    assert_eq!(length(most + 1, Kind::Ack, 3, SESSION), too_long(most + 1, Kind::Ack, most));
    assert_eq!(length(MESSAGE_BYTES_MAX, Kind::Bind, 0, SESSION), Ok(HEADER_BYTES + 4096));
    assert_eq!(length(4097, Kind::Bind, 0, SESSION), too_long(4097, Kind::Bind, MESSAGE_BYTES_MAX));
    // Before the handshake is done nobody gets us to wait for data.
    assert_eq!(length(1, Kind::Data, 1, Limits::Handshake), too_long(1, Kind::Data, 0));
    assert_eq!(length(100, Kind::Hello, 0, Limits::Handshake), Ok(108));
}

#[test]
fn kinds_flags_and_counts_are_known() {
    let length = |bytes, kind, flags, count| frame_bytes(&header(bytes, kind, flags, count), SESSION);
    assert_eq!(length(0, 0, 0, 0), Err(WireError::UnknownKind(0)));
    assert_eq!(length(0, 18, 0, 0), Err(WireError::UnknownKind(18)));
    assert_eq!(length(0, 255, 0, 0), Err(WireError::UnknownKind(255)));
    assert_eq!(length(16, 15, 2, 0), Err(WireError::Flags { kind: 15, flags: 2 }));
    assert_eq!(length(16, 15, 0, 1), Err(WireError::Count { kind: 15, count: 1, min: 0, max: 0 }));
    assert_eq!(length(32, 8, 0, 0), Err(WireError::Count { kind: 8, count: 0, min: 1, max: 128 }));
    assert_eq!(length(32, 8, 0, 129), Err(WireError::Count { kind: 8, count: 129, min: 1, max: 128 }));
    assert_eq!(length(72, 11, 0, 129), Err(WireError::Count { kind: 11, count: 129, min: 1, max: 128 }));
    for kind in Kind::ALL {
        assert!(frame_bytes(&header(0, kind as u8, 1, kind_count(kind)), SESSION).is_ok());
    }
}

fn kind_count(kind: Kind) -> u16 {
    u16::from(matches!(kind, Kind::Data | Kind::Ack))
}

#[test]
fn runs_fill_their_frame_exactly() {
    let run = Run {
        stream: StreamId(0),
        epoch: BindEpoch(1),
        position: StreamPosition::default(),
        bytes: 10,
        uniform: u32::MAX,
    };
    let fix = |mut bytes: Vec<u8>| {
        let body = (bytes.len() - HEADER_BYTES) as u32;
        bytes[..4].copy_from_slice(&body.to_le_bytes());
        bytes
    };
    assert!(decode(&data(&[run], &[1; 10], Features::NONE), Features::NONE).is_ok());
    let short = fix(data(&[run], &[1; 9], Features::NONE));
    let error = WireError::Short { what: "DATA", needed: 10, left: 9 };
    assert_eq!(decode(&short, Features::NONE), Err(error));
    let long = fix(data(&[run], &[1; 12], Features::NONE));
    assert_eq!(decode(&long, Features::NONE), Err(WireError::Trailing { what: "DATA", bytes: 2 }));
    let mut empty = data(&[run], &[], Features::NONE);
    empty[HEADER_BYTES + 24..HEADER_BYTES + 28].fill(0);
    let error = WireError::Value { field: "the length of a run", value: 0 };
    assert_eq!(decode(&fix(empty), Features::NONE), Err(error));
}

#[test]
fn checksums_come_exactly_if_agreed_on() {
    let ping = Frame::Ping(Ping { sequence: 1, nanos: 2 });
    let unagreed = |with, agreed| Err(WireError::Unagreed { kind: 15, with, agreed });
    assert_eq!(decode(&encoded(&ping, Features::CRC), Features::NONE), unagreed(true, false));
    assert_eq!(decode(&encoded(&ping, Features::NONE), Features::CRC), unagreed(false, true));
    // Before anything is agreed on there is none.
    let reject = Frame::Reject(Reject { rule: Rule::TOKEN, text: "no" });
    assert_eq!(encoded(&reject, Features::CRC), encoded(&reject, Features::NONE));
    let mut changed = encoded(&ping, Features::CRC);
    changed[20] ^= 1;
    assert!(matches!(decode(&changed, Features::CRC), Err(WireError::Checksum { .. })));
}

#[test]
fn fields_are_what_they_can_be() {
    let changed = |frame: &Frame<'_>, at: usize, value: u8| {
        let mut bytes = encoded(frame, Features::NONE);
        bytes[HEADER_BYTES + at] = value;
        decode(&bytes, Features::NONE).map(|_| ())
    };
    let refused = |field, value| Err(WireError::Value { field, value });
    let hello = Hello {
        versions: VERSIONS,
        features: Features::NONE,
        payload_bytes_max: PAYLOAD_BYTES_MAX,
        purpose: Purpose::Data,
        endpoint: 0,
        worker: WorkerId(0),
        token: None,
        address: "ab",
    };
    let foreign = WireError::Magic(*b"xPIRN\r\n\x1a");
    assert_eq!(changed(&Frame::Hello(hello), 0, b'x'), Err(foreign));
    assert_eq!(changed(&Frame::Hello(hello), 12, 2), refused("the purpose", 2));
    assert_eq!(changed(&Frame::Hello(hello), 13, 2), refused("whether there is a token", 2));
    assert_eq!(changed(&Frame::Hello(hello), 40, 9), refused("a reserved byte", 9));
    assert_eq!(changed(&Frame::Hello(hello), 69, 2), refused("the address", 514));
    assert_eq!(changed(&Frame::Hello(hello), 70, 0xff), Err(WireError::Text { field: "the address" }));
    let gone = Frame::Gone(Gone { stream: StreamId(0), epoch: BindEpoch(1), cause: Cause::Dropped });
    assert_eq!(changed(&gone, 8, 11), refused("the kind of a cause", 11));
    let event = StreamEvent::Abort;
    let event =
        EventFrame { stream: StreamId(0), epoch: BindEpoch(1), position: StreamPosition::default(), event };
    assert_eq!(changed(&Frame::Event(event), 24, 8), refused("the kind of an event", 8));
    let error = BindError::DuplicateAttempt { attempt: Attempt(1) };
    let refusal = Frame::Refused(Refused { stream: StreamId(0), error });
    assert_eq!(changed(&refusal, 4, 10), refused("the kind of a refusal", 10));
}

#[test]
fn tokens_are_compared_whole() {
    let token = Token([7; 32]);
    assert!(token.matches(&Token([7; 32])));
    for at in 0..32 {
        for bit in 0..8 {
            let mut other = token;
            other.0[at] ^= 1_u8 << bit;
            assert!(!token.matches(&other));
        }
    }
    assert_eq!(format!("{token:?}"), "Token(..)");
}

#[test]
fn versions_are_found_in_a_hello_of_any_version() {
    let body = [&MAGIC[..], &[3, 0, 9, 1], &[0xff; 3]].concat();
    assert_eq!(versions_of(&body), Some((3, 265)));
    assert_eq!(versions_of(&body[..11]), None);
    assert_eq!(versions_of(b"GET / HTTP/1.1"), None);
}
