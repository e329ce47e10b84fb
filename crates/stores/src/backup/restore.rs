//! Restores a backup: verifies it, writes beside the target, then renames.
//!
//! The sessions are renamed last, so an interrupted restore leaves no session database. The next
//! restore continues if what is there equals the backup.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use retain_core::{Migration, MigrationReport};

use super::{
    StoreFiles, StoreKind, StoreSet,
    create::run_blocking,
    error::{BackupError, failed},
    files::{copy_file, hash_file, is_empty_folder, sync_folder},
    manifest::{BackupFile, BackupManifest, BackupPartInfo},
};
use crate::{SqliteOptions, SqliteStore};

/// The folder in an artifact folder that holds a restore until it is complete.
const RESTORING: &str = ".restoring";

/// Reads the manifest of a backup and compares all files with it.
pub async fn read_backup(backup: &Path) -> Result<BackupManifest, BackupError> {
    let backup = backup.to_owned();
    run_blocking(move || verify(&backup)).await
}

/// What a restore has restored.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RestoreReport {
    /// The manifest of the backup.
    pub manifest: BackupManifest,
    /// The counts and the SHA-256 of all records, which are equal in the backup and in the restored
    /// stores. `None` if the backup has an older schema, which must be upgraded before it is read.
    pub compared: Option<MigrationReport>,
}

/// Restores a backup to stores that do not exist yet, or are empty folders. If this fails, the
/// stores are as before.
pub async fn restore_backup(backup: &Path, set: &StoreSet) -> Result<RestoreReport, BackupError> {
    let (from, set) = (backup.to_owned(), set.clone());
    let copy = move || {
        let manifest = BackupManifest::read(&from)?;
        let targets = targets(&manifest, &set)?;
        let missing = find_missing(targets)?;
        verify(&from)?;
        let copied = missing.iter().try_for_each(|target| target.copy(&from));
        match copied {
            Ok(()) => Ok((manifest, missing)),
            Err(error) => {
                missing.iter().for_each(Target::discard);
                Err(error)
            }
        }
    };
    let (manifest, missing) = run_blocking(copy).await?;
    match compare(backup, &manifest, &missing).await {
        Ok(compared) => {
            run_blocking(move || publish(&missing)).await?;
            Ok(RestoreReport { manifest, compared })
        }
        Err(error) => {
            missing.iter().for_each(Target::discard);
            Err(error)
        }
    }
}

/// Compares the copies with the backup, record by record.
async fn compare(
    backup: &Path,
    manifest: &BackupManifest,
    copies: &[Target],
) -> Result<Option<MigrationReport>, BackupError> {
    let is_readable = |part: &BackupPartInfo| {
        part.schema
            .is_none_or(|schema| schema >= SqliteStore::SCHEMA_VERSION)
    };
    let is_complete = copies.len() == manifest.stores.len();
    if !is_complete || !manifest.stores.iter().all(is_readable) {
        return Ok(None);
    }
    let (mut from, mut to) = (StoreSet::new(), StoreSet::new());
    for target in copies {
        from = from.with_store(target.kind, target.files_at(backup.join(&target.path)));
        to = to.with_store(target.kind, target.files_at(target.partial()));
    }
    let (from, to) = (from.open_read_only().await?, to.open_read_only().await?);
    let compared = Migration::new(from, to).compare().await;
    let compared = compared.map_err(|error| BackupError::Stores {
        reason: format!("the copy differs from the backup: {error}"),
    });
    compared.map(Some)
}

fn verify(backup: &Path) -> Result<BackupManifest, BackupError> {
    let manifest = BackupManifest::read(backup)?;
    for file in &manifest.files {
        let path = backup.join(&file.path);
        let found = match hash_file(&path) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(corrupt(file, "it is missing"));
            }
            Err(error) => return Err(failed("read", &path)(error)),
        };
        check_same(file, &found)?;
    }
    Ok(manifest)
}

fn check_same(file: &BackupFile, (bytes, sha256): &(u64, String)) -> Result<(), BackupError> {
    if *bytes != file.bytes {
        let expected = file.bytes;
        return Err(corrupt(
            file,
            format!("it has {bytes} bytes instead of {expected}"),
        ));
    }
    match *sha256 == file.sha256 {
        true => Ok(()),
        false => Err(corrupt(file, "its SHA-256 differs from the manifest")),
    }
}

fn corrupt(file: &BackupFile, reason: impl Into<String>) -> BackupError {
    BackupError::Corrupt {
        file: file.path.clone(),
        reason: reason.into(),
    }
}

/// A store to restore: where to, and which files of the backup it gets.
struct Target {
    kind: StoreKind,
    place: StorePlace,
    /// Path in the backup.
    path: String,
    files: Vec<BackupFile>,
}

/// The place of a restored store.
enum StorePlace {
    File(PathBuf),
    Folder(PathBuf),
}

/// Finds the target of each store of the backup, the sessions last.
fn targets(manifest: &BackupManifest, set: &StoreSet) -> Result<Vec<Target>, BackupError> {
    let mut targets = Vec::new();
    for kind in StoreKind::ALL.into_iter().rev() {
        let name = kind.name();
        let part = manifest.stores.iter().find(|part| part.store == name);
        let files = set.parts.iter().find(|(other, _)| *other == kind);
        match (part, files) {
            (None, None) => {}
            (Some(part), Some((_, files))) => targets.push(target(kind, part, files, manifest)?),
            (Some(_), None) => {
                let reason =
                    format!("the backup has {name} in a store of their own; name that store");
                return Err(BackupError::Stores { reason });
            }
            (None, Some(_)) => {
                let reason = format!("the backup has no separate store of {name}; do not name one");
                return Err(BackupError::Stores { reason });
            }
        }
    }
    Ok(targets)
}

fn target(
    kind: StoreKind,
    part: &BackupPartInfo,
    files: &StoreFiles,
    manifest: &BackupManifest,
) -> Result<Target, BackupError> {
    let (name, storage) = (kind.name(), files.storage());
    if part.storage != storage {
        let reason = format!(
            "the backup has {name} as {}, and the target is {storage}; restore to a store of the \
             same kind",
            part.storage
        );
        return Err(BackupError::Stores { reason });
    }
    let place = match files {
        StoreFiles::Folder(folder) => StorePlace::Folder(folder.clone()),
        StoreFiles::Sqlite(options) => match options.path() {
            Some(path) => StorePlace::File(path.to_owned()),
            None => {
                let reason = "a database in memory is lost when this command ends; name a file";
                return Err(BackupError::Stores {
                    reason: reason.to_owned(),
                });
            }
        },
    };
    let prefix = format!("{}/", part.path);
    let is_of_part = |file: &&BackupFile| file.path == part.path || file.path.starts_with(&prefix);
    Ok(Target {
        kind,
        place,
        path: part.path.clone(),
        files: manifest.files.iter().filter(is_of_part).cloned().collect(),
    })
}

/// Returns the targets that are not restored yet. Fails if one has other data, or if all are
/// restored: an interrupted restore has restored some, but never all of them.
fn find_missing(targets: Vec<Target>) -> Result<Vec<Target>, BackupError> {
    let (mut missing, mut restored) = (Vec::new(), Vec::new());
    for target in targets {
        match target.is_restored()? {
            true => restored.push(target),
            false => missing.push(target),
        }
    }
    let must_be_empty = if missing.is_empty() {
        &restored
    } else {
        &missing
    };
    must_be_empty.iter().try_for_each(Target::check_empty)?;
    Ok(missing)
}

/// Renames the copies to their places. If one fails, removes those before it.
fn publish(copies: &[Target]) -> Result<(), BackupError> {
    for (index, target) in copies.iter().enumerate() {
        if let Err(error) = target.publish() {
            copies[..index].iter().for_each(Target::withdraw);
            copies.iter().for_each(Target::discard);
            return Err(error);
        }
    }
    Ok(())
}

impl Target {
    /// Whether an earlier restore has completed this store: it equals the backup.
    fn is_restored(&self) -> Result<bool, BackupError> {
        let same = |file: &BackupFile, path: &Path| match hash_file(path) {
            Ok(found) => Ok(check_same(file, &found).is_ok()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) if error.kind() == ErrorKind::NotADirectory => Ok(false),
            Err(error) => Err(failed("read", path)(error)),
        };
        match &self.place {
            StorePlace::File(path) => match self.files.first() {
                Some(file) if path.is_file() => same(file, path),
                _ => Ok(false),
            },
            StorePlace::Folder(folder) if folder.join("apps").is_dir() => {
                for file in &self.files {
                    if !same(file, &folder.join(self.relative(file)))? {
                        return Ok(false);
                    }
                }
                Ok(
                    count_files(&folder.join("apps")).map_err(failed("read", folder))?
                        == self.files.len(),
                )
            }
            StorePlace::Folder(_) => Ok(false),
        }
    }

    fn relative<'a>(&self, file: &'a BackupFile) -> &'a str {
        let inner = file.path.strip_prefix(self.path.as_str());
        inner.unwrap_or(&file.path).trim_start_matches('/')
    }

    /// Fails if the target has data. A journal without its database counts too: SQLite would apply
    /// it to the restored file.
    fn check_empty(&self) -> Result<(), BackupError> {
        let not_empty = |path: &Path| BackupError::TargetNotEmpty {
            store: self.kind.name(),
            path: path.to_owned(),
        };
        match &self.place {
            StorePlace::File(path) => {
                for end in ["", "-wal", "-shm", "-journal"] {
                    let path = with_end(path, end);
                    if path.symlink_metadata().is_ok() {
                        return Err(not_empty(&path));
                    }
                }
                Ok(())
            }
            StorePlace::Folder(folder) => {
                match is_empty_folder(folder, &[RESTORING, "lost+found"])? {
                    true => Ok(()),
                    false => Err(not_empty(folder)),
                }
            }
        }
    }

    /// Where the restored data is until it is complete.
    fn partial(&self) -> PathBuf {
        match &self.place {
            StorePlace::File(path) => with_end(path, RESTORING),
            StorePlace::Folder(folder) => folder.join(RESTORING),
        }
    }

    /// Describes data of this store at another place.
    fn files_at(&self, path: PathBuf) -> StoreFiles {
        match &self.place {
            StorePlace::File(_) => StoreFiles::Sqlite(SqliteOptions::file(path)),
            StorePlace::Folder(_) => StoreFiles::Folder(path),
        }
    }

    /// Copies the files beside the target, and compares them again.
    fn copy(&self, backup: &Path) -> Result<(), BackupError> {
        self.discard();
        let partial = self.partial();
        match &self.place {
            StorePlace::File(path) => {
                for file in &self.files {
                    if let Some(folder) = path.parent().filter(|it| *it != Path::new("")) {
                        fs::create_dir_all(folder).map_err(failed("create", folder))?;
                    }
                    copy_verified(backup, file, &partial)?;
                }
                Ok(())
            }
            StorePlace::Folder(_) => {
                fs::create_dir_all(partial.join("apps")).map_err(failed("create", &partial))?;
                for file in &self.files {
                    let to = partial.join(self.relative(file));
                    let folder = to.parent().unwrap_or(&partial);
                    fs::create_dir_all(folder).map_err(failed("create", folder))?;
                    copy_verified(backup, file, &to)?;
                }
                sync_folders(&partial)
            }
        }
    }

    /// Renames the complete data to its place.
    fn publish(&self) -> Result<(), BackupError> {
        self.check_empty()?;
        let partial = self.partial();
        match &self.place {
            StorePlace::File(path) => {
                // A link fails if another program has created the file meanwhile.
                fs::hard_link(&partial, path).map_err(failed("create", path))?;
                fs::remove_file(&partial).map_err(failed("remove", &partial))?;
                let folder = path.parent().filter(|it| *it != Path::new(""));
                sync_folder(folder.unwrap_or(Path::new(".")))
            }
            StorePlace::Folder(folder) => {
                let apps = folder.join("apps");
                fs::rename(partial.join("apps"), &apps).map_err(failed("create", &apps))?;
                fs::remove_dir(&partial).map_err(failed("remove", &partial))?;
                sync_folder(folder)
            }
        }
    }

    /// Removes the data that this restore has published.
    fn withdraw(&self) {
        let _ = match &self.place {
            StorePlace::File(path) => fs::remove_file(path),
            StorePlace::Folder(folder) => fs::remove_dir_all(folder.join("apps")),
        };
    }

    /// Removes incomplete data of this or an interrupted restore.
    fn discard(&self) {
        let partial = self.partial();
        let _ = match &self.place {
            StorePlace::File(_) => fs::remove_file(partial),
            StorePlace::Folder(_) => fs::remove_dir_all(partial),
        };
    }
}

fn copy_verified(backup: &Path, file: &BackupFile, to: &Path) -> Result<(), BackupError> {
    let copied = copy_file(&backup.join(&file.path), to).map_err(failed("write", to))?;
    check_same(file, &copied)
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// Syncs a folder and all folders in it.
fn sync_folders(folder: &Path) -> Result<(), BackupError> {
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).map_err(failed("read", &folder))? {
            let entry = entry.map_err(failed("read", &folder))?;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
        }
        sync_folder(&folder)?;
    }
    Ok(())
}

fn count_files(folder: &Path) -> io::Result<usize> {
    let (mut count, mut open) = (0, vec![folder.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => open.push(entry.path()),
                false => count += 1,
            }
        }
    }
    Ok(count)
}
