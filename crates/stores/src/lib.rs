//! Session stores: where logs are kept. A store, a file. And beside them, where artifacts and
//! memories are.
//!
//! Each implements [`retain_core::SessionStore`] and decides nothing; the rules are
//! [`retain_core::StoreSessionService`]'s.

mod artifacts;
mod in_memory;
mod keys;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod sql;
#[cfg(feature = "sqlite")]
mod sqlite;
mod window;

pub use artifacts::{
    FileArtifactService, FileArtifactStore, InMemoryArtifactService, InMemoryArtifactStore,
};
pub use in_memory::{InMemorySessionService, InMemoryStore};
pub use keys::InMemoryKeyStore;
pub use memory::InMemoryMemoryStore;
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
