//! Both workers, the connections between them, and what goes wrong.

use super::consumer::{ChannelState, Consumer};
use super::pipe::{Line, frames};
use super::producer::Producer;
use super::{Dice, Marks};
use crate::id::BindEpoch;
use crate::wire::*;

const CALM_AFTER: u64 = 1_500;
const STEPS_MAX: u64 = 60_000;

#[derive(Debug)]
pub(super) struct World {
    dice: Dice,
    now: u64,
    due: Option<u64>,
    lines: Vec<Line>,
    features: Features,
    producer: Producer,
    consumer: Consumer,
    /// Frames of the connection there is that may come again later.
    kept: Option<Vec<u8>>,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let features = if dice.once_in(2) { Features::CRC } else { Features::NONE };
        let totals: Vec<u64> = (0..1 + dice.below(4)).map(|_| 1_000 + dice.below(4_000)).collect();
        let producer = Producer::new(&totals, features);
        let consumer = Consumer::new(totals.len(), features, &mut dice);
        Self { dice, now: 0, due: None, lines: Vec::new(), features, producer, consumer, kept: None }
    }

    pub(super) fn run(mut self, marks: &mut Marks) {
        for step in 0..STEPS_MAX {
            let calm = step > CALM_AFTER;
            self.step(calm, marks);
            // The oracle of ends: the server learns of each, whatever was cut, and says so.
            if calm && self.producer.subs.iter().all(|sub| sub.is_done) && self.consumer.is_done() {
                return;
            }
        }
        panic!("nothing goes on: {:#?} {:#?}", self.producer.subs, self.consumer.channels);
    }

    fn step(&mut self, calm: bool, marks: &mut Marks) {
        // Never past the moment at which an acknowledgement is due.
        let next = self.now + self.dice.below(200_000);
        self.now = self.due.map_or(next, |due| next.min(due.max(self.now)));
        self.connect(calm);
        self.deliver(marks);
        self.producer.write(&mut self.dice);
        self.producer.answer(calm, &mut self.dice, marks);
        if self.dice.once_in(2) {
            self.producer.pump(&mut self.dice, marks);
        }
        self.consumer.bind(&mut self.dice);
        self.consumer.take(&mut self.dice, marks);
        self.consumer.conclude(&mut self.dice, marks);
        self.due = self.consumer.acknowledge(self.now, &mut self.dice);
        if !calm {
            self.trouble(marks);
        }
        self.send(calm, marks);
    }

    fn connect(&mut self, calm: bool) {
        if self.consumer.link.is_none() && (calm || self.dice.once_in(10)) {
            let line = self.lines.len();
            self.lines.push(Line::default());
            self.consumer.dial(line);
            self.producer.accept(line);
            self.kept = None;
        }
    }

    fn deliver(&mut self, marks: &mut Marks) {
        for number in 0..self.lines.len() {
            let line = &mut self.lines[number];
            if line.cut {
                // Each side notices when it does.
                if !line.binder_gone && self.dice.once_in(10) {
                    line.binder_gone = true;
                    self.consumer.lose();
                }
                let line = &mut self.lines[number];
                if !line.server_gone && self.dice.once_in(30) {
                    line.server_gone = true;
                    self.producer.lose(number);
                }
                continue;
            }
            let (mut to_binder, mut to_server) = (Vec::new(), Vec::new());
            line.to_binder.receive(self.now, &mut to_binder, &mut self.dice);
            line.to_server.receive(self.now, &mut to_server, &mut self.dice);
            let good = self.consumer.on_bytes(&to_binder, self.now, &self.producer, marks)
                && self.producer.on_bytes(number, &to_server, marks);
            // Given up by one side, it is lost for the other.
            self.lines[number].cut = !good;
        }
    }

    fn trouble(&mut self, marks: &mut Marks) {
        let index = self.dice.below(self.producer.subs.len() as u64) as usize;
        if self.consumer.waits_for_confirmation()
            && self.dice.once_in(5)
            && let Some(link) = &self.consumer.link
        {
            self.lines[link.line].cut = true;
            marks.note("cut behind the end");
        }
        match self.dice.below(600) {
            0 | 1 => {
                if let Some(link) = &self.consumer.link {
                    self.lines[link.line].cut = true;
                    marks.note("cut");
                }
            }
            2 => self.consumer.close(index),
            3 => {
                self.producer.fence(index);
            }
            4..8 if matches!(self.consumer.channels[index].state, ChannelState::Asked(..)) => {
                self.consumer.close(index);
            }
            _ => {}
        }
    }

    /// What was said goes on its way: now and then a frame twice, changed, or of another time.
    fn send(&mut self, calm: bool, marks: &mut Marks) {
        if let Some(link) = &mut self.consumer.link {
            let out = std::mem::take(&mut link.out);
            let line = link.line;
            let out = if calm { out } else { self.disturb(out, marks) };
            self.lines[line].to_server.send(self.now, out, &mut self.dice);
        }
        let said: Vec<_> =
            self.producer.links.iter_mut().map(|link| (link.line, std::mem::take(&mut link.out))).collect();
        for (line, out) in said {
            let out = if calm { out } else { self.disturb(out, marks) };
            self.lines[line].to_binder.send(self.now, out, &mut self.dice);
        }
    }

    fn disturb(&mut self, out: Vec<u8>, marks: &mut Marks) -> Vec<u8> {
        let limits = Limits::Session { payload_bytes_max: PAYLOAD_BYTES_MAX };
        // Before the handshake is over there is nothing to disturb.
        if out.is_empty() || matches!(out[4], 1 | 2) {
            return out;
        }
        let mut sent = Vec::new();
        for frame in frames(out, limits, self.features) {
            let plain = decode(&frame, self.features).expect("our own");
            let mut after = Vec::new();
            match (&plain, self.dice.below(3_000)) {
                (Frame::Data(_) | Frame::Event(_) | Frame::Priority(_) | Frame::Acks(_), 0) => {
                    after.clone_from(&frame);
                    marks.note("repeated frame");
                }
                (Frame::Data(_) | Frame::Event(_) | Frame::Acks(_), 1..20) => {
                    after = self.of_another_epoch(&plain);
                    marks.note("stale frame");
                }
                (Frame::Acks(_), 20..30) => self.kept = Some(frame.clone()),
                (Frame::Acks(_), 30..200) => {
                    if let Some(kept) = self.kept.take() {
                        after = kept;
                        marks.note("late frame");
                    }
                }
                (_, 200..202) if self.features.has(Features::CRC) => {
                    // Anywhere behind the length: that would make the other side wait for more than comes.
                    let mut changed = frame.clone();
                    let at = 4 + self.dice.below(changed.len() as u64 - 4) as usize;
                    changed[at] ^= 1 << self.dice.below(8);
                    if decode(&changed, self.features).is_ok_and(|_| true) {
                        panic!("a changed bit went unnoticed");
                    }
                    // A kind or flag that isn't known is another rule's; here it is about the checksum.
                    if at >= HEADER_BYTES {
                        sent.extend(changed);
                        marks.note("changed bit");
                        return sent;
                    }
                }
                _ => {}
            }
            sent.extend(frame);
            sent.extend(after);
        }
        sent
    }

    /// The frame as another bind of the same stream would have sent it.
    fn of_another_epoch(&mut self, frame: &Frame<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        let other = |epoch: BindEpoch| BindEpoch(epoch.0 + 1_000);
        match frame {
            Frame::Data(runs) => {
                let bytes = {
                    let mut bytes = Vec::new();
                    frame.encode(&mut bytes, Features::NONE);
                    bytes
                };
                let Ok(Frame::Data(plain)) = decode(&bytes, Features::NONE) else { panic!("our own") };
                let payload: Vec<u8> = plain.iter().flat_map(|(_, range)| bytes[range].to_vec()).collect();
                let stale: Vec<Run> =
                    runs.iter().map(|(run, _)| Run { epoch: other(run.epoch), ..run }).collect();
                let mut pieces = std::iter::once(payload.as_slice());
                let pieces: &mut dyn Iterator<Item = &[u8]> = &mut pieces;
                encode_data(&mut out, &stale, self.features.has(Features::CRC).then_some(pieces));
                out.extend_from_slice(&payload);
            }
            Frame::Event(event) => {
                let stale = EventFrame { epoch: other(event.epoch), ..event.clone() };
                Frame::Event(stale).encode(&mut out, self.features);
            }
            Frame::Acks(acks) => {
                let stale: Vec<Ack> = acks.iter().map(|ack| Ack { epoch: other(ack.epoch), ..ack }).collect();
                encode_acks(&mut out, self.features, &stale);
            }
            _ => {}
        }
        out
    }
}
