//! What `retain` can be told to do. A command, a file.

pub(crate) mod append;
pub(crate) mod backup;
pub(crate) mod check;
pub(crate) mod database;
pub(crate) mod demo;
pub(crate) mod erase;
pub(crate) mod export;
mod features;
pub(crate) mod import;
pub(crate) mod keys;
pub(crate) mod memory;
pub(crate) mod migrate;
pub(crate) mod serve;

use clap::Args;

pub(crate) use database::{Database, Missing};
pub(crate) use features::missing_feature;

/// Which database.
#[derive(Debug, Args)]
pub(crate) struct Store {
    /// The database: sqlite:///relative.db, sqlite:////absolute.db or
    /// postgresql://user@host/database
    #[arg(long, env = "RETAIN_STORE", value_name = "URI")]
    store: String,
}

impl Store {
    /// Opens the database, creating it if it is not there.
    async fn open(&self) -> anyhow::Result<Database> {
        Database::open(&self.store, Missing::Create).await
    }

    /// Opens the database, which must be there: a misspelt name is no empty database.
    async fn open_existing(&self) -> anyhow::Result<Database> {
        Database::open(&self.store, Missing::Refuse).await
    }
}
