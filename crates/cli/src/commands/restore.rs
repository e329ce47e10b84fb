//! `retain restore`: restores a backup of all stores.

use std::path::PathBuf;

use clap::Args;
use retain::store::restore_backup;

use crate::output::say;

use super::{ServiceOptions, backup::store_set, spinner::Spinner};

/// Restore a backup of all stores to an empty place.
///
/// Verifies the backup first, and compares every restored record with it. If this fails, nothing has
/// changed; run it again after an interruption.
#[derive(Debug, Args)]
pub(crate) struct Restore {
    #[command(flatten)]
    stores: ServiceOptions,
    /// Folder that `retain backup` has written
    backup: PathBuf,
}

impl Restore {
    /// Prints what was restored.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let backup = self.backup.display();
        anyhow::ensure!(
            !self.backup.is_file(),
            "{backup} is a file: the backup of one database is a database; copy it to its place"
        );
        let set = store_set(&self.stores.uris()?, true)?;
        let spinner = Spinner::new(format!("restoring {backup}"));
        let report = restore_backup(&self.backup, &set).await;
        drop(spinner);
        let report = report?;
        let manifest = &report.manifest;
        let stores: Vec<&str> = manifest.stores.iter().map(|it| it.store.as_str()).collect();
        say!(
            "restored: {}, as of {}",
            stores.join(", "),
            manifest.created
        );
        match &report.compared {
            Some(compared) => {
                say!("verified: {}", compared.counts);
                say!(
                    "          the backup and the stores have the SHA-256 {}",
                    compared.digest
                );
            }
            None => say!("verified: the SHA-256 of each file"),
        }
        if !manifest.elsewhere.is_empty() {
            let stores = manifest.elsewhere.join(", ");
            say!("not in the backup, because PostgreSQL has them: {stores}");
        }
        Ok(())
    }
}
