//! Finds the `sync!` and `check!` sites of the library's source.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What stands at a site, and so how it can be weakened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Acquire,
    Release,
    AcqRel,
    SeqCst,
    Check,
}

impl Kind {
    /// The values of `PIRN_MUTANT` for this site: one step down each.
    pub(crate) fn mutants(self, site: &str) -> Vec<String> {
        match self {
            // Without an ordering: `Relaxed`, or the condition dropped.
            Self::Acquire | Self::Release | Self::Check => vec![site.to_owned()],
            Self::AcqRel => vec![format!("{site}=Acquire"), format!("{site}=Release")],
            Self::SeqCst => vec![format!("{site}=AcqRel")],
        }
    }

    fn from_ordering(word: &str) -> Option<Self> {
        match word {
            "Acquire" => Some(Self::Acquire),
            "Release" => Some(Self::Release),
            "AcqRel" => Some(Self::AcqRel),
            "SeqCst" => Some(Self::SeqCst),
            _ => None,
        }
    }
}

/// One `sync!(ID.site, Ordering)` or `check!(ID.site, condition)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Site {
    /// `ID.site`
    pub(crate) name: String,
    /// `ID`: the edge.
    pub(crate) edge: String,
    pub(crate) kind: Kind,
    /// `file:line`
    pub(crate) place: String,
}

/// All sites below `source`, in the order of files and lines; each name once.
pub(crate) fn sources(source: &Path) -> Result<Vec<Site>, String> {
    let mut files = Vec::new();
    collect(source, &mut files)?;
    files.sort();
    let mut sites = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let label = file.strip_prefix(source.parent().unwrap_or(source)).unwrap_or(&file);
        sites.extend(text_sites(&label.display().to_string(), &text)?);
    }
    unique(&sites)?;
    Ok(sites)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let problem = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(problem)? {
        let path = entry.map_err(problem)?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

fn unique(sites: &[Site]) -> Result<(), String> {
    let mut first = BTreeMap::new();
    for site in sites {
        if let Some(before) = first.insert(&site.name, &site.place) {
            return Err(format!("{}: the site {} stands at {before} already", site.place, site.name));
        }
    }
    Ok(())
}

/// The sites of one file.
pub(crate) fn text_sites(label: &str, text: &str) -> Result<Vec<Site>, String> {
    let tokens: TokenStream = text.parse().map_err(|error| format!("{label}: {error}"))?;
    let mut sites = Vec::new();
    walk(label, tokens, &mut sites)?;
    Ok(sites)
}

fn walk(label: &str, tokens: TokenStream, sites: &mut Vec<Site>) -> Result<(), String> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        if let TokenTree::Ident(name) = token
            && (name == "sync" || name == "check")
            && let Some(TokenTree::Punct(bang)) = tokens.get(at + 1)
            && bang.as_char() == '!'
            && let Some(TokenTree::Group(arguments)) = tokens.get(at + 2)
        {
            let place = format!("{label}:{}", name.span().start().line);
            let site = site(name == "check", arguments.stream(), &place);
            sites.push(site.ok_or_else(|| format!("{place}: not of the form {name}!(ID.site, ...)"))?);
        }
        if let TokenTree::Group(group) = token
            && group.delimiter() != Delimiter::None
        {
            walk(label, group.stream(), sites)?;
        }
    }
    Ok(())
}

fn site(check: bool, arguments: TokenStream, place: &str) -> Option<Site> {
    let tokens: Vec<TokenTree> = arguments.into_iter().collect();
    let [
        TokenTree::Ident(edge),
        TokenTree::Punct(dot),
        TokenTree::Ident(site),
        TokenTree::Punct(comma),
        rest @ ..,
    ] = tokens.as_slice()
    else {
        return None;
    };
    if dot.as_char() != '.' || comma.as_char() != ',' {
        return None;
    }
    let kind = match rest {
        [] => return None,
        _ if check => Kind::Check,
        [TokenTree::Ident(ordering)] => Kind::from_ordering(&ordering.to_string())?,
        _ => return None,
    };
    Some(Site { name: format!("{edge}.{site}"), edge: edge.to_string(), kind, place: place.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, Kind, String)> {
        let sites = text_sites("a.rs", text).unwrap();
        sites.into_iter().map(|site| (site.name, site.kind, site.place)).collect()
    }

    fn one(name: &str, kind: Kind, line: usize) -> Vec<(String, Kind, String)> {
        vec![(name.to_owned(), kind, format!("a.rs:{line}"))]
    }

    #[test]
    fn an_ordering_in_one_line() {
        let text = "fn f() {\n    x.store(1, sync!(RING_E1.publish, Release));\n}";
        assert_eq!(found(text), one("RING_E1.publish", Kind::Release, 2));
    }

    #[test]
    fn line_breaks_and_comments_inside_of_the_call() {
        let text =
            "fn f() { fence(crate::sync::sync ! [\n  A_F1 // why\n . \n look,\n\n /* , */ SeqCst\n]) }";
        assert_eq!(found(text), one("A_F1.look", Kind::SeqCst, 1));
    }

    #[test]
    fn comments_docs_and_strings_hold_no_sites() {
        let text = r##"
            //! `sync!(A_E1.a, Release)`
            /// sync!(A_E1.b, Release)
            // sync!(A_E1.c, Release)
            /* check!(A_E1.d, true) */
            const TEXT: &str = "sync!(A_E1.e, Release)";
            const RAW: &str = r#"check!(A_E1.f, true)"#;
        "##;
        assert_eq!(found(text), []);
    }

    #[test]
    fn a_condition_with_sites_of_its_own() {
        let text = "fn f() { if !check!(A_E2.epoch, a.load(sync!(A_E2.take,Acquire)) == 1) {} }";
        let expected = [one("A_E2.epoch", Kind::Check, 1), one("A_E2.take", Kind::Acquire, 1)].concat();
        assert_eq!(found(text), expected);
    }

    #[test]
    fn two_orderings_of_one_call() {
        let text =
            "fn f() { a.compare_exchange(1, 2,\n sync!(A_E3.swap, AcqRel),\n sync!(A_E3.lost, Acquire)); }";
        let expected = [one("A_E3.swap", Kind::AcqRel, 2), one("A_E3.lost", Kind::Acquire, 3)].concat();
        assert_eq!(found(text), expected);
    }

    #[test]
    fn the_definition_of_the_macro_is_no_site() {
        let text =
            "macro_rules! sync { ($id:ident . $site:ident, $o:ident) => { $crate::sync::Ordering::$o }; }
            pub(crate) use sync; fn f() { if sync != check {} }";
        assert_eq!(found(text), []);
    }

    #[test]
    fn malformed_calls_are_errors() {
        for call in [
            "sync!(A_E1, Release)",
            "sync!(A_E1.a)",
            "sync!(A_E1.a, Relaxed)",
            "sync!(A_E1.a, Ordering::Release)",
            "sync!(A_E1::a, Release)",
            "check!(A_E1.a,)",
            "check!(A_E1.a)",
        ] {
            let problem = text_sites("a.rs", &format!("fn f() {{\n{call} }}")).unwrap_err();
            assert!(problem.starts_with("a.rs:2: not of the form"), "{call}: {problem}");
        }
    }

    #[test]
    fn a_site_name_used_twice_is_an_error() {
        let text = "fn f() { sync!(A_E1.a, Release);\n sync!(A_E1.a, Acquire); }";
        let problem = unique(&text_sites("a.rs", text).unwrap()).unwrap_err();
        assert_eq!(problem, "a.rs:2: the site A_E1.a stands at a.rs:1 already");
    }

    #[test]
    fn each_kind_is_weakened_by_one_step() {
        assert_eq!(Kind::Release.mutants("A.a"), ["A.a"]);
        assert_eq!(Kind::Acquire.mutants("A.a"), ["A.a"]);
        assert_eq!(Kind::Check.mutants("A.a"), ["A.a"]);
        assert_eq!(Kind::AcqRel.mutants("A.a"), ["A.a=Acquire", "A.a=Release"]);
        assert_eq!(Kind::SeqCst.mutants("A.a"), ["A.a=AcqRel"]);
    }
}
