//! The edges of lengths, widths and room.

use std::num::NonZeroU32;

use crate::record::walk::ENTRY_BYTES_MAX;
use crate::record::write::Piece;
use crate::record::{First, LayoutError, RecordCursor, RecordLayout};

fn fixed(width: u32) -> RecordLayout {
    RecordLayout::Fixed(NonZeroU32::new(width).unwrap())
}

#[test]
fn lengths_are_checked_against_the_limit() {
    let lengths = RecordLayout::default();
    assert_eq!(lengths, RecordLayout::Lengths);
    assert_eq!(lengths.check(0, 0), Ok(()));
    assert_eq!(lengths.check(10, 10), Ok(()));
    assert_eq!(lengths.check(11, 10), Err(LayoutError::TooLong { bytes: 11, max: 10 }));
    let max = u32::MAX as usize - 4;
    assert_eq!(lengths.check(max, usize::MAX), Ok(()));
    assert_eq!(lengths.check(max + 1, usize::MAX), Err(LayoutError::TooLong { bytes: max + 1, max }));
}

#[test]
fn fixed_records_have_their_width() {
    assert_eq!(fixed(8).check(8, 8), Ok(()));
    assert_eq!(fixed(8).check(7, 100), Err(LayoutError::Width { bytes: 7, fixed: 8 }));
    assert_eq!(fixed(8).check(0, 100), Err(LayoutError::Width { bytes: 0, fixed: 8 }));
    assert_eq!(fixed(8).check(8, 7), Err(LayoutError::TooLong { bytes: 8, max: 7 }));
}

#[test]
fn a_prefix_is_read_as_it_was_encoded() {
    let lengths = RecordLayout::Lengths;
    for len in [0, 1, 0x0403_0201, u32::MAX] {
        assert_eq!(lengths.payload_of_prefix(&lengths.encode_prefix(len)), Some(len));
        assert_eq!(lengths.payload_of_prefix(&lengths.encode_prefix(len)[..3]), None);
    }
    assert_eq!(lengths.encode_prefix(0x0403_0201), [1, 2, 3, 4]);
    assert_eq!(fixed(9).payload_of_prefix(&[]), Some(9));
    assert_eq!((lengths.encoded_bytes(0), fixed(9).encoded_bytes(9)), (4, 9));
}

#[test]
fn an_error_says_what_to_do() {
    let text = LayoutError::TooLong { bytes: 11, max: 10 }.to_string();
    assert!(text.contains("11 bytes") && text.contains("record_bytes_max"), "{text}");
    let text = LayoutError::Width { bytes: 7, fixed: 8 }.to_string();
    assert!(text.contains("exactly 8 bytes") && text.contains("Lengths"), "{text}");
}

#[test]
fn first_covers_every_offset_of_the_largest_entry() {
    assert_eq!(First::at(ENTRY_BYTES_MAX).get(), Some(ENTRY_BYTES_MAX as u16));
    assert_eq!(First::at(ENTRY_BYTES_MAX + 1), First::NONE);
    assert_eq!(First::at(usize::MAX), First::NONE);
    assert_eq!(First::NONE.get(), None);
    assert_eq!(First::NONE.to_bits(), 0xFFFF);
}

#[test]
fn a_prefix_is_never_split() {
    let mut cursor = RecordCursor::new(RecordLayout::Lengths, 2);
    for room in 0..4 {
        assert_eq!(cursor.next_piece(room), None);
        assert_eq!((cursor.written_bytes(), cursor.first_of_next(8)), (0, First::at(0)));
    }
    let prefix = Piece { prefix: Some([2, 0, 0, 0]), payload: 0, done: false };
    assert_eq!(cursor.next_piece(4), Some(prefix));
    assert_eq!(cursor.next_piece(0), None);
    assert_eq!(cursor.next_piece(1), Some(Piece { prefix: None, payload: 1, done: false }));
    assert_eq!(cursor.next_piece(9), Some(Piece { prefix: None, payload: 1, done: true }));
}

#[test]
fn an_empty_record_is_done_with_its_prefix() {
    let mut cursor = RecordCursor::new(RecordLayout::Lengths, 0);
    assert_eq!(cursor.next_piece(4), Some(Piece { prefix: Some([0; 4]), payload: 0, done: true }));
    assert_eq!(cursor.next_piece(0), Some(Piece { prefix: None, payload: 0, done: true }));
}

#[test]
fn the_rest_of_a_record_decides_the_next_first() {
    let mut cursor = RecordCursor::new(fixed(100), 100);
    assert_eq!(cursor.next_piece(0), None);
    assert_eq!(cursor.next_piece(60), Some(Piece { prefix: None, payload: 60, done: false }));
    assert_eq!(cursor.remaining_bytes(), 40);
    let firsts = [39, 40, 41].map(|capacity| cursor.first_of_next(capacity));
    assert_eq!(firsts, [First::NONE, First::at(40), First::at(40)]);
}

#[test]
fn the_longest_record_is_counted_without_overflow() {
    let mut cursor = RecordCursor::new(RecordLayout::Lengths, u32::MAX);
    assert_eq!(cursor.remaining_bytes(), (1 << 32) + 3);
    assert_eq!(cursor.next_piece(ENTRY_BYTES_MAX).map(|piece| piece.payload), Some(ENTRY_BYTES_MAX - 4));
    assert_eq!(cursor.first_of_next(ENTRY_BYTES_MAX), First::NONE);
}
