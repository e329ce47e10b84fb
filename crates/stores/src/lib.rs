//! Stores of sessions, memories, artifacts and API keys. A backend is a folder, and every backend has
//! the same files for the same work.
//!
//! Each implements [`retain_core::SessionStore`] and decides nothing; the rules are
//! [`retain_core::StoreSessionService`]'s.

mod artifacts;
mod in_memory;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod sql;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use artifacts::{FileArtifactService, FileArtifactStore};
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
    Durability, SqliteArtifactService, SqliteArtifactStore, SqliteKeyStore, SqliteMemoryStore,
    SqliteOptions, SqliteSessionService, SqliteStore,
};
