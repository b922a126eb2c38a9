//! The server's worker: subpartitions, and the connections that came in.

mod ends;

use super::pipe::next_frame;
use super::{Dice, Marks, mix};
use crate::error::{BindError, Cause};
use crate::event::PriorityEvent;
use crate::id::{Attempt, BindEpoch, Incarnation, WorkerId};
use crate::protocol::{Acked, Agreed, Host, Offer, Outgoing, Role, Scope, Session, Violation};
use crate::wire::*;
use std::collections::HashMap;

/// The unit with this number of a subpartition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Byte(u8),
    Barrier(u64),
    Application(usize),
    EndOfData,
    EndOfPartition,
}

pub(super) fn unit(subpartition: usize, number: u64, total: u64) -> Unit {
    if number + 2 >= total {
        return if number + 2 == total { Unit::EndOfData } else { Unit::EndOfPartition };
    }
    // Stretches of bytes and crowds of events.
    let bits = mix(number ^ (subpartition as u64) << 48);
    let crowded = (number / 300) % 3 == 2;
    match bits % 64 {
        0 => Unit::Barrier(number),
        1..40 if crowded => Unit::Barrier(number),
        40..44 if crowded => Unit::Application(1 + (bits >> 8) as usize % 2048),
        _ => Unit::Byte((bits >> 16) as u8),
    }
}

/// One subpartition, which outlives connections.
#[derive(Debug)]
pub(super) struct Sub {
    pub(super) total: u64,
    pub(super) written: u64,
    /// The next unit to send.
    taken: u64,
    epoch: u32,
    priority_written: u64,
    pub(super) served: Option<Served>,
    pub(super) is_done: bool,
}

/// The newest bind. It stays when its connection is lost.
#[derive(Debug)]
pub(super) struct Served {
    /// The connection, while it lasts, and the stream there.
    at: Option<(usize, StreamId)>,
    outgoing: Outgoing,
    /// The unit at position 0, and the priority event with sequence 0.
    pub(super) base: u64,
    pub(super) priority_base: u64,
    priority_next: u32,
    last_ack: Option<Ack>,
}

/// A connection that came in. Dropped when it is of no use.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) line: usize,
    received: Vec<u8>,
    pub(super) out: Vec<u8>,
    state: LinkState,
    asked: Vec<Asked>,
}

/// A bind that isn't answered.
#[derive(Clone, Copy, Debug)]
struct Asked {
    stream: StreamId,
    index: usize,
    bind: Bind,
    is_waiting: bool,
}

#[derive(Debug)]
enum LinkState {
    Shaking(Host),
    Open(Agreed, Session<usize>),
}

#[derive(Debug)]
pub(super) struct Producer {
    pub(super) subs: Vec<Sub>,
    pub(super) links: Vec<Link>,
    features: Features,
    incarnation: Incarnation,
    /// Of every bind there was.
    bases: HashMap<(usize, BindEpoch), (u64, u64)>,
}

impl Producer {
    pub(super) fn new(totals: &[u64], features: Features) -> Self {
        let sub = |total: &u64| Sub {
            total: *total,
            written: 0,
            taken: 0,
            epoch: 0,
            priority_written: 0,
            served: None,
            is_done: false,
        };
        let subs = totals.iter().map(sub).collect();
        Self { subs, links: Vec::new(), features, incarnation: Incarnation(77), bases: HashMap::new() }
    }

    pub(super) fn accept(&mut self, line: usize) {
        let offer = Offer { features: self.features, ..Offer::new(WorkerId(2), None, String::new()) };
        let state = LinkState::Shaking(Host::new(offer));
        self.links.push(Link { line, received: Vec::new(), out: Vec::new(), state, asked: Vec::new() });
    }

    /// The connection is lost, or given up.
    pub(super) fn lose(&mut self, line: usize) {
        self.links.retain(|link| link.line != line);
        for served in self.subs.iter_mut().filter_map(|sub| sub.served.as_mut()) {
            if served.at.is_some_and(|(at, _)| at == line) {
                served.at = None;
            }
        }
    }

    pub(super) fn write(&mut self, dice: &mut Dice) {
        for sub in &mut self.subs {
            sub.written = (sub.written + dice.below(400)).min(sub.total);
            sub.priority_written += u64::from(dice.once_in(5));
        }
    }

    /// Bytes came over `line`. False: the connection is to be closed, behind what there is to send.
    pub(super) fn on_bytes(&mut self, line: usize, bytes: &[u8], marks: &mut Marks) -> bool {
        let Some(at) = self.links.iter().position(|link| link.line == line) else { return false };
        self.links[at].received.extend(bytes);
        let mut link = self.links.remove(at);
        let result = self.read(&mut link, marks);
        self.links.insert(at, link);
        match result {
            Ok(()) => true,
            Err(violation) => {
                assert_eq!(violation.rule, Rule::CHECKSUM, "{violation}");
                marks.note("error for the connection");
                false
            }
        }
    }

    fn read(&mut self, link: &mut Link, marks: &mut Marks) -> Result<(), Violation> {
        if let LinkState::Shaking(host) = &mut link.state {
            while host.wants() > 0 && !link.received.is_empty() {
                let now: Vec<u8> = link.received.drain(..host.wants().min(link.received.len())).collect();
                let agreed =
                    host.on_bytes(&now, |_, endpoint| endpoint == 1, &mut link.out).expect("both fit");
                if let Some(agreed) = agreed {
                    let session = Session::new(Role::Binder, agreed.purpose);
                    link.state = LinkState::Open(agreed, session);
                    break;
                }
            }
        }
        let (limits, features) = match &link.state {
            LinkState::Open(agreed, _) => (agreed.limits(), agreed.features),
            LinkState::Shaking(_) => return Ok(()),
        };
        while let Some(bytes) = next_frame(&mut link.received, limits)? {
            let frame = decode(&bytes, features)?;
            match self.on_frame(link, &frame, marks) {
                Err(violation) => match violation.scope {
                    Scope::Stream(stream) => {
                        marks.note("error for a stream");
                        Frame::Error(violation.frame()).encode(&mut link.out, features);
                        self.end(link, stream);
                    }
                    Scope::Connection => return Err(violation),
                },
                Ok(()) => continue,
            }
        }
        Ok(())
    }

    fn on_frame(&mut self, link: &mut Link, frame: &Frame<'_>, marks: &mut Marks) -> Result<(), Violation> {
        let LinkState::Open(agreed, session) = &mut link.state else { unreachable!("it is open") };
        session.admit(frame.kind())?;
        let features = agreed.features;
        match frame {
            Frame::Bind(bind) => {
                session.on_bind(bind, |index| (bind.subpartition + index) as usize)?;
                if let Some(ended) = &bind.ended {
                    self.on_ended(link, bind, ended, marks);
                    return Ok(());
                }
                for index in 0..bind.count {
                    let stream = StreamId(bind.stream.0 + index);
                    let index = (bind.subpartition + index) as usize;
                    link.asked.push(Asked { stream, index, bind: *bind, is_waiting: false });
                }
            }
            Frame::Acks(acks) => {
                for ack in acks.iter() {
                    if let Err(violation) = self.on_ack(link, &ack, marks) {
                        marks.note("error for a stream");
                        Frame::Error(violation.frame()).encode(&mut link.out, features);
                        self.end(link, ack.stream);
                    }
                }
            }
            Frame::Close(close) => {
                let Some(index) = session.find(close.stream, Kind::Close)? else {
                    marks.note("dropped as unknown");
                    return Ok(());
                };
                let line = link.line;
                let sub = &mut self.subs[index];
                let served = sub.served.as_mut().filter(|served| served.at == Some((line, close.stream)));
                match served.map(|served| served.outgoing.on_close(close)) {
                    Some(Err(violation)) => return Err(session.judge(violation)),
                    Some(Ok(Acked::Stale)) => panic!("{close:?} is of its stream's one epoch"),
                    Some(Ok(Acked::Fresh(_))) => {
                        marks.note(if close.epoch == BindEpoch::NEVER { "taken back" } else { "closed" });
                    }
                    None => {
                        assert_eq!(close.epoch, BindEpoch::NEVER);
                        marks.note("taken back");
                    }
                }
                if !self.confirm(link, index, close.stream, marks) {
                    self.end(link, close.stream);
                }
            }
            Frame::Error(error) => {
                let stream = error.stream.expect("errors here are about streams");
                self.end(link, stream);
            }
            other => panic!("{other:?} is never sent"),
        }
        Ok(())
    }

    fn on_ack(&mut self, link: &mut Link, ack: &Ack, marks: &mut Marks) -> Result<(), Violation> {
        let LinkState::Open(_, session) = &mut link.state else { unreachable!("it is open") };
        let Some(index) = session.find(ack.stream, Kind::Ack)? else {
            marks.note("dropped as unknown");
            return Ok(());
        };
        let sub = &mut self.subs[index];
        let served = sub.served.as_mut().filter(|served| served.at == Some((link.line, ack.stream)));
        let served = served.expect("a stream that is open is the newest");
        match served.outgoing.on_ack(ack) {
            Err(violation) => Err(session.judge(violation)),
            Ok(Acked::Stale) => {
                session.count_stale();
                marks.note("dropped as stale");
                Ok(())
            }
            Ok(Acked::Fresh(_)) => {
                // The oracle of acknowledgements: nothing that was accepted takes anything back.
                if let Some(last) = served.last_ack.replace(*ack) {
                    assert!(last.limit.is_within(ack.limit) && last.received.is_within(ack.received));
                    assert!(last.consumed.position().is_within(ack.consumed.position()));
                }
                self.confirm(link, index, ack.stream, marks);
                Ok(())
            }
        }
    }

    /// A stream is over; its bind can't be resumed.
    fn end(&mut self, link: &mut Link, stream: StreamId) {
        let LinkState::Open(_, session) = &mut link.state else { return };
        link.asked.retain(|asked| asked.stream != stream);
        if let Some(index) = session.close(stream) {
            let sub = &mut self.subs[index];
            if sub.served.as_ref().is_some_and(|served| served.at == Some((link.line, stream))) {
                sub.served = None;
            }
        }
    }

    /// Says GONE to a stream that is bound.
    pub(super) fn fence(&mut self, index: usize) -> bool {
        let Some(served) = &self.subs[index].served else { return false };
        let Some((line, stream)) = served.at else { return false };
        let epoch = served.outgoing.epoch();
        self.say_gone(line, stream, epoch)
    }

    fn say_gone(&mut self, line: usize, stream: StreamId, epoch: BindEpoch) -> bool {
        let Some(at) = self.links.iter().position(|link| link.line == line) else { return false };
        let mut link = self.links.remove(at);
        if let LinkState::Open(agreed, _) = &link.state {
            let cause = Cause::Fenced { newer: Attempt(1) };
            Frame::Gone(Gone { stream, epoch, cause }).encode(&mut link.out, agreed.features);
        }
        self.end(&mut link, stream);
        self.links.insert(at, link);
        true
    }

    /// Answers binds that wait, each in its own time.
    pub(super) fn answer(&mut self, calm: bool, dice: &mut Dice, marks: &mut Marks) {
        for at in 0..self.links.len() {
            let asked = std::mem::take(&mut self.links[at].asked);
            for ask in asked {
                let link = &mut self.links[at];
                let stream = ask.stream;
                let LinkState::Open(agreed, session) = &mut link.state else { unreachable!("it asked") };
                let features = agreed.features;
                if self.subs[ask.index].is_done {
                    let error = BindError::Released { cause: Cause::Consumed };
                    Frame::Refused(Refused { stream, error }).encode(&mut link.out, features);
                    session.close(stream);
                    continue;
                }
                match dice.below(if calm { 3 } else { 6 }) {
                    0 | 1 => link.asked.push(ask),
                    3 if !ask.is_waiting => {
                        assert!(session.answer(stream, Kind::Waiting), "closed streams aren't answered");
                        Frame::Waiting(Waiting { stream }).encode(&mut link.out, features);
                        link.asked.push(Asked { is_waiting: true, ..ask });
                        marks.note("waiting");
                    }
                    4 => {
                        let error = BindError::TooManyWaiting { waiting: 1 };
                        Frame::Refused(Refused { stream, error }).encode(&mut link.out, features);
                        session.close(stream);
                        marks.note("refused");
                    }
                    _ => self.bind(at, &ask, dice, marks),
                }
            }
        }
    }

    fn bind(&mut self, at: usize, ask: &Asked, dice: &mut Dice, marks: &mut Marks) {
        let Asked { stream, index, bind, .. } = *ask;
        let sub = &mut self.subs[index];
        sub.epoch += 1;
        let epoch = BindEpoch(sub.epoch);
        let before = sub.served.take();
        let old = before.as_ref().and_then(|served| served.at.map(|at| (at, served.outgoing.epoch())));
        let resumed = bind.resume.filter(|_| !dice.once_in(5)).and_then(|resume| {
            let before = before.as_ref().filter(|_| resume.incarnation == self.incarnation)?;
            let outgoing = before.outgoing.resume(epoch, &resume)?;
            sub.taken = before.base + resume.at.bytes + resume.at.entries;
            Some(Served {
                at: None,
                outgoing,
                base: before.base,
                priority_base: before.priority_base,
                priority_next: resume.priority,
                last_ack: before.last_ack,
            })
        });
        marks.note(match (resumed.is_some(), bind.resume.is_some(), before.is_some()) {
            (true, ..) => "resumed",
            (false, true, _) => "resume declined",
            (false, false, false) => "bound anew",
            (false, false, true) => "bound again",
        });
        let is_resumed = resumed.is_some();
        let mut served = resumed.unwrap_or_else(|| {
            // Ends are never lost.
            sub.taken = sub.taken.min(sub.total - 2);
            let priority_base =
                before.map_or(0, |before| before.priority_base + u64::from(before.priority_next));
            Served {
                at: None,
                outgoing: Outgoing::new(epoch, bind.limit),
                base: sub.taken,
                priority_base,
                priority_next: 0,
                last_ack: None,
            }
        });
        self.bases.insert((index, epoch), (served.base, served.priority_base));
        let link = &mut self.links[at];
        served.at = Some((link.line, stream));
        sub.served = Some(served);
        let LinkState::Open(agreed, session) = &mut link.state else { unreachable!("it asked") };
        assert!(session.answer(stream, Kind::Bound), "closed streams aren't answered");
        let bound = Bound {
            stream,
            epoch,
            incarnation: self.incarnation,
            resumed: is_resumed,
            ended: false,
            ring_entries: 64,
            lost: [Amount::default(); LOSSES],
            in_doubt: Amount::default(),
            writer_lost: Amount::default(),
            barriers: crate::event::LostBarriers::default(),
        };
        Frame::Bound(bound).encode(&mut link.out, agreed.features);
        if let Some(((line, stream), epoch)) = old {
            // The stream before is over, wherever it was. Taken aside, so that it takes nothing along.
            let served = self.subs[index].served.take();
            self.say_gone(line, stream, epoch);
            self.subs[index].served = served;
        }
    }

    /// Where the bind of `epoch` began: the unit at position 0, and the first priority event.
    pub(super) fn base(&self, index: usize, epoch: BindEpoch) -> (u64, u64) {
        self.bases[&(index, epoch)]
    }

    /// Sends what there is and may be.
    pub(super) fn pump(&mut self, dice: &mut Dice, marks: &mut Marks) {
        for (index, sub) in self.subs.iter_mut().enumerate() {
            let Some(served) = sub.served.as_mut() else { continue };
            let Some((line, stream)) = served.at else { continue };
            let Some(link) = self.links.iter_mut().find(|link| link.line == line) else { continue };
            let LinkState::Open(agreed, _) = &link.state else { continue };
            let (features, epoch) = (agreed.features, served.outgoing.epoch());
            let waiting = sub.priority_written > served.priority_base + u64::from(served.priority_next);
            if waiting && served.outgoing.may_send_priority() && sub.taken < sub.total {
                let sequence = served.outgoing.send_priority();
                assert_eq!(sequence, served.priority_next);
                let number = served.priority_base + u64::from(sequence);
                let event = PriorityEvent::new(&number.to_le_bytes()).expect("not too long");
                Frame::Priority(PriorityFrame { stream, epoch, sequence, event })
                    .encode(&mut link.out, features);
                served.priority_next += 1;
                marks.note("priority");
            }
            let mut runs = Vec::new();
            let mut payload = Vec::new();
            for _ in 0..dice.below(6) {
                let most = served.outgoing.room().min(1 + dice.below(120));
                if most == 0 {
                    marks.note("no credit");
                }
                let is_byte = |number| match unit(index, number, sub.total) {
                    Unit::Byte(byte) if number < sub.written => Some(byte),
                    _ => None,
                };
                let from = payload.len();
                payload.extend((sub.taken..sub.taken + most).map_while(is_byte));
                let bytes = (payload.len() - from) as u64;
                if bytes == 0 {
                    break;
                }
                let position = served.outgoing.send(bytes);
                assert_eq!(served.base + position.bytes + position.entries, sub.taken);
                sub.taken += bytes;
                runs.push(Run { stream, epoch, position, bytes: bytes as u32, uniform: u32::MAX });
            }
            if !runs.is_empty() {
                let crc = features.has(Features::CRC);
                let mut pieces = std::iter::once(payload.as_slice());
                let pieces: &mut dyn Iterator<Item = &[u8]> = &mut pieces;
                encode_data(&mut link.out, &runs, crc.then_some(pieces));
                link.out.extend_from_slice(&payload);
            }
            for _ in 0..dice.below(24) {
                if sub.taken >= sub.written {
                    break;
                }
                if !served.outgoing.may_send_event() {
                    marks.note("no credit for events");
                    break;
                }
                let buffer = [0x5a; 2048];
                let event = match unit(index, sub.taken, sub.total) {
                    Unit::Byte(_) => break,
                    Unit::Barrier(id) => StreamEvent::Barrier(id),
                    Unit::Application(bytes) => StreamEvent::Application(&buffer[..bytes]),
                    Unit::EndOfData => StreamEvent::EndOfData,
                    Unit::EndOfPartition => StreamEvent::EndOfPartition,
                };
                let position = served.outgoing.send_entry(event.application_bytes());
                assert_eq!(served.base + position.bytes + position.entries, sub.taken);
                sub.taken += 1;
                Frame::Event(EventFrame { stream, epoch, position, event }).encode(&mut link.out, features);
            }
        }
    }
}
