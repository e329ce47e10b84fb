//! A database by its address: the one place that knows which kinds there are.

use std::sync::Arc;

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
    store::{KeyStore, MemoryStore, SqliteStore},
};

use super::missing_feature;

/// What an address may look like, for errors and help.
pub(crate) const ADDRESSES: &str = "sqlite:///relative.db, sqlite:////absolute.db, \
                                    postgresql://user@host/database";

/// Whether a database that is not there yet is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// It is.
    Create,
    /// It is not: a misspelt name is no empty database.
    Refuse,
}

/// Sessions, and everything that is kept beside them.
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
    pub(crate) async fn open(uri: &str, missing: Missing) -> anyhow::Result<Database> {
        #[cfg(feature = "postgres")]
        if PostgresOptions::is_address(uri) {
            let mut options = PostgresOptions::from_uri(uri)?;
            if missing == Missing::Refuse {
                options = options.existing();
            }
            let address = options.uri();
            let store = PostgresStore::open(options).await?;
            let sessions = PostgresSessionService::over(store);
            return Ok(Database::Postgres(sessions, address));
        }
        check_supported(uri)?;
        anyhow::ensure!(Database::is_address(uri), unknown(uri, ADDRESSES));
        let mut options = SqliteOptions::from_uri(uri)?;
        if missing == Missing::Refuse {
            options = options.existing();
        }
        let store = SqliteStore::open(options).await?;
        Ok(Database::Sqlite(SqliteSessionService::over(store)))
    }

    /// Whether `uri` is the address of a database.
    pub(crate) fn is_address(uri: &str) -> bool {
        #[cfg(feature = "postgres")]
        if PostgresOptions::is_address(uri) {
            return true;
        }
        uri.starts_with("sqlite")
    }

    /// The sessions.
    pub(crate) fn sessions(&self) -> Arc<dyn SessionLog> {
        match self {
            Database::Sqlite(sessions) => Arc::new(sessions.clone()),
            #[cfg(feature = "postgres")]
            Database::Postgres(sessions, _) => Arc::new(sessions.clone()),
        }
    }

    /// The memories. The embedder says what they mean.
    pub(crate) fn memory(&self, embedder: Option<&Arc<dyn Embedder>>) -> Arc<dyn LongTermMemory> {
        match self {
            Database::Sqlite(sessions) => meaning(sessions.store().memory(), embedder),
            #[cfg(feature = "postgres")]
            Database::Postgres(sessions, _) => meaning(sessions.store().memory(), embedder),
        }
    }

    /// The artifacts.
    pub(crate) fn artifacts(&self) -> Arc<dyn ArtifactService> {
        match self {
            Database::Sqlite(sessions) => {
                Arc::new(SqliteArtifactService::over(sessions.store().artifacts()))
            }
            #[cfg(feature = "postgres")]
            Database::Postgres(sessions, _) => {
                Arc::new(PostgresArtifactService::over(sessions.store().artifacts()))
            }
        }
    }

    /// The keys of a server.
    pub(crate) fn keys(&self) -> Arc<dyn KeyStore> {
        match self {
            Database::Sqlite(sessions) => Arc::new(sessions.store().keys()),
            #[cfg(feature = "postgres")]
            Database::Postgres(sessions, _) => Arc::new(sessions.store().keys()),
        }
    }

    /// `uri`, by which it was opened, as it may be shown: without any password.
    pub(crate) fn shown(&self, uri: &str) -> String {
        match self {
            Database::Sqlite(_) => uri.to_owned(),
            #[cfg(feature = "postgres")]
            Database::Postgres(_, address) => address.clone(),
        }
    }
}

/// Fails for an address that needs a feature which this build lacks.
pub(crate) fn check_supported(uri: &str) -> anyhow::Result<()> {
    let is_postgres = uri.starts_with("postgres:") || uri.starts_with("postgresql");
    if is_postgres && !cfg!(feature = "postgres") {
        anyhow::bail!(missing_feature("PostgreSQL", "postgres"));
    }
    Ok(())
}

/// What is said of an address of a kind that is not known. It may hold a password.
pub(crate) fn unknown(uri: &str, known: &str) -> String {
    let shown = uri.split_once(':').map_or(uri, |(scheme, _)| scheme);
    format!("nothing is known by addresses like {shown:?}; there are {known}")
}

/// The memory with its embedder, if there is one.
pub(crate) fn meaning<S: MemoryStore>(
    store: S,
    embedder: Option<&Arc<dyn Embedder>>,
) -> Arc<dyn LongTermMemory> {
    let memory = StoreMemoryService::over(store);
    match embedder {
        Some(embedder) => Arc::new(memory.with_embedder(Arc::clone(embedder))),
        None => Arc::new(memory),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(not(feature = "postgres"))]
    #[tokio::test]
    async fn postgres_uri_without_the_feature_names_the_feature() {
        let uri = "postgresql+asyncpg://ada:hunter2@host/x";
        let error = Database::open(uri, Missing::Create).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "this build has no PostgreSQL support: install a package, or build with --features \
             postgres"
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_address_that_is_not_known_is_refused_with_those_that_are() {
        let opened = Database::open("mysql://ada:hunter2@host/x", Missing::Create).await;
        let error = opened.unwrap_err().to_string();
        assert!(error.contains("postgresql://"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}
