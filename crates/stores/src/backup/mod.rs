//! Backups of all stores of an installation that are files, as one unit in one folder.
//!
//! Sessions are copied first, then memories, then artifacts. A program saves an artifact before it
//! appends the event that names it, so every version that the copied log names is in the backup.

mod create;
mod error;
mod files;
mod manifest;
mod restore;

use std::{path::PathBuf, sync::Arc};

use retain_core::MigrationSide;

pub use create::back_up;
pub use error::BackupError;
pub use manifest::{BackupFile, BackupManifest, BackupPartInfo};
pub use restore::{RestoreReport, read_backup, restore_backup};

use crate::{FileArtifactStore, SqliteOptions, SqliteStore};

/// A kind of store. The order is that of the copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoreKind {
    /// Sessions and API keys, and everything that has no store of its own.
    Sessions,
    /// Memories in a database of their own.
    Memories,
    /// Artifacts in a database or folder of their own.
    Artifacts,
}

impl StoreKind {
    const ALL: [StoreKind; 3] = [
        StoreKind::Sessions,
        StoreKind::Memories,
        StoreKind::Artifacts,
    ];

    /// Its name, in messages and in the manifest.
    pub fn name(self) -> &'static str {
        match self {
            StoreKind::Sessions => "sessions",
            StoreKind::Memories => "memories",
            StoreKind::Artifacts => "artifacts",
        }
    }
}

/// Where a store keeps its data.
#[derive(Debug, Clone)]
pub enum StoreFiles {
    /// A SQLite file.
    Sqlite(SqliteOptions),
    /// A folder of artifacts.
    Folder(PathBuf),
}

impl StoreFiles {
    /// The kind of storage, in the manifest.
    fn storage(&self) -> &'static str {
        match self {
            StoreFiles::Sqlite(_) => "sqlite",
            StoreFiles::Folder(_) => "folder",
        }
    }
}

/// The stores of an installation.
#[derive(Debug, Clone, Default)]
pub struct StoreSet {
    parts: Vec<(StoreKind, StoreFiles)>,
    elsewhere: Vec<StoreKind>,
}

impl StoreSet {
    /// Creates an empty set.
    pub fn new() -> StoreSet {
        StoreSet::default()
    }

    /// Adds a store. It replaces the store of the same kind.
    pub fn with_store(mut self, kind: StoreKind, files: StoreFiles) -> StoreSet {
        self.parts.retain(|(other, _)| *other != kind);
        self.parts.push((kind, files));
        self.parts.sort_by_key(|(kind, _)| *kind);
        self
    }

    /// Records that this store is backed up in another way, such as `pg_dump`.
    pub fn with_store_elsewhere(mut self, kind: StoreKind) -> StoreSet {
        self.elsewhere.push(kind);
        self
    }
}

impl StoreSet {
    /// Opens the stores for reading. Memories, artifacts and API keys without a store of their own
    /// are those of the sessions' database.
    pub async fn open_read_only(&self) -> Result<MigrationSide, BackupError> {
        let mut side = MigrationSide::default();
        for (kind, files) in &self.parts {
            let store = match files {
                StoreFiles::Folder(folder) => {
                    let store = FileArtifactStore::open_read_only(folder);
                    let store = store.map_err(|error| BackupError::Stores {
                        reason: error.to_string(),
                    })?;
                    side.artifacts = Some(Arc::new(store));
                    continue;
                }
                StoreFiles::Sqlite(options) => {
                    SqliteStore::open(options.clone().read_only()).await?
                }
            };
            match kind {
                StoreKind::Sessions => {
                    side.memory = Some(Arc::new(store.memory()));
                    side.artifacts = Some(Arc::new(store.artifacts()));
                    side.keys = Some(Arc::new(store.keys()));
                    side.sessions = Some(Arc::new(store));
                }
                StoreKind::Memories => side.memory = Some(Arc::new(store.memory())),
                StoreKind::Artifacts => side.artifacts = Some(Arc::new(store.artifacts())),
            }
        }
        Ok(side)
    }
}
