//! Copies the database into a new file.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use retain_core::{Result, SessionError};
use rusqlite::Connection;

use super::{NAME, failed};

/// Copies a snapshot of the database into a new file. Fails if the file exists.
pub(super) fn backup(connection: &Connection, path: &Path) -> Result<()> {
    let error = |source: retain_core::BoxError| SessionError::Store {
        store: NAME,
        operation: "back up the database",
        source,
    };
    if path.exists() {
        let reason = format!("{path:?} already exists; choose another name");
        return Err(SessionError::invalid("backup file", reason));
    }
    // Copy to a temporary name, so that an interrupted copy does not look like a backup.
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let Some(text) = partial.to_str() else {
        return Err(SessionError::invalid(
            "backup file",
            "has a name that is not valid UTF-8; choose another name",
        ));
    };
    let _ = std::fs::remove_file(&partial);
    connection
        .execute("VACUUM INTO ?1", [text])
        .map_err(|e| failed("back up the database", e))?;
    let synced = || {
        File::open(&partial)?.sync_all()?;
        std::fs::rename(&partial, path)?;
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    };
    synced().map_err(|e: std::io::Error| error(Box::new(e)))
}
