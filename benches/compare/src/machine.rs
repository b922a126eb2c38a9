//! What the figures were taken on.

use crate::common::AnyError;
use serde::Serialize;
use std::fs;

/// The lock file says which versions of the peers were built.
const LOCK: &str = include_str!("../../../Cargo.lock");

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    /// Processors that this program may use.
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    /// The command that measured.
    pub(crate) command: String,
}

impl Machine {
    pub(crate) fn this() -> Result<Self, AnyError> {
        let processors = fs::read_to_string("/proc/cpuinfo")?;
        let name = rustix::system::uname();
        let arguments: Vec<_> = std::env::args().skip(1).collect();
        let mut command = "cargo run --release -p pirn-compare".to_owned();
        if !arguments.is_empty() {
            command = format!("{command} -- {}", arguments.join(" "));
        }
        Ok(Self {
            cpu: model(&processors).unwrap_or(std::env::consts::ARCH).to_owned(),
            cores: std::thread::available_parallelism()?.get(),
            kernel: format!("{} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy()),
            command,
        })
    }
}

/// The first processor's model.
fn model(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim())
}

/// The version of a package that this program was built with.
pub(crate) fn version(package: &str) -> Option<&'static str> {
    let (_, entry) = LOCK.split_once(&format!("name = \"{package}\"\nversion = \""))?;
    entry.split_once('"').map(|(version, _)| version)
}

#[cfg(test)]
mod tests {
    use super::{Machine, model, version};

    #[test]
    fn the_model_is_named() {
        assert_eq!(model("processor\t: 0\nmodel name\t: Some CPU 3\nmodel name\t: b\n"), Some("Some CPU 3"));
        assert_eq!(model("processor : 0\n"), None);
        assert!(Machine::this().unwrap().cores > 0);
    }

    #[test]
    fn versions_are_those_of_the_lock_file() {
        assert_eq!(version("pirn"), Some("0.1.0"));
        assert_eq!(version("pirn-compar"), None);
        for peer in crate::peers::ALL {
            assert!(peer.package().is_none_or(|package| version(package).is_some()), "{}", peer.name());
        }
    }
}
