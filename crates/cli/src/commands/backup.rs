//! `retain backup`: a copy of a database that is in use.

use std::path::PathBuf;

use clap::Args;

use crate::output::say;

use super::{Database, Store};

/// Copy a database to a new file.
#[derive(Debug, Args)]
pub(crate) struct Backup {
    #[command(flatten)]
    store: Store,
    /// File to write; must not exist yet
    file: PathBuf,
}

impl Backup {
    /// Copies the database. Returns when the copy is on disk.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        Database::backup(&self.store.store, &self.file).await?;
        say!("wrote {}", self.file.display());
        Ok(())
    }
}
