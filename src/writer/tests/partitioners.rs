//! Partition functions: in range, spread, and the same for ever.

use super::*;

#[test]
fn round_robin_goes_round() {
    let mut partitioner = RoundRobin::default();
    let targets: Vec<_> = (0..7).map(|_| partitioner.target(b"", 3)).collect();
    assert_eq!(targets, [0, 1, 2, 0, 1, 2, 0]);
    let mut partitioner = RoundRobin::starting_at(2);
    let targets: Vec<_> = (0..4).map(|_| partitioner.target(b"", 3)).collect();
    assert_eq!(targets, [2, 0, 1, 2]);
    assert_eq!(RoundRobin::starting_at(u32::MAX).target(b"", 3), 0);
}

#[test]
fn hash_is_pinned() {
    // Never to be changed: attempts that were built from different versions must agree.
    let mut hash = Hash::new(|record: &[u8]| record);
    let targets: Vec<_> = [&b""[..], b"a", b"key", b"a longer key of more than sixteen bytes", &[0; 300]]
        .into_iter()
        .map(|key| [2, 10, 1000, u32::MAX].map(|count| hash.target(key, count)))
        .collect();
    let pinned = [
        [0, 1, 175, 755_400_708],
        [1, 9, 901, 3_871_748_789],
        [1, 7, 734, 3_152_678_242],
        [1, 5, 595, 2_556_007_741],
        [0, 3, 339, 1_456_502_314],
    ];
    assert_eq!(targets, pinned);
}

#[test]
fn hash_looks_at_the_key_alone_and_spreads() {
    let mut hash = Hash::new(|record: &[u8]| &record[..4]);
    let mut counts = [0_u32; 8];
    for key in 0..80_000_u32 {
        let one = [&key.to_le_bytes()[..], b"value"].concat();
        let other = [&key.to_le_bytes()[..], b"another"].concat();
        let target = hash.target(&one, 8);
        assert_eq!(target, hash.target(&other, 8));
        counts[target as usize] += 1;
    }
    assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    assert!((0..1000_u32).all(|key| hash.target(&key.to_le_bytes(), 1) == 0));
}

#[test]
fn forward_is_its_number() {
    assert_eq!(Forward(5).target(b"x", 8), 5);
}
