//! The task: which mutants there are, what becomes of each, and the table of it.

use crate::explore::{self, Baseline, Fate};
use crate::runner::{self, Model};
use crate::scan::{self, Site};
use crate::unseen;
use std::collections::BTreeSet;
use std::time::Duration;

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    filters: Vec<String>,
    jobs: usize,
    list: bool,
}

impl Options {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let mut options = Self { filters: Vec::new(), jobs, list: false };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--list" => options.list = true,
                "--jobs" => {
                    let jobs = arguments.next().and_then(|text| text.parse().ok()).filter(|jobs| *jobs > 0);
                    options.jobs = jobs.ok_or("--jobs needs a number above 0")?;
                }
                flag if flag.starts_with('-') => return Err(format!("unknown argument {flag}")),
                _ => options.filters.push(argument),
            }
        }
        Ok(options)
    }
}

/// One weakening of one site.
#[derive(Debug)]
struct Mutant<'a> {
    /// The value of `PIRN_MUTANT`.
    name: String,
    site: &'a Site,
    /// The list of what loom can't see has it.
    unseen: bool,
}

/// Whether every mutant got what it should.
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    if std::env::var_os("PIRN_MUTANT").is_some() {
        return Err("PIRN_MUTANT is set: the models as they are would have a mutant".to_owned());
    }
    let root = crate::root();
    let sites = scan::sources(&root.join("src"))?;
    let unseen = unseen::load(&root.join("loom_tests/unseen.toml"), &sites)?;
    let limit = explore::limit_from_env()?;
    let runner = runner::build(&root)?;
    let models = runner::models(&runner)?;
    let mutants = select(&sites, &unseen, &options.filters)?;
    let disagreement = agree(&sites, &models);
    if options.filters.is_empty() {
        disagreement?;
    } else if let Err(problems) = disagreement {
        // A part of the crate can be worked on before the rest of it has its models.
        eprintln!("(not all is well elsewhere)\n{problems}\n");
    }
    if options.list {
        for mutant in &mutants {
            let models: Vec<&str> = listing(&mutant.site.edge, &models).map(|model| &*model.name).collect();
            println!("{}\t{}", mutant.name, models.join(" "));
        }
        return Ok(true);
    }
    let wanted: BTreeSet<&str> = mutants.iter().map(|mutant| &*mutant.site.edge).collect();
    let involved = |model: &&Model| model.edges.iter().any(|edge| wanted.contains(&**edge));
    let models: Vec<Model> = models.iter().filter(involved).cloned().collect();
    println!("{} models as they are, then {} mutants", models.len(), mutants.len());
    let baselines = explore::baseline(&runner, &models, options.jobs, limit)?;

    println!("\n{:<40} | {:<68} | {:>7} |", "mutant", "model that caught it", "seconds");
    let verdicts = explore::in_parallel(&mutants, options.jobs, |mutant| {
        let candidates = candidates(mutant.site, &baselines);
        let fate = explore::mutant(&runner, &mutant.name, &candidates, limit)?;
        let (good, line) = tell(mutant, &fate);
        println!("{line}");
        Ok(good)
    });
    let verdicts: Vec<bool> = verdicts.into_iter().collect::<Result<_, String>>()?;
    for entry in unseen.iter().filter(|entry| mutants.iter().any(|m| entry.covers(m.site, &m.name))) {
        println!("\nunseen: {} (loom sees {} instead)\n    {}", entry.site, entry.visible_by, entry.argument);
    }
    let passed = verdicts.iter().filter(|good| **good).count();
    println!("\n{passed} passed, {} failed", verdicts.len() - passed);
    Ok(passed == verdicts.len())
}

fn listing<'a>(edge: &str, models: &'a [Model]) -> impl Iterator<Item = &'a Model> {
    models.iter().filter(move |model| model.edges.iter().any(|listed| listed == edge))
}

/// Source and models must name the same edges; everything amiss is told at once.
fn agree(sites: &[Site], models: &[Model]) -> Result<(), String> {
    let mut problems = Vec::new();
    let mut edges = BTreeSet::new();
    for site in sites {
        if edges.insert(&site.edge) && listing(&site.edge, models).next().is_none() {
            problems.push(format!("{}: no model lists the edge {}", site.place, site.edge));
        }
    }
    for model in models {
        for edge in model.edges.iter().filter(|edge| !edges.contains(edge)) {
            problems.push(format!("{} lists {edge}, which the source doesn't have", model.name));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

fn select<'a>(
    sites: &'a [Site],
    unseen: &[unseen::Entry],
    filters: &[String],
) -> Result<Vec<Mutant<'a>>, String> {
    let mutants = sites.iter().flat_map(|site| {
        site.kind.mutants(&site.name).into_iter().map(move |name| {
            let unseen = unseen.iter().any(|entry| entry.covers(site, &name));
            Mutant { name, site, unseen }
        })
    });
    let mut mutants: Vec<Mutant<'a>> = mutants.collect();
    for filter in filters {
        if !mutants.iter().any(|mutant| mutant.name.contains(&**filter)) {
            return Err(format!("no mutant's name contains {filter}"));
        }
    }
    mutants
        .retain(|mutant| filters.is_empty() || filters.iter().any(|filter| mutant.name.contains(&**filter)));
    Ok(mutants)
}

/// The models that list the site's edge and come by the site, the cheapest first.
fn candidates<'a>(site: &Site, baselines: &'a [Baseline]) -> Vec<&'a Baseline> {
    let mut candidates: Vec<&Baseline> = baselines
        .iter()
        .filter(|baseline| baseline.model.edges.contains(&site.edge) && baseline.sites.contains(&site.name))
        .collect();
    candidates.sort_by_key(|baseline| baseline.elapsed);
    candidates
}

fn brief(reason: &str) -> String {
    const CHARS: usize = 60;
    reason.chars().take(CHARS).collect()
}

/// Whether this is what should become of the mutant, and its line of the table.
fn tell(mutant: &Mutant<'_>, fate: &Fate) -> (bool, String) {
    let row = |what: &str, elapsed: Option<Duration>, more: &str| {
        let seconds = elapsed.map(|elapsed| format!("{:.2}", elapsed.as_secs_f64())).unwrap_or_default();
        format!("{:<40} | {what:<68} | {seconds:>7} | {more}", mutant.name)
    };
    match (fate, mutant.unseen) {
        (Fate::Caught { model, elapsed, reason }, false) => {
            (true, row(model, Some(*elapsed), &brief(reason)))
        }
        (Fate::Caught { model, elapsed, .. }, true) => (
            false,
            row(model, Some(*elapsed), "FAILED: listed as unseen, but it is seen: take it off the list"),
        ),
        (Fate::Survived { models }, true) => {
            (true, row("(unseen, see below)", None, &format!("green on {models} models, as listed")))
        }
        (Fate::Survived { models }, false) => {
            let more = format!("FAILED: survives {models} models ({})", mutant.site.place);
            (false, row("(none)", None, &more))
        }
        (Fate::Undecided(reason), _) => (false, row("(none)", None, &format!("FAILED: undecided: {reason}"))),
        (Fate::Unreached, _) => {
            let place = &mutant.site.place;
            let more = format!("FAILED: no model that lists {} comes by {place}", mutant.site.edge);
            (false, row("(none)", None, &more))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sites() -> Vec<Site> {
        let text = "fn f() { sync!(A_E1.a, AcqRel); sync!(A_E1.b, Acquire); check!(B_E1.c, true); }";
        scan::text_sites("a.rs", text).unwrap()
    }

    fn model(name: &str, edges: &[&str]) -> Model {
        Model { name: name.to_owned(), edges: edges.iter().map(|edge| (*edge).to_owned()).collect() }
    }

    fn options(arguments: &[&str]) -> Result<Options, String> {
        Options::parse(arguments.iter().map(|argument| (*argument).to_owned()))
    }

    #[test]
    fn arguments() {
        let parsed = options(&["RING", "--jobs", "3", "--list"]).unwrap();
        assert_eq!(parsed, Options { filters: vec!["RING".to_owned()], jobs: 3, list: true });
        for wrong in [&["--jobs"][..], &["--jobs", "0"], &["--fast"]] {
            assert!(options(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn source_and_models_name_the_same_edges() {
        let both = [model("x::y", &["A_E1"]), model("x::z", &["B_E1"])];
        assert_eq!(agree(&sites(), &both), Ok(()));
        assert_eq!(agree(&sites(), &both[..1]), Err("a.rs:1: no model lists the edge B_E1".to_owned()));
        let stray = [both.as_slice(), &[model("x::w", &["C_E1"])]].concat();
        assert_eq!(agree(&sites(), &stray), Err("x::w lists C_E1, which the source doesn't have".to_owned()));
    }

    #[test]
    fn mutants_by_name() {
        let sites = sites();
        let names = |filters: &[&str]| {
            let filters: Vec<String> = filters.iter().map(|filter| (*filter).to_owned()).collect();
            select(&sites, &[], &filters)
                .map(|mutants| mutants.into_iter().map(|mutant| mutant.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap(), ["A_E1.a=Acquire", "A_E1.a=Release", "A_E1.b", "B_E1.c"]);
        assert_eq!(names(&["B_E1"]).unwrap(), ["B_E1.c"]);
        assert!(names(&["A_E1", "nothing"]).is_err());
    }

    #[test]
    fn only_models_that_list_the_edge_and_reach_the_site_cheapest_first() {
        let sites = sites();
        let baseline = |name: &str, edges: &[&str], seconds, reached: &[&str]| Baseline {
            model: model(name, edges),
            elapsed: Duration::from_secs(seconds),
            sites: reached.iter().map(|site| (*site).to_owned()).collect(),
        };
        let baselines = [
            baseline("slow", &["A_E1"], 9, &["A_E1.a"]),
            baseline("quick", &["A_E1", "B_E1"], 1, &["A_E1.a"]),
            baseline("elsewhere", &["A_E1"], 1, &["A_E1.b"]),
            baseline("unlisted", &["B_E1"], 1, &["A_E1.a"]),
        ];
        let names: Vec<&str> =
            candidates(&sites[0], &baselines).iter().map(|baseline| &*baseline.model.name).collect();
        assert_eq!(names, ["quick", "slow"]);
    }

    #[test]
    fn only_a_catch_passes_and_only_an_unseen_one_may_survive() {
        let sites = sites();
        let mutant = |unseen| Mutant { name: "A_E1.b".to_owned(), site: &sites[1], unseen };
        let caught = Fate::Caught { model: "m".to_owned(), elapsed: Duration::ZERO, reason: String::new() };
        let survived = Fate::Survived { models: 1 };
        let undecided = Fate::Undecided(String::new());
        let good = |unseen, fate: &Fate| tell(&mutant(unseen), fate).0;
        assert!(good(false, &caught) && good(true, &survived));
        assert!(!good(true, &caught) && !good(false, &survived));
        for unseen in [false, true] {
            assert!(!good(unseen, &undecided) && !good(unseen, &Fate::Unreached));
        }
    }
}
