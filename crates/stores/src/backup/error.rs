//! Why a backup or a restore failed.

use std::{
    io,
    path::{Path, PathBuf},
};

use retain_core::SessionError;

/// Why a backup or a restore failed, by what the user can do next. A failed backup leaves a folder
/// without a manifest; a failed restore leaves the target as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The folder of the backup has files.
    #[error("cannot write the backup: {path:?} is not empty; choose another folder")]
    FolderNotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// The target of a restore has data.
    #[error("cannot restore {store}: {path:?} exists; restore to an empty place, or move it away")]
    TargetNotEmpty {
        /// The store.
        store: &'static str,
        /// The file or folder.
        path: PathBuf,
    },
    /// The folder has no manifest: the backup was interrupted, or it is not a backup.
    #[error("{path:?} is not a complete backup: it has no manifest; make the backup again")]
    Incomplete {
        /// The folder.
        path: PathBuf,
    },
    /// A file of the backup is missing or differs from the manifest.
    #[error("file {file:?} of the backup is corrupt: {reason}; use another backup")]
    Corrupt {
        /// The file, relative to the backup.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// The backup and the set of stores do not fit together.
    #[error("cannot use the stores: {reason}")]
    Stores {
        /// The reason, and what to do.
        reason: String,
    },
    /// The file system failed.
    #[error("failed to {operation} {path:?}; check the disk and try again")]
    Io {
        /// The operation.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A database failed.
    #[error(transparent)]
    Store(#[from] SessionError),
}

/// Returns a converter from an I/O error of `operation` on `path`.
pub(super) fn failed<'a>(
    operation: &'static str,
    path: &'a Path,
) -> impl Fn(io::Error) -> BackupError + 'a {
    move |source| BackupError::Io {
        operation,
        path: path.to_owned(),
        source,
    }
}
