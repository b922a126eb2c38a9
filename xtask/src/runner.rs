//! Builds the runner of the models once, and asks it which models there are.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A model as `--list` tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) name: String,
    pub(crate) edges: Vec<String>,
}

/// The path of the runner, built as `CONTRIBUTING.md` says: same flags, same target folder.
pub(crate) fn build(root: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let output = Command::new(cargo)
        .args(["test", "--package", "pirn", "--profile", "loom", "--target-dir", "target/loom", "--test"])
        .args(["loom", "--no-run", "--message-format", "json-render-diagnostics"])
        .env("RUSTFLAGS", "--cfg loom")
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo can't be run: {error}"))?;
    if !output.status.success() {
        return Err("the models don't compile".to_owned());
    }
    executable(&String::from_utf8_lossy(&output.stdout), "loom").ok_or("cargo built no runner".to_owned())
}

/// The executable of a target among cargo's messages.
pub(crate) fn executable(messages: &str, target: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    messages
        .filter(|message| message["reason"] == "compiler-artifact" && message["target"]["name"] == target)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

/// The models that the runner knows.
pub(crate) fn models(runner: &Path) -> Result<Vec<Model>, String> {
    let output = Command::new(runner)
        .arg("--list")
        .env_remove("PIRN_MUTANT")
        .output()
        .map_err(|error| format!("{}: {error}", runner.display()))?;
    if !output.status.success() {
        return Err(format!("--list: {}", String::from_utf8_lossy(&output.stderr)));
    }
    parse_models(&String::from_utf8_lossy(&output.stdout))
}

fn parse_models(text: &str) -> Result<Vec<Model>, String> {
    let parse = |line: &str| {
        let (name, edges) = line.split_once('\t').ok_or_else(|| format!("--list: not a model: {line}"))?;
        Ok(Model { name: name.to_owned(), edges: edges.split_whitespace().map(str::to_owned).collect() })
    };
    text.lines().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_that_of_the_test_target() {
        let messages = r#"
            {"reason":"compiler-artifact","target":{"name":"loom","kind":["lib"]},"executable":null}
            {"reason":"compiler-artifact","target":{"name":"pirn"},"executable":"/x/pirn"}
            not json
            {"reason":"compiler-artifact","target":{"name":"loom","kind":["test"]},"executable":"/x/loom-1"}
            {"reason":"build-finished","success":true}"#;
        assert_eq!(executable(messages, "loom"), Some(PathBuf::from("/x/loom-1")));
        assert_eq!(executable("", "loom"), None);
    }

    #[test]
    fn models_come_with_their_edges() {
        let models = parse_models("a::b\tA_E1 A_E2\na::c\t\n").unwrap();
        assert_eq!(models[0], Model { name: "a::b".into(), edges: vec!["A_E1".into(), "A_E2".into()] });
        assert_eq!(models[1].edges, Vec::<String>::new());
        assert!(parse_models("a::b A_E1\n").is_err());
    }
}
