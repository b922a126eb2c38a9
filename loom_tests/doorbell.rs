//! Models of `doorbell`: whoever rings is served after what it published, and no node is leaked.
//!
//! What is published is a relaxed word of the model: only the doorbell orders it.

use super::Model;
use crate::doorbell::{Doorbell, ReadyNode};
use crate::sync::{AtomicU32, Ordering, thread};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

pub(super) const MODELS: &[Model] = &[
    Model {
        name: "doorbell::server_sees_what_was_published_before_a_ring",
        edges: &["DOOR_E1", "DOOR_E2"],
        preemptions: Some(3),
        body: server_sees_what_was_published_before_a_ring,
    },
    Model {
        name: "doorbell::two_writers_wake_one_gate",
        edges: &["DOOR_E2"],
        preemptions: Some(3),
        body: two_writers_wake_one_gate,
    },
    Model {
        name: "doorbell::closed_bell_keeps_no_node",
        edges: &["DOOR_E2"],
        preemptions: None,
        body: closed_bell_keeps_no_node,
    },
    Model {
        name: "doorbell::quiet_server_is_rung_for_the_next_publication",
        edges: &["DOOR_F1"],
        preemptions: None,
        body: quiet_server_is_rung_for_the_next_publication,
    },
    Model {
        name: "doorbell::server_falls_quiet_a_second_time",
        edges: &["DOOR_F1"],
        preemptions: Some(2),
        body: server_falls_quiet_a_second_time,
    },
    Model {
        name: "doorbell::each_silence_is_rung_for_once",
        edges: &["DOOR_F1"],
        preemptions: Some(2),
        body: each_silence_is_rung_for_once,
    },
];

/// A count that is published, and the node that is rung for it.
struct Source {
    published: AtomicU32,
    node: Arc<ReadyNode>,
}

impl Source {
    fn new(bell: &Arc<Doorbell>, token: u32) -> Arc<Self> {
        Arc::new(Self { published: AtomicU32::new(0), node: ReadyNode::new(bell, token) })
    }

    fn publish(&self, count: u32) {
        // Relaxed: what the model is about.
        self.published.store(count, Ordering::Relaxed);
    }

    fn look(&self) -> u32 {
        self.published.load(Ordering::Relaxed) // Relaxed: as above
    }

    fn finish(self: Arc<Self>, bell: Arc<Doorbell>) {
        bell.close();
        assert_eq!(Arc::strong_count(&self.node), 1, "the list keeps a node");
        drop(self);
        assert_eq!(Arc::strong_count(&bell), 1, "a node keeps the bell");
    }
}

/// Serves like a network thread until every source's count is `count`.
fn serve(bell: &Doorbell, sources: &[&Source], count: u32) {
    let mut seen = vec![0; sources.len()];
    loom::future::block_on(poll_fn(|cx| {
        loop {
            bell.take_all(|node| {
                node.clear();
                let token = node.token() as usize;
                seen[token] = sources[token].look();
            });
            if seen.iter().all(|seen| *seen == count) {
                return Poll::Ready(());
            }
            if bell.may_sleep(cx.waker()) {
                return Poll::Pending;
            }
        }
    }));
}

/// Excluded: a ringer finds the node listed and goes; the server clears it, looks, and sees nothing. Or: it
/// finds the node clear and links it anew while the server still reads its link.
fn server_sees_what_was_published_before_a_ring() {
    let bell = Doorbell::new();
    let source = Source::new(&bell, 0);
    let ringer = thread::spawn({
        let source = Arc::clone(&source);
        move || {
            for count in 1..=2 {
                source.publish(count);
                source.node.ring();
            }
        }
    });
    serve(&bell, &[&source], 2);
    ringer.join().unwrap();
    source.finish(bell);
}

/// Excluded: one of two nodes falls out of the list, or the server sleeps while one is in it.
fn two_writers_wake_one_gate() {
    let bell = Doorbell::new();
    let sources = [0, 1].map(|token| Source::new(&bell, token));
    let ringers = [0, 1].map(|token: usize| {
        let source = Arc::clone(&sources[token]);
        thread::spawn(move || {
            source.publish(1);
            source.node.ring();
        })
    });
    serve(&bell, &[&sources[0], &sources[1]], 1);
    for ringer in ringers {
        ringer.join().unwrap();
    }
    let [first, second] = sources;
    drop(second);
    first.finish(bell);
}

/// Excluded: a node is pushed onto the list of a server that went away, and both keep each other alive.
fn closed_bell_keeps_no_node() {
    let bell = Doorbell::new();
    let sources = [0, 1].map(|token| Source::new(&bell, token));
    let ringers = [0, 1].map(|token: usize| {
        let source = Arc::clone(&sources[token]);
        thread::spawn(move || source.node.ring())
    });
    bell.close();
    for ringer in ringers {
        ringer.join().unwrap();
    }
    let [first, second] = sources;
    assert_eq!(Arc::strong_count(&second.node), 1);
    drop(second);
    first.finish(bell);
}

/// A publication that rings only when the server fell quiet.
fn publish_to_quiet(source: &Source, count: u32) {
    source.publish(count);
    if source.node.is_quiet_after_publish() {
        source.node.ring();
    }
}

/// A publication that rings once for each time that the server falls quiet.
fn publish_to_silence(source: &Source, count: u32, rung: &mut Option<u32>) {
    source.publish(count);
    if source.node.owes_ring(*rung) {
        *rung = source.node.silence();
        source.node.ring();
    }
}

/// A server that looks by itself, until it falls quiet.
fn serve_quietly(bell: &Doorbell, source: &Source, count: u32) {
    loom::future::block_on(poll_fn(|cx| {
        bell.take_all(|node| node.clear());
        if source.look() >= count {
            return Poll::Ready(());
        }
        source.node.fall_quiet();
        if source.look() >= count {
            return Poll::Ready(());
        }
        // Silent or not: who is told to go on looks again.
        if !bell.may_sleep(cx.waker()) {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }));
    source.node.stir();
}

/// Excluded: the server's last look misses the publication, and the writer's look misses that it was the
/// last.
fn quiet_server_is_rung_for_the_next_publication() {
    let bell = Doorbell::new();
    let source = Source::new(&bell, 0);
    let writer = thread::spawn({
        let source = Arc::clone(&source);
        move || publish_to_quiet(&source, 1)
    });
    serve_quietly(&bell, &source, 1);
    writer.join().unwrap();
    source.finish(bell);
}

/// Excluded: the same, where the server was quiet before and the writer may still read that.
fn server_falls_quiet_a_second_time() {
    let bell = Doorbell::new();
    let source = Source::new(&bell, 0);
    let writer = thread::spawn({
        let source = Arc::clone(&source);
        move || {
            publish_to_quiet(&source, 1);
            publish_to_quiet(&source, 2);
        }
    });
    serve_quietly(&bell, &source, 1);
    serve_quietly(&bell, &source, 2);
    writer.join().unwrap();
    source.finish(bell);
}

/// Excluded: a publication behind the ring for one silence is neither seen by the last look of the next, nor rung
/// for.
fn each_silence_is_rung_for_once() {
    let bell = Doorbell::new();
    let source = Source::new(&bell, 0);
    let writer = thread::spawn({
        let source = Arc::clone(&source);
        move || {
            let mut rung = None;
            publish_to_silence(&source, 1, &mut rung);
            publish_to_silence(&source, 2, &mut rung);
        }
    });
    serve_quietly(&bell, &source, 2);
    writer.join().unwrap();
    source.finish(bell);
}
