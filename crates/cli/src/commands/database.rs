//! Opens a database by its URL; the only place that lists the kinds of databases.

use std::{path::Path, sync::Arc};

#[cfg(feature = "postgres")]
use retain::{
    PostgresSessionService, artifact::PostgresArtifactService, session::PostgresOptions,
    store::PostgresStore,
};
use retain::{
    SessionLog, SqliteSessionService,
    artifact::{ArtifactService, SqliteArtifactService},
    memory::{Embedder, LongTermMemory, StoreMemoryService},
    session::SqliteOptions,
    store::{
        ArtifactStore, ByteBudget, KeyStore, MemoryStore, Quotas, SqliteStore,
        StoreArtifactService, TransferStore,
    },
};

use super::missing_feature;

/// The supported URLs, for errors and help.
pub(crate) const SUPPORTED_URIS: &str = "sqlite:///relative.db, sqlite:////absolute.db, \
                                    postgresql://user@host/database";

/// How a store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenMode {
    /// Create the store if it does not exist.
    Create,
    /// Fail if the store does not exist: a misspelled name must not create an empty one.
    Existing,
    /// Like `Existing`, and change nothing. The store must have the schema of this program.
    ReadOnly,
}

/// Options of the memory service.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryOptions {
    /// The embedder for semantic search, if there is one.
    pub(crate) embedder: Option<Arc<dyn Embedder>>,
    /// The budget that the indexes count against.
    pub(crate) budget: ByteBudget,
}

/// A database with sessions, memories, artifacts and API keys.
#[derive(Debug, Clone)]
pub(crate) enum Database {
    /// A file.
    Sqlite(SqliteSessionService),
    /// A server.
    #[cfg(feature = "postgres")]
    Postgres(PostgresSessionService, String),
}

impl Database {
    /// Opens the database at `uri`.
    pub(crate) async fn open(uri: &str, mode: OpenMode) -> anyhow::Result<Database> {
        Database::open_with(uri, mode, None).await
    }

    /// Like [`open`](Self::open), with a minimum of free space for a file whose URI gives none.
    pub(crate) async fn open_with(
        uri: &str,
        mode: OpenMode,
        min_free_space: Option<u64>,
    ) -> anyhow::Result<Database> {
        #[cfg(feature = "postgres")]
        if PostgresOptions::is_address(uri) {
            let mut options = PostgresOptions::from_uri(uri)?;
            // Opening an existing PostgreSQL database never upgrades it.
            if mode != OpenMode::Create {
                options = options.existing();
            }
            let address = options.uri();
            let store = PostgresStore::open(options).await?;
            let sessions = PostgresSessionService::over(store);
            return Ok(Database::Postgres(sessions, address));
        }
        check_supported(uri)?;
        anyhow::ensure!(
            Database::is_address(uri),
            unsupported_uri(uri, SUPPORTED_URIS)
        );
        let options = SqliteOptions::from_uri(uri)?;
        let options = match mode {
            OpenMode::Create => options,
            OpenMode::Existing => options.existing(),
            OpenMode::ReadOnly => options.read_only(),
        };
        let options = match min_free_space {
            Some(bytes) => options.with_default_min_free_space(bytes),
            None => options,
        };
        let store = SqliteStore::open(options).await?;
        Ok(Database::Sqlite(SqliteSessionService::over(store)))
    }

    /// Opens an existing database, upgrades its schema and returns the store that can finish the
    /// upgrade.
    pub(crate) async fn upgrade(uri: &str) -> anyhow::Result<Database> {
        #[cfg(feature = "postgres")]
        if PostgresOptions::is_address(uri) {
            // `existing` would not upgrade the schema. Without it, opening creates missing tables,
            // so reject a misspelled name here.
            let options = PostgresOptions::from_uri(uri)?;
            anyhow::ensure!(
                PostgresStore::is_set_up(&options).await?,
                "{}: the database has no Retain tables; check the database name",
                options.uri()
            );
            return Database::open(uri, OpenMode::Create).await;
        }
        Database::open(uri, OpenMode::Existing).await
    }

    /// Copies a database of any schema version to a new file.
    pub(crate) async fn backup(uri: &str, file: &Path) -> anyhow::Result<()> {
        anyhow::ensure!(
            is_sqlite(uri),
            "cannot copy a PostgreSQL database to a file; use pg_dump, the server's own backups or \
             retain export"
        );
        Ok(SqliteStore::backup_file(SqliteOptions::from_uri(uri)?, file).await?)
    }

    /// Returns the store, to check and upgrade its schema.
    pub(crate) fn store(&self) -> &dyn TransferStore {
        match self {
            Database::Sqlite(sessions) => sessions.store(),
            #[cfg(feature = "postgres")]
            Database::Postgres(sessions, _) => sessions.store(),
        }
    }

    /// Returns the store of the sessions, for callers that keep it.
    pub(crate) fn shared_store(&self) -> Arc<dyn TransferStore> {
        match self {
            Database::Sqlite(sessions) => sessions.shared_store(),
            #[cfg(feature = "postgres")]
            Database::Postgres(sessions, _) => sessions.shared_store(),
        }
    }

    /// Whether `uri` is the address of a database.
    pub(crate) fn is_address(uri: &str) -> bool {
        #[cfg(feature = "postgres")]
        if PostgresOptions::is_address(uri) {
            return true;
        }
        is_sqlite(uri)
    }

    /// Returns the sessions.
    pub(crate) fn sessions(&self) -> Arc<dyn SessionLog> {
        self.sessions_within(&Quotas::default())
    }

    /// Returns the sessions, within quotas.
    pub(crate) fn sessions_within(&self, quotas: &Quotas) -> Arc<dyn SessionLog> {
        let quotas = quotas.clone();
        match self {
            Database::Sqlite(sessions) => Arc::new(sessions.clone().with_quotas(quotas)),
            #[cfg(feature = "postgres")]
            Database::Postgres(sessions, _) => Arc::new(sessions.clone().with_quotas(quotas)),
        }
    }

    /// Returns the memories within quotas, with semantic search if there is an embedder, and their
    /// store.
    pub(crate) fn memory(&self, quotas: &Quotas, options: &MemoryOptions) -> MemoryParts {
        match self {
            Database::Sqlite(sessions) => {
                memory_service(sessions.store().memory(), quotas, options)
            }
            #[cfg(feature = "postgres")]
            Database::Postgres(sessions, _) => {
                memory_service(sessions.store().memory(), quotas, options)
            }
        }
    }

    /// Returns the artifacts within quotas, and their store.
    pub(crate) fn artifacts(&self, quotas: &Quotas) -> ArtifactParts {
        match self {
            Database::Sqlite(sessions) => {
                let service = SqliteArtifactService::over(sessions.store().artifacts());
                artifact_service(service, quotas)
            }
            #[cfg(feature = "postgres")]
            Database::Postgres(sessions, _) => {
                let service = PostgresArtifactService::over(sessions.store().artifacts());
                artifact_service(service, quotas)
            }
        }
    }

    /// Returns the API keys of a server.
    pub(crate) fn keys(&self) -> Arc<dyn KeyStore> {
        match self {
            Database::Sqlite(sessions) => Arc::new(sessions.store().keys()),
            #[cfg(feature = "postgres")]
            Database::Postgres(sessions, _) => Arc::new(sessions.store().keys()),
        }
    }

    /// Returns `uri` without its password, for display.
    pub(crate) fn display_uri(&self, uri: &str) -> String {
        match self {
            Database::Sqlite(_) => uri.to_owned(),
            #[cfg(feature = "postgres")]
            Database::Postgres(_, address) => address.clone(),
        }
    }
}

pub(crate) fn is_sqlite(uri: &str) -> bool {
    uri.starts_with("sqlite")
}

/// Fails for an address that needs a feature which this build lacks.
pub(crate) fn check_supported(uri: &str) -> anyhow::Result<()> {
    let is_postgres = uri.starts_with("postgres:") || uri.starts_with("postgresql");
    if is_postgres && !cfg!(feature = "postgres") {
        anyhow::bail!(missing_feature("PostgreSQL", "postgres"));
    }
    Ok(())
}

/// Returns the error for an unsupported URI. It shows only the scheme, because the rest may hold a
/// password.
pub(crate) fn unsupported_uri(uri: &str, known: &str) -> String {
    let shown = uri.split_once(':').map_or(uri, |(scheme, _)| scheme);
    format!("unsupported store URI {shown:?}; expected one of {known}")
}

/// A memory service and its store.
pub(crate) type MemoryParts = (Arc<dyn LongTermMemory>, Arc<dyn MemoryStore>);

/// An artifact service and its store.
pub(crate) type ArtifactParts = (Arc<dyn ArtifactService>, Arc<dyn ArtifactStore>);

/// Returns the memory service within quotas, with these options.
pub(crate) fn memory_service<S: MemoryStore>(
    store: S,
    quotas: &Quotas,
    options: &MemoryOptions,
) -> MemoryParts {
    let memory = StoreMemoryService::over(store)
        .with_quotas(quotas.clone())
        .with_byte_budget(&options.budget);
    let memory = match &options.embedder {
        Some(embedder) => memory.with_embedder(Arc::clone(embedder)),
        None => memory,
    };
    let store = memory.shared_store();
    (Arc::new(memory), store)
}

/// Returns the artifact service within quotas, and its store.
pub(crate) fn artifact_service<S: ArtifactStore>(
    artifacts: StoreArtifactService<S>,
    quotas: &Quotas,
) -> ArtifactParts {
    let artifacts = artifacts.with_quotas(quotas.clone());
    let store = artifacts.shared_store();
    (Arc::new(artifacts), store)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(not(feature = "postgres"))]
    #[tokio::test]
    async fn error_for_a_postgres_uri_names_the_missing_feature() {
        let uri = "postgresql+asyncpg://ada:hunter2@host/x";
        let error = Database::open(uri, OpenMode::Create).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "this build has no PostgreSQL support: install a package, or build with --features \
             postgres"
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn unsupported_uri_error_lists_supported_ones_and_hides_the_password() {
        let opened = Database::open("mysql://ada:hunter2@host/x", OpenMode::Create).await;
        let error = opened.unwrap_err().to_string();
        assert!(error.contains("postgresql://"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}
