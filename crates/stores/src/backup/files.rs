//! Copies files with their hashes, and syncs files and folders to the disk.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read, Write},
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use super::{
    error::{BackupError, failed},
    manifest::BackupFile,
};

/// Number of bytes read at a time.
const CHUNK: usize = 256 * 1024;

/// Writes everything, and returns the size and the hash of what was written.
fn copy_hashed(from: &mut impl Read, to: &mut impl Write) -> io::Result<(u64, String)> {
    let (mut hash, mut bytes, mut chunk) = (Sha256::new(), 0, vec![0; CHUNK]);
    loop {
        match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => {
                hash.update(&chunk[..count]);
                to.write_all(&chunk[..count])?;
                bytes += count as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let hash = hash.finalize();
    let hash = hash.iter().map(|byte| format!("{byte:02x}"));
    Ok((bytes, hash.collect()))
}

/// Returns the size and the hash of a file.
pub(super) fn hash_file(path: &Path) -> io::Result<(u64, String)> {
    copy_hashed(&mut File::open(path)?, &mut io::sink())
}

/// Copies a file to a new one, syncs it, and returns its size and hash.
pub(super) fn copy_file(from: &Path, to: &Path) -> io::Result<(u64, String)> {
    let mut source = File::open(from)?;
    let mut target = File::create_new(to)?;
    let copied = copy_hashed(&mut source, &mut target)?;
    target.sync_all()?;
    Ok(copied)
}

/// Writes a new file and syncs it. Replaces a file that an interrupted run has left.
pub(super) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), BackupError> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(failed("write", path))
}

/// Syncs a folder, so that the names in it survive a power failure.
pub(super) fn sync_folder(path: &Path) -> Result<(), BackupError> {
    if cfg!(windows) {
        // Windows cannot sync a folder.
        return Ok(());
    }
    let synced = File::open(path).and_then(|folder| folder.sync_all());
    synced.map_err(failed("sync", path))
}

/// Whether a folder has no entries except those in `ignored`; true if it does not exist.
pub(super) fn is_empty_folder(path: &Path, ignored: &[&str]) -> Result<bool, BackupError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        Err(error) if error.kind() == ErrorKind::NotADirectory => return Ok(false),
        Err(error) => return Err(failed("read", path)(error)),
    };
    for entry in entries {
        let name = entry.map_err(failed("read", path))?.file_name();
        if !ignored.iter().any(|ignored| name == *ignored) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Copies the complete versions of an artifact folder. `prefix` is the path of `to` in the backup.
/// Artifacts that are deleted meanwhile are omitted.
pub(super) fn copy_artifacts(
    from: &Path,
    to: &Path,
    prefix: &str,
) -> Result<Vec<BackupFile>, BackupError> {
    let mut files = Vec::new();
    let mut open = vec![(from.join("apps"), to.join("apps"), format!("{prefix}/apps"))];
    while let Some((from, to, prefix)) = open.pop() {
        let Some(entries) = read_folder(&from)? else {
            continue;
        };
        fs::create_dir_all(&to).map_err(failed("create", &to))?;
        match copy_entries(&from, &to, &prefix, entries, &mut open)? {
            Some(copied) => files.extend(copied),
            // The version was deleted while it was copied.
            None => {
                fs::remove_dir_all(&to).map_err(failed("remove", &to))?;
                open.retain(|(_, inner, _)| !inner.starts_with(&to));
                continue;
            }
        }
        sync_folder(&to)?;
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Folders to copy: source, target and path in the backup.
type OpenFolders = Vec<(PathBuf, PathBuf, String)>;

/// Copies the files of a folder and lists its folders in `open`; `None` if a file was deleted.
fn copy_entries(
    from: &Path,
    to: &Path,
    prefix: &str,
    entries: Vec<(String, bool)>,
    open: &mut OpenFolders,
) -> Result<Option<Vec<BackupFile>>, BackupError> {
    let mut files = Vec::new();
    for (name, is_folder) in entries {
        let (source, target) = (from.join(&name), to.join(&name));
        let path = format!("{prefix}/{name}");
        if is_folder {
            open.push((source, target, path));
            continue;
        }
        match copy_file(&source, &target) {
            Ok((bytes, sha256)) => files.push(BackupFile {
                path,
                bytes,
                sha256,
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("copy", &source)(error)),
        }
    }
    Ok(Some(files))
}

/// Lists a folder: names, and whether each is a folder. Omits symbolic links, which the artifact
/// store does not follow, and versions that are still being written. `None` if it does not exist.
fn read_folder(path: &Path) -> Result<Option<Vec<(String, bool)>>, BackupError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("read", path)(error)),
    };
    let is_versions = path.ends_with("versions");
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed("read", path))?;
        let kind = entry.file_type().map_err(failed("read", path))?;
        let Ok(name) = entry.file_name().into_string() else {
            let reason = format!("a name in {path:?} is not valid UTF-8; rename it");
            return Err(BackupError::Stores { reason });
        };
        let is_pending = is_versions && name.starts_with('.') && name.ends_with(".pending");
        if (kind.is_dir() && !is_pending) || kind.is_file() {
            found.push((name, kind.is_dir()));
        }
    }
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_of_artifacts_omits_unfinished_versions_and_links() {
        let (from, to) = (
            retain_testkit::scratch::folder(),
            retain_testkit::scratch::folder(),
        );
        let versions = from.path().join("apps/a/users/u/artifacts/f/versions");
        for folder in ["0", ".1.pending"] {
            fs::create_dir_all(versions.join(folder)).unwrap();
            fs::write(versions.join(folder).join("f"), "abc").unwrap();
        }
        fs::create_dir_all(from.path().join(".deleted/x")).unwrap();
        fs::write(from.path().join(".deleted/x/f"), "gone").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("/", versions.join("2")).unwrap();
        let files = copy_artifacts(from.path(), to.path(), "artifacts").unwrap();
        let expected = BackupFile {
            path: "artifacts/apps/a/users/u/artifacts/f/versions/0/f".to_owned(),
            bytes: 3,
            sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".to_owned(),
        };
        assert_eq!(files, [expected]);
        let copied = to.path().join("apps/a/users/u/artifacts/f/versions/0/f");
        assert_eq!(fs::read_to_string(copied).unwrap(), "abc");
    }
}
