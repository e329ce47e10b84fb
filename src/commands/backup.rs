//! `retain backup`: a copy of a database that is in use.

use std::path::PathBuf;

use clap::Args;

use super::Store;

/// Copy a database to a new file.
#[derive(Debug, Args)]
pub(crate) struct Backup {
    #[command(flatten)]
    store: Store,
    /// The file to write; it must not be there yet.
    file: PathBuf,
}

impl Backup {
    /// Returns when the copy is on the disk.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        self.store
            .open_existing()
            .await?
            .store()
            .backup(&self.file)
            .await?;
        println!("wrote {}", self.file.display());
        Ok(())
    }
}
