//! What peers can make this worker log.

use super::rig::{Rig, bind};
use crate::sync::{AtomicU64, Ordering};
use crate::transport::fake::Plan;
use crate::wire::{ErrorFrame, Frame, Rule, StreamId};
use std::sync::Arc;
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Counts the lines that are logged, and those that they say were left out.
#[derive(Clone, Debug, Default)]
struct Log(Arc<(AtomicU64, AtomicU64)>);

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
        event.record(&mut self.clone());
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

impl Visit for Log {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "left_out" {
            self.0.1.fetch_add(value, Ordering::Relaxed);
        }
    }
    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

impl Log {
    fn of(run: impl FnOnce()) -> (u64, u64) {
        let log = Self::default();
        tracing::subscriber::with_default(log.clone(), run);
        (log.0.0.load(Ordering::Relaxed), log.0.1.load(Ordering::Relaxed))
    }
}

const MOMENT: Duration = Duration::from_millis(1);

#[test]
fn errors_that_a_peer_tells_fill_no_log() {
    let (lines, left_out) = Log::of(|| {
        let mut rig = Rig::new(Plan::calm());
        let connection = rig.connect(None);
        let error = ErrorFrame { rule: Rule::BODY, stream: Some(StreamId(0)), text: "so he says" };
        for _ in 0..10 {
            rig.say(connection, &[(); 1000].map(|()| Frame::Error(error)));
            rig.run(MOMENT);
        }
        rig.sleep(Duration::from_secs(2));
        rig.say(connection, &[Frame::Error(error)]);
        rig.run(MOMENT);
    });
    assert_eq!((lines, left_out), (5, 10_000 - 4), "lines, and lines left out");
}

/// What no line came behind is said at the end.
#[test]
fn what_was_left_out_is_said_when_the_thread_ends() {
    let (lines, left_out) = Log::of(|| {
        let mut rig = Rig::new(Plan::calm());
        let connection = rig.connect(None);
        let error = ErrorFrame { rule: Rule::BODY, stream: Some(StreamId(0)), text: "so he says" };
        rig.say(connection, &[(); 100].map(|()| Frame::Error(error)));
        rig.run(MOMENT);
    });
    assert_eq!((lines, left_out), (5, 100 - 4), "lines, and lines left out");
}

#[test]
fn binds_that_are_refused_fill_no_log() {
    let (lines, _) = Log::of(|| {
        let mut rig = Rig::new(Plan::calm());
        let _parts = rig.create(1, 1);
        let connection = rig.connect(None);
        // Of the 1,000 of each range there is one, and one attempt reads it.
        for round in 0..10 {
            rig.say(connection, &[Frame::Bind(bind(round * 1000, 1, 1000))]);
            rig.run(MOMENT);
        }
        for stream in 10_000..11_000 {
            let mut bind = bind(stream, 1, 1);
            bind.incarnation = crate::id::Incarnation(u64::from(stream));
            rig.say(connection, &[Frame::Bind(bind)]);
            rig.run(MOMENT / 20);
        }
    });
    assert!(lines <= 150, "{lines} lines");
}

#[test]
fn connections_that_come_and_go_fill_no_log() {
    let (lines, _) = Log::of(|| {
        let mut rig = Rig::new(Plan::calm());
        for _ in 0..1000 {
            let connection = rig.connect(None);
            // No frame: of a kind that isn't.
            rig.say_bytes(connection, vec![0, 0, 0, 0, 99, 0, 0, 0]);
            rig.run(Duration::from_micros(100));
        }
    });
    assert!(lines <= 160, "{lines} lines");
}
