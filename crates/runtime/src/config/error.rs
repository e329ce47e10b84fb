//! Configuration errors, with their locations.

use std::{
    fmt,
    path::{Path, PathBuf},
};

/// An invalid configuration. Displayed as `file:line: key: problem`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    file: PathBuf,
    line: Option<usize>,
    key: String,
    problem: String,
}

impl ConfigError {
    pub(super) fn for_file(file: &Path, problem: impl Into<String>) -> ConfigError {
        ConfigError {
            file: file.to_owned(),
            line: None,
            key: String::new(),
            problem: problem.into(),
        }
    }

    pub(super) fn new(file: &Path, line: usize, key: &str, problem: impl Into<String>) -> Self {
        ConfigError {
            line: Some(line),
            key: key.to_owned(),
            ..ConfigError::for_file(file, problem)
        }
    }

    /// Returns the file with the error.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the line number, starting at 1; `None` if the error concerns the whole file.
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// Returns the path of the value, e.g. `tools[0].args`; empty if the error concerns the whole
    /// file.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns what is wrong, and what was expected.
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl std::error::Error for ConfigError {}
