//! The binder's worker: channels, and the connection that it has.

mod channel;
mod ends;

use super::pipe::next_frame;
use super::producer::{Producer, Unit};
use super::{Dice, Marks};
use crate::clock::Moment;
use crate::error::{BindError, Cause};
use crate::id::{BindEpoch, WorkerId};
use crate::protocol::{
    ACK_DELAY, Agreed, Client, Incoming, Offer, Progress, Role, Scope, Session, Violation, withdrawal,
};
use crate::wire::*;
use std::collections::VecDeque;

/// The channel of one subpartition with its task.
#[derive(Debug)]
pub(super) struct Channel {
    window: u64,
    /// The task acknowledges for itself, and seldom.
    explicit: bool,
    /// The task does something else for so many steps, and the queue fills up.
    away: u64,
    pub(super) state: ChannelState,
    queue: VecDeque<Unit>,
    progress: Progress,
    /// Priority events that wait for the task.
    urgent: u32,
    /// The oracle: the unit and the priority event that come next.
    next: u64,
    next_priority: u64,
    /// Since when there is something received that isn't acknowledged.
    unsaid: Option<u64>,
}

#[derive(Debug)]
pub(super) enum ChannelState {
    /// To be bound when there is a connection; to be resumed, perhaps.
    Idle(Option<Box<Incoming>>),
    Asked(StreamId, Option<Box<Incoming>>),
    Bound(Box<Incoming>),
    /// Received to its end over a connection that is lost: the task has yet to take the rest.
    Whole(Box<Incoming>),
    /// The task has consumed the end, which has to be told by the next connection.
    ToTell(Ended),
    /// It was told, and isn't confirmed.
    Told(Ended),
    /// The server knows.
    Done,
}

#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) channels: Vec<Channel>,
    pub(super) link: Option<Link>,
    features: Features,
    bound_once: bool,
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) line: usize,
    received: Vec<u8>,
    pub(super) out: Vec<u8>,
    state: LinkState,
}

#[derive(Debug)]
enum LinkState {
    Shaking(Client),
    Open(Agreed, Session<usize>),
}

impl Consumer {
    pub(super) fn new(channels: usize, features: Features, dice: &mut Dice) -> Self {
        let channel = |_| Channel {
            window: [64, 200, 1000, 5000][dice.below(4) as usize],
            explicit: dice.once_in(3),
            away: 0,
            state: ChannelState::Idle(None),
            queue: VecDeque::new(),
            progress: Progress::default(),
            urgent: 0,
            next: 0,
            next_priority: 0,
            unsaid: None,
        };
        let channels = (0..channels).map(channel).collect();
        Self { channels, link: None, features, bound_once: false }
    }

    pub(super) fn dial(&mut self, line: usize) {
        let offer = Offer { features: self.features, ..Offer::new(WorkerId(1), None, String::new()) };
        let mut out = Vec::new();
        let state = LinkState::Shaking(Client::start(offer, Purpose::Data, 1, &mut out));
        self.link = Some(Link { line, received: Vec::new(), out, state });
    }

    /// The connection is lost or given up. Nothing of it is stored from here on.
    pub(super) fn lose(&mut self) {
        self.link = None;
        for channel in &mut self.channels {
            channel.unsaid = None;
            let state = std::mem::replace(&mut channel.state, ChannelState::Idle(None));
            channel.state = ChannelState::Idle(match state {
                ChannelState::Idle(resume) | ChannelState::Asked(_, resume) => resume,
                ChannelState::Bound(incoming) if incoming.is_whole() => {
                    channel.state = ChannelState::Whole(incoming);
                    continue;
                }
                ChannelState::Bound(mut incoming) => {
                    let _ = incoming.suspend();
                    Some(incoming)
                }
                ChannelState::Told(ended) => {
                    channel.state = ChannelState::ToTell(ended);
                    continue;
                }
                same @ (ChannelState::Whole(_) | ChannelState::ToTell(_) | ChannelState::Done) => {
                    channel.state = same;
                    continue;
                }
            });
        }
    }

    /// Asks for what isn't bound: all together the first time, then each by itself.
    pub(super) fn bind(&mut self, dice: &mut Dice) {
        let Some(Link { state: LinkState::Open(agreed, session), out, .. }) = &mut self.link else { return };
        if !self.bound_once {
            self.bound_once = true;
            let count = self.channels.len() as u32;
            let stream = session.open(count, |index| index as usize).expect("room");
            // Windows of one BIND are alike.
            let window = self.channels[0].window;
            let limit = Incoming::initial_limit(window);
            let bind = Bind { limit, ..super::super::bind(stream.0, count) };
            Frame::Bind(bind).encode(out, agreed.features);
            for (index, channel) in self.channels.iter_mut().enumerate() {
                channel.window = window;
                channel.state = ChannelState::Asked(StreamId(stream.0 + index as u32), None);
            }
        }
        for (index, channel) in self.channels.iter_mut().enumerate() {
            if let ChannelState::ToTell(ended) = channel.state {
                let stream = session.tell(index).expect("room");
                let subpartition = index as u32;
                let bind = Bind { ended: Some(ended), subpartition, ..super::super::bind(stream.0, 1) };
                Frame::Bind(bind).encode(out, agreed.features);
                channel.state = ChannelState::Told(ended);
                continue;
            }
            let ChannelState::Idle(incoming) = &mut channel.state else { continue };
            if !dice.once_in(3) {
                continue;
            }
            let incoming = incoming.take();
            let resume = incoming.clone().map(|mut incoming| incoming.suspend());
            let stream = session.open(1, |_| index).expect("room");
            let limit = Incoming::initial_limit(channel.window);
            let subpartition = index as u32;
            let bind = Bind { limit, resume, subpartition, ..super::super::bind(stream.0, 1) };
            Frame::Bind(bind).encode(out, agreed.features);
            channel.state = ChannelState::Asked(stream, incoming);
        }
    }

    /// The task of a channel goes, in order, and its successor comes.
    pub(super) fn close(&mut self, index: usize) {
        let Some(Link { state: LinkState::Open(agreed, session), out, .. }) = &mut self.link else { return };
        let channel = &mut self.channels[index];
        let (stream, close) = match &channel.state {
            // What was acknowledged stays so.
            ChannelState::Idle(_) | ChannelState::ToTell(_) | ChannelState::Told(..) | ChannelState::Done => {
                return;
            }
            ChannelState::Whole(_) => {
                channel.state = ChannelState::Idle(None);
                return;
            }
            ChannelState::Bound(incoming) if incoming.ended(channel.progress.consumed).is_some() => return,
            ChannelState::Asked(stream, _) => (*stream, withdrawal(*stream)),
            ChannelState::Bound(incoming) => {
                let left = channel.progress.left.bytes;
                let yielded = Amount { records: left, bytes: left };
                (incoming.stream(), incoming.closing(channel.progress.consumed, yielded))
            }
        };
        Frame::Close(close).encode(out, agreed.features);
        session.close(stream);
        channel.state = ChannelState::Idle(None);
        channel.unsaid = None;
    }

    pub(super) fn take(&mut self, dice: &mut Dice, marks: &mut Marks) {
        for channel in &mut self.channels {
            if dice.once_in(200) {
                channel.away = dice.below(150);
            }
            channel.away = channel.away.saturating_sub(1);
            if channel.away == 0 && dice.once_in(2) {
                channel.take(dice.below(2 * channel.window), dice, marks);
            }
        }
    }

    /// Sends what is due. Returns when the next look is due at the latest.
    pub(super) fn acknowledge(&mut self, now: u64, dice: &mut Dice) -> Option<u64> {
        let Some(Link { state: LinkState::Open(agreed, _), out, .. }) = &mut self.link else { return None };
        let mut acks = Vec::new();
        let mut due: Option<u64> = None;
        for channel in &mut self.channels {
            let ChannelState::Bound(incoming) = &mut channel.state else { continue };
            let force = dice.once_in(20);
            if let Some(ack) = incoming.acknowledgement(&channel.progress, Moment::from_nanos(now), force) {
                acks.push(ack);
                channel.unsaid = None;
            }
            if let Some(since) = channel.unsaid {
                let waited = u128::from(now - since);
                assert!(waited < ACK_DELAY.as_nanos(), "{waited} ns without an acknowledgement");
            }
            due = due.into_iter().chain(incoming.due_at().map(Moment::as_nanos)).min();
        }
        if !acks.is_empty() {
            encode_acks(out, agreed.features, &acks);
        }
        due
    }

    /// Bytes came. False: the connection is to be given up.
    pub(super) fn on_bytes(
        &mut self,
        bytes: &[u8],
        now: u64,
        producer: &Producer,
        marks: &mut Marks,
    ) -> bool {
        let Some(mut link) = self.link.take() else { return true };
        link.received.extend(bytes);
        let result = self.read(&mut link, now, producer, marks);
        self.link = Some(link);
        match result {
            Ok(()) => true,
            Err(violation) => {
                assert_eq!(violation.rule, Rule::CHECKSUM, "{violation}");
                marks.note("error for the connection");
                false
            }
        }
    }

    fn read(
        &mut self,
        link: &mut Link,
        now: u64,
        producer: &Producer,
        marks: &mut Marks,
    ) -> Result<(), Violation> {
        if let LinkState::Shaking(client) = &mut link.state {
            while client.wants() > 0 && !link.received.is_empty() {
                let some: Vec<u8> = link.received.drain(..client.wants().min(link.received.len())).collect();
                if let Some(agreed) = client.on_bytes(&some).expect("both fit") {
                    let session = Session::new(Role::Server, agreed.purpose);
                    link.state = LinkState::Open(agreed, session);
                    break;
                }
            }
        }
        let LinkState::Open(agreed, session) = &mut link.state else { return Ok(()) };
        let features = agreed.features;
        while let Some(bytes) = next_frame(&mut link.received, agreed.limits())? {
            let frame = decode(&bytes, features)?;
            session.admit(frame.kind())?;
            if let Frame::Data(runs) = &frame {
                for (run, range) in runs.iter() {
                    let result = self.on_run(session, &run, &bytes[range], now, producer, marks);
                    self.settle(session, result, features, &mut link.out, marks)?;
                }
            } else {
                let result = self.on_frame(session, &frame, now, producer, marks);
                self.settle(session, result, features, &mut link.out, marks)?;
            }
        }
        Ok(())
    }

    /// A violation of one stream ends that stream.
    fn settle(
        &mut self,
        session: &mut Session<usize>,
        result: Result<(), Violation>,
        features: Features,
        out: &mut Vec<u8>,
        marks: &mut Marks,
    ) -> Result<(), Violation> {
        let Err(violation) = result else { return Ok(()) };
        let Scope::Stream(stream) = violation.scope else { return Err(violation) };
        assert!(
            [Rule::POSITION, Rule::END, Rule::PRIORITY, Rule::ANSWER].contains(&violation.rule),
            "{violation}"
        );
        marks.note("error for a stream");
        Frame::Error(violation.frame()).encode(out, features);
        self.end(session, stream);
        Ok(())
    }

    /// The stream is over, and its bind can't be resumed.
    fn end(&mut self, session: &mut Session<usize>, stream: StreamId) {
        if let Some(index) = session.close(stream) {
            self.channels[index].state = ChannelState::Idle(None);
            self.channels[index].unsaid = None;
        }
    }

    fn bound(
        &mut self,
        session: &mut Session<usize>,
        stream: StreamId,
        kind: Kind,
        marks: &mut Marks,
    ) -> Result<Option<usize>, Violation> {
        let found = session.find(stream, kind)?;
        if found.is_none() {
            marks.note("dropped as unknown");
        }
        Ok(found)
    }

    fn on_run(
        &mut self,
        session: &mut Session<usize>,
        run: &Run,
        payload: &[u8],
        now: u64,
        producer: &Producer,
        marks: &mut Marks,
    ) -> Result<(), Violation> {
        let Some(index) = self.bound(session, run.stream, Kind::Data, marks)? else { return Ok(()) };
        let channel = &mut self.channels[index];
        let Some(incoming) = channel.incoming() else { return Ok(()) };
        match incoming.on_run(run).map_err(|violation| session.judge(violation))? {
            crate::protocol::Accept::Fresh => {
                let units = payload.iter().map(|byte| Unit::Byte(*byte));
                channel.store(index, producer.subs[index].total, units, now);
            }
            crate::protocol::Accept::Dropped => {
                session.count_stale();
                marks.note("dropped as stale");
            }
        }
        Ok(())
    }

    fn on_frame(
        &mut self,
        session: &mut Session<usize>,
        frame: &Frame<'_>,
        now: u64,
        producer: &Producer,
        marks: &mut Marks,
    ) -> Result<(), Violation> {
        use crate::protocol::Accept;
        match frame {
            Frame::Waiting(waiting) => {
                let _ = self.bound(session, waiting.stream, Kind::Waiting, marks)?;
            }
            Frame::Refused(refused) => {
                let Some(index) = self.bound(session, refused.stream, Kind::Refused, marks)? else {
                    return Ok(());
                };
                session.close(refused.stream);
                let is_known = refused.error == BindError::Released { cause: Cause::Consumed };
                let state = std::mem::replace(&mut self.channels[index].state, ChannelState::Idle(None));
                self.channels[index].state = match state {
                    _ if is_known => {
                        assert!(producer.subs[index].is_done);
                        ChannelState::Done
                    }
                    ChannelState::Asked(_, resume) => ChannelState::Idle(resume),
                    // Another bind came later, which is this one's successor.
                    ChannelState::Told(..) => ChannelState::Idle(None),
                    other => panic!("{other:?} is refused"),
                };
            }
            Frame::Bound(bound) => {
                let Some(index) = self.bound(session, bound.stream, Kind::Bound, marks)? else {
                    return Ok(());
                };
                self.on_bound(index, bound, producer);
            }
            Frame::Event(event) => {
                let Some(index) = self.bound(session, event.stream, Kind::Event, marks)? else {
                    return Ok(());
                };
                let channel = &mut self.channels[index];
                let Some(incoming) = channel.incoming() else { return Ok(()) };
                if incoming.on_event(event).map_err(|violation| session.judge(violation))? == Accept::Dropped
                {
                    session.count_stale();
                    marks.note("dropped as stale");
                    return Ok(());
                }
                let came = match &event.event {
                    StreamEvent::Barrier(id) => Unit::Barrier(*id),
                    StreamEvent::Application(bytes) => Unit::Application(bytes.len()),
                    StreamEvent::EndOfData => Unit::EndOfData,
                    StreamEvent::EndOfPartition => Unit::EndOfPartition,
                    other => panic!("{other:?} is never sent"),
                };
                channel.store(index, producer.subs[index].total, std::iter::once(came), now);
            }
            Frame::Priority(priority) => {
                let Some(index) = self.bound(session, priority.stream, Kind::Priority, marks)? else {
                    return Ok(());
                };
                let channel = &mut self.channels[index];
                let Some(incoming) = channel.incoming() else { return Ok(()) };
                if incoming.on_priority(priority).map_err(|violation| session.judge(violation))?
                    == Accept::Dropped
                {
                    session.count_stale();
                    return Ok(());
                }
                assert_eq!(priority.event.as_bytes(), channel.next_priority.to_le_bytes());
                channel.next_priority += 1;
                channel.urgent += 1;
                assert!(channel.urgent <= 8, "{} priority events wait", channel.urgent);
            }
            Frame::Gone(gone) => {
                let Some(index) = self.bound(session, gone.stream, Kind::Gone, marks)? else { return Ok(()) };
                let epoch = match &self.channels[index].state {
                    ChannelState::Bound(incoming) => incoming.epoch(),
                    ChannelState::Told(ended) => ended.epoch,
                    other => panic!("the session has it open: {other:?}"),
                };
                assert_eq!(epoch, gone.epoch);
                self.end(session, gone.stream);
                if gone.cause == Cause::Consumed {
                    // The oracle of ends: who isn't told again has been heard.
                    assert!(producer.subs[index].is_done);
                    self.channels[index].state = ChannelState::Done;
                    marks.note("end confirmed");
                } else {
                    marks.note("gone");
                }
            }
            Frame::Error(error) => self.end(session, error.stream.expect("errors here are about streams")),
            other => panic!("{other:?} is never sent"),
        }
        Ok(())
    }

    fn on_bound(&mut self, index: usize, bound: &Bound, producer: &Producer) {
        let channel = &mut self.channels[index];
        let state = std::mem::replace(&mut channel.state, ChannelState::Idle(None));
        let ChannelState::Asked(_, before) = state else { panic!("{state:?} is bound") };
        assert_ne!(bound.epoch, BindEpoch::NEVER);
        let base = producer.base(index, bound.epoch);
        let incoming = match before.filter(|_| bound.resumed) {
            Some(mut incoming) => {
                incoming.resumed(bound).expect("as asked");
                let at = incoming.received();
                // Exactly at the next one: what comes first is held against it.
                assert_eq!(base.0 + at.bytes + at.entries, channel.next);
                incoming
            }
            None => {
                channel.start(base.0, base.1);
                Box::new(Incoming::new(bound, channel.window).expect("it starts anew"))
            }
        };
        channel.state = ChannelState::Bound(incoming);
    }
}
