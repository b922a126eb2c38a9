//! A channel's reader: over memory of this worker, or over what the network brings.
//!
//! An enum and no trait object: the way of nearly all records is one branch that is always guessed right. The
//! remote side inlines into the task's own loop; the local side is a call, or both together would be too long
//! to inline.

use crate::event::PriorityEvent;
use crate::inbox::RemoteReader;
use crate::record::Admission;
use crate::subpartition::{Acked, Amount, LocalReader, Mark, Next, Stretch};
use bytes::Bytes;

/// See the module's text.
#[derive(Debug)]
pub(super) enum Reader {
    Local(LocalReader),
    Remote(RemoteReader),
}

/// The same question to whichever it is.
macro_rules! ask {
    ($reader:expr, $inner:ident => $answer:expr) => {
        match $reader {
            Reader::Local($inner) => $answer,
            Reader::Remote($inner) => $answer,
        }
    };
}

impl Reader {
    /// The next record if it lies whole at hand and the turn goes on.
    #[inline]
    pub(super) fn next_whole(&mut self) -> bool {
        match self {
            Self::Local(reader) => next_whole_local(reader),
            Self::Remote(reader) => reader.next_whole(),
        }
    }

    /// The records that lie whole at hand, as far as the turn goes.
    pub(super) fn records(&mut self) -> Stretch<'_> {
        ask!(self, reader => reader.records())
    }

    /// See [`RemoteReader::begin_turn`].
    pub(super) fn begin_turn(&mut self, records: u32, bytes: u64) {
        ask!(self, reader => reader.begin_turn(records, bytes));
    }

    pub(super) fn end_turn(&mut self) {
        ask!(self, reader => reader.end_turn());
    }

    pub(super) fn has_turn(&self) -> bool {
        ask!(self, reader => reader.has_turn())
    }

    #[inline]
    pub(super) fn next(&mut self, admission: &mut Admission) -> Next {
        ask!(self, reader => reader.next(admission))
    }

    /// The payload of the record yielded last, if nothing was asked since.
    #[inline]
    pub(super) fn current(&self) -> &[u8] {
        match self {
            Self::Local(reader) => reader.current().bytes(),
            Self::Remote(reader) => reader.current(),
        }
    }

    /// The same as an owned value, lent or copied.
    pub(super) fn current_owned(&self) -> Bytes {
        match self {
            Self::Local(reader) => reader.current().into_bytes(),
            Self::Remote(reader) => reader.current_owned(),
        }
    }

    #[inline]
    pub(super) fn mark(&self) -> Mark {
        ask!(self, reader => reader.mark())
    }

    pub(super) fn acknowledge(&mut self, mark: Mark) -> Acked {
        ask!(self, reader => reader.acknowledge(mark))
    }

    pub(super) fn set_aside(&mut self, admission: &mut Admission) {
        ask!(self, reader => reader.set_aside(admission));
    }

    pub(super) fn settle(&mut self, admission: &mut Admission) {
        ask!(self, reader => reader.settle(admission));
    }

    /// The task may sleep though something waits: whoever serves a remote channel learns how far it is. A local
    /// one's writer knows.
    pub(super) fn report(&mut self) {
        if let Self::Remote(reader) = self {
            reader.report();
        }
    }

    pub(super) fn clear(&mut self, admission: &mut Admission) {
        ask!(self, reader => reader.clear(admission));
    }

    pub(super) fn take_priority(&mut self) -> Option<PriorityEvent> {
        ask!(self, reader => reader.take_priority())
    }

    pub(super) fn has_priority(&self) -> bool {
        match self {
            Self::Local(reader) => reader.view().has_priority(),
            Self::Remote(reader) => reader.has_priority(),
        }
    }

    pub(super) fn has_more(&self) -> bool {
        ask!(self, reader => reader.has_more())
    }

    pub(super) fn torn(&self) -> Amount {
        ask!(self, reader => reader.torn())
    }

    pub(super) fn yielded(&self) -> Amount {
        ask!(self, reader => reader.yielded())
    }

    pub(super) fn consumed(&self) -> Amount {
        ask!(self, reader => reader.consumed())
    }

    pub(super) fn local(&self) -> Option<&LocalReader> {
        match self {
            Self::Local(reader) => Some(reader),
            Self::Remote(_) => None,
        }
    }
}

#[inline(never)]
fn next_whole_local(reader: &mut LocalReader) -> bool {
    reader.next_whole()
}
