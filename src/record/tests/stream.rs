//! The model: records written one by one into entries, with everything that readers have to find out
//! noted down beside the bytes.

use std::num::NonZeroU32;

use proptest::{collection::vec, prelude::*};

use crate::record::{EntryFacts, First, RecordCursor, RecordLayout, UNIFORM_NONE};

/// One record as the generator draws it.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    len: u32,
    /// The writer is offered at most this much room at a time (at least 4, the prefix).
    chop: usize,
    /// ABORT after so many pieces, if the record isn't done by then.
    abort_after: Option<u32>,
    /// The entry is closed behind this record, as an event does.
    closes_entry: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) layout: RecordLayout,
    records: Vec<Planned>,
    capacities: Vec<usize>,
}

/// One entry as written, with the truth about it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) layout: RecordLayout,
    pub(crate) first: First,
    pub(crate) bytes: Vec<u8>,
    capacity: usize,
    /// Bytes of it that belong to a record begun earlier, and whether that one ends here.
    pub(crate) carried: Option<(usize, bool)>,
    /// Offset and payload length of each record that starts here.
    starts: Vec<(usize, u32)>,
    /// Offsets at which records end.
    pub(crate) ends: Vec<usize>,
    /// The record at its end was broken off, with so many encoded bytes written in all entries.
    pub(crate) aborted: Option<u32>,
}

impl Entry {
    /// The lengths to which a reader may see the entry grown.
    pub(crate) fn published(&self) -> Vec<usize> {
        let mut published = self.ends.clone();
        published.push(self.bytes.len());
        published.dedup();
        published
    }

    /// The best hint a writer can give while `published` bytes are: the shared length, `vacuous` if none
    /// starts.
    pub(crate) fn hint(&self, published: usize, vacuous: u32) -> u32 {
        let mut lens = self.starts.iter().filter(|(off, _)| *off < published).map(|(_, len)| *len);
        match lens.next() {
            None => vacuous,
            Some(len) if lens.all(|other| other == len) => len,
            Some(_) => UNIFORM_NONE,
        }
    }

    pub(crate) fn facts(&self, uniform: u32) -> EntryFacts {
        EntryFacts { layout: self.layout, first: self.first, uniform }
    }
}

/// A plan carried out.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) entries: Vec<Entry>,
    /// The payloads that weren't broken off.
    pub(crate) whole: Vec<Vec<u8>>,
}

impl Stream {
    pub(crate) fn write(plan: &Plan) -> Self {
        let mut stream = Self { entries: Vec::new(), whole: Vec::new() };
        let mut capacities = plan.capacities.iter().copied().cycle();
        let mut is_open = false;
        for (nth, record) in plan.records.iter().enumerate() {
            let payload: Vec<u8> =
                (0..record.len as usize).map(|byte| (nth * 37 + byte * 11) as u8).collect();
            let mut cursor = RecordCursor::new(plan.layout, record.len);
            let mut sent = 0;
            let mut pieces = 0;
            loop {
                if !is_open {
                    let capacity = capacities.next().unwrap();
                    stream.entries.push(Entry {
                        layout: plan.layout,
                        first: cursor.first_of_next(capacity),
                        bytes: Vec::new(),
                        capacity,
                        carried: (cursor.written_bytes() > 0).then_some((0, false)),
                        starts: Vec::new(),
                        ends: Vec::new(),
                        aborted: None,
                    });
                    is_open = true;
                }
                let entry = stream.entries.last_mut().unwrap();
                let room = entry.capacity - entry.bytes.len();
                let is_begun = cursor.written_bytes() > 0;
                let off = entry.bytes.len();
                let Some(piece) = cursor.next_piece(room.min(record.chop)) else {
                    assert!(if is_begun { room == 0 } else { room < plan.layout.prefix_bytes().max(1) });
                    is_open = false;
                    continue;
                };
                if !is_begun {
                    entry.starts.push((off, record.len));
                }
                assert_eq!(piece.prefix.is_some(), !is_begun && plan.layout == RecordLayout::Lengths);
                entry.bytes.extend(piece.prefix.into_iter().flatten());
                entry.bytes.extend(&payload[sent..sent + piece.payload]);
                sent += piece.payload;
                pieces += 1;
                let end = entry.bytes.len();
                assert!(end <= entry.capacity && end > off);
                if entry.starts.is_empty() {
                    entry.carried = Some((end, piece.done));
                }
                if piece.done {
                    assert_eq!((sent, cursor.remaining_bytes()), (payload.len(), 0));
                    entry.ends.push(end);
                    stream.whole.push(payload);
                    is_open &= !record.closes_entry;
                    break;
                }
                if record.abort_after == Some(pieces) {
                    entry.aborted = Some(cursor.written_bytes() as u32);
                    is_open = false;
                    break;
                }
            }
        }
        stream
    }
}

/// Random plans: lengths from 0 bytes to many entries, of all sorts or all alike.
pub(crate) fn plans() -> impl Strategy<Value = Plan> {
    let len = || prop_oneof![4 => 0..=12u32, 3 => 13..=120u32, 1 => 121..=1500u32];
    let layout = prop_oneof![
        3 => Just((RecordLayout::Lengths, None)),
        2 => len().prop_map(|len| (RecordLayout::Lengths, Some(len))),
        2 => len().prop_filter_map("a width of 0", |width| {
            Some((RecordLayout::Fixed(NonZeroU32::new(width)?), Some(width)))
        }),
    ];
    let record = (
        len(),
        prop_oneof![2 => Just(usize::MAX), 1 => 4..40usize],
        prop::option::weighted(0.15, 1..4u32),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(len, chop, abort_after, closes_entry)| Planned {
            len,
            chop,
            abort_after,
            closes_entry,
        });
    (layout, vec(record, 0..24), vec(8..=200usize, 1..6)).prop_map(
        |((layout, width), mut records, capacities)| {
            if let Some(width) = width {
                records.iter_mut().for_each(|record| record.len = width);
            }
            Plan { layout, records, capacities }
        },
    )
}
