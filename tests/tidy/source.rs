//! Files of the repository, as text, as flat tokens and as paths.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::path::{Path, PathBuf};

/// A file, by its path from the root of the repository.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn sample(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// Unit tests stand in files of their own.
    pub(crate) fn is_tests(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }

    /// The names of the modules around and of this file, from the crate's root on: `["ring", "entry"]`
    /// for `src/ring/entry.rs`, nothing for `src/lib.rs`.
    pub(crate) fn module(&self) -> Vec<&str> {
        let inner = self.path.strip_prefix("src/").unwrap_or(&self.path);
        let inner = inner.strip_suffix(".rs").unwrap_or(inner);
        let inner = inner.strip_suffix("/mod").unwrap_or(inner);
        if inner == "lib" { Vec::new() } else { inner.split('/').collect() }
    }

    pub(crate) fn tokens(&self) -> Vec<Token> {
        let stream: TokenStream =
            self.text.parse().unwrap_or_else(|error| panic!("{}: not Rust: {error}", self.path));
        let mut tokens = Vec::new();
        flatten(stream, &mut tokens);
        tokens
    }

    /// `path:line: problem`
    pub(crate) fn problem(&self, line: usize, problem: &str) -> String {
        format!("{}:{line}: {problem}", self.path)
    }
}

/// One token; a group is its delimiters and what is between them. Comments are gone, docs are literals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
}

impl Token {
    pub(crate) fn is_word(&self) -> bool {
        self.text.starts_with(|first: char| first.is_alphabetic() || first == '_')
    }
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream {
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                tokens.push(Token { text: open.to_owned(), line: group.span_open().start().line });
                flatten(group.stream(), tokens);
                tokens.push(Token { text: close.to_owned(), line: group.span_close().start().line });
            }
            other => tokens.push(Token { text: other.to_string(), line: other.span().start().line }),
        }
    }
}

/// Whether `pattern` (tokens apart by blanks) stands at `at`.
pub(crate) fn matches_at(tokens: &[Token], at: usize, pattern: &str) -> bool {
    let mut rest = tokens[at..].iter();
    pattern.split_whitespace().all(|word| rest.next().is_some_and(|token| token.text == word))
}

/// The index behind the group that opens at `open`.
pub(crate) fn group_end(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "(" | "{" | "[" => depth += 1,
            ")" | "}" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// A path as written, with the braces of `use` taken apart: `a::{b, c::d}` is `a::b` and `a::c::d`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathUse {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
}

impl PathUse {
    pub(crate) fn starts_with(&self, path: &str) -> bool {
        let mut own = self.segments.iter();
        path.split("::").all(|segment| own.next().is_some_and(|own| own == segment))
    }

    pub(crate) fn ends_with(&self, path: &str) -> bool {
        let mut own = self.segments.iter().rev();
        path.rsplit("::").all(|segment| own.next().is_some_and(|own| own == segment))
    }
}

pub(crate) fn paths(tokens: &[Token]) -> Vec<PathUse> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let continues = at >= 2 && matches_at(tokens, at - 2, ": :");
        if tokens[at].is_word() && !continues {
            at = path(tokens, at, Vec::new(), &mut found);
        } else {
            at += 1;
        }
    }
    found
}

/// Reads one path from `at` behind `prefix`; the index behind it.
fn path(tokens: &[Token], mut at: usize, mut prefix: Vec<String>, found: &mut Vec<PathUse>) -> usize {
    let line = tokens[at].line;
    loop {
        prefix.push(tokens[at].text.clone());
        at += 1;
        if at + 2 >= tokens.len() || !matches_at(tokens, at, ": :") {
            break;
        }
        let next = &tokens[at + 2];
        if next.text == "{" {
            let end = group_end(tokens, at + 2);
            let mut inner = at + 3;
            while inner + 1 < end {
                if tokens[inner].is_word() || tokens[inner].text == "*" {
                    inner = path(tokens, inner, prefix.clone(), found);
                    // Behind the path: `as name`.
                    while inner + 1 < end && tokens[inner].text != "," {
                        inner += 1;
                    }
                } else {
                    inner += 1;
                }
            }
            return end;
        }
        if !next.is_word() && next.text != "*" {
            break;
        }
        at += 2;
    }
    found.push(PathUse { segments: prefix, line });
    at
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files below `folder` with this extension, in order; none if there is no such folder.
pub(crate) fn files(folder: &str, extension: &str) -> Vec<File> {
    let mut found = Vec::new();
    if root().join(folder).is_dir() {
        collect(&root().join(folder), extension, &mut found);
    }
    found.sort();
    found.iter().map(|path| read(path)).collect()
}

pub(crate) fn library() -> Vec<File> {
    let files = files("src", "rs");
    assert!(!files.is_empty(), "no source found below {}", root().display());
    files
}

/// One file that has to be there.
pub(crate) fn file(path: &str) -> File {
    read(&root().join(path))
}

fn read(path: &Path) -> File {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let label = path.strip_prefix(root()).unwrap_or(path);
    File { path: label.display().to_string(), text }
}

fn collect(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.unwrap_or_else(|error| panic!("{}: {error}", folder.display())).path();
        if path.is_dir() {
            collect(&path, extension, found);
        } else if path.extension().is_some_and(|own| own == extension) {
            found.push(path);
        }
    }
}

#[test]
fn paths_are_taken_apart() {
    let text = "use a::{b, c::{d as e, self}, f::*}; fn g() { h::i::<J>(k::L); m(); } // n::o\n";
    let tokens = File::sample("src/x.rs", text).tokens();
    let paths: Vec<String> = paths(&tokens).into_iter().map(|path| path.segments.join("::")).collect();
    let several: Vec<&str> = paths.iter().map(String::as_str).filter(|path| path.contains("::")).collect();
    assert_eq!(several, ["a::b", "a::c::d", "a::c::self", "a::f::*", "h::i", "k::L"]);
}

#[test]
fn modules_follow_from_paths() {
    let module = |path: &str| File::sample(path, "").module().join("::");
    assert_eq!(module("src/lib.rs"), "");
    assert_eq!(module("src/id.rs"), "id");
    assert_eq!(module("src/ring/mod.rs"), "ring");
    assert_eq!(module("src/ring/entry/tests.rs"), "ring::entry::tests");
}
