//! Writes a backup: each store in order, then the manifest.

use std::{fs, path::Path};

use retain_core::{Clock, timestamp_text};

use super::{
    StoreFiles, StoreKind, StoreSet,
    error::{BackupError, failed},
    files::{copy_artifacts, hash_file, is_empty_folder, sync_folder},
    manifest::{BackupFile, BackupManifest, BackupPartInfo},
};
use crate::{SqliteStore, sql::schema::PROGRAM};

/// Copies the stores to a new or empty folder while other programs use them. The copy is on disk
/// when this returns; until then, the folder has no manifest.
pub async fn back_up(
    set: &StoreSet,
    folder: &Path,
    clock: &dyn Clock,
) -> Result<BackupManifest, BackupError> {
    if !is_empty_folder(folder, &[])? {
        let path = folder.to_owned();
        return Err(BackupError::FolderNotEmpty { path });
    }
    fs::create_dir_all(folder).map_err(failed("create", folder))?;
    let mut manifest = BackupManifest {
        program: PROGRAM.to_owned(),
        created: timestamp_text(clock.now()).map_or_else(String::new, |time| time + "Z"),
        elsewhere: set
            .elsewhere
            .iter()
            .map(|kind| kind.name().to_owned())
            .collect(),
        ..BackupManifest::default()
    };
    for (kind, files) in &set.parts {
        let (part, files) = copy_store(*kind, files, folder).await?;
        manifest.stores.push(part);
        manifest.files.extend(files);
    }
    // All copies are on disk before the manifest says that the backup is complete.
    sync_folder(folder)?;
    manifest.write(folder)?;
    sync_folder(folder)?;
    if let Some(parent) = folder.parent().filter(|parent| *parent != Path::new("")) {
        sync_folder(parent)?;
    }
    Ok(manifest)
}

/// Copies one store into the folder of the backup.
async fn copy_store(
    kind: StoreKind,
    files: &StoreFiles,
    folder: &Path,
) -> Result<(BackupPartInfo, Vec<BackupFile>), BackupError> {
    let (name, to) = (kind.name(), folder.to_owned());
    let mut part = BackupPartInfo {
        store: name.to_owned(),
        storage: files.storage().to_owned(),
        ..BackupPartInfo::default()
    };
    match files {
        StoreFiles::Sqlite(options) => {
            part.path = format!("{name}.db");
            let path = to.join(&part.path);
            SqliteStore::backup_file(options.clone(), &path).await?;
            part.schema = Some(SqliteStore::file_schema_version(&path)?);
            let (bytes, sha256) = hash_file(&path).map_err(failed("read", &path))?;
            let file = BackupFile {
                path: part.path.clone(),
                bytes,
                sha256,
            };
            Ok((part, vec![file]))
        }
        StoreFiles::Folder(from) => {
            part.path = name.to_owned();
            let from = from.clone();
            let to = to.join(name);
            let copy = move || {
                if !from.is_dir() {
                    let reason = format!("the artifact folder {from:?} does not exist");
                    return Err(BackupError::Stores { reason });
                }
                fs::create_dir(&to).map_err(failed("create", &to))?;
                let files = copy_artifacts(&from, &to, name)?;
                sync_folder(&to)?;
                Ok(files)
            };
            Ok((part, run_blocking(copy).await?))
        }
    }
}

/// Runs blocking work on Tokio's thread pool for it.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BackupError> + Send + 'static,
) -> Result<T, BackupError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| {
        let reason = format!("the copy ended unexpectedly: {error}");
        Err(BackupError::Stores { reason })
    })
}
