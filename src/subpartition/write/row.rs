//! Records in a row: the short way for many, with what doesn't change from one to the next looked up once.

use super::{Telling, WriteHalf};

/// Why a row of records ended.
enum RowEnd<R> {
    /// There are no more.
    All,
    /// The reader has to be told before the next.
    Owed,
    /// This one can't go the short way.
    Left(R),
}

impl WriteHalf {
    /// Appends records the short way, one behind the other, as long as they can go it, and gives back the first that
    /// can't. Each is published before the next is asked for, and its reader told if that is due: whoever makes them
    /// may take his time. `queued` counts them.
    #[inline]
    pub(crate) fn append_row<R: AsRef<[u8]>>(
        &mut self,
        records: &mut impl Iterator<Item = R>,
        queued: &mut u64,
    ) -> Option<R> {
        loop {
            let before = *queued;
            let end = self.append_until_owed(records, queued);
            if *queued > before {
                self.after_publish();
            }
            match end {
                RowEnd::Owed => {}
                RowEnd::All => return None,
                RowEnd::Left(record) => return Some(record),
            }
        }
    }

    /// Counts are stored behind the row, and the reader is told there.
    #[inline]
    fn append_until_owed<R: AsRef<[u8]>>(
        &mut self,
        records: &mut impl Iterator<Item = R>,
        queued: &mut u64,
    ) -> RowEnd<R> {
        let Self { sub, tail, node, rung, telling, writable, prefix_bytes, dirty, .. } = self;
        let (state, writable, rung, telling) = (&sub.state, *writable, *rung, *telling);
        let Some(mut row) = tail.row(&sub.ring, *prefix_bytes != 0) else {
            return records.next().map_or(RowEnd::All, RowEnd::Left);
        };
        for record in records.by_ref() {
            if state.load().bits() != writable || !row.append(record.as_ref()) {
                return RowEnd::Left(record);
            }
            // At once: should the next one's maker panic, this one is known to be untold.
            *dirty = true;
            *queued += 1;
            let is_owed = match telling {
                Telling::WhenFull => false,
                Telling::Each => true,
                // As `ring_if_quiet`: a new view has another node.
                Telling::IfQuiet => {
                    node.as_ref().is_none_or(|node| node.owes_ring(rung)) || state.load().bits() != writable
                }
            };
            if is_owed {
                return RowEnd::Owed;
            }
        }
        RowEnd::All
    }
}
