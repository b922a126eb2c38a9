//! The short list of weakenings that loom cannot see, each with its argument.

use crate::scan::Site;
use serde::Deserialize;
use std::path::Path;

/// One `[[unseen]]` of `loom_tests/unseen.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    /// A site, or one mutant of it (`ID.site=Acquire`).
    pub(crate) site: String,
    /// Why loom can't see it, and why it is needed all the same.
    pub(crate) argument: String,
    /// The edge over the same accesses that loom does see.
    pub(crate) visible_by: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    unseen: Vec<Entry>,
}

pub(crate) fn load(path: &Path, sites: &[Site]) -> Result<Vec<Entry>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse(&text, sites).map_err(|problem| format!("{}: {problem}", path.display()))
}

fn parse(text: &str, sites: &[Site]) -> Result<Vec<Entry>, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    for entry in &file.unseen {
        let known =
            |site: &Site| site.name == entry.site || site.kind.mutants(&site.name).contains(&entry.site);
        if !sites.iter().any(known) {
            return Err(format!("{} is no site of the source", entry.site));
        }
        if !sites.iter().any(|site| site.edge == entry.visible_by) {
            return Err(format!("{}: visible_by names the unknown edge {}", entry.site, entry.visible_by));
        }
        if entry.argument.split_whitespace().count() < 5 {
            return Err(format!("{}: an argument is a sentence", entry.site));
        }
    }
    Ok(file.unseen)
}

impl Entry {
    /// Whether it excuses this mutant of this site.
    pub(crate) fn covers(&self, site: &Site, mutant: &str) -> bool {
        self.site == site.name || self.site == mutant
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::text_sites;

    fn sites() -> Vec<Site> {
        text_sites("a.rs", "fn f() { sync!(A_E1.a, AcqRel); sync!(A_E2.b, Acquire); }").unwrap()
    }

    fn entry(site: &str, argument: &str, visible_by: &str) -> String {
        format!("[[unseen]]\nsite = \"{site}\"\nargument = \"{argument}\"\nvisible_by = \"{visible_by}\"\n")
    }

    const ARGUMENT: &str = "loom does not explore load buffering";

    #[test]
    fn an_entry_covers_its_site_or_one_mutant() {
        let sites = sites();
        let all = parse(&entry("A_E1.a", ARGUMENT, "A_E2"), &sites).unwrap();
        assert!(all[0].covers(&sites[0], "A_E1.a=Acquire") && all[0].covers(&sites[0], "A_E1.a=Release"));
        assert!(!all[0].covers(&sites[1], "A_E2.b"));
        let one = parse(&entry("A_E1.a=Acquire", ARGUMENT, "A_E2"), &sites).unwrap();
        assert!(one[0].covers(&sites[0], "A_E1.a=Acquire") && !one[0].covers(&sites[0], "A_E1.a=Release"));
    }

    #[test]
    fn an_empty_list_is_fine_and_a_wrong_one_is_not() {
        assert!(parse("", &sites()).unwrap().is_empty());
        for (site, argument, visible_by) in [
            ("A_E9.a", ARGUMENT, "A_E2"),
            ("A_E2.b=Release", ARGUMENT, "A_E1"),
            ("A_E1.a", ARGUMENT, "A_E9"),
            ("A_E1.a", "because", "A_E2"),
        ] {
            assert!(parse(&entry(site, argument, visible_by), &sites()).is_err(), "{site} {visible_by}");
        }
        assert!(parse("[[unseen]]\nsite = \"A_E1.a\"\n", &sites()).is_err());
        assert!(parse("[[unsen]]\n", &sites()).is_err());
    }
}
