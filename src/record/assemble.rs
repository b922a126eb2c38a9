//! Records out of taken ranges: by borrow where they lie whole, else put together on the heap.
//!
//! An [`Assembler`] serves one channel, an [`Admission`] all channels of one gate. What holds:
//!
//! - **Bounded before it is paid.** A length is compared with `record_bytes_max`, and a half record
//!   admitted by its whole length, before its first byte is copied. The buffer grows with what arrives, at
//!   most doubling: a length alone costs nothing.
//! - **No two halves wait for each other.** Were halves admitted by what they hold, two at half the bound
//!   would both need more and neither would finish. Admitted by their whole lengths, each admitted one can
//!   finish whatever the others do, and what it gives back lets the next one in. One is always admitted
//!   when nothing else is, or a record over the bound would never come. A paused channel could sit on its
//!   admission for ever: it gives it back ([`Assembler::set_aside`]) and is admitted anew when it goes on.
//! - **No half is passed over for ever.** The first one refused is the next one admitted: until then no
//!   other is, so that a long one isn't starved by short ones that keep fitting in.
//! - **Heap of a gate**: admitted lengths (`half_bytes_max`, or one longer record) and buffers kept for the
//!   next half record (64 KiB a channel, `half_bytes_max` together), and what paused channels set aside.

#[cfg(all(test, not(loom)))]
mod tests;

use super::{
    layout::{LENGTH_BYTES, PAYLOAD_BYTES_LIMIT, RecordLayout},
    walk::EntryFacts,
};

/// A buffer up to this many bytes is kept for the channel's next half record.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// The memory account of a gate's half records. Each assembler of the gate is always called with the same
/// one.
#[derive(Debug)]
pub(crate) struct Admission {
    half_bytes_max: u64,
    /// Whole lengths of the half records admitted and not given back.
    admitted: u64,
    /// An assembler was refused and is the next to be admitted.
    has_next: bool,
    /// How often something was given back, or the next one admitted.
    eased: u64,
    /// Capacity of the buffers that assemblers keep beyond what is admitted.
    kept: u64,
}

impl Admission {
    pub(crate) const fn new(half_bytes_max: u64) -> Self {
        Self { half_bytes_max, admitted: 0, has_next: false, eased: 0, kept: 0 }
    }

    /// Grows whenever those that were refused are worth another look. (What is admitted can't tell: it may
    /// fall and rise again between two looks, and the next one's step back doesn't change it.)
    pub(crate) const fn eased(&self) -> u64 {
        self.eased
    }

    /// Bytes admitted now.
    #[cfg(test)]
    #[cfg(all(test, not(loom)))]
    pub(crate) const fn admitted_bytes(&self) -> u64 {
        self.admitted
    }

    /// `is_next`: whether the asking assembler is the one that was refused first; kept up to date.
    fn admit(&mut self, bytes: usize, is_next: &mut bool) -> bool {
        let sum = self.admitted.saturating_add(bytes as u64);
        let fits = self.admitted == 0 || sum <= self.half_bytes_max;
        if fits && (*is_next || !self.has_next) {
            self.admitted = sum;
            self.step_back(is_next);
            return true;
        }
        if !self.has_next {
            self.has_next = true;
            *is_next = true;
        }
        false
    }

    /// The assembler that is next asks no more, or has got what it asked for.
    fn step_back(&mut self, is_next: &mut bool) {
        if std::mem::take(is_next) {
            self.has_next = false;
            self.eased += 1;
        }
    }

    fn give_back(&mut self, bytes: usize) {
        debug_assert!(bytes as u64 <= self.admitted, "a half record of another gate");
        self.admitted = self.admitted.saturating_sub(bytes as u64);
        self.eased += 1;
    }

    /// Whether an assembler that keeps `held` bytes may keep `wanted` from now on.
    fn keep(&mut self, held: usize, wanted: usize) -> bool {
        let kept = self.kept.saturating_sub(held as u64).saturating_add(wanted as u64);
        let granted = wanted <= KEPT_BYTES_MAX && kept <= self.half_bytes_max;
        if granted {
            self.kept = kept;
        }
        granted
    }
}

/// Why a record isn't assembled. Nothing of it was copied and `at` stands where it stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The length is over the limit: the stream is broken, or was written under another limit.
    TooLong { bytes: usize, max: usize },
    /// The gate's bound is used up by other half records: try again when one of them is given back.
    NotAdmitted { bytes: usize },
}

/// One step of [`Assembler::next`].
#[cfg(all(test, not(loom)))]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    /// The payload of one record, without its prefix.
    Record(&'a [u8]),
    /// The range is used up; what it held of a record that goes on is kept.
    More,
    Refused(Refused),
}

/// One step of [`Assembler::advance`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'r> {
    /// The payload lies in the range and ends at the new `at`.
    InRange(&'r [u8]),
    /// The payload ran over ranges and is [`Assembler::assembled`].
    Assembled,
    /// The range is used up; what it held of a record that goes on is kept.
    More,
    Refused(Refused),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// At a record start.
    Idle,
    /// In a length prefix: `prefix[..prefix_held]` is there.
    Prefix,
    /// In a payload of `whole` bytes; `payload` holds what came of it.
    Half,
    /// `payload` is a whole record, lent out until the next call.
    Complete,
}

/// Turns the ranges of one channel into records, holding at most one half record.
///
/// It must be [cleared](Self::clear) before it is dropped while its gate lives on, or what it was granted
/// stays granted.
#[derive(Debug)]
pub(crate) struct Assembler {
    record_bytes_max: usize,
    state: State,
    prefix: [u8; LENGTH_BYTES],
    /// Bytes of the prefix that came with the half record; 0 at a record start and under `Fixed`.
    prefix_held: u8,
    /// `whole` is counted in `Admission::admitted`.
    is_admitted: bool,
    /// `Admission::has_next` stands for this assembler.
    is_next: bool,
    whole: usize,
    /// The part of the buffer's capacity that is counted in `Admission::kept`. The capacity is never over
    /// the larger of it and `whole`.
    kept: usize,
    payload: Vec<u8>,
}

impl Assembler {
    /// Records with payloads over `record_bytes_max` bytes are refused.
    pub(crate) fn new(record_bytes_max: usize) -> Self {
        Self {
            record_bytes_max: record_bytes_max.min(PAYLOAD_BYTES_LIMIT),
            state: State::Idle,
            prefix: [0; LENGTH_BYTES],
            prefix_held: 0,
            is_admitted: false,
            is_next: false,
            whole: 0,
            kept: 0,
            payload: Vec::new(),
        }
    }

    /// The next record of `range` from `*at` on, and `*at` moved behind it.
    ///
    /// `range` is the next piece of the stream, of the entry that `facts` describe: it starts at a record
    /// or goes on with the half record held here. A payload that ran over ranges is valid until the next
    /// call, which gives its admission back ([`settle`](Self::settle) does so at once).
    #[inline]
    #[cfg(all(test, not(loom)))]
    pub(crate) fn next<'a>(
        &'a mut self,
        facts: &EntryFacts,
        range: &'a [u8],
        at: &mut usize,
        admission: &mut Admission,
    ) -> Step<'a> {
        match self.advance(facts, range, at, admission) {
            Found::InRange(payload) => Step::Record(payload),
            Found::Assembled => Step::Record(&self.payload),
            Found::More => Step::More,
            Found::Refused(refused) => Step::Refused(refused),
        }
    }

    /// The next record of `range` from `*at` on, and `*at` moved behind it, without borrowing the assembler
    /// for the result: a caller loops over ranges until it has a record to return.
    ///
    /// `range` is the next piece of the stream, of the entry that `facts` describe: it starts at a record
    /// or goes on with the half record held here.
    #[inline]
    pub(crate) fn advance<'r>(
        &mut self,
        facts: &EntryFacts,
        range: &'r [u8],
        at: &mut usize,
        admission: &mut Admission,
    ) -> Found<'r> {
        let Some(rest) = range.get(*at..) else {
            return Found::More;
        };
        // `at` goes to the slow path by value: a caller's loop then has it in a register.
        let (used, found) = match self.whole_record(facts, rest) {
            Some(payload) => (facts.layout.prefix_bytes() + payload.len(), Found::InRange(payload)),
            None => self.advance_slow(facts.layout, rest, admission),
        };
        *at += used;
        found
    }

    /// The payload that the last [`advance`](Self::advance) answered with [`Found::Assembled`].
    #[inline]
    pub(crate) fn assembled(&self) -> &[u8] {
        debug_assert_eq!(self.state, State::Complete);
        &self.payload
    }

    /// Gives back the admission of a completed record that the reader is done with. For a gate that
    /// turns to its other channels first, which may wait for just this.
    #[inline]
    pub(crate) fn settle(&mut self, admission: &mut Admission) {
        if self.state == State::Complete {
            self.put_down(admission);
        }
    }

    /// Gives back the admission of a half record whose channel is paused. The bytes stay; the record is
    /// admitted anew, or refused, when the channel goes on.
    pub(crate) fn set_aside(&mut self, admission: &mut Admission) {
        self.settle(admission);
        admission.step_back(&mut self.is_next);
        if std::mem::take(&mut self.is_admitted) {
            admission.give_back(self.whole);
        }
    }

    /// Drops the half record (after an ABORT, at a rebind) with all that is held for it, and says how many
    /// encoded bytes of it had come, prefix included.
    pub(crate) fn clear(&mut self, admission: &mut Admission) -> u32 {
        let dropped = self.pending_bytes();
        self.put_down(admission);
        self.payload = Vec::new();
        admission.keep(std::mem::take(&mut self.kept), 0);
        // A record is at most `PAYLOAD_BYTES_LIMIT` and its prefix: that fits in 32 bits.
        dropped as u32
    }

    /// Encoded bytes held of a record that isn't complete, prefix included.
    pub(crate) fn pending_bytes(&self) -> usize {
        if self.is_mid_record() { usize::from(self.prefix_held) + self.payload.len() } else { 0 }
    }

    /// Whether nothing is held: the next byte of the stream begins a record.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.state == State::Idle
    }

    /// The longest payload that isn't refused.
    pub(crate) fn record_bytes_max(&self) -> usize {
        self.record_bytes_max
    }

    /// Whether the next byte of the stream goes on with a record.
    #[inline]
    pub(crate) fn is_mid_record(&self) -> bool {
        matches!(self.state, State::Prefix | State::Half)
    }

    /// The record at the begin of `rest` if it lies there to its end: the path of nearly all of them.
    ///
    /// With equal lengths the prefix isn't looked at, which breaks the chain from one length to the next.
    #[inline]
    pub(crate) fn whole_record<'r>(&self, facts: &EntryFacts, rest: &'r [u8]) -> Option<&'r [u8]> {
        if self.state != State::Idle {
            return None;
        }
        let payload = match facts.equal_payload() {
            Some(payload) => payload,
            None => facts.layout.payload_of_prefix(rest)? as usize,
        };
        if payload > self.record_bytes_max {
            return None;
        }
        rest.get(facts.layout.prefix_bytes()..)?.get(..payload)
    }

    /// All but a whole record seen from a record start: the end of a range, a half record, a refusal.
    /// Says how many bytes of `rest` it used.
    #[cold]
    #[inline(never)]
    fn advance_slow<'r>(
        &mut self,
        layout: RecordLayout,
        rest: &'r [u8],
        admission: &mut Admission,
    ) -> (usize, Found<'r>) {
        self.settle(admission);
        if rest.is_empty() {
            return (0, Found::More);
        }
        if self.state != State::Half {
            return self.begin(layout, rest, admission);
        }
        if !self.is_admitted {
            if !admission.admit(self.whole, &mut self.is_next) {
                return (0, Found::Refused(Refused::NotAdmitted { bytes: self.whole }));
            }
            self.is_admitted = true;
        }
        self.append(rest)
    }

    /// At a record start or inside a prefix, which our writer never splits but a transport may.
    fn begin<'r>(
        &mut self,
        layout: RecordLayout,
        rest: &'r [u8],
        admission: &mut Admission,
    ) -> (usize, Found<'r>) {
        let held = usize::from(self.prefix_held);
        let come = rest.len().min(layout.prefix_bytes() - held);
        let (prefix_rest, body) = rest.split_at(come);
        let mut prefix = self.prefix;
        prefix[held..held + come].copy_from_slice(prefix_rest);
        let Some(payload) = layout.payload_of_prefix(&prefix[..held + come]) else {
            self.prefix = prefix;
            self.prefix_held += come as u8;
            self.state = State::Prefix;
            return (come, Found::More);
        };
        let payload = payload as usize;
        if payload > self.record_bytes_max {
            return (0, Found::Refused(Refused::TooLong { bytes: payload, max: self.record_bytes_max }));
        }
        if let Some(body) = body.get(..payload) {
            admission.step_back(&mut self.is_next);
            self.state = State::Idle;
            self.prefix_held = 0;
            return (come + payload, Found::InRange(body));
        }
        if !admission.admit(payload, &mut self.is_next) {
            return (0, Found::Refused(Refused::NotAdmitted { bytes: payload }));
        }
        self.state = State::Half;
        self.prefix_held = layout.prefix_bytes() as u8;
        self.is_admitted = true;
        self.whole = payload;
        let (appended, found) = self.append(body);
        (come + appended, found)
    }

    /// Copies what `rest` has of the half record.
    fn append<'r>(&mut self, rest: &[u8]) -> (usize, Found<'r>) {
        let held = self.payload.len();
        let come = rest.len().min(self.whole - held);
        if held + come > self.payload.capacity() {
            let capacity = (held + come).max(self.payload.capacity() * 2).min(self.whole);
            self.payload.reserve_exact(capacity - held);
        }
        self.payload.extend_from_slice(&rest[..come]);
        if self.payload.len() < self.whole {
            return (come, Found::More);
        }
        self.state = State::Complete;
        (come, Found::Assembled)
    }

    /// Back to a record start, with the buffer kept if it may be.
    fn put_down(&mut self, admission: &mut Admission) {
        admission.step_back(&mut self.is_next);
        if std::mem::take(&mut self.is_admitted) {
            admission.give_back(self.whole);
        }
        self.state = State::Idle;
        self.prefix_held = 0;
        self.whole = 0;
        self.payload.clear();
        let capacity = self.payload.capacity();
        if admission.keep(self.kept, capacity) {
            self.kept = capacity;
        } else {
            self.payload = Vec::new();
            admission.keep(std::mem::take(&mut self.kept), 0);
        }
    }
}
