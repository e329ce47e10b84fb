//! What is wrong with a configuration, and where.

use std::{
    fmt,
    path::{Path, PathBuf},
};

/// Why a configuration cannot be used. Printed as `file:line: key: problem`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    file: PathBuf,
    line: Option<usize>,
    key: String,
    problem: String,
}

impl ConfigError {
    pub(super) fn of_file(file: &Path, problem: impl Into<String>) -> ConfigError {
        ConfigError {
            file: file.to_owned(),
            line: None,
            key: String::new(),
            problem: problem.into(),
        }
    }

    pub(super) fn at(file: &Path, line: usize, key: &str, problem: impl Into<String>) -> Self {
        ConfigError {
            line: Some(line),
            key: key.to_owned(),
            ..ConfigError::of_file(file, problem)
        }
    }

    /// The file that has to be changed.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The line, counted from 1; `None` if it is the file as a whole.
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// The way to the value, e.g. `tools[0].args`; empty for the file as a whole.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What is wrong, and what was expected.
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
