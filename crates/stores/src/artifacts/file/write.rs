//! How a version comes to be as a whole: written aside, synced, and renamed into its place.
//!
//! The folder `versions/.N.pending` is both: where version N is written, and the sign, to other
//! processes and to ADK, that N is taken. A crash leaves the sign behind, never half a version.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
};

use retain_core::{ArtifactError, NewArtifact};

use super::{
    failed, folders_in,
    layout::{Shelf, VERSIONS},
    metadata,
};

/// How often a save begins anew because another process removed the empty folder under it.
const ATTEMPTS: usize = 16;

/// Keeps a new version and says its number. Keeps nothing if it is to have another one.
pub(super) fn put(
    shelf: &Shelf,
    filename: &str,
    new: &NewArtifact,
    expected: Option<u64>,
) -> Result<u64, ArtifactError> {
    let (version, pending) = reserve(shelf).map_err(|e| failed("save", e))?;
    if let Some(expected) = expected.filter(|expected| *expected != version) {
        fs::remove_dir(&pending).map_err(|e| failed("save", e))?;
        return Err(ArtifactError::other_version(expected, version));
    }
    let published = metadata::to_text(shelf, filename, new, version).and_then(|metadata| {
        let publish = || -> io::Result<()> {
            write_file(&pending.join(shelf.payload_name()), payload(new))?;
            write_file(&pending.join(metadata::FILE), metadata.as_bytes())?;
            sync_folder(&pending)?;
            fs::rename(&pending, shelf.version(version))?;
            sync_folder(&shelf.versions_folder())
        };
        publish().map_err(|e| failed("save", e))
    });
    if let Err(error) = published {
        // It is not there any more if only the last sync failed.
        let _ = fs::remove_dir_all(&pending);
        return Err(error);
    }
    Ok(version)
}

fn payload(new: &NewArtifact) -> &[u8] {
    let data = new.part.inline_data.as_ref();
    match (data.and_then(|blob| blob.data.as_deref()), &new.part.text) {
        (Some(data), _) => data,
        (None, Some(text)) => text.as_bytes(),
        (None, None) => &[],
    }
}

/// Takes the next free number and makes the folder in which it is written.
fn reserve(shelf: &Shelf) -> io::Result<(u64, PathBuf)> {
    let mut attempt = 0;
    loop {
        match try_reserve(shelf) {
            Err(error) if error.kind() == ErrorKind::NotFound && attempt < ATTEMPTS => attempt += 1,
            reserved => return reserved,
        }
    }
}

fn try_reserve(shelf: &Shelf) -> io::Result<(u64, PathBuf)> {
    let folder = shelf.versions_folder();
    make_folders(&folder)?;
    let mut version = shelf.numbers()?.last().map_or(0, |newest| newest + 1);
    loop {
        let pending = folder.join(format!(".{version}.pending"));
        match fs::create_dir(&pending) {
            Ok(()) if shelf.version(version).exists() => fs::remove_dir(&pending)?,
            Ok(()) => return Ok((version, pending)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        version += 1;
    }
}

/// Removes the signs of saves that were broken off, and what they had written.
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

/// Makes a folder and those above it, so that they are there after a power failure too.
pub(super) fn make_folders(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    if let Some(parent) = parent {
        make_folders(parent)?;
    }
    match fs::create_dir(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
        Ok(()) => sync_folder(parent.unwrap_or(Path::new("."))),
    }
}

/// Makes the names in a folder durable.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(windows) {
        // Folders cannot be opened there; renames are durable with their files.
        return Ok(());
    }
    File::open(path)?.sync_all()
}
