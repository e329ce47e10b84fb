//! Stores for sessions, memories, artifacts and API keys. Each backend has its own folder, and all
//! backends have the same file names.
//!
//! A backend implements [`retain_core::SessionStore`], which only stores data; the rules are in
//! [`retain_core::StoreSessionService`].

mod artifacts;
#[cfg(feature = "sqlite")]
mod backup;
mod in_memory;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod sql;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use artifacts::{FileArtifactService, FileArtifactStore};
#[cfg(feature = "sqlite")]
pub use backup::{
    BackupError, BackupFile, BackupManifest, BackupPartInfo, RestoreReport, StoreFiles, StoreKind,
    StoreSet, back_up, read_backup, restore_backup,
};
pub use in_memory::{
    InMemoryArtifactService, InMemoryArtifactStore, InMemoryKeyStore, InMemoryMemoryStore,
    InMemorySessionService, InMemoryStore,
};
#[cfg(feature = "postgres")]
pub use postgres::{
    PostgresArtifactService, PostgresArtifactStore, PostgresKeyStore, PostgresMemoryStore,
    PostgresOptions, PostgresSessionService, PostgresStore,
};
#[cfg(feature = "sqlite")]
pub use sqlite::{
    DiskSpace, Durability, SpaceProbe, SqliteArtifactService, SqliteArtifactStore, SqliteKeyStore,
    SqliteMemoryStore, SqliteOptions, SqliteSessionService, SqliteStore,
};
