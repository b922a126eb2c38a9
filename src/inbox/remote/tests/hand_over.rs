//! What is rung for, what is held back, what is lent.

use super::*;

fn priority(value: u8) -> PriorityEvent {
    PriorityEvent::new(&[value]).unwrap()
}

#[test]
fn what_the_queue_does_not_take_is_held_in_order_and_put_together() {
    let bench = Bench::new();
    let (mut feeder, mut reader) = bench.reader(1 << 20, false);
    let mut admission = Admission::new(1 << 20);
    let small = encoded(&[1; 12]);
    for number in 0..2_000_u32 {
        if number == 1_000 {
            feeder.push(Delivery::Event(RemoteEvent::Barrier(1)));
        }
        feeder.push(data(&small));
    }
    // 1,936 small ones: 16 as they are, the rest by 8 KiB on both sides of the barrier.
    let merged = 1_936 * small.len() / (8 << 10);
    assert!(feeder.held() <= 16 + merged + 3, "{} are held", feeder.held());
    let mut got = Vec::new();
    while got.len() < 2_001 {
        match next(&mut reader, &mut admission) {
            Got::Empty => {
                assert!(bench.network_rung(), "dry, and something is held back");
                feeder.flush();
            }
            item => got.push(item),
        }
    }
    assert!(feeder.flush());
    assert_eq!(got[1_000], Got::Event(RemoteEvent::Barrier(1)));
    assert_eq!(got.iter().filter(|got| **got == Got::Record(vec![1; 12])).count(), 2_000);
    assert_eq!(next(&mut reader, &mut admission), Got::Empty);
}

#[test]
fn what_is_put_together_keeps_a_length_that_all_share() {
    let bench = Bench::new();
    let (mut feeder, end) = bench.channel(1 << 20);
    let mut end = end;
    for number in 0..QUEUE_LEN + 20 {
        let uniform = if number == QUEUE_LEN + 19 { 3 } else { 2 };
        let bytes = heap(&encoded(&vec![0; uniform as usize]));
        feeder.push(Delivery::Data { uniform, bytes });
    }
    let mut hints = Vec::new();
    loop {
        match end.pop() {
            Popped::Item(Delivery::Data { uniform, bytes }) => hints.push((uniform, bytes.len())),
            Popped::Empty if feeder.held() > 0 => {
                feeder.flush();
            }
            other => {
                assert!(matches!(other, Popped::Empty), "{other:?}");
                break;
            }
        }
    }
    assert_eq!(hints[..79], [(2, 6); 79]);
    assert_eq!(hints[79..], [(UNIFORM_NONE, 6 * 4 + 7)], "the last 5 in one, and not all alike");
}

#[test]
fn the_task_rings_for_a_quarter_of_the_window_for_room_and_when_it_runs_dry() {
    let bench = Bench::new();
    let (mut feeder, mut reader) = bench.reader(4_000, false);
    let mut admission = Admission::new(1 << 20);
    for _ in 0..10 {
        feeder.push(data(&encoded(&[0; 396])));
    }
    assert!(bench.task_rung());
    assert!(!bench.network_rung(), "nobody has read");
    for number in 1..=10 {
        assert!(matches!(next(&mut reader, &mut admission), Got::Record(_)));
        assert_eq!(bench.network_rung(), [3, 6, 9].contains(&number), "{number}: 1,200 bytes since the ring");
    }
    assert_eq!(feeder.progress().left, 4_000);
    assert_eq!(next(&mut reader, &mut admission), Got::Empty);
    assert!(bench.network_rung(), "dry");
    assert_eq!(feeder.progress().consumed.amount, Amount::new(10, 4_000));
    assert_eq!(next(&mut reader, &mut admission), Got::Empty);
    assert!(!bench.network_rung(), "nothing new to tell");

    // So large a window that only the room is worth a ring.
    let (mut feeder, mut reader) = bench.reader(1 << 30, false);
    for _ in 0..QUEUE_LEN + 1 {
        feeder.push(data(&encoded(&[0; 4])));
    }
    for number in 1..=QUEUE_LEN {
        assert!(matches!(next(&mut reader, &mut admission), Got::Record(_)));
        assert_eq!(bench.network_rung(), number % (QUEUE_LEN / 2) == 0, "{number}");
    }
}

#[test]
fn events_alone_make_room_too() {
    let bench = Bench::new();
    let (mut feeder, mut reader) = bench.reader(1 << 20, true);
    let mut admission = Admission::new(1 << 20);
    for number in 0..100 {
        feeder.push(Delivery::Event(RemoteEvent::Barrier(number)));
    }
    for number in 0..64 {
        assert_eq!(next(&mut reader, &mut admission), Got::Event(RemoteEvent::Barrier(number)));
    }
    assert_eq!(next(&mut reader, &mut admission), Got::Empty);
    assert!(bench.network_rung(), "nothing is acknowledged, and yet there is room");
    assert!(feeder.flush());
    assert_eq!(next(&mut reader, &mut admission), Got::Event(RemoteEvent::Barrier(64)));
}

#[test]
fn a_record_without_admission_leaves_nothing_untold() {
    let bench = Bench::new();
    let (mut feeder, mut reader) = bench.reader(1 << 20, false);
    let mut admission = Admission::new(64);
    let long = encoded(&[2; 1_000]);
    // The first half record may be as long as it likes: another channel's is in the way of this one.
    let (mut other_feeder, mut other) = bench.reader(1 << 20, false);
    other_feeder.push(data(&long[..100]));
    assert_eq!(next(&mut other, &mut admission), Got::Empty);
    feeder.push(data(&[&encoded(&[1; 8])[..], &long[..100]].concat()));
    assert_eq!(next(&mut reader, &mut admission), Got::Record(vec![1; 8]));
    bench.network_rung();
    assert_eq!(next(&mut reader, &mut admission), Got::NotAdmitted);
    // The task may sleep now, for what the producer sends when it knows that the first record is consumed.
    assert!(bench.network_rung());
    assert_eq!(feeder.progress().consumed.amount, Amount::new(1, 12));
}

#[test]
fn an_acknowledgement_rings_at_once() {
    let bench = Bench::new();
    let (mut feeder, mut reader) = bench.reader(1 << 20, true);
    let mut admission = Admission::new(1 << 20);
    feeder.push(data(&[encoded(b"one"), encoded(b"two")].concat()));
    feeder.push(Delivery::Event(RemoteEvent::EndOfPartition));
    assert_eq!(next(&mut reader, &mut admission), Got::Record(b"one".to_vec()));
    let one = reader.mark();
    assert_eq!(next(&mut reader, &mut admission), Got::Record(b"two".to_vec()));
    let two = reader.mark();
    assert_eq!(next(&mut reader, &mut admission), Got::Event(RemoteEvent::EndOfPartition));
    bench.network_rung();
    assert_eq!(feeder.progress().consumed, Consumed::default());
    assert_eq!(reader.acknowledge(two), Acked::Done { end: false });
    assert!(bench.network_rung());
    assert_eq!(feeder.progress().consumed.amount, Amount::new(2, 14));
    assert_eq!(reader.acknowledge(one), Acked::Ignored);
    assert_eq!(reader.acknowledge(reader.mark()), Acked::Done { end: true });
    assert!(bench.network_rung());
    assert_eq!(feeder.progress().consumed.entries, 1);
    assert_eq!(reader.acknowledge(reader.mark()), Acked::Ignored, "the end only once");
}

#[test]
fn priority_events_overtake_everything_but_the_end() {
    let bench = Bench::new();
    let (mut feeder, mut reader) = bench.reader(1 << 20, false);
    let mut admission = Admission::new(1 << 20);
    feeder.push(data(&encoded(b"half of it")[..6]));
    assert_eq!(next(&mut reader, &mut admission), Got::Empty);
    for value in 0..8 {
        assert!(feeder.push_priority(priority(value)));
    }
    assert!(!feeder.push_priority(priority(8)), "eight wait");
    assert!(bench.task_rung());
    bench.network_rung();
    feeder.push(data(&encoded(b"half of it")[6..]));
    assert!(reader.has_priority());
    for value in 0..8 {
        assert_eq!(next(&mut reader, &mut admission), Got::Priority(value));
        assert!(bench.network_rung(), "its place came free");
    }
    assert!(!reader.has_priority());
    assert_eq!(feeder.progress().priority, 8);
    assert_eq!(next(&mut reader, &mut admission), Got::Record(b"half of it".to_vec()));
    feeder.push(Delivery::Event(RemoteEvent::EndOfPartition));
    assert_eq!(next(&mut reader, &mut admission), Got::Event(RemoteEvent::EndOfPartition));
    assert!(feeder.push_priority(priority(9)));
    assert_eq!(next(&mut reader, &mut admission), Got::Empty);
    assert_eq!(reader.take_priority(), None);
}

#[test]
fn what_ends_a_channel_comes_behind_what_was_fed() {
    let bench = Bench::new();
    let mut admission = Admission::new(1 << 20);
    let lost = Over::Lost(Cause::Released);
    let (mut feeder, mut reader) = bench.reader(1 << 20, false);
    feeder.push(data(&[encoded(b"whole"), encoded(b"torn")[..6].to_vec()].concat()));
    feeder.push(Delivery::Over(lost.clone()));
    assert_eq!(next(&mut reader, &mut admission), Got::Record(b"whole".to_vec()));
    assert_eq!(next(&mut reader, &mut admission), Got::Over(lost));
    assert_eq!(reader.torn(), Amount::new(0, 6));
    assert_eq!(reader.received(), Amount::new(1, 15));
    assert_eq!(next(&mut reader, &mut admission), Got::Empty);
    reader.clear(&mut admission);

    let (mut feeder, mut reader) = bench.reader(1 << 20, false);
    feeder.push(data(&encoded(b"whole")));
    drop(feeder);
    assert_eq!(next(&mut reader, &mut admission), Got::Record(b"whole".to_vec()));
    assert_eq!(next(&mut reader, &mut admission), Got::Over(Over::Left));
}

#[test]
fn a_resumed_bind_goes_on_in_the_middle_of_a_record() {
    let bench = Bench::new();
    let (mut feeder, mut reader) = bench.reader(1 << 20, false);
    let mut admission = Admission::new(1 << 20);
    let bytes = encoded(b"one record");
    feeder.push(data(&bytes[..7]));
    assert_eq!(next(&mut reader, &mut admission), Got::Empty);
    let grant = RemoteGrant {
        epoch: BindEpoch(3),
        lost: Losses::default(),
        in_doubt: Amount::ZERO,
        writer_lost: Amount::ZERO,
        barriers: LostBarriers::default(),
        ended: false,
        resumed: true,
    };
    feeder.push(Delivery::Bound(Box::new(grant)));
    feeder.push(data(&bytes[7..]));
    assert_eq!(next(&mut reader, &mut admission), Got::Record(b"one record".to_vec()));
    assert_eq!(feeder.progress().left, bytes.len() as u64);
}

#[test]
fn a_task_that_goes_leaves_nothing_behind() {
    let bench = Bench::new();
    let mut buffers = Buffers::new(4);
    let (mut feeder, mut reader) = bench.reader(1 << 20, false);
    for _ in 0..2 {
        feeder.push(Delivery::Data { uniform: UNIFORM_NONE, bytes: buffers.lend(&encoded(b"x")) });
    }
    assert!(matches!(next(&mut reader, &mut Admission::new(0)), Got::Record(_)));
    assert_eq!(buffers.free(), 2);
    bench.network_rung();
    drop(reader);
    assert_eq!(buffers.free(), 4);
    assert!(bench.network_rung() && feeder.is_closed());
    let last = feeder.progress();
    assert_eq!(
        (last.yielded, last.consumed.amount),
        (Amount::new(1, 5), Amount::ZERO),
        "the last is in doubt"
    );
    feeder.push(Delivery::Data { uniform: UNIFORM_NONE, bytes: buffers.lend(b"too late") });
    assert_eq!((feeder.held(), buffers.free()), (0, 4));
    // Before it was bound, likewise.
    let (feeder, end) = bench.channel(1 << 20);
    drop(end);
    assert!(bench.network_rung() && feeder.is_closed());
}

#[test]
fn buffers_are_lent_within_half_of_the_window() {
    let bench = Bench::new();
    let mut buffers = Buffers::new(8);
    let mut admission = Admission::new(1 << 20);
    let long = encoded(&[5; 20_000]);
    let mut owned = |window: u64, bytes: &[u8], count: usize| {
        let (mut feeder, mut reader) = bench.reader(window, false);
        let mut all = Vec::new();
        for _ in 0..count {
            feeder.push(Delivery::Data { uniform: UNIFORM_NONE, bytes: buffers.lend(bytes) });
            assert!(matches!(next(&mut reader, &mut admission), Got::Record(_)));
            all.push(reader.current_owned());
        }
        let pinned = feeder.progress().pinned;
        bench.network_rung();
        drop(reader);
        bench.network_rung();
        let held = 8 - buffers.free();
        let payload = &bytes[4..];
        assert!(all.iter().all(|owned| owned[..] == payload[..owned.len()]));
        drop(all);
        assert_eq!(buffers.free(), 8);
        assert_eq!(bench.network_rung(), held > 0, "credit came back");
        assert_eq!(feeder.progress().pinned, 0);
        (pinned, held)
    };
    assert_eq!(owned(1 << 20, &long, 3), (2 * 20_004, 2), "two of three");
    assert_eq!(owned(2 * 20_004, &long, 3), (20_004, 1), "half of the window");
    assert_eq!(owned(20_004, &long, 1), (0, 0), "a window of less than two buffers lends none");
    assert_eq!(owned(1 << 20, &encoded(&[5; 1_000]), 1), (0, 0), "short ones are copied");
    let half = [long.clone(), encoded(&[5; 5_000])].concat();
    assert_eq!(owned(1 << 20, &half, 1), (25_008, 1), "the buffer is charged, not the payload");
    let less = [encoded(&[5; 5_000]), encoded(&[5; 6_000])].concat();
    assert_eq!(owned(1 << 20, &less, 1), (0, 0), "under half of its buffer");
}

#[test]
fn an_assembled_record_is_copied() {
    let bench = Bench::new();
    let (mut feeder, mut reader) = bench.reader(1 << 20, false);
    let mut admission = Admission::new(1 << 20);
    let bytes = encoded(&[9; 9_000]);
    feeder.push(data(&bytes[..3]));
    feeder.push(data(&bytes[3..]));
    assert_eq!(next(&mut reader, &mut admission), Got::Record(vec![9; 9_000]));
    let whole_in_its_chunk = reader.current_owned();
    assert_eq!(whole_in_its_chunk, vec![9; 9_000]);
    feeder.push(data(&bytes[..100]));
    feeder.push(data(&bytes[100..]));
    assert_eq!(next(&mut reader, &mut admission), Got::Record(vec![9; 9_000]));
    let pinned = feeder.progress().pinned;
    assert_eq!(reader.current_owned(), vec![9; 9_000]);
    assert_eq!(feeder.progress().pinned, pinned, "nothing more was lent");
}
