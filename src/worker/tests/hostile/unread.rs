//! Peers that stop: in the middle of a frame, or reading.

use super::peer::{Heard, Peer, bind, encoded};
use super::{PATIENCE, Victim, WAYS, partition, until};
use crate::subpartition::Phase;
use crate::wire::{Bind, Frame, StreamId, StreamPosition};
use std::time::Instant;

#[test]
fn half_a_frame_and_silence_disturbs_nobody() {
    for way in WAYS {
        let mut victim = Victim::new(way);
        let mut writer = partition(&victim.worker, 0);
        let (mut peer, _) = Peer::bound(victim.address(), 0, 1);
        let frame = encoded(&Frame::Bind(Bind { stream: StreamId(1), subpartition: 1, ..bind(0) }));
        peer.send(&frame[..5]);
        victim.assert_flows();
        peer.send(&frame[5..50]);
        victim.assert_flows();
        // What the worker has to say it says.
        writer.write_blocking(0, b"12345678").unwrap();
        assert_eq!(peer.hear(), Heard::Data(vec![(StreamId(0), 12)]));
        peer.send(&frame[50..]);
        assert!(matches!(peer.hear(), Heard::Bound(StreamId(1), _)));
        // And once more, for ever.
        peer.send(&frame[..50]);
        drop(writer);
        victim.end(0);
    }
}

/// It takes what the kernel takes, and then nothing: its streams stand still, and nobody else's.
#[test]
fn a_reader_that_never_reads_holds_up_nobody() {
    for way in WAYS {
        let mut victim = Victim::new(way);
        let mut writer = partition(&victim.worker, 0);
        let mut peer = Peer::connect(victim.address());
        let limit = StreamPosition::new(u64::MAX, u64::MAX);
        peer.say(&Frame::Bind(Bind { limit, ..bind(0) }));
        until("it is bound", || writer.snapshot().subpartitions[0].phase == Phase::Bound);
        let bytes = [7; 3000];
        let start = Instant::now();
        while writer.snapshot().subpartitions[0].account.lost.overflowed.records < 1000 {
            // Dropped by the policy as soon as nothing goes on.
            let _ = writer.write_blocking(0, &bytes).unwrap();
            assert!(start.elapsed() < PATIENCE);
        }
        victim.assert_flows();
        let subpartition = &writer.snapshot().subpartitions[0];
        assert!(subpartition.segments <= subpartition.segments_max, "{subpartition:?}");
        drop(writer);
        // The worker doesn't wait for it either.
        victim.end(0);
    }
}

/// Answers to who never reads them don't pile up: a frame of a hundred bytes asks for four thousand of them.
#[test]
fn questions_without_end_and_no_ear_for_answers_end_the_connection() {
    for way in WAYS {
        let mut victim = Victim::new(way);
        let writer = partition(&victim.worker, 0);
        let mut peer = Peer::connect(victim.address());
        // There are two subpartitions: all of these are refused in words.
        let question = |from: u32| {
            let stream = StreamId(from);
            encoded(&Frame::Bind(Bind { stream, subpartition: 2, count: 4096, ..bind(0) }))
        };
        let (mut asked, start) = (0_u32, Instant::now());
        while peer.send_some(&question(asked.wrapping_mul(4096))) {
            asked += 1;
            assert!(start.elapsed() < PATIENCE, "{asked} frames: {:?}", victim.net());
        }
        victim.until_counted(1, 1);
        victim.assert_flows();
        drop(writer);
        victim.end(1);
    }
}
