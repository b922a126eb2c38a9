//! Exploring models: as they are (the baseline), and with one site weakened.

use crate::child::{self, Outcome, Verdict};
use crate::runner::Model;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const BASELINE_LIMIT: Duration = Duration::from_secs(300);

/// A model that was green, what it took and where it came by.
#[derive(Debug, Clone)]
pub(crate) struct Baseline {
    pub(crate) model: Model,
    pub(crate) elapsed: Duration,
    pub(crate) sites: Vec<String>,
}

/// What became of a mutant.
#[derive(Debug, Clone)]
pub(crate) enum Fate {
    /// The model that turned red, its time and what it said.
    Caught { model: String, elapsed: Duration, reason: String },
    /// Every model that could notice it stayed green.
    Survived { models: usize },
    /// Green or without a result; at least one is without.
    Undecided(String),
    /// No model that lists the edge reaches the site.
    Unreached,
}

/// Runs `work` over `items` on `jobs` threads; the results keep the order of the items.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    jobs: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { break };
                    let result = work(item);
                    results.lock().expect("no holder of this lock panics").push((at, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no holder of this lock panics");
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The limit that the environment sets.
pub(crate) fn limit_from_env() -> Result<Option<Duration>, String> {
    match std::env::var("PIRN_LOOM_SECONDS") {
        Ok(text) => match text.parse() {
            Ok(seconds) => Ok(Some(Duration::from_secs(seconds))),
            Err(_) => Err(format!("PIRN_LOOM_SECONDS: {text} is no number of seconds")),
        },
        Err(_) => Ok(None),
    }
}

/// Explores every model as it is. All must be green: a red model would catch any mutant.
pub(crate) fn baseline(
    runner: &Path,
    models: &[Model],
    jobs: usize,
    limit: Option<Duration>,
) -> Result<Vec<Baseline>, String> {
    let limit = limit.unwrap_or(BASELINE_LIMIT);
    let explored = in_parallel(models, jobs, |model| {
        let outcome = child::explore(runner, &model.name, None, limit);
        green(model, outcome.map_err(|error| format!("{}: {error}", model.name))?)
    });
    explored.into_iter().collect()
}

fn green(model: &Model, outcome: Outcome) -> Result<Baseline, String> {
    let problem = match outcome.verdict {
        Verdict::Green { interleavings, sites } if interleavings > 1 => {
            return Ok(Baseline { model: model.clone(), elapsed: outcome.elapsed, sites });
        }
        Verdict::Green { .. } => "one interleaving: nothing runs concurrently".to_owned(),
        Verdict::Red(reason) | Verdict::Undecided(reason) | Verdict::Broken(reason) => reason,
    };
    Err(format!("{} isn't green without a mutant: {problem}\n{}", model.name, outcome.output))
}

/// Explores `candidates` with `mutant` weakened, until one turns red.
pub(crate) fn mutant(
    runner: &Path,
    mutant: &str,
    candidates: &[&Baseline],
    limit: Option<Duration>,
) -> Result<Fate, String> {
    let mut undecided = None;
    for candidate in candidates {
        let name = &candidate.model.name;
        let limit = limit.unwrap_or(candidate.elapsed * 10 + Duration::from_secs(20));
        let outcome = child::explore(runner, name, Some(mutant), limit)
            .map_err(|error| format!("{mutant} on {name}: {error}"))?;
        match outcome.verdict {
            Verdict::Red(reason) => {
                return Ok(Fate::Caught { model: name.clone(), elapsed: outcome.elapsed, reason });
            }
            Verdict::Green { .. } => {}
            Verdict::Undecided(reason) => undecided = Some(format!("{name}: {reason}")),
            Verdict::Broken(reason) => return Err(format!("{mutant} on {name}: {reason}")),
        }
    }
    Ok(match undecided {
        Some(reason) => Fate::Undecided(reason),
        None if candidates.is_empty() => Fate::Unreached,
        None => Fate::Survived { models: candidates.len() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Calls `test` with a runner whose answer is a shell script over `$2` (the model) and
    /// `$PIRN_MUTANT`. One at a time: a fork elsewhere would inherit the script while it is still open
    /// for writing, and nobody may execute such a file.
    fn with_runner<R>(script: &str, test: impl FnOnce(&Path) -> R) -> R {
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let path = std::env::temp_dir().join(format!("pirn-xtask-{}", std::process::id()));
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let result = test(&path);
        std::fs::remove_file(path).unwrap();
        result
    }

    fn models(names: &[&str]) -> Vec<Model> {
        names.iter().map(|name| Model { name: (*name).to_owned(), edges: vec!["A_E1".to_owned()] }).collect()
    }

    const GREEN: &str = "echo pirn-loom: 7 A_E1.a A_E1.b";
    const RED: &str = "echo \"thread 'main' panicked at x.rs:1:1:\" >&2; echo torn >&2; exit 101";

    fn fate(script: &str, seconds: u64) -> Result<Fate, String> {
        let baselines: Vec<Baseline> = models(&["a::b", "a::c"])
            .into_iter()
            .map(|model| Baseline { model, elapsed: Duration::ZERO, sites: Vec::new() })
            .collect();
        let candidates: Vec<&Baseline> = baselines.iter().collect();
        let limit = Some(Duration::from_secs(seconds));
        with_runner(script, |runner| mutant(runner, "A_E1.a", &candidates, limit))
    }

    #[test]
    fn the_baseline_tells_the_sites_and_must_be_green() {
        let explored = |script: &str| {
            with_runner(script, |runner| baseline(runner, &models(&["a::b", "a::c"]), 2, None))
        };
        let green = explored(GREEN).unwrap();
        assert_eq!(green[1].model.name, "a::c");
        assert_eq!(green[0].sites, ["A_E1.a", "A_E1.b"]);
        for script in [RED, "echo pirn-loom: 1", "echo nothing", "exit 2"] {
            assert!(explored(script).is_err(), "{script}");
        }
    }

    #[test]
    fn a_panic_catches_and_names_its_model() {
        let script = format!("test $2 = a::c && test $PIRN_MUTANT = A_E1.a && {{ {RED}; }}; {GREEN}");
        let Ok(Fate::Caught { model, reason, .. }) = fate(&script, 20) else { panic!("not caught") };
        assert_eq!((model.as_str(), reason.as_str()), ("a::c", "torn"));
    }

    #[test]
    fn green_everywhere_survives() {
        assert!(matches!(fate(GREEN, 20), Ok(Fate::Survived { models: 2 })));
    }

    #[test]
    fn a_time_out_and_too_many_branches_are_undecided() {
        assert!(matches!(fate("exec sleep 60", 1), Ok(Fate::Undecided(_))));
        let branches =
            "echo \"panicked at x:\" >&2; echo Model exceeded maximum number of branches >&2; exit 101";
        assert!(matches!(fate(branches, 20), Ok(Fate::Undecided(_))));
    }

    #[test]
    fn what_is_no_violation_is_an_error_and_not_a_catch() {
        assert!(fate("exit 2", 20).is_err());
        assert!(fate("exit 0", 20).is_err());
        assert!(fate("kill -9 $$", 20).is_err());
    }

    #[test]
    fn results_keep_the_order_of_their_items() {
        let items: Vec<u64> = (0..50).collect();
        assert_eq!(
            in_parallel(&items, 4, |item| item * 2),
            items.iter().map(|item| item * 2).collect::<Vec<_>>()
        );
        assert!(in_parallel(&[] as &[u64], 4, |item| *item).is_empty());
    }
}
