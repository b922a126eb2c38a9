//! One connection after its handshake: who may send what, and which streams there are.
//!
//! ```text
//!   BIND --> Asked -- WAITING --> Waiting          over: REFUSED, CLOSE, GONE, ERROR, connection lost
//!              |                     |
//!              `------ BOUND --------`--> Bound
//!
//!   BIND that says that an end was consumed --> Told    over: GONE, REFUSED, ERROR, connection lost
//! ```
//! Both sides keep the same table. An id that is behind the next one and not in the table is over.

use super::{BIND_COUNT_MAX, STREAMS_MAX, Scope, VIOLATIONS_MAX, Violation};
use crate::wire::{Bind, Kind, Purpose, Rule, StreamId};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Connected, and asks for subpartitions.
    Binder,
    /// Was connected to, and has them.
    Server,
}

/// What was dropped on one connection, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    /// Frames of another epoch than their stream's, or too late in it.
    pub(crate) stale: u64,
    /// Frames of streams that are over.
    pub(crate) unknown: u64,
    /// What was answered with an error.
    pub(crate) violations: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Asked,
    Waiting,
    Bound,
    /// The BIND was a word about an older bind: nothing but its answer comes.
    Told,
}

/// See the module's text. `S` is how the owner finds what it keeps for a stream.
#[derive(Debug)]
pub(crate) struct Session<S> {
    peer: Role,
    purpose: Purpose,
    /// The peer has said its last word.
    over: bool,
    /// The id of the next stream that is opened.
    next: u64,
    streams: HashMap<StreamId, (Phase, S), BuildHasherDefault<IdHasher>>,
    counts: Counts,
}

impl<S: Copy> Session<S> {
    /// `peer`: the other end's role.
    pub(crate) fn new(peer: Role, purpose: Purpose) -> Self {
        let streams = HashMap::default();
        Self { peer, purpose, over: false, next: 0, streams, counts: Counts::default() }
    }

    /// The peer sends a frame of this kind. To be asked for each frame before it is acted upon.
    ///
    /// # Errors
    /// It may not, on this connection or any more. The connection is given up: a peer that mistakes its role
    /// does so with every frame.
    pub(crate) fn admit(&mut self, kind: Kind) -> Result<(), Violation> {
        if self.over {
            let text = format_args!("{} after GOODBYE", kind.name());
            return Err(Violation::connection(Rule::ROLE, text));
        }
        let is_data = self.purpose == Purpose::Data;
        let may = match kind {
            Kind::Hello | Kind::Welcome | Kind::Reject => false,
            Kind::Bind | Kind::Ack | Kind::Close => is_data && self.peer == Role::Binder,
            Kind::Waiting | Kind::Refused | Kind::Bound | Kind::Gone => is_data && self.peer == Role::Server,
            Kind::Data | Kind::Event | Kind::Priority => is_data && self.peer == Role::Server,
            Kind::Ping | Kind::Pong => !is_data,
            Kind::Error | Kind::Goodbye => true,
        };
        if !may {
            let (name, peer, purpose) = (kind.name(), self.peer, self.purpose);
            let text = format_args!("{name} from the {peer:?} of a connection for {purpose:?}");
            return Err(Violation::connection(Rule::ROLE, text));
        }
        self.over = kind == Kind::Goodbye;
        Ok(())
    }

    /// Whether the peer has said its last word.
    #[allow(dead_code, reason = "for tests")]
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Binder: opens streams for one BIND of `count` subpartitions, 1 to [`BIND_COUNT_MAX`]. Returns the
    /// first one's id; the others follow. `None` if the connection has no room for so many (and none is
    /// opened): another one does.
    pub(crate) fn open(&mut self, count: u32, state: impl FnMut(u32) -> S) -> Option<StreamId> {
        let may = (1..=BIND_COUNT_MAX).contains(&count) && self.has_room(count);
        may.then(|| self.insert(count, Phase::Asked, state))
    }

    /// Binder: the same for a BIND that says that an end was consumed.
    pub(crate) fn tell(&mut self, state: S) -> Option<StreamId> {
        self.has_room(1).then(|| self.insert(1, Phase::Told, |_| state))
    }

    /// The next stream has this id: as if so many had been.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn skip_to(&mut self, next: u64) {
        self.next = next;
    }

    /// Server: opens the streams that the binder asks for. `state` is given the number of each, from 0 on.
    ///
    /// # Errors
    /// The ids aren't the next ones, or the range is none: about the connection, since the two sides would
    /// mean different streams by an id from here on.
    pub(crate) fn on_bind(&mut self, bind: &Bind, state: impl FnMut(u32) -> S) -> Result<(), Violation> {
        let refuse = |rule, text: std::fmt::Arguments<'_>| Err(Violation::connection(rule, text));
        let (first, count, next) = (bind.stream.0, bind.count, self.next);
        if u64::from(first) != next {
            return refuse(Rule::STREAM, format_args!("BIND opens stream {first}, the next one is {next}"));
        }
        if count == 0 || count > BIND_COUNT_MAX {
            return refuse(
                Rule::RANGE,
                format_args!("BIND of {count} streams, 1 to {BIND_COUNT_MAX} may be"),
            );
        }
        if (bind.resume.is_some() || bind.ended.is_some()) && count != 1 {
            return refuse(Rule::RANGE, format_args!("BIND goes on with {count} streams from one place"));
        }
        if bind.resume.is_some() && bind.ended.is_some() {
            return refuse(Rule::RANGE, format_args!("BIND resumes a stream that it says has ended"));
        }
        if bind.subpartition.checked_add(count).is_none() {
            let from = bind.subpartition;
            return refuse(Rule::RANGE, format_args!("BIND of {count} subpartitions from {from} on"));
        }
        if !self.has_room(count) {
            let open = self.streams.len();
            return refuse(Rule::RANGE, format_args!("{count} more streams while {open} are open"));
        }
        let phase = if bind.ended.is_some() { Phase::Told } else { Phase::Asked };
        self.insert(count, phase, state);
        Ok(())
    }

    fn has_room(&self, count: u32) -> bool {
        let ids = self.next + u64::from(count) <= 1 << 32;
        ids && self.streams.len() + count as usize <= STREAMS_MAX
    }

    fn insert(&mut self, count: u32, phase: Phase, mut state: impl FnMut(u32) -> S) -> StreamId {
        // Below 2^32 by `has_room`.
        let first = self.next as u32;
        self.streams.extend((0..count).map(|at| (StreamId(first + at), (phase, state(at)))));
        self.next += u64::from(count);
        StreamId(first)
    }

    /// A frame of `kind` names this stream. `None`: the stream is over; drop the frame, it is counted.
    /// WAITING and BOUND move the stream on; what ends it (REFUSED, GONE, CLOSE) leaves it to
    /// [`Session::close`], since its epoch may turn out to be another one. An ERROR goes to `close` at once.
    ///
    /// # Errors
    /// There never was such a stream, or it isn't at the point for this.
    pub(crate) fn find(&mut self, stream: StreamId, kind: Kind) -> Result<Option<S>, Violation> {
        if u64::from(stream.0) >= self.next {
            let text = format_args!("{} for a stream beyond the {} there were", kind.name(), self.next);
            return Err(self.judge(Violation::stream(stream, Rule::STREAM, text)));
        }
        let Some((phase, state)) = self.streams.get_mut(&stream) else {
            self.counts.unknown += 1;
            return Ok(None);
        };
        let next = match (kind, *phase) {
            (Kind::Waiting, Phase::Asked) => Phase::Waiting,
            (Kind::Bound, Phase::Asked | Phase::Waiting) => Phase::Bound,
            (Kind::Refused, same @ (Phase::Asked | Phase::Waiting | Phase::Told)) => same,
            (Kind::Gone, Phase::Told) => Phase::Told,
            (Kind::Close, same) => same,
            (Kind::Data | Kind::Event | Kind::Priority | Kind::Ack | Kind::Gone, Phase::Bound) => {
                Phase::Bound
            }
            (_, phase) => {
                let text = format_args!("{} for a stream that is {phase:?}", kind.name());
                return Err(self.judge(Violation::stream(stream, Rule::ANSWER, text)));
            }
        };
        *phase = next;
        Ok(Some(*state))
    }

    /// Server: this side sends WAITING or BOUND for the stream. False, and nothing is to be sent, if the
    /// binder has closed it meanwhile.
    pub(crate) fn answer(&mut self, stream: StreamId, kind: Kind) -> bool {
        debug_assert!(matches!(kind, Kind::Waiting | Kind::Bound));
        let Some((phase, _)) = self.streams.get_mut(&stream) else { return false };
        *phase = if kind == Kind::Bound { Phase::Bound } else { Phase::Waiting };
        true
    }

    /// The stream is over: by a frame of either side, or by an error. What still comes of it is dropped.
    pub(crate) fn close(&mut self, stream: StreamId) -> Option<S> {
        self.streams.remove(&stream).map(|(_, state)| state)
    }

    /// The stream, if it is open.
    pub(crate) fn get(&self, stream: StreamId) -> Option<S> {
        self.streams.get(&stream).map(|(_, state)| *state)
    }

    /// Streams that are open.
    pub(crate) fn len(&self) -> usize {
        self.streams.len()
    }

    /// The connection is lost, or given up: everything that is open is over.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (StreamId, S)> {
        self.streams.drain().map(|(stream, (_, state))| (stream, state))
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// A frame of another epoch, or too late in its stream, was dropped.
    pub(crate) fn count_stale(&mut self) {
        self.counts.stale += 1;
    }

    /// Counts a violation that an end of a stream found. The connection is given up for one too many.
    pub(crate) fn judge(&mut self, mut violation: Violation) -> Violation {
        self.counts.violations += 1;
        if self.counts.violations > VIOLATIONS_MAX {
            violation.scope = Scope::Connection;
        }
        violation
    }
}

/// Spreads ids, which count from 0: whoever wanted them to collide would have to open streams in order to
/// get there.
#[derive(Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, id: u32) {
        // The golden ratio of 2^64: neighbours come far apart in the upper bits, too.
        self.0 = (self.0 ^ u64::from(id)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
