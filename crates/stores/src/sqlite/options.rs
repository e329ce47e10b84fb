//! Options for opening a SQLite database.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use retain_core::{Clock, Result, SessionError, SystemClock};

use super::{
    NAME,
    free_space::{SpaceProbe, SystemProbe},
    uri,
};

/// Which writes survive a power failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// All acknowledged writes.
    #[default]
    Full,
    /// All but the latest writes. The database stays consistent. Faster on disks with slow syncs.
    Normal,
    /// No guarantee: the database may become corrupt. Only for data that can be recreated.
    Off,
}

/// Options for opening a SQLite database.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    pub(super) path: Option<PathBuf>,
    pub(super) durability: Durability,
    pub(super) must_exist: bool,
    pub(super) read_only: bool,
    pub(super) checkpoint_pages: u32,
    pub(super) min_free_space: Option<u64>,
    pub(super) space_probe: Arc<dyn SpaceProbe>,
    pub(super) clock: Arc<dyn Clock>,
}

impl SqliteOptions {
    /// Opens the file at `path`, and creates it if it does not exist.
    pub fn file(path: impl Into<PathBuf>) -> SqliteOptions {
        SqliteOptions {
            path: Some(path.into()),
            durability: Durability::Full,
            must_exist: false,
            read_only: false,
            checkpoint_pages: 4000,
            min_free_space: None,
            space_probe: Arc::new(SystemProbe),
            clock: Arc::new(SystemClock),
        }
    }

    /// Opens a new database in memory, which is dropped with the store.
    pub fn in_memory() -> SqliteOptions {
        SqliteOptions {
            path: None,
            ..SqliteOptions::file("")
        }
    }

    /// Parses a URI such as `sqlite:///sessions.db`.
    pub fn from_uri(uri: &str) -> Result<SqliteOptions> {
        uri::parse(uri)
    }

    /// Sets which writes survive a power failure. Default: [`Durability::Full`].
    pub fn with_durability(mut self, durability: Durability) -> SqliteOptions {
        self.durability = durability;
        self
    }

    /// Sets the number of pages in the write-ahead log that triggers a checkpoint. Default: 4000,
    /// which is 16 MB. A higher number makes appends cheaper and the log larger.
    pub fn with_checkpoint_pages(mut self, pages: u32) -> SqliteOptions {
        self.checkpoint_pages = pages.max(1);
        self
    }

    /// Sets how many bytes of the file system must stay free: a write that adds data and would leave
    /// less fails with [`SessionError::Full`]; deletions still work. Zero disables the check.
    /// Default: 64 MiB, or twice the size of the write-ahead log at a checkpoint if that is more,
    /// but at most 5 % of the file system.
    pub fn with_min_free_space(mut self, bytes: u64) -> SqliteOptions {
        self.min_free_space = Some(bytes);
        self
    }

    /// Like [`with_min_free_space`](Self::with_min_free_space), unless a value is set already, for
    /// example by the URI.
    pub fn with_default_min_free_space(mut self, bytes: u64) -> SqliteOptions {
        self.min_free_space = self.min_free_space.or(Some(bytes));
        self
    }

    /// Measures the free space with `probe`, for tests.
    pub fn with_space_probe(mut self, probe: Arc<dyn SpaceProbe>) -> SqliteOptions {
        self.space_probe = probe;
        self
    }

    /// Fails if the file does not exist, instead of creating it.
    pub fn existing(mut self) -> SqliteOptions {
        self.must_exist = true;
        self
    }

    /// Opens the file for reading only. It must exist and have the current schema; writes fail.
    pub fn read_only(mut self) -> SqliteOptions {
        self.must_exist = true;
        self.read_only = true;
        self
    }

    /// Returns the path of the file, or `None` if the database is in memory.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns an identifier of the file that is the same for every path to it.
    pub(super) fn identity(&self) -> Result<Option<String>> {
        let Some(path) = &self.path else {
            return Ok(None);
        };
        let path = path.canonicalize().map_err(|e| SessionError::Store {
            store: NAME,
            operation: "find the database file",
            source: Box::new(e),
        })?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            // A file may have several paths (hard links), but only one device and inode.
            if let Ok(file) = path.metadata() {
                return Ok(Some(format!("sqlite file {}:{}", file.dev(), file.ino())));
            }
        }
        Ok(Some(format!("sqlite file {}", path.display())))
    }

    /// Sets the clock for leases and TTLs.
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
