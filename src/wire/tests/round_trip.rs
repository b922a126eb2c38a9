//! What is encoded is decoded again.

use super::*;
use crate::test_size;

fn cases() -> ProptestConfig {
    ProptestConfig { cases: test_size::pick(256, 20_000), ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn messages(frame in message(), features in features()) {
        let bytes = encoded(&frame, features);
        let limits = if frame.kind().is_handshake() { Limits::Handshake } else { SESSION };
        prop_assert_eq!(length(&bytes, limits), Ok(bytes.len()));
        let decoded = decode(&bytes, features);
        prop_assert_eq!(decoded.as_ref(), Ok(&frame));
        prop_assert_eq!(encoded(&decoded.expect("just so"), features), bytes);
    }

    #[test]
    fn acknowledgements(acks in prop::collection::vec(ack(), 1..=ACKS_MAX), features in features()) {
        let mut bytes = vec![1, 2, 3];
        encode_acks(&mut bytes, features, &acks);
        prop_assert_eq!(&bytes[..3], &[1, 2, 3]);
        let bytes = &bytes[3..];
        prop_assert_eq!(length(bytes, SESSION), Ok(bytes.len()));
        let Ok(Frame::Acks(decoded)) = decode(bytes, features) else { panic!("{bytes:?}") };
        prop_assert_eq!(decoded.iter().collect::<Vec<_>>(), acks);
        prop_assert_eq!(encoded(&Frame::Acks(decoded), features), bytes);
    }

    #[test]
    fn runs_and_where_their_payloads_lie((runs, payload) in runs(), features in features()) {
        let bytes = data(&runs, &payload, features);
        prop_assert_eq!(length(&bytes, SESSION), Ok(bytes.len()));
        let Ok(Frame::Data(decoded)) = decode(&bytes, features) else { panic!("no DATA") };
        prop_assert_eq!((decoded.count(), decoded.payload_bytes()), (runs.len(), payload.len()));
        let mut from = 0;
        for (index, (run, range)) in decoded.iter().enumerate() {
            prop_assert_eq!(run, runs[index]);
            let to = from + run.bytes as usize;
            prop_assert_eq!(&bytes[range], &payload[from..to]);
            from = to;
        }
        prop_assert_eq!(from, payload.len());
        prop_assert_eq!(encoded(&Frame::Data(decoded), features), bytes);
    }

    #[test]
    fn descriptors(
        partition in partition(), numbers in any::<(u32, u32, u128)>(),
        address in prop::option::of(address()), layout in layout(),
    ) {
        let descriptor = Descriptor {
            partition,
            producer_attempt: Attempt(numbers.0),
            subpartition: numbers.1,
            address,
            secret: BindSecret::new(numbers.2),
            layout,
        };
        let bytes = encode_descriptor(&descriptor);
        prop_assert_eq!(decode_descriptor(&bytes), Ok(descriptor));
        for end in 0..bytes.len() {
            prop_assert!(decode_descriptor(&bytes[..end]).is_err());
        }
        prop_assert!(decode_descriptor(&[&bytes[..], &[0]].concat()).is_err());
        prop_assert!(decode_descriptor(&[&[2], &bytes[1..]].concat()).is_err());
    }
}

#[test]
fn long_texts_are_cut_at_a_character() {
    let cut = |text: String| {
        let gone =
            Gone { stream: StreamId(1), epoch: BindEpoch(1), cause: Cause::Failed(Arc::from(text.as_str())) };
        let bytes = encoded(&Frame::Gone(gone), Features::NONE);
        match decode(&bytes, Features::NONE) {
            Ok(Frame::Gone(Gone { cause: Cause::Failed(text), .. })) => text.to_string(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(cut("a".repeat(TEXT_BYTES_MAX)), "a".repeat(TEXT_BYTES_MAX));
    assert_eq!(cut("a".repeat(TEXT_BYTES_MAX + 1)), "a".repeat(TEXT_BYTES_MAX));
    assert_eq!(cut("木".repeat(TEXT_BYTES_MAX)), "木".repeat(TEXT_BYTES_MAX / 3));
}

/// The longest message there is: a refusal with two texts.
#[test]
fn the_longest_message_is_within_the_limit() {
    let longest = Refused {
        stream: StreamId(u32::MAX),
        error: BindError::Layout {
            what: "record layout",
            partition: "x".repeat(5000),
            descriptor: "y".repeat(5000),
        },
    };
    let bytes = encoded(&Frame::Refused(longest), Features::CRC);
    assert_eq!(length(&bytes, SESSION), Ok(bytes.len()));
    assert!(decode(&bytes, Features::CRC).is_ok());
}
