#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that can't go on panics, and measures real time"
)]

use super::*;
use crate::sync::thread;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter_all_threads};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Instant;

const ROUNDS: u32 = 20_000;

/// Both sides of the edge for a while. Returns in how many rounds neither saw the other's store: a fence that is none
/// is noticed within some thousand rounds. The heavy side is given as a function of the round.
fn blind_rounds(mut heavy_side: impl FnMut(u32)) -> usize {
    static LIGHT: AtomicU32 = AtomicU32::new(0);
    static HEAVY: AtomicU32 = AtomicU32::new(0);
    static BEGUN: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
    // Both at once, or they never meet.
    let meet = |mine: usize, round: u32| {
        BEGUN[mine].store(round, Ordering::Release);
        let mut spins = 0_u32;
        while BEGUN[1 - mine].load(Ordering::Acquire) < round {
            std::hint::spin_loop();
            spins += 1;
            // The other one may wait for this processor.
            if spins.is_multiple_of(10_000) {
                thread::yield_now();
            }
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
        heavy_side(round);
        heavy.push(LIGHT.load(Ordering::Relaxed) == round);
    }
    let Ok(light) = light.join() else { panic!("the light side panicked") };
    light.iter().zip(&heavy).filter(|(light, heavy)| !**light && !**heavy).count()
}

#[test]
fn of_two_that_store_and_look_one_sees_the_other() {
    assert_eq!(blind_rounds(|_| fence_heavy(Ordering::SeqCst)), 0, "of {ROUNDS} rounds");
}

const ALONE: &str = "PIRN_TEST_MEMBARRIER_ALONE";

/// Filters stay, and which fences are used is settled for a whole process: in a process of its own.
#[test]
fn a_kernel_that_refuses_later_costs_one_wait_and_no_store_is_missed() {
    if std::env::var_os(ALONE).is_none() {
        let name =
            "sync::asymmetric::tests::a_kernel_that_refuses_later_costs_one_wait_and_no_store_is_missed";
        let mut child = Command::new(std::env::current_exe().unwrap());
        let child = child.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
        let told = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && told.contains("1 passed"), "{child:?}");
        return;
    }
    prepare_fences();
    if MODE.load(Ordering::Relaxed) != ASYMMETRIC {
        println!("not tried: the fences are plain from the beginning");
        return;
    }
    let mut waits = 0;
    let blind = blind_rounds(|round| {
        let is_plain_from_here = round == ROUNDS / 2;
        if is_plain_from_here {
            assert_eq!(MODE.load(Ordering::Relaxed), ASYMMETRIC);
            let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
            let rules = BTreeMap::from([(libc::SYS_membarrier, Vec::new())]);
            let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
            let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).unwrap();
            apply_filter_all_threads(&BpfProgram::try_from(filter).unwrap()).unwrap();
        }
        let start = Instant::now();
        fence_heavy(Ordering::SeqCst);
        if is_plain_from_here {
            assert!(start.elapsed() >= SETTLE, "it waits until all have heard");
            assert_eq!(MODE.load(Ordering::Relaxed), PLAIN);
        }
        waits += u32::from(start.elapsed() >= SETTLE && round > ROUNDS / 2);
    });
    assert_eq!(blind, 0, "of {ROUNDS} rounds");
    // A thread may be kept from running for as long: not each time.
    assert!(waits < ROUNDS / 100, "nobody waits again: {waits} of {ROUNDS}");
}
