//! Liveness in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

use super::*;
use proptest::prelude::*;

const INTERVAL: Duration = Duration::from_millis(250);
const DEAD_AFTER: Duration = Duration::from_millis(1000);

fn periods() -> Periods {
    Periods::new(DEAD_AFTER, INTERVAL).unwrap()
}

fn ms(ms: u64) -> Moment {
    Moment::from_nanos(ms * 1_000_000)
}

/// One row: when the observer looks, when the peer is heard (both in ms), and when it is found dead.
struct Row {
    name: &'static str,
    looks: Vec<u64>,
    heard: Vec<u64>,
    dead_at: Option<u64>,
    stalls: u64,
}

fn run(row: &Row) -> (Option<u64>, u64) {
    let mut observer = Observer::new(periods(), ms(0));
    let mut pulse = Pulse::new(ms(0), periods());
    let mut heard = row.heard.iter().peekable();
    for look in &row.looks {
        observer.look(ms(*look));
        // What has come by now is read before anybody is judged, at the moment of the look.
        while heard.next_if(|at| *at <= look).is_some() {
            pulse.heard(ms(*look));
        }
        if observer.judge(&pulse) == Standing::Dead {
            return (Some(*look), observer.stalls());
        }
    }
    (None, observer.stalls())
}

fn every(step: u64, until: u64) -> Vec<u64> {
    (step..=until).step_by(usize::try_from(step).unwrap()).collect()
}

#[test]
fn the_table_of_silences() {
    let stalled: Vec<u64> = every(250, 1000).into_iter().chain((9000..=12_000).step_by(250)).collect();
    let rows = [
        Row {
            name: "heartbeats on time",
            looks: every(250, 10_000),
            heard: every(250, 10_000),
            dead_at: None,
            stalls: 0,
        },
        Row { name: "never heard", looks: every(250, 10_000), heard: vec![], dead_at: Some(1000), stalls: 0 },
        Row {
            name: "falls silent",
            looks: every(250, 10_000),
            heard: every(250, 2000),
            dead_at: Some(3000),
            stalls: 0,
        },
        Row {
            name: "one heartbeat in three",
            looks: every(250, 10_000),
            heard: every(750, 10_000),
            dead_at: None,
            stalls: 0,
        },
        Row {
            name: "just in time",
            looks: every(250, 9000),
            heard: every(999, 9000),
            dead_at: None,
            stalls: 0,
        },
        Row {
            name: "looks often",
            looks: every(1, 5000),
            heard: every(250, 2000),
            dead_at: Some(3000),
            stalls: 0,
        },
        Row {
            name: "looks a little late",
            looks: every(370, 10_000),
            heard: every(250, 2000),
            dead_at: Some(3330),
            stalls: 0,
        },
        Row {
            name: "the observer stalls, the peer lives",
            looks: stalled.clone(),
            heard: every(250, 12_000),
            dead_at: None,
            stalls: 1,
        },
        // At 9,000 nothing is known; silent from there.
        Row {
            name: "the observer stalls, the peer is gone",
            looks: stalled,
            heard: every(250, 500),
            dead_at: Some(10_000),
            stalls: 1,
        },
        // Both on one machine that was paused: nothing came while the observer was away.
        Row {
            name: "both stall",
            looks: vec![250, 500, 9000, 9250, 9500],
            heard: vec![250, 500, 9250],
            dead_at: None,
            stalls: 1,
        },
        // It never is on time, so that its silence says nothing.
        Row { name: "always late", looks: every(400, 40_000), heard: vec![], dead_at: None, stalls: 100 },
    ];
    for row in &rows {
        assert_eq!(run(row), (row.dead_at, row.stalls), "{}", row.name);
    }
}

#[test]
fn suspect_follows_the_peers_own_habit_and_death_does_not() {
    let mut observer = Observer::new(periods(), ms(0));
    let mut regular = Pulse::new(ms(0), periods());
    let mut irregular = regular;
    for at in every(50, 20_000) {
        observer.look(ms(at));
        if at % 250 == 0 {
            regular.heard(ms(at));
        }
        if at % 1000 == 0 || at % 1000 == 300 {
            irregular.heard(ms(at));
        }
    }
    let mut seen = Vec::new();
    for at in (20_050..=21_000).step_by(50) {
        observer.look(ms(at));
        seen.push((at, observer.judge(&regular), observer.judge(&irregular)));
    }
    let first = |standing, of: fn(&(u64, Standing, Standing)) -> Standing| {
        seen.iter().find(|row| of(row) == standing).map(|row| row.0)
    };
    assert_eq!(first(Standing::Suspect, |row| row.1), Some(20_400));
    assert_eq!(first(Standing::Suspect, |row| row.2), Some(20_800));
    assert_eq!(first(Standing::Dead, |row| row.1), Some(21_000));
    assert_eq!(first(Standing::Dead, |row| row.2), Some(21_000));
}

#[test]
fn what_is_found_behind_a_connection_that_ended() {
    let mut observer = Observer::new(periods(), ms(0));
    observer.look(ms(100));
    assert_eq!(observer.found(Found::SameWorker), Verdict::Alive);
    assert_eq!(observer.found(Found::AnotherWorker), Verdict::Dead);
    assert_eq!(observer.found(Found::Refused), Verdict::Dead);
    assert_eq!(observer.found(Found::Nothing), Verdict::DialAgain { at: ms(100).plus(periods().redial()) });
}

#[test]
fn periods_that_make_no_sense_are_refused() {
    let second = Duration::from_secs(1);
    assert!(Periods::new(second, second / 2).is_some());
    assert!(Periods::new(second, second / 2 + Duration::from_nanos(1)).is_none());
    assert!(Periods::new(second, Duration::ZERO).is_none());
    assert!(Periods::new(Duration::MAX, Duration::MAX).is_none());
}

proptest! {
    /// Whatever the observer's delays: a peer that was heard within `dead_after` of the observer's time is not
    /// accused, and one that fell silent is found as soon as the observer has been on time for long enough.
    #[test]
    fn no_false_accusation_and_no_late_one(
        steps in proptest::collection::vec(prop_oneof![6 => 1_u64..=250, 1 => 251_u64..=375, 1 => 376_u64..5000], 1..200),
        silent_from in 0_u64..20_000,
        beat in 1_u64..=740,
    ) {
        let mut observer = Observer::new(periods(), ms(0));
        let mut pulse = Pulse::new(ms(0), periods());
        let (mut now, mut next_beat, mut on_time_since, mut last_heard) = (0, beat, 0, 0);
        for step in steps {
            now += step;
            let stalled = observer.look(ms(now));
            prop_assert_eq!(stalled, step > 375);
            if stalled {
                on_time_since = now;
            }
            while next_beat <= now.min(silent_from) {
                next_beat += beat;
                pulse.heard(ms(now));
                last_heard = now;
            }
            let silent = now - last_heard.max(on_time_since);
            let standing = observer.judge(&pulse);
            prop_assert_eq!(standing == Standing::Dead, silent >= 1000);
            if now <= silent_from {
                // While it beats, no two beats that are read are further apart than a beat and a late look.
                prop_assert!(beat + 375 > 1000 || standing != Standing::Dead);
            }
            if standing == Standing::Dead {
                prop_assert!(silent <= 1000 + 375);
                break;
            }
        }
    }
}
