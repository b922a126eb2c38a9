use super::*;
use crate::sync::thread;

/// Both sides of the edge for a while: each round at least one of them sees the other's store. A fence that is
/// none is noticed within some thousand rounds.
#[test]
fn of_two_that_store_and_look_one_sees_the_other() {
    const ROUNDS: u32 = 20_000;
    static LIGHT: AtomicU32 = AtomicU32::new(0);
    static HEAVY: AtomicU32 = AtomicU32::new(0);
    static BEGUN: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
    // Both at once, or they never meet.
    let meet = |mine: usize, round: u32| {
        BEGUN[mine].store(round, Ordering::Release);
        while BEGUN[1 - mine].load(Ordering::Acquire) < round {
            std::hint::spin_loop();
        }
    };
    let light = thread::spawn(move || {
        (1..=ROUNDS)
            .map(|round| {
                meet(0, round);
                LIGHT.store(round, Ordering::Relaxed);
                fence_light(Ordering::SeqCst);
                HEAVY.load(Ordering::Relaxed) == round
            })
            .collect::<Vec<_>>()
    });
    let mut heavy = Vec::new();
    for round in 1..=ROUNDS {
        meet(1, round);
        HEAVY.store(round, Ordering::Relaxed);
        fence_heavy(Ordering::SeqCst);
        heavy.push(LIGHT.load(Ordering::Relaxed) == round);
    }
    let Ok(light) = light.join() else { panic!("the light side panicked") };
    let blind = light.iter().zip(&heavy).filter(|(light, heavy)| !**light && !**heavy).count();
    assert_eq!(blind, 0, "of {ROUNDS} rounds");
}
