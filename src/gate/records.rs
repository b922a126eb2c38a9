//! The records at hand, in a row: what costs the least by the record.

use super::InputGate;
use super::item::Receipt;
use crate::subpartition::Stretch;
use std::iter::FusedIterator;

impl InputGate {
    /// The records that lie whole behind the last item, in the same piece of memory: an iterator that never waits,
    /// passes no event or notice, and goes no further than the channel's turn. It may be empty at any time, which
    /// says nothing of what comes: the other forms of asking ([`InputGate::next_blocking`] and its like) go on where
    /// it ended.
    ///
    /// A loop that takes these after each item does the least for a record: what has to be looked at once for an
    /// item is looked at once for all of them.
    ///
    /// ```
    /// # use pirn::{GateError, InputGate, Item};
    /// # fn read(gate: &mut InputGate, mut take: impl FnMut(&[u8])) -> Result<(), GateError> {
    /// while let Some(item) = gate.next_blocking()? {
    ///     if let Item::Record(record) = item {
    ///         take(&record);
    ///     }
    ///     for record in gate.records() {
    ///         take(record);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Records are yielded as by the other forms: each counts as consumed when one more is asked for, here or there,
    /// unless the gate is in explicit mode. What the iterator is dropped before stays and comes next. Of a local
    /// channel the producer's side learns of it when the gate is asked again: if another attempt takes the channel
    /// over before, what was taken here is in doubt.
    #[inline]
    pub fn records(&mut self) -> Records<'_> {
        let index = self.turn;
        let row = self.channels.get_mut(index).and_then(|channel| {
            let stamp = channel.stamp;
            Some(Row { channel: index as u32, stamp, stretch: channel.reader.as_mut()?.records() })
        });
        Records(row)
    }
}

/// Records of one channel that lie whole at hand, as payloads by borrow: see [`InputGate::records`].
#[derive(Debug)]
pub struct Records<'g>(Option<Row<'g>>);

#[derive(Debug)]
struct Row<'g> {
    channel: u32,
    stamp: u64,
    stretch: Stretch<'g>,
}

impl Records<'_> {
    /// The channel of all of them; `None` if none is being read.
    #[must_use]
    pub fn channel(&self) -> Option<u32> {
        self.0.as_ref().map(|row| row.channel)
    }

    /// What acknowledges the record that was yielded last, here or before, and everything of the channel before it;
    /// `None` if no channel is being read.
    #[must_use]
    pub fn receipt(&self) -> Option<Receipt> {
        let row = self.0.as_ref()?;
        Some(Receipt { channel: row.channel, stamp: row.stamp, mark: row.stretch.mark() })
    }
}

impl<'g> Iterator for Records<'g> {
    type Item = &'g [u8];

    #[inline]
    fn next(&mut self) -> Option<&'g [u8]> {
        self.0.as_mut()?.stretch.step()
    }
}

impl FusedIterator for Records<'_> {}
