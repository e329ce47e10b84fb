//! `retain backup`: a copy of all stores that are in use.

use std::path::{Path, PathBuf};

use clap::Args;
use retain::{
    session::SqliteOptions,
    store::{StoreFiles, StoreKind, StoreSet, SystemClock, back_up},
};

use crate::output::say;

use super::{
    Database, ServiceOptions,
    database::is_sqlite,
    services::{ServiceUris, folder},
    spinner::Spinner,
};

/// Copy all stores while they are in use.
///
/// Writes a folder with a copy of each store and a manifest, which `retain restore` needs. A set of
/// stores that is one SQLite database can also be copied to a file: give a path that is not a folder.
#[derive(Debug, Args)]
pub(crate) struct Backup {
    #[command(flatten)]
    stores: ServiceOptions,
    /// Back up only what is in files; PostgreSQL was backed up before, for example with pg_dump
    #[arg(long)]
    skip_postgres: bool,
    /// New or empty folder; or a new file, if the only store is a SQLite database
    target: PathBuf,
}

impl Backup {
    /// Returns when the copy is on the disk.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let uris = self.stores.uris()?;
        let target = self.target.display();
        let spinner = Spinner::new(format!("copying to {target}"));
        if uris.is_one_sqlite_file() && !is_folder(&self.target) {
            Database::backup(&uris.sessions, &self.target).await?;
            drop(spinner);
            say!("wrote {target}");
            return Ok(());
        }
        let set = store_set(&uris, self.skip_postgres)?;
        let manifest = back_up(&set, &self.target, &SystemClock).await?;
        drop(spinner);
        let (files, bytes) = (manifest.files.len(), manifest.bytes());
        let stores: Vec<&str> = manifest.stores.iter().map(|it| it.store.as_str()).collect();
        let stores = stores.join(", ");
        let unit = if files == 1 { "file" } else { "files" };
        say!("wrote {target}: {stores}, {files} {unit}, {bytes} bytes");
        if !manifest.elsewhere.is_empty() {
            say!(
                "not in it, because PostgreSQL has them: {}",
                manifest.elsewhere.join(", ")
            );
        }
        Ok(())
    }
}

/// Whether a path names a folder, which need not exist.
fn is_folder(path: &Path) -> bool {
    path.is_dir() || path.to_string_lossy().ends_with(std::path::MAIN_SEPARATOR)
}

impl ServiceUris {
    /// Whether all stores are in one SQLite database.
    fn is_one_sqlite_file(&self) -> bool {
        let is_same = |uri: &Option<String>| uri.as_ref().is_none_or(|uri| *uri == self.sessions);
        is_sqlite(&self.sessions) && is_same(&self.memory) && is_same(&self.artifacts)
    }
}

/// The files of all stores. PostgreSQL must be skipped explicitly, so that nobody believes that it is
/// in a backup.
pub(super) fn store_set(uris: &ServiceUris, skip_postgres: bool) -> anyhow::Result<StoreSet> {
    let mut set = StoreSet::new();
    for (kind, uri) in [
        (StoreKind::Sessions, Some(&uris.sessions)),
        (StoreKind::Memories, uris.memory.as_ref()),
        (StoreKind::Artifacts, uris.artifacts.as_ref()),
    ] {
        let Some(uri) = uri.filter(|uri| kind == StoreKind::Sessions || **uri != uris.sessions)
        else {
            continue;
        };
        if uri.starts_with("file:") && kind == StoreKind::Artifacts {
            set = set.with_store(kind, StoreFiles::Folder(folder(uri)?));
        } else if is_sqlite(uri) {
            set = set.with_store(kind, StoreFiles::Sqlite(SqliteOptions::from_uri(uri)?));
        } else {
            let name = kind.name();
            anyhow::ensure!(
                Database::is_address(uri),
                "cannot copy the {name}: they are in no file; use retain export"
            );
            anyhow::ensure!(
                skip_postgres,
                "cannot copy the {name}: they are in PostgreSQL; back it up with pg_dump first, then \
                 use --skip-postgres for the rest"
            );
            set = set.with_store_elsewhere(kind);
        }
    }
    Ok(set)
}
