//! The weakening of one named site, chosen by `PIRN_MUTANT` for a whole process (loom builds only).
//!
//! `PIRN_MUTANT=RING_E1.publish` weakens that site to `Relaxed`, or drops the condition if it is a
//! `check!`; `PIRN_MUTANT=RING_E3.take=Acquire` replaces the ordering by the one named.

use super::Ordering;

struct Mutant {
    site: String,
    ordering: Ordering,
}

#[allow(clippy::disallowed_types, reason = "read once a process, no part of what is modelled")]
fn chosen() -> Option<&'static Mutant> {
    static CHOSEN: std::sync::OnceLock<Option<Mutant>> = std::sync::OnceLock::new();
    CHOSEN
        .get_or_init(|| {
            let text = std::env::var("PIRN_MUTANT").ok()?;
            let (site, ordering) = text.split_once('=').unwrap_or((&text, "Relaxed"));
            let ordering = match ordering {
                "Relaxed" => Ordering::Relaxed,
                "Acquire" => Ordering::Acquire,
                "Release" => Ordering::Release,
                "AcqRel" => Ordering::AcqRel,
                other => panic!("PIRN_MUTANT: {other} is no ordering"),
            };
            Some(Mutant { site: site.to_owned(), ordering })
        })
        .as_ref()
}

pub(crate) fn ordering(site: &str, literal: Ordering) -> Ordering {
    match chosen() {
        Some(mutant) if mutant.site == site => mutant.ordering,
        _ => literal,
    }
}

pub(crate) fn dropped(site: &str) -> bool {
    chosen().is_some_and(|mutant| mutant.site == site)
}
