//! Options: which SQLite file to open, and how.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use retain_core::{Clock, Result, SessionError, SystemClock};

use super::{NAME, uri};

/// What survives when the power fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// Everything acknowledged.
    #[default]
    Full,
    /// The last moments may be lost; what is left is whole. Faster where syncing is slow.
    Normal,
    /// Nothing is promised. For data that can be made again.
    Off,
}

/// Which database to open, and how.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    pub(super) path: Option<PathBuf>,
    pub(super) durability: Durability,
    pub(super) must_exist: bool,
    pub(super) read_only: bool,
    pub(super) checkpoint_pages: u32,
    pub(super) clock: Arc<dyn Clock>,
}

impl SqliteOptions {
    /// The database in the file at `path`, created if it is not there.
    pub fn file(path: impl Into<PathBuf>) -> SqliteOptions {
        SqliteOptions {
            path: Some(path.into()),
            durability: Durability::Full,
            must_exist: false,
            read_only: false,
            checkpoint_pages: 4000,
            clock: Arc::new(SystemClock),
        }
    }

    /// A database in memory that goes with the store.
    pub fn in_memory() -> SqliteOptions {
        SqliteOptions {
            path: None,
            ..SqliteOptions::file("")
        }
    }

    /// Reads an address such as `sqlite:///sessions.db`.
    pub fn from_uri(uri: &str) -> Result<SqliteOptions> {
        uri::parse(uri)
    }

    /// Sets what survives when the power fails. Default: everything acknowledged.
    pub fn with_durability(mut self, durability: Durability) -> SqliteOptions {
        self.durability = durability;
        self
    }

    /// Sets after how many changed pages the write-ahead log is brought into the database. Default:
    /// 4000, which is a log of 16 MB. More makes appends cheaper and the log larger.
    pub fn with_checkpoint_pages(mut self, pages: u32) -> SqliteOptions {
        self.checkpoint_pages = pages.max(1);
        self
    }

    /// Refuses to create the database: it must be there.
    pub fn existing(mut self) -> SqliteOptions {
        self.must_exist = true;
        self
    }

    /// Only reads: the database must be there, in the form that this program knows, and stays as it
    /// is. Whatever would write fails.
    pub fn read_only(mut self) -> SqliteOptions {
        self.must_exist = true;
        self.read_only = true;
        self
    }

    /// The file; `None` if the database is in memory.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Which file it is, whatever path leads to it.
    pub(super) fn identity(&self) -> Result<Option<String>> {
        let Some(path) = &self.path else {
            return Ok(None);
        };
        let found = path.canonicalize().map_err(|e| SessionError::Store {
            store: NAME,
            operation: "look at the database",
            source: Box::new(e),
        })?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            // One file may have several names.
            if let Ok(found) = found.metadata() {
                return Ok(Some(format!("sqlite file {}:{}", found.dev(), found.ino())));
            }
        }
        Ok(Some(format!("sqlite file {}", found.display())))
    }

    /// Lets leases and expiries follow `clock`.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> SqliteOptions {
        self.clock = clock;
        self
    }

    pub(super) fn uri(&self) -> String {
        match &self.path {
            Some(path) => format!("sqlite:///{}", path.display()),
            None => "sqlite::memory:".to_owned(),
        }
    }
}
