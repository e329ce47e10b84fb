//! Reads configuration files, and detects changes by size and modification time.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Maximum size of a configuration file in bytes. A larger file is probably not a configuration.
const BYTES_MAX: u64 = 1 << 20;

/// A file's size and modification time when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileStamp {
    path: PathBuf,
    modified: Option<SystemTime>,
    bytes: u64,
}

impl FileStamp {
    fn read(path: &Path) -> io::Result<FileStamp> {
        let metadata = fs::metadata(path)?;
        Ok(FileStamp {
            path: path.to_owned(),
            modified: metadata.modified().ok(),
            bytes: metadata.len(),
        })
    }

    /// Whether the file is unchanged.
    pub(super) fn is_current(&self) -> bool {
        FileStamp::read(&self.path).is_ok_and(|now| now == *self)
    }
}

/// Returns a file's text and its stamp. The stamp is taken before reading, so that a concurrent
/// change is detected later.
pub(super) fn read(path: &Path) -> Result<(String, FileStamp), String> {
    let stamp = FileStamp::read(path).map_err(unreadable)?;
    if stamp.bytes > BYTES_MAX {
        return Err(format!(
            "has {} bytes; the limit is {BYTES_MAX}",
            stamp.bytes
        ));
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    Ok((text, stamp))
}

/// Describes why a file is unreadable, in words that follow the file's name.
pub(super) fn unreadable(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "does not exist".to_owned(),
        io::ErrorKind::InvalidData => "is not valid UTF-8".to_owned(),
        io::ErrorKind::IsADirectory => "is a folder".to_owned(),
        _ => format!("cannot be read: {error}"),
    }
}
