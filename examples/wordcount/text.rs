//! Where the text comes from, and how it falls into words.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// How much is read at a time, in bytes.
const CHUNK_BYTES: usize = 1 << 20;
/// How much of the default text is enough, in bytes.
const DEFAULT_TEXT_BYTES: u64 = 64 << 20;

/// A file and its size when it was listed.
#[derive(Clone, Debug)]
pub(crate) struct TextFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

/// The files named, or real text that every machine which built this has: the sources of the crates in
/// cargo's home; else this repository's own.
pub(crate) fn files(named: &[PathBuf]) -> io::Result<Vec<TextFile>> {
    if !named.is_empty() {
        return named
            .iter()
            .map(|path| {
                let bytes = std::fs::metadata(path).map_err(|error| explain(path, error))?.len();
                Ok(TextFile { path: path.clone(), bytes })
            })
            .collect();
    }
    let mut found = Vec::new();
    if let Some(home) = home::cargo_home().ok().map(|home| home.join("registry").join("src")) {
        collect(&home, &mut found)?;
    }
    if found.is_empty() {
        collect(Path::new(env!("CARGO_MANIFEST_DIR")), &mut found)?;
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    let mut total = 0;
    found.retain(|file| {
        total += file.bytes;
        total <= DEFAULT_TEXT_BYTES
    });
    Ok(found)
}

/// Sources and prose below a folder. Folders that can't be read are passed over: it is only sample text.
fn collect(folder: &Path, found: &mut Vec<TextFile>) -> io::Result<()> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        let (kind, path) = (entry.file_type()?, entry.path());
        if kind.is_dir() && entry.file_name() != "target" {
            collect(&path, found)?;
        } else if kind.is_file() && path.extension().is_some_and(|ext| ext == "rs" || ext == "md") {
            found.push(TextFile { path, bytes: entry.metadata()?.len() });
        }
    }
    Ok(())
}

/// Calls `word` for every maximal run of bytes that aren't ASCII white space. The text is bytes: it need
/// not be UTF-8, and a word may be as long as the file.
pub(crate) fn for_each_word<E: From<io::Error>>(
    path: &Path,
    mut progress: impl FnMut(u64),
    mut word: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut file = File::open(path).map_err(|error| explain(path, error))?;
    let mut chunk = vec![0; CHUNK_BYTES];
    // A word that began in an earlier chunk.
    let mut begun: Vec<u8> = Vec::new();
    loop {
        let read = file.read(&mut chunk).map_err(|error| explain(path, error))?;
        if read == 0 {
            break;
        }
        progress(read as u64);
        let mut rest = &chunk[..read];
        if !begun.is_empty() {
            let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
            begun.extend_from_slice(&rest[..end]);
            rest = &rest[end..];
            if rest.is_empty() {
                continue;
            }
            word(&begun)?;
            begun.clear();
        }
        let last = rest.iter().rposition(u8::is_ascii_whitespace).map_or(0, |at| at + 1);
        let (whole, open) = rest.split_at(last);
        for found in whole.split(u8::is_ascii_whitespace).filter(|found| !found.is_empty()) {
            word(found)?;
        }
        begun.extend_from_slice(open);
    }
    if !begun.is_empty() {
        word(&begun)?;
    }
    Ok(())
}

fn explain(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
