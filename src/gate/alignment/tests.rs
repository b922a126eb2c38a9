//! Which barriers are told as broken, by what the channels bring.

use super::*;

/// Channels that all may bring something, unless it is said otherwise.
struct Channels {
    alignment: Alignment,
    standing: Vec<Standing>,
}

impl Channels {
    fn new(count: usize) -> Self {
        Self { alignment: Alignment::new(count), standing: vec![Standing::Awaited; count] }
    }

    /// What is told behind a barrier.
    fn barrier(&mut self, channel: usize, id: u64) -> Vec<(u64, u32)> {
        self.alignment.yielded(channel, id, |other| self.standing[other]);
        self.told()
    }

    fn away(&mut self, channel: usize) -> Vec<(u64, u32)> {
        self.standing[channel] = Standing::Away;
        self.alignment.away(channel);
        self.told()
    }

    fn bound(&mut self, channel: usize, passed: Option<u64>) -> Vec<(u64, u32)> {
        self.standing[channel] = Standing::Awaited;
        self.alignment.lost(channel, passed);
        self.told()
    }

    fn ended(&mut self, channel: usize) -> Vec<(u64, u32)> {
        self.standing[channel] = Standing::Ended;
        self.alignment.ended(channel);
        self.told()
    }

    fn told(&mut self) -> Vec<(u64, u32)> {
        let mut told: Vec<_> =
            std::iter::from_fn(|| self.alignment.next_notice()).map(|it| (it.barrier, it.channel)).collect();
        told.sort_unstable();
        told
    }
}

#[test]
fn what_comes_from_everywhere_is_never_told() {
    let mut channels = Channels::new(3);
    for id in 1..100 {
        for channel in [1, 0, 2] {
            assert_eq!(channels.barrier(channel, id), []);
            assert_eq!(channels.barrier(channel, id), [], "a second time means nothing");
        }
        assert!(channels.alignment.open.is_empty());
    }
    let mut alone = Channels::new(1);
    assert_eq!((alone.barrier(0, 5), alone.barrier(0, 9)), (vec![], vec![]));
}

#[test]
fn several_under_way_complete_in_order() {
    let mut channels = Channels::new(2);
    for id in 1..=5 {
        assert_eq!(channels.barrier(0, id), []);
    }
    for id in 1..=5 {
        assert_eq!(channels.alignment.open.len(), 6 - id as usize);
        assert_eq!(channels.barrier(1, id), []);
    }
    assert!(channels.alignment.open.is_empty());
}

#[test]
fn a_later_barrier_tells_of_those_left_out() {
    let mut channels = Channels::new(3);
    channels.barrier(0, 1);
    channels.barrier(0, 2);
    assert_eq!(channels.barrier(1, 3), [(1, 1), (2, 1)]);
    assert_eq!(channels.barrier(2, 2), [(1, 2)]);
    // What nobody else has brought when it is left out is told when somebody does.
    assert_eq!(channels.barrier(2, 5), [(3, 2)]);
    assert_eq!(channels.barrier(0, 4), [(3, 0), (4, 2)]);
    assert_eq!(channels.barrier(1, 4), []);
    assert_eq!((channels.barrier(0, 5), channels.barrier(1, 5)), (vec![], vec![]));
    assert!(channels.alignment.open.is_empty());
}

#[test]
fn an_outage_breaks_what_is_under_way_and_what_begins_meanwhile() {
    let mut channels = Channels::new(3);
    channels.barrier(0, 1);
    channels.barrier(1, 1);
    channels.barrier(0, 2);
    assert_eq!(channels.away(2), [(1, 2), (2, 2)]);
    assert_eq!(channels.away(2), [], "once");
    assert_eq!(channels.barrier(0, 3), [(3, 2)]);
    assert_eq!(channels.barrier(1, 3), [(2, 1)]);
    // Bound anew it counts again; a barrier that comes after all breaks nothing.
    assert_eq!(channels.bound(2, None), []);
    assert_eq!(channels.barrier(2, 3), []);
    assert_eq!(channels.barrier(0, 4), []);
    assert_eq!(channels.barrier(2, 4), []);
    assert_eq!(channels.barrier(1, 4), []);
    assert!(channels.alignment.open.is_empty());
}

#[test]
fn a_bind_says_what_it_will_not_bring() {
    let mut channels = Channels::new(2);
    channels.barrier(0, 7);
    channels.barrier(0, 8);
    assert_eq!(channels.bound(1, Some(7)), [(7, 1)]);
    assert_eq!(channels.barrier(1, 8), []);
    // The other way round: the channel is bound before the barrier comes from elsewhere.
    assert_eq!(channels.bound(1, Some(10)), []);
    assert_eq!(channels.barrier(0, 9), [(9, 1)]);
    assert_eq!(channels.barrier(0, 10), [(10, 1)]);
    assert_eq!((channels.barrier(1, 11), channels.barrier(0, 11)), (vec![], vec![]));
    assert!(channels.alignment.open.is_empty());
}

#[test]
fn nobody_waits_for_a_channel_that_has_ended() {
    let mut channels = Channels::new(3);
    channels.barrier(0, 1);
    assert_eq!(channels.ended(2), []);
    assert_eq!(channels.barrier(1, 1), []);
    assert!(channels.alignment.open.is_empty());
    assert_eq!((channels.barrier(0, 2), channels.barrier(1, 2)), (vec![], vec![]));
    assert!(channels.alignment.open.is_empty());
}

#[test]
fn barriers_that_nobody_aligns_take_no_memory_without_end() {
    let mut channels = Channels::new(2);
    for id in 1..=1000 {
        assert_eq!(channels.barrier(0, id), []);
        assert!(channels.alignment.open.len() <= OPEN_MAX);
    }
    let told: Vec<_> = (937..=1000).map(|id| (id, 1)).collect();
    assert_eq!(channels.away(1), told);
    assert_eq!(channels.bound(1, None), []);
    assert_eq!(channels.barrier(1, u64::MAX), []);
    assert_eq!(channels.barrier(0, u64::MAX), []);
}
