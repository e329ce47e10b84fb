//! The commands of `retain`, one file each.

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
pub(crate) mod restore;
pub(crate) mod serve;
mod services;
mod spinner;
pub(crate) mod sweep;
pub(crate) mod upgrade;
pub(crate) mod usage;

use clap::Args;

pub(crate) use database::{Database, MemoryOptions, OpenMode};
pub(crate) use features::missing_feature;
pub(crate) use services::{ServiceOptions, ServiceSet};

/// The option `--store`.
#[derive(Debug, Args)]
pub(crate) struct Store {
    /// URL of the database: sqlite:///relative.db, sqlite:////absolute.db or
    /// postgresql://user@host/database
    #[arg(long, env = "RETAIN_STORE", value_name = "URI")]
    store: String,
}

impl Store {
    /// Opens the database and creates it if it does not exist.
    async fn open(&self) -> anyhow::Result<Database> {
        Database::open(&self.store, OpenMode::Create).await
    }
}
