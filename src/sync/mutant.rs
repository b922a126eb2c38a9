//! The named sites of edges under loom: which ones a model reached, and the weakening of one of them.
//!
//! `PIRN_MUTANT` chooses one site for a whole process. `PIRN_MUTANT=RING_E1.publish` weakens it to
//! `Relaxed`, or drops the condition if it is a `check!`; `PIRN_MUTANT=RING_E3.take=Acquire` replaces
//! the ordering by the one named. The sites reached tell the mutant runner which models can notice at all.

use super::Ordering;
// Std's own: bookkeeping of the whole process, no part of what is modelled.
use std::sync::atomic::AtomicBool;

struct Mutant {
    site: String,
    ordering: Ordering,
}

fn chosen() -> Option<&'static Mutant> {
    static CHOSEN: std::sync::OnceLock<Option<Mutant>> = std::sync::OnceLock::new();
    CHOSEN.get_or_init(|| parse().unwrap_or_else(|problem| panic!("{problem}"))).as_ref()
}

fn parse() -> Result<Option<Mutant>, String> {
    let Ok(text) = std::env::var("PIRN_MUTANT") else { return Ok(None) };
    let (site, ordering) = text.split_once('=').unwrap_or((&text, "Relaxed"));
    let ordering = match ordering {
        "Relaxed" => Ordering::Relaxed,
        "Acquire" => Ordering::Acquire,
        "Release" => Ordering::Release,
        "AcqRel" => Ordering::AcqRel,
        other => return Err(format!("PIRN_MUTANT: {other} is no ordering")),
    };
    Ok(Some(Mutant { site: site.to_owned(), ordering }))
}

/// The site that `PIRN_MUTANT` names. A malformed value must be noticed before a model runs: a panic
/// inside of one would pass for a mutant caught.
pub(crate) fn site() -> Result<Option<String>, String> {
    Ok(parse()?.map(|mutant| mutant.site))
}

static REACHED: std::sync::Mutex<Vec<&'static str>> = std::sync::Mutex::new(Vec::new());

/// The sites that this process has come by.
pub(crate) fn reached() -> Vec<&'static str> {
    let mut sites = REACHED.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
    sites.sort_unstable();
    sites.dedup();
    sites
}

/// One `sync!` or `check!` of the source.
pub(crate) struct Site {
    name: &'static str,
    reached: AtomicBool,
}

impl Site {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, reached: AtomicBool::new(false) }
    }

    /// The ordering to use in place of `literal`.
    pub(crate) fn ordering(&self, literal: Ordering) -> Ordering {
        self.mutant().map_or(literal, |mutant| mutant.ordering)
    }

    /// Whether the condition counts as true without a look.
    pub(crate) fn dropped(&self) -> bool {
        self.mutant().is_some()
    }

    fn mutant(&self) -> Option<&'static Mutant> {
        // Relaxed: the list behind it has its own lock.
        if !self.reached.swap(true, Ordering::Relaxed) {
            REACHED.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(self.name);
        }
        chosen().filter(|mutant| mutant.site == self.name)
    }
}
