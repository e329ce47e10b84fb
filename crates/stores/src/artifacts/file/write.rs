//! Writes versions atomically: into a pending folder, which is synced and then renamed.
//!
//! The folder `versions/.N.pending` holds version N while it is written, and reserves the number N
//! against other processes and ADK. A crash leaves the pending folder, never a partial version.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
};

use retain_core::{ArtifactError, NewArtifact};

use super::{
    failed, folders_in,
    layout::{ArtifactFolder, VERSIONS},
    metadata,
};

/// Maximum number of retries of a save. A save is retried if another process has removed the empty
/// versions folder.
const RETRIES_MAX: usize = 16;

/// Saves a new version and returns its number. Saves nothing if the number differs from `expected`.
pub(super) fn put(
    artifact: &ArtifactFolder,
    filename: &str,
    new: &NewArtifact,
    expected: Option<u64>,
) -> Result<u64, ArtifactError> {
    let (version, pending) = reserve(artifact).map_err(|e| failed("save an artifact", e))?;
    if let Some(expected) = expected.filter(|expected| *expected != version) {
        fs::remove_dir(&pending).map_err(|e| failed("save an artifact", e))?;
        return Err(ArtifactError::other_version(expected, version));
    }
    let published = metadata::encode(artifact, filename, new, version).and_then(|metadata| {
        let publish = || -> io::Result<()> {
            write_file(&pending.join(artifact.payload_name()), payload(new))?;
            write_file(&pending.join(metadata::FILE), metadata.as_bytes())?;
            sync_folder(&pending)?;
            fs::rename(&pending, artifact.version(version))?;
            sync_folder(&artifact.versions_folder())
        };
        publish().map_err(|e| failed("save an artifact", e))
    });
    if let Err(error) = published {
        // If only the last sync failed, the folder was already renamed and this removes nothing.
        let _ = fs::remove_dir_all(&pending);
        return Err(error);
    }
    Ok(version)
}

/// Returns the content of a version.
pub(super) fn payload(new: &NewArtifact) -> &[u8] {
    let data = new.part.inline_data.as_ref();
    match (data.and_then(|blob| blob.data.as_deref()), &new.part.text) {
        (Some(data), _) => data,
        (None, Some(text)) => text.as_bytes(),
        (None, None) => &[],
    }
}

/// Reserves the next free number by creating its pending folder.
fn reserve(artifact: &ArtifactFolder) -> io::Result<(u64, PathBuf)> {
    let mut attempt = 0;
    loop {
        match try_reserve(artifact) {
            Err(error) if error.kind() == ErrorKind::NotFound && attempt < RETRIES_MAX => {
                attempt += 1;
            }
            reserved => return reserved,
        }
    }
}

fn try_reserve(artifact: &ArtifactFolder) -> io::Result<(u64, PathBuf)> {
    let folder = artifact.versions_folder();
    create_folders(&folder)?;
    let mut version = artifact.numbers()?.last().map_or(0, |newest| newest + 1);
    loop {
        let pending = folder.join(format!(".{version}.pending"));
        match fs::create_dir(&pending) {
            Ok(()) if artifact.version(version).exists() => fs::remove_dir(&pending)?,
            Ok(()) => return Ok((version, pending)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        version += 1;
    }
}

/// Removes the pending folders of interrupted saves.
pub(super) fn remove_pending(root: &Path) -> io::Result<()> {
    let mut open = vec![root.join("apps")];
    while let Some(folder) = open.pop() {
        let is_versions = folder.ends_with(VERSIONS);
        for inner in folders_in(&folder)? {
            if !is_versions {
                open.push(inner);
            } else if is_pending(&inner) {
                fs::remove_dir_all(inner)?;
            }
        }
    }
    Ok(())
}

fn is_pending(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str());
    let number = name.and_then(|name| name.strip_prefix('.')?.strip_suffix(".pending"));
    number.is_some_and(|number| number.parse::<u64>().is_ok())
}

fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Creates a folder and its ancestors, and syncs them, so that they survive a power failure.
pub(super) fn create_folders(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    if let Some(parent) = parent {
        create_folders(parent)?;
    }
    match fs::create_dir(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
        Ok(()) => sync_folder(parent.unwrap_or(Path::new("."))),
    }
}

/// Syncs a folder, so that the names in it survive a power failure.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(windows) {
        // Windows cannot sync a folder. It persists a rename together with the file.
        return Ok(());
    }
    File::open(path)?.sync_all()
}
