//! What `retain` can be told to do. A command, a file.

pub(crate) mod append;
pub(crate) mod backup;
pub(crate) mod check;
pub(crate) mod demo;
pub(crate) mod erase;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod keys;
pub(crate) mod serve;

use clap::Args;
use retain::{SqliteOptions, SqliteSessionService, SqliteStore};

/// Which database.
#[derive(Debug, Args)]
pub(crate) struct Store {
    /// The database: sqlite:///relative.db or sqlite:////absolute.db
    #[arg(long, env = "RETAIN_STORE", value_name = "URI")]
    store: String,
}

impl Store {
    /// Opens the database, creating it if it is not there.
    async fn open(&self) -> anyhow::Result<SqliteSessionService> {
        Ok(SqliteSessionService::connect(&self.store).await?)
    }

    /// Opens the database, which must be there: a misspelt name is no empty database.
    async fn open_existing(&self) -> anyhow::Result<SqliteSessionService> {
        let options = SqliteOptions::from_uri(&self.store)?.existing();
        Ok(SqliteSessionService::over(
            SqliteStore::open(options).await?,
        ))
    }
}
